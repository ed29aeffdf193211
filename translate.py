#!/usr/bin/env python3
"""Translate text with a trained run, one line out for each line in; or parse it, where that is what the run learned.

    python translate.py runs/tiny < input.en > output.de
    python translate.py runs/tiny --input input.en --output output.de --reference right.de
    python translate.py runs/tiny --input input.en --nbest 4 --alignment --format jsonl
    python translate.py runs/tiny --input input.en --score given.de
    python translate.py runs/parsing-tiny < sentences.txt > trees.txt

Standard input is answered as it arrives. An output file appears when it is complete.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, cast

from minitf.system.signals import uninterrupted, without_traceback

if __name__ == "__main__":
    without_traceback()  # before anything is imported that takes its time

from minitf.app.cli import parse_translate_args, run_command
from minitf.errors import UserError

if TYPE_CHECKING:
    from minitf.config import TranslateConfig
    from minitf.translation.parser import Parser
    from minitf.translation.translator import Translator


def main(argv: Sequence[str]) -> None:
    """Translate as the command line says."""
    config = parse_translate_args(argv)

    with uninterrupted():  # after the command line: `--help` and a wrong flag need none of it
        from minitf.report.attention_writer import attention_writer
        from minitf.system.device import set_up_device
        from minitf.translation.parser import Parser, as_learned
        from minitf.translation.translator import Translator

    settings = settings_of(config)
    references = read_beside(config, config.reference)
    prefixes, given = read_beside(config, config.prefix), read_beside(config, config.score)
    line_count = count_lines(config)
    for path, each in ((config.reference, references), (config.prefix, prefixes), (config.score, given)):
        check_aligned(config, line_count, path, each)
    set_up_device(config.threads, config.device, config.precision or "float32")
    hypotheses = []
    with open_output(config.output) as write, watch(config, line_count) as (progress, warn):
        translator = Translator.load(
            config.run,
            average=config.average,
            checkpoint=config.checkpoint,
            weights=config.weights,
            same_bits=config.same_bits,
            device=config.device,
            precision=config.precision,
            warn=warn,
        )
        lines, must_wait = open_input(config)
        attention = attention_writer(config, translator, settings.copy(), warn)
        if attention is not None:
            lines = attention.listen(lines)
        speaker = as_learned(config.run, translator)
        settings["progress"] = progress
        for written, best in (
            parsed(speaker, lines, config, must_wait, settings)
            if isinstance(speaker, Parser)
            else translated(translator, lines, prefixes, given, config, must_wait, settings)
        ):
            for line in written:
                write(line)
            if references is not None:
                hypotheses.append(best)
        if isinstance(speaker, Parser) and speaker.repaired:
            warn(speaker.summary())
    if attention is not None:  # after the translations, which must not be lost with it
        about = attention.write()
        if not config.quiet and sys.stderr is not None:
            print(about, file=sys.stderr)
    beside = sys.stderr if config.output is None else sys.stdout  # the translations, never among them
    if references is not None and beside is not None and isinstance(speaker, Parser):
        print(speaker.score(references, hypotheses), file=beside)
    elif references is not None and beside is not None:
        print_scores(hypotheses, references, config.bleu_tokenize, beside)


# ---- Work --------------------------------------------------------------------------------------------------------

Written = Iterator[tuple[list[str], str]]
"""For each line: what is written of it, and its best translation."""


def translated(
    translator: Translator,
    lines: Iterable[str],
    prefixes: list[str] | None,
    given: list[str] | None,
    config: TranslateConfig,
    must_wait: Callable[[], bool] | None,
    settings: dict[str, Any],
) -> Written:
    """Translations of lines, or the scores of given ones."""
    from minitf.translation.formats import TranslationLines

    if given is None:
        results = translator.stream_nbest(lines, prefixes, n_best=config.nbest, must_wait=must_wait, **settings)
    else:
        results = translator.score_stream(lines, given, **settings)
    for written, best in TranslationLines(config, translator).of(results):
        yield written, best.text


def parsed(
    parser: Parser, lines: Iterable[str], config: TranslateConfig, must_wait: Any, settings: dict[str, Any]
) -> Written:
    """Trees of lines of words."""
    for name in ("nbest", "format", "alignment", "score", "prefix", "sample"):
        if getattr(config, name) not in (None, False, 1, "text"):
            raise UserError(f"{name} is for translations, and {config.run} has learned to parse; leave it out")
    for tree in parser.translate_stream(lines, must_wait=must_wait, **settings):
        yield [tree], tree


def settings_of(config: TranslateConfig) -> dict[str, Any]:
    """The search that a command line asks for."""
    from minitf.decoding.sampling import SamplingConfig
    from minitf.decoding.search import PENALTIES

    alpha, beta = (None, None) if config.penalty is None else PENALTIES[config.penalty]
    for name in ("temperature", "top_k", "top_p", "seed"):
        if getattr(config, name) is not None and not config.sample:
            raise UserError(f"{name} is given without sample; give --sample, too, to draw translations at random")
    drawing: dict[str, Any] = {
        "temperature": config.temperature,
        "top_k": config.top_k,
        "top_p": config.top_p,
        "seed": config.seed,
    }
    return {
        "beam": max(config.beam or 0, config.nbest) if config.nbest > 1 and config.sample else config.beam,
        "alpha": alpha if config.alpha is None else config.alpha,
        "beta": beta if config.beta is None else config.beta,
        "max_extra_length": config.max_extra_length,
        "max_length": config.max_length,
        "min_length": config.min_length,
        "sampling": SamplingConfig(**{name: value for name, value in drawing.items() if value is not None})
        if config.sample
        else None,
        "max_tokens_per_batch": config.max_tokens_per_batch,
        "max_sentences_per_batch": config.max_sentences_per_batch,
    }


# ---- Input -------------------------------------------------------------------------------------------------------


def open_input(config: TranslateConfig) -> tuple[Iterable[str], Callable[[], bool] | None]:
    """The lines to translate, and for standard input what tells whether the next one has arrived."""
    from minitf.data.arriving import ArrivingLines
    from minitf.data.text import lines_of, read_lines

    if config.input is not None:
        return read_lines(config.input, config.errors), None
    if sys.stdin is None:
        raise UserError("standard input is closed; give a text with --input")
    if sys.stdin.isatty() and not config.quiet:
        print("one sentence a line; Ctrl-D ends", file=sys.stderr)
    arriving = ArrivingLines(sys.stdin.fileno())
    stream = cast(BinaryIO, arriving)  # all that is read of it are its lines
    return lines_of(stream, "standard input", config.errors), arriving.must_wait


def read_beside(config: TranslateConfig, path: Path | None) -> list[str] | None:
    """The lines of a text that goes along with the input, if there is one."""
    from minitf.data.text import read_lines

    return None if path is None else list(read_lines(path, config.errors))


def count_lines(config: TranslateConfig) -> int | None:
    """Lines of the input; None where it can be read only once. A fault in it shows here, before the work begins."""
    from minitf.data.text import read_lines

    if config.input is None or (config.input.exists() and not config.input.is_file()):
        return None
    return sum(1 for _ in read_lines(config.input, config.errors))


def check_aligned(config: TranslateConfig, line_count: int | None, path: Path | None, lines: list[str] | None) -> None:
    """Raises: UserError where a text that goes along with the input has another number of lines."""
    if line_count is not None and lines is not None and len(lines) != line_count:
        raise UserError(
            f"{config.input} has {line_count:,} lines but {path} has {len(lines):,}; "
            "give a line for each line of this very input"
        )


# ---- Output ------------------------------------------------------------------------------------------------------


@contextmanager
def open_output(path: Path | None) -> Iterator[Callable[[str], None]]:
    """What writes a line: to a file that appears once it is complete, or to standard output at once."""
    from minitf.data.text import write_atomically

    if path is not None:
        with write_atomically(path) as file:
            yield lambda line: print(line, file=file)
        return
    if sys.stdout is None:
        raise UserError("standard output is closed; give a file with --output")
    descriptor = sys.stdout.fileno()

    def write(line: str) -> None:
        data = line.encode() + b"\n"  # UTF-8 and "\n", whatever the locale
        try:
            while data:
                data = data[os.write(descriptor, data) :]
        except BrokenPipeError:  # `| head` has seen enough: no error of ours
            raise
        except OSError as error:
            raise UserError(f"cannot write to standard output: {error.strerror}; make room, or use --output") from error

    yield write


@contextmanager
def watch(
    config: TranslateConfig, line_count: int | None
) -> Iterator[tuple[Callable[[int], object] | None, Callable[[str], None]]]:
    """A bar over the lines, where someone watches and nothing else is written to the terminal; and who warns."""
    quiet = config.quiet or sys.stderr is None  # print(file=None) would write into the translations

    def warn(message: str) -> None:
        if not quiet:
            say(f"warning: {message}")

    if quiet or line_count is None or not sys.stderr.isatty() or (config.output is None and sys.stdout.isatty()):
        say = partial(print, file=sys.stderr, flush=True)
        yield None, warn
        return
    with uninterrupted():
        from tqdm import tqdm
    with tqdm(total=line_count, unit="line", dynamic_ncols=True, file=sys.stderr) as bar:
        say = partial(tqdm.write, file=sys.stderr)  # above the bar
        yield bar.update, warn


def print_scores(hypotheses: list[str], references: list[str], tokenize: str, file: TextIO) -> None:
    """BLEU with its signature, chrF, and exact matches."""
    from minitf.evaluation.metrics import bleu, chrf, exact_match

    print(bleu(hypotheses, references, tokenize=tokenize), file=file)
    print(chrf(hypotheses, references), file=file)
    print(f"exact match {100 * exact_match(hypotheses, references):.1f} % of {len(references):,} lines", file=file)


if __name__ == "__main__":
    sys.exit(run_command(main))
