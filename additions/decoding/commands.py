"""`minitf ensemble`, `minitf sample`, `minitf align`: lines of standard input, a line out for each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from minitf.app.command_line import ArgumentParser
from minitf.system.process import say


def _warn(message: str) -> None:
    say(f"warning: {message}")


def _print_each(translate: Callable[[Iterable[str]], Iterable[Any]]) -> None:
    from minitf.data.text import lines_of

    for line in translate(lines_of(sys.stdin.buffer, "standard input")):
        print(line, flush=True)


def ensemble(argv: Sequence[str]) -> None:
    """Translate with the mean of the probabilities of several runs."""
    about = "Translate standard input with several runs of one vocabulary: with the mean of their probabilities."
    parser = ArgumentParser(prog="minitf ensemble", description=about)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="run directories")
    parser.add_argument("--beam", type=int, metavar="N", help="beam size (default: that of the first run)")
    given = parser.parse_args(argv)
    from additions.decoding.ensemble import load_ensemble

    translator = load_ensemble(*given.runs, warn=_warn)
    _print_each(lambda lines: translator.translate_stream(lines, beam=given.beam))


def sample(argv: Sequence[str]) -> None:
    """Draw translations at random."""
    parser = ArgumentParser(prog="minitf sample", description="Draw translations of standard input at random.")
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory")
    helps = {
        "temperature": (float, "X", "divisor of the logits: below 1 sharpens, above 1 flattens the distribution"),
        "top_k": (int, "N", "draw among this number of most probable tokens (default: all)"),
        "top_p": (float, "X", "draw among the fewest tokens whose probabilities sum to this (default: all)"),
        "seed": (int, "N", "seed of the random numbers of every sentence (default: 0)"),
    }
    for name, (kind, metavar, text) in helps.items():
        parser.add_argument("--" + name.replace("_", "-"), dest=name, type=kind, metavar=metavar, help=text)
    given = vars(parser.parse_args(argv))
    from additions.decoding.sampling import Sampler, SamplingConfig

    run = given.pop("run")
    sampling = SamplingConfig(**{name: value for name, value in given.items() if value is not None})
    sampler: Any = Sampler.load(run, warn=_warn)
    sampler.sampling = sampling
    _print_each(sampler.translate_stream)


def align(argv: Sequence[str]) -> None:
    """Translate, and print which word comes from which."""
    about = "Translate standard input and print pairs source-target of word numbers from 0: ein Haus ||| 0-0 1-1"
    parser = ArgumentParser(prog="minitf align", description=about)
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory")
    given = parser.parse_args(argv)
    from additions.decoding.attention import align as align_translation
    from minitf.translation.translator import Translator

    translator = Translator.load(given.run, warn=_warn)

    def aligned(lines: Iterable[str]) -> Iterable[str]:
        for best, *_ in translator.stream_nbest(lines):
            links = align_translation(translator, best).word_links()
            yield f"{best.text} ||| {' '.join(f'{s}-{t}' for s, t in links)}"

    _print_each(aligned)
