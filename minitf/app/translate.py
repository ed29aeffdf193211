"""`minitf translate`, `translate.py`: read lines, translate them, write results and BLEU.

Imports are deferred in functions: `--help` and invalid flags need no NumPy, and `--plain` reaches autograd by an
environment variable before autograd is imported.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minitf.app.command_line import build_parser, given_values
from minitf.app.score import print_scores
from minitf.config import TranslateConfig
from minitf.data.text import lines_of, read_lines
from minitf.errors import UserError
from minitf.system.files import atomic_write, os_errors_explained
from minitf.system.process import printable, say, set_up_device, shell_command, silent

if TYPE_CHECKING:
    from minitf.translation.translator import Translator

COMPILED_FROM_BYTES = 1 << 18  # of text, in whose translation the first compilation is won back
PROMPT = "> "


def main(argv: Sequence[str]) -> None:
    """Translate according to the command line."""
    config = parse_translate_args(argv)
    if config.plain:
        os.environ["AUTOGRAD_PLAIN"] = "1"
    translate_text(config)


def parse_translate_args(argv: Sequence[str]) -> TranslateConfig:
    """Parse the command line of `translate`.

    Raises: UserError for invalid arguments; SystemExit(0) after `--help` and `--version`.
    """
    name = shell_command("translate")
    usage = f"{name} RUN [flags]"
    about = "Translate text with a trained run, one line per input line."
    parser = build_parser(TranslateConfig, usage, about, name, TranslateConfig(run=Path()))
    return TranslateConfig(**given_values(parser, argv))


def translate_text(config: TranslateConfig) -> None:
    """Translate the input as `config` says."""
    from minitf.translation.translator import Translator

    names = ("beam", "alpha", "max_extra_length", "max_tokens_per_batch")
    settings: dict[str, Any] = {name: getattr(config, name) for name in names}
    line_count = None
    if config.input is not None and config.input.is_file():  # a pipe can be read only once
        line_count = sum(1 for _ in read_lines(config.input))
    reference = None if config.reference is None else read_reference(config.reference, config.input, line_count)
    precision = config.precision if config.precision in ("float64", "tf32", "bf16") else "float32"
    set_up_device(config.threads, config.device, precision, kernels_for(config), plain=config.plain)
    hypotheses = []
    with open_output(config.output) as write, watch(config, line_count) as (progress, warn):
        loaded: Any = {name: getattr(config, name) for name in ("average", "weights", "device", "precision", "plain")}
        translator = Translator.load(config.run, warn=warn, **loaded)
        settings["progress"] = progress
        for written, best in translated(translator, open_input(config), config, settings):
            for line in written:
                write(line)
            if reference is not None:
                hypotheses.append(best)
    if reference is not None:
        file = sys.stderr if config.output is None else sys.stdout  # where the translations are not
        print_scores(hypotheses, reference, file, tokenize=translator.bleu_tokenize)


def kernels_for(config: TranslateConfig) -> str:
    """Return the kernels that `config` chooses: for auto, compiled ones for a large file, if they can be had."""
    if config.kernels != "auto":
        return config.kernels
    pays = config.device == "cpu" and not config.plain and config.precision in (None, "float32", "int8")
    if not pays or size_of_input(config) < COMPILED_FROM_BYTES:
        return "numpy"
    from autograd.fast.choices import numba_is_switched_off

    return "numpy" if find_spec("numba") is None or numba_is_switched_off() else "numba"


def size_of_input(config: TranslateConfig) -> int:
    """Return the bytes of the file that is the input, also one redirected to standard input; a pipe has 0."""
    if config.text is not None or (config.input is None and sys.stdin is None):
        return 0
    try:
        return (os.fstat(sys.stdin.fileno()) if config.input is None else config.input.stat()).st_size
    except (OSError, ValueError):  # the latter of a stream without a file; reading says what is wrong
        return 0


# ---- Work ----


def translated(
    translator: Translator, lines: Iterable[str], config: TranslateConfig, settings: dict[str, Any]
) -> Iterator[tuple[list[str], str]]:
    """Yield, for each input line, the lines to write, and the best translation.

    Several translations of a line are written as Moses and Marian do:

        0 ||| ein Haus ||| -0.1523 ||| -0.1247

    number of the line, text, log-probability, score
    """
    streams = ([line] for line in lines) if is_typed(config) else [lines]  # a person is answered line by line
    results = itertools.chain.from_iterable(
        translator.stream_nbest(each, n_best=config.nbest, **settings) for each in streams
    )
    for number, found in enumerate(results):
        written = [f"{number} ||| {each.text} ||| {each.log_probability:.8g} ||| {each.score:.8g}" for each in found]
        yield written if config.nbest > 1 else [found[0].text], found[0].text


# ---- Input ----


def read_reference(path: Path, source: Path | None, line_count: int | None) -> list[str]:
    """Read the reference of each line of the input, before translation begins.

    Raises: UserError if the number of lines differs from that of the input
    """
    most = None if line_count is None else line_count + 1  # more lines, perhaps without end, are not needed to refuse
    lines = list(itertools.islice(read_lines(path), most))
    if line_count is not None and len(lines) != line_count:
        more = "more" if len(lines) > line_count else f"{len(lines):,}"
        raise UserError(
            f"{source} has {line_count:,} lines but {path} has {more}; give one line for each line of the input"
        )
    return lines


def open_input(config: TranslateConfig) -> Iterable[str]:
    """Open the text to translate."""
    if config.text is not None:
        return config.text.split("\n")
    if config.input is not None:
        return read_lines(config.input)
    return typed_lines() if is_typed(config) else stdin_lines()


def is_typed(config: TranslateConfig) -> bool:
    """Return whether a person types the text and reads the translations, both on a terminal."""
    return config.text is config.input is None and sys.stdin.isatty() and sys.stdout.isatty() and not config.quiet


def stdin_lines() -> Iterator[str]:
    """Yield the lines of standard input."""
    with os_errors_explained("read standard input"):
        yield from lines_of(sys.stdin.buffer, "standard input")


def typed_lines() -> Iterator[str]:
    """Yield the lines typed until Ctrl-D; Python's `readline`, if available, lets `input` edit and recall lines."""
    with suppress(ImportError):  # a Windows console edits lines itself
        import_module("readline")
    say("type one sentence per line; arrow keys edit the line and recall earlier ones; Ctrl-D or Ctrl-C quits")
    with suppress(EOFError):
        while True:
            yield input(PROMPT)
    say("")  # the shell's prompt begins a line


# ---- Output ----


@contextmanager
def open_output(path: Path | None) -> Iterator[Callable[[str], None]]:
    """Yield a function that writes a line to standard output, or to a file that appears when it is complete."""
    if path is not None:
        with atomic_write(path, "w", chosen=True) as file:
            yield lambda line: print(line, file=file)
        return
    descriptor = sys.stdout.fileno()

    def write(line: str) -> None:
        data = line.encode() + b"\n"  # UTF-8 and "\n", whatever the locale
        with os_errors_explained("write to standard output"):
            while data:
                data = data[os.write(descriptor, data) :]

    yield write


@contextmanager
def watch(
    config: TranslateConfig, line_count: int | None
) -> Iterator[tuple[Callable[[int], object] | None, Callable[[str], None]]]:
    """Yield a function that counts finished lines and one that prints warnings.

    The first is None, and there is no progress bar, unless standard error is a terminal used for nothing else.
    """
    quiet = config.quiet or sys.stderr is None
    if quiet or line_count is None or not sys.stderr.isatty() or (config.output is None and sys.stdout.isatty()):
        yield None, silent if quiet else lambda message: say(f"warning: {message}")
        return
    from tqdm import tqdm

    with tqdm(total=line_count, unit="line", dynamic_ncols=True, file=sys.stderr) as bar:
        tell = partial(bar.write, file=sys.stderr)  # above the bar
        yield bar.update, lambda message: tell(printable(f"warning: {message}"))
