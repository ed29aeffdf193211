"""Our side of the comparisons of translation speed: random weights to a fixed length, or a trained run over a text.

    python studies/benchmarks/translate_ours.py decode --batch 32 --length 25 --new-tokens 30
    python studies/benchmarks/translate_ours.py decode --model FOLDER --batch 32 --length 25 --new-tokens 30
    python studies/benchmarks/translate_ours.py corpus --run runs/multi30k --input test.en --batches 1 64 --beams 1 5
    python studies/benchmarks/translate_ours.py export --run runs/multi30k --input test.en --output exported.npz

Prints one JSON line: median seconds, output tokens per second, peak memory in MiB, and that at the end; over a text,
tokens per second for each search and batch size. `export` writes the weights and the subwords of the text for the
peers.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # also without an installation

import numpy as np

from autograd import Tensor
from autograd.fast import return_freed_memory
from minitf.config import TransformerConfig
from minitf.config.model import EOS
from minitf.data.text import read_lines
from minitf.decoding import search as candidates
from minitf.decoding.lines import Settings, run_batches
from minitf.decoding.search import BeamSearchConfig, beam_search
from minitf.fast.accelerate import accelerate
from minitf.fast.inference import InferenceTransformer
from minitf.model.transformer import Transformer
from minitf.system.process import set_up_device
from minitf.translation.translator import Translator
from studies.benchmarks import workload


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["decode", "corpus", "export"])
    parser.add_argument("--config", default="base", choices=workload.CONFIGS)
    parser.add_argument("--batch", type=int, default=32, help="sentences at once")
    parser.add_argument("--length", type=int, default=25, help="decode: source tokens of a sentence")
    parser.add_argument("--new-tokens", type=int, default=30, help="decode: output tokens of a sentence")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--precision", choices=["float32", "bf16", "int8"], default="float32")
    parser.add_argument("--model", type=Path, help="decode: a model of another program instead of random weights")
    parser.add_argument("--run", type=Path)
    parser.add_argument("--input", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--tokens", type=Path, help="corpus: a file for the token ids of the translations")
    parser.add_argument("--lines", type=int, metavar="N", help="corpus: only the first N")
    parser.add_argument("--batches", type=int, nargs="+", default=[64], help="corpus: sentences at once")
    parser.add_argument("--beams", type=int, nargs="+", default=[4], help="corpus: 1 is greedy search")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, help="default: one a core")
    parser.add_argument("--device", default="cpu", help="corpus: cuda for a GPU")
    parser.add_argument("--kernels", choices=["numpy", "numba"], default="numpy")
    args = parser.parse_args()
    set_up_device(args.threads, kernels=args.kernels)
    if args.mode == "export":
        export(args)
        return
    if args.mode == "corpus":
        corpus(args)
        return
    loading = load_times(args.model) if args.model else {}
    seconds = workload.median_seconds(decode(args), args.runs)
    held = {"resident_mib": workload.resident_mib()} if sys.platform == "linux" else {}
    workload.report("minitf", args.mode, seconds, args.batch * args.new_tokens, **held, **loading)


def decode(args: argparse.Namespace) -> Callable[[], None]:
    """Every sentence has the same length, and so has every output: all sentences cost the same work."""
    decoder: Any
    if args.model:
        translator = Translator.load(args.model, precision=args.precision)
        decoder = translator.decoder
    else:
        sizes = dict(zip(workload.FIELDS, workload.CONFIGS[args.config], strict=True))
        model = accelerate(Transformer(TransformerConfig(**sizes))).eval()
        packed = None if args.precision == "float32" else args.precision
        decoder = InferenceTransformer(model, packed=packed)
        if packed:
            decoder.release_weights()
            del model
            return_freed_memory()
    rng = np.random.default_rng(0)
    source = rng.integers(4, decoder.config.vocab_size, (args.batch, args.length - 1)).tolist()  # and EOS
    candidates.NEVER = (*candidates.NEVER, EOS)  # every output is cut at the same length
    search = BeamSearchConfig(beam=args.beam, max_length=args.new_tokens)

    def work() -> None:
        run_batches(
            decoder,
            source,
            lambda model, batch, places: beam_search(model, batch, search),
            max_tokens=10**9,
            max_sentences=args.batch,
            done=lambda batch: None,
        )

    return work


def load_times(folder: Path) -> dict[str, float]:
    """Seconds to load a model of another program, and to read its bytes: the least of several, from the file cache."""

    def least(work: Callable[[], object]) -> float:
        seconds = []
        for _ in range(5):
            start = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - start)
        return round(min(seconds), 4)

    def read() -> None:
        for path in folder.iterdir():
            path.read_bytes()

    return {"read_seconds": least(read), "load_seconds": least(lambda: Translator.load(folder))}


def corpus(args: argparse.Namespace) -> None:
    """Every search and batch size once; penalty (the mean log-probability) and stop rule are CTranslate2's."""
    translator = Translator.load(args.run, precision=args.precision, device=args.device)
    lines = list(read_lines(args.input))[: args.lines]

    def work(lines: list[str], beam: int, batch: int) -> list[list[int]]:
        search: Settings = {"beam": beam, "alpha": 1, "beta": 0, "beam_patience": 1}
        found = translator.translate_nbest(lines, n_best=1, max_sentences_per_batch=batch, **search)
        return [[token for _, target in best.parts for token in target] for best, *_ in found]

    workload.report_corpus("minitf", args, work, lines)


def export(args: argparse.Namespace) -> None:
    translator = Translator.load(args.run)
    model = translator.model
    assert isinstance(model, Transformer)
    lines = translator.vocabulary.encode(list(read_lines(args.input))[: args.lines])
    arrays = {name: p.data for name, p in model.named_parameters().items()}
    about = {"layers": model.config.layers, "heads": model.config.heads, "norm_epsilon": model.config.norm_epsilon}
    positions = model.source_positions.rows(512, 0, model.backend)
    positions = positions.numpy() if isinstance(positions, Tensor) else positions
    pieces = translator.vocabulary.target.pieces(range(len(translator.vocabulary)))
    texts = {"about": json.dumps(about), "lines": json.dumps(lines), "pieces": json.dumps(pieces)}
    np.savez(args.output, positions=positions, **texts, **arrays)


if __name__ == "__main__":
    main()
