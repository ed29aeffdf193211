"""`minitf translate`, `translate.py`: read lines; translate or score them; write results and BLEU.

Imports are deferred in functions: `--help` and invalid flags need no NumPy, and `--plain` reaches autograd by an
environment variable before autograd is imported.
"""

# ruff: noqa: RUF009 (`option` makes a dataclass field: it is called once a class, as `dataclasses.field` is)

import itertools
import json
import os
import select
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import MISSING, dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from minitf.app.command_line import build_parser, given_values
from minitf.app.score import print_scores
from minitf.config.options import check_fields, option
from minitf.config.run_config import PLAIN_HELP, check_device, check_plain, check_precision
from minitf.data.text import MAX_LINE_BYTES, lines_of, read_lines
from minitf.errors import UserError
from minitf.system.files import atomic_write, os_errors_explained
from minitf.system.process import printable, say, set_up_device, shell_command, silent

if TYPE_CHECKING:
    from minitf.decoding.lines import Translation

MustWait = Callable[[], bool]
READ_BYTES = 1 << 16
COMPILED_FROM_BYTES = 1 << 18  # of text, in whose translation the first compilation is won back
PROMPT = "> "


@dataclass(frozen=True, kw_only=True)
class TranslateConfig:
    """A translation; a value of none is taken from the run, unless the help says otherwise."""

    run: Path = option(MISSING, "run directory, or a model of another program", positional=True)
    input: Path | None = option(None, "text to translate, one sentence per line; none: standard input", section="Text")
    text: str | None = option(None, "text to translate, in place of an input")
    output: Path | None = option(None, "file for the translations, one line per input line; none: standard output")
    reference: Path | None = option(None, "reference translations; prints the BLEU score")
    score: Path | None = option(
        None, "file of translations: print the log-probability and score of each instead of translating"
    )
    format: Literal["text", "jsonl"] = option("text", "jsonl: one JSON object per line, with scores and tokens")
    nbest: int = option(
        1, "translations per line; of several: number ||| text ||| log-probability ||| score", at_least=1, at_most=1000
    )
    quiet: bool = option(False, "print translations and errors only")

    beam: int | None = option(
        None, "beam size; 1 is greedy search (hypotheses)", section="Search", at_least=1, at_most=1000
    )
    alpha: float | None = option(None, "exponent of the length penalty", at_least=0, at_most=100)
    beam_patience: float | None = option(
        None, "stop at X times beam ended hypotheses; 1: CTranslate2's rule, faster; none: if no other can win", above=0
    )
    max_extra_length: int | None = option(
        None, "maximum output length: input length plus this number (tokens)", at_least=1, at_most=10000
    )

    weights: Literal["average", "best", "moving-average"] | None = option(
        None,
        "weights to translate with: average, the mean of the last checkpoints; best, those of the best validation; "
        "moving-average, the average in the last checkpoint",
        section="Model",
    )
    average: int | None = option(None, "number of last checkpoints to average (checkpoints)", at_least=1)

    max_tokens_per_batch: int | None = option(
        None,
        "maximum number of input tokens in a batch, padding included, and of hypotheses an eighth; none: 4096 on a "
        "CPU, 16384 on a GPU (tokens)",
        section="Performance",
        at_least=1,
    )
    device: str = option("cpu", "device: cpu; cuda or cuda:0 for the first GPU; cuda:1 for the second")
    precision: Literal["float32", "float64", "tf32", "bf16", "int8"] | None = option(
        None,
        "number format; none: the run's, or float32 on a CPU if the run's is tf32 or bf16; int8: 8-bit weights on a "
        "CPU, a quarter of the memory; with --kernels numba faster if the CPU has VNNI or AVX2, with others slower; "
        "bf16: on a GPU",
    )
    threads: int | None = option(None, "number of threads; none: one per core", at_least=1, at_most=1024)
    kernels: Literal["auto", "numpy", "numba"] = option(
        "auto",
        "CPU kernels for everything except matrix products: numba is faster, but starts half a second later, and "
        "compiles in the first run, in 7 to 10 seconds; auto: numba, if installed, for a file of 256 KiB or more, "
        "about 4,000 sentences, and else numpy; results differ by rounding",
    )
    plain: bool = option(False, PLAIN_HELP)

    def __post_init__(self) -> None:
        check_fields(self)
        check_device(self.device)
        check_precision(self.precision, self.device != "cpu")
        check_plain(self)
        if self.weights in ("best", "moving-average") and self.average is not None:
            raise UserError(
                f"weights={self.weights} is no average of checkpoints; omit average={self.average} or weights"
            )
        if self.text is not None and self.input is not None:
            raise UserError(f"input={self.input} and text cannot be combined; give one of them")
        other = "reference" if self.reference else f"nbest={self.nbest}" if self.nbest > 1 else None
        if self.score is not None and other is not None:
            raise UserError(f"score and {other} cannot be combined; omit one of them")
        for name in ("input", "reference", "score"):
            files = [path for path in (getattr(self, name), self.output) if path and os.path.isfile(path)]
            if len(files) == 2 and os.path.samefile(*files):
                raise UserError(f"output={self.output} would replace the file of {name}; give another file")


def main(argv: Sequence[str]) -> None:
    """Translate according to the command line."""
    config = parse_translate_args(argv)
    if config.plain:
        os.environ["AUTOGRAD_PLAIN"] = "1"
    from minitf.translation.translator import Translator

    names = ("beam", "alpha", "beam_patience", "max_extra_length", "max_tokens_per_batch")
    settings: dict[str, Any] = {name: getattr(config, name) for name in names}
    line_count = None
    if config.input is not None and config.input.is_file():  # a pipe can be read only once
        line_count = sum(1 for _ in read_lines(config.input))
    reference, given = (read_beside(path, config.input, line_count) for path in (config.reference, config.score))
    precision = config.precision if config.precision in ("float64", "tf32", "bf16") else "float32"
    set_up_device(config.threads, config.device, precision, kernels_for(config), plain=config.plain)
    hypotheses = []
    with open_output(config.output) as write, watch(config, line_count) as (progress, warn):
        loaded: Any = {name: getattr(config, name) for name in ("average", "weights", "device", "precision", "plain")}
        translator = Translator.load(config.run, warn=warn, **loaded)
        lines, must_wait = open_input(config)
        settings["progress"] = progress
        if given is None:
            results = translator.stream_nbest(lines, n_best=config.nbest, must_wait=must_wait, **settings)
        else:
            results = translator.score_stream(lines, given, **settings)
        for number, found in enumerate(results):
            for line in formatted(number, found, config, translator.vocabulary):
                write(line)
            if reference is not None:
                hypotheses.append(found[0].text)
    if reference is not None:
        file = sys.stderr if config.output is None else sys.stdout  # where the translations are not
        print_scores(hypotheses, reference, file, tokenize=translator.bleu_tokenize)


def parse_translate_args(argv: Sequence[str]) -> TranslateConfig:
    """Parse the command line of `translate`.

    Raises: UserError for invalid arguments; SystemExit(0) after `--help` and `--version`.
    """
    name = shell_command("translate")
    usage = f"{name} RUN [flags]"
    about = "Translate text with a trained run, one line per input line."
    parser = build_parser(TranslateConfig, usage, about, name, TranslateConfig(run=Path()))
    return TranslateConfig(**given_values(parser, argv))


def kernels_for(config: TranslateConfig) -> str:
    """Return the kernels that `config` chooses: for auto, compiled ones for a large file, if they can be had."""
    if config.kernels != "auto":
        return config.kernels
    pays = config.device == "cpu" and not config.plain and config.precision in (None, "float32", "int8")
    if not pays or size_of_input(config) < COMPILED_FROM_BYTES:
        return "numpy"
    from autograd.fast import numba_is_switched_off

    return "numpy" if find_spec("numba") is None or numba_is_switched_off() else "numba"


def size_of_input(config: TranslateConfig) -> int:
    """Return the bytes of the file that is the input, also one redirected to standard input; a pipe has 0."""
    if config.text is not None or (config.input is None and sys.stdin is None):
        return 0
    try:
        return (os.fstat(sys.stdin.fileno()) if config.input is None else config.input.stat()).st_size
    except (OSError, ValueError):  # the latter of a stream without a file; reading says what is wrong
        return 0


# ---- Input ----


def read_beside(path: Path | None, source: Path | None, line_count: int | None) -> list[str] | None:
    """Read a text with a line for each line of the input, before translation begins; None if no path is given.

    Raises: UserError if the number of lines differs from that of the input
    """
    if path is None:
        return None
    most = None if line_count is None else line_count + 1  # more lines, perhaps without end, are not needed to refuse
    lines = list(itertools.islice(read_lines(path), most))
    if line_count is not None and len(lines) != line_count:
        more = "more" if len(lines) > line_count else f"{len(lines):,}"
        raise UserError(
            f"{source} has {line_count:,} lines but {path} has {more}; give one line for each line of the input"
        )
    return lines


def open_input(config: TranslateConfig) -> tuple[Iterable[str], MustWait]:
    """Open the text to translate; also return a function that tells whether the next line has yet to arrive."""
    if config.text is not None:
        return config.text.split("\n"), lambda: False
    if config.input is not None:
        return read_lines(config.input), lambda: False
    if sys.stdin is None:
        raise UserError("standard input is closed; give it the text, or a file by --input")
    if sys.stdin.isatty() and sys.stdout.isatty() and not config.quiet:
        return typed_lines(), lambda: True
    arriving = StdinLines(sys.stdin.fileno())
    return lines_of(arriving, "standard input"), arriving.must_wait


def typed_lines() -> Iterator[str]:
    """Yield the lines typed until Ctrl-D; Python's `readline`, if available, lets `input` edit and recall lines."""
    with suppress(ImportError):  # a Windows console edits lines itself
        import_module("readline")
    say("type one sentence per line; arrow keys edit the line and recall earlier ones; Ctrl-D or Ctrl-C quits")
    with suppress(EOFError):
        while True:
            yield input(PROMPT)
    say("")  # the shell's prompt begins a line


class StdinLines:
    """The raw lines of a file descriptor, each with its `\\n`, for `lines_of`.

    Python's buffered files cannot tell whether reading the next line would block; a translator needs to know, in order
    to answer a person line by line and a file by the thousand.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: deque[bytes] = deque()
        self._begun = b""  # a line whose end has not arrived
        self._ended = False

    def readline(self, limit: int = -1, /) -> bytes:
        """Return the next line, or b"" at the end; `limit` is ignored: a line longer than MAX_LINE_BYTES is cut."""
        while not (self._lines or self._ended):
            self._read()
        return self._lines.popleft() if self._lines else b""

    def must_wait(self) -> bool:
        """Return whether reading the next line, or the end, would block. Reads what has arrived."""
        while not (self._lines or self._ended):
            if os.name == "nt":  # Windows asks sockets alone; a person who types has to be waited for
                has_arrived = not os.isatty(self._descriptor)
            else:
                has_arrived = bool(select.select([self._descriptor], [], [], 0)[0])
            if not has_arrived:
                return True
            self._read()
        return False

    def _read(self) -> None:
        with os_errors_explained("read standard input"):
            data = os.read(self._descriptor, READ_BYTES)
        *ended, self._begun = (self._begun + data).split(b"\n")
        self._lines.extend(line + b"\n" for line in ended)
        self._ended = not data
        if self._begun and (self._ended or len(self._begun) > MAX_LINE_BYTES):  # too long a line is refused as it is
            self._lines.append(self._begun)
            self._begun = b""


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
    if config.quiet or line_count is None or not sys.stderr.isatty() or (config.output is None and sys.stdout.isatty()):
        yield None, silent if config.quiet else lambda message: say(f"warning: {message}")
        return
    from tqdm import tqdm

    with tqdm(total=line_count, unit="line", dynamic_ncols=True, file=sys.stderr) as bar:
        tell = partial(bar.write, file=sys.stderr)  # above the bar
        yield bar.update, lambda message: tell(printable(f"warning: {message}"))


def formatted(number: int, found: "list[Translation]", config: TranslateConfig, vocabulary: Any) -> list[str]:
    """Return the lines to write for line `number` of the input, in the format of `config`.

    Several translations of a line are written as Moses and Marian do:

        0 ||| ein Haus ||| -0.1523 ||| -0.1247

    number of the line, text, log-probability, score; as JSON:

        {"line": 1, "translations": [{"text": "ein Haus", "log_probability": -0.15, …}]}
    """
    if config.format == "jsonl":
        objects = [_object(vocabulary, each) for each in found]
        return [json.dumps({"line": number + 1, "translations": objects}, ensure_ascii=False)]
    numbers = [[f"{each.log_probability:.8g}", f"{each.score:.8g}"] for each in found]
    if config.score is not None:
        return ["\t".join(of_one) for of_one in numbers]
    if config.nbest == 1:
        return [found[0].text]
    return [" ||| ".join([str(number), each.text, *of]) for each, of in zip(found, numbers, strict=True)]


def _object(vocabulary: Any, translation: "Translation") -> dict[str, Any]:
    about: dict[str, Any] = {
        "text": translation.text,
        "log_probability": translation.log_probability,
        "score": translation.score,
        "finished": translation.finished,
        "tokens": vocabulary.target.pieces([i for _, target in translation.parts for i in target]),
    }
    if translation.token_log_probabilities is not None:
        about["token_log_probabilities"] = list(translation.token_log_probabilities)
    return about
