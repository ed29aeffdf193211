#!/usr/bin/env python3
"""A deep encoder and a shallow decoder beside equal depths: BLEU, and the speed of translating.

    python studies/recipes/deep_encoder.py --output runs/deep --input test_2016_flickr.en --jobs 2

Source: Kasai et al. 2021, arXiv:2006.10369. The encoder computes a sentence at once, the decoder token by token, so the
decoder's layers are most of the time. The models are those of multi30k-transformer-tiny.sh with other depths; 7 + 2
layers have as many parameters as 4 + 4. Further flags go to train.py, for every model. Runs that are done are not
trained again, one that was interrupted goes on. Speed is measured at the end, over the text given with --input.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import resumable  # first: it finds minitf without an installation

from minitf.data.text import read_lines
from minitf.system.process import run_command, set_up_device
from minitf.translation.translator import Translator

SETTINGS = ((1, 1), (1, 64), (5, 1), (5, 64))  # beam, sentences at once
LINES_ALONE = 200  # of the text, one sentence at a time


def main(argv: Sequence[str]) -> int:
    """Train a run for each pair of depths and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--depths", nargs="+", type=depths, default=[(4, 4), (7, 2), (10, 2)], metavar="E+D",
                        help="layers of encoder and decoder; default: 4+4 7+2 10+2")  # fmt: skip
    parser.add_argument("--output", type=Path, required=True, help="folder for the runs, 4+4 and so on")
    parser.add_argument("--input", type=Path, metavar="FILE", help="text to measure the speed with; default: none")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="runs to train at once; default: 1")
    args, flags = parser.parse_known_args(argv)
    runs = {
        args.output / f"{encoder}+{decoder}": [
            *("--preset", "multi30k-transformer-tiny", *flags),
            *("--set", f"model.encoder_layers={encoder}", "--set", f"model.decoder_layers={decoder}"),
        ]
        for encoder, decoder in args.depths
    }
    with closing(resumable.train_all(runs, args.jobs)) as done:
        trained = list(done)
    searches = [f"{'greedy' if beam == 1 else f'beam {beam}'}, batch {batch}" for beam, batch in SETTINGS]
    print("| depths | parameters | BLEU |" + "".join(f" {name} |" for name in searches if args.input))
    print("|---|---|---|" + "---|" * (len(SETTINGS) if args.input else 0))
    set_up_device(None)
    for run in trained:
        final = resumable.final_score(run)
        assert final is not None  # or `train` had failed
        translator = Translator.load(run, warn=lambda message: None)
        size = translator.model.parameter_count()  # type: ignore[union-attr]
        speeds = [speed(translator, list(read_lines(args.input)), *each) for each in SETTINGS] if args.input else []
        figures = "".join(f" {tokens:,.0f} |" for tokens in speeds)
        print(f"| {run.name} | {size:,} | {final['bleu']:.2f} |{figures}", flush=True)
    return 0


def depths(text: str) -> tuple[int, int]:
    """(7, 2) of "7+2"."""
    found = re.fullmatch(r"(\d+)\+(\d+)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a pair of depths such as 7+2")
    return int(found[1]), int(found[2])


def speed(translator: Translator, lines: list[str], beam: int, batch: int) -> float:
    """Output tokens per second."""
    lines = lines[:LINES_ALONE] if batch == 1 else lines
    translator.translate(lines[:20], beam=beam, max_sentences_per_batch=batch)  # warm-up
    start = time.perf_counter()
    found = translator.translate_nbest(lines, n_best=1, beam=beam, max_sentences_per_batch=batch)
    seconds = time.perf_counter() - start
    return sum(len(target) + 1 for (best, *_) in found for _, target in best.parts) / seconds


if __name__ == "__main__":
    sys.exit(run_command(main))
