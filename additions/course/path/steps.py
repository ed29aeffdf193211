"""The steps of the path, read from the files in `given/`, and the learner's files that grow by them.

A file in `given/` is the learner's file with nothing written yet. Each of its steps begins with a line

    # ---- name: Title (chapter N) ----

and has a statement in comments and, below it, what is given of the code. A step without code changes earlier code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from minitf.errors import UserError, nearest, shortened
from minitf.system.files import atomic_write, os_errors_explained, read_small_file

GIVEN = Path(__file__).parent / "given"
FILES = ("engine", "ops", "model", "train", "search")
_HEADER = re.compile(r"^# ---- (\w+): (.+) \(chapter (\d+)\) ----\n", re.MULTILINE)


@dataclass(frozen=True)
class Step:
    """One step. file: the learner's file, without `.py`; given: the text that it grows by, with its heading."""

    number: int
    name: str
    title: str
    chapter: int
    file: str
    given: str

    @property
    def label(self) -> str:
        return self.name

    @property
    def statement(self) -> str:
        """The comments at the beginning of what is given."""
        lines = self.given.partition("\n")[2].splitlines()
        end = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
        return "\n".join(line[2:] for line in lines[:end])

    def __str__(self) -> str:
        return f"{self.number}. {self.title}"


def _read() -> tuple[dict[str, str], list[Step]]:
    """The beginning of each file before its first step, and all steps."""
    beginnings: dict[str, str] = {}
    steps: list[Step] = []
    for file in FILES:
        path = GIVEN / f"{file}.py"
        if not path.exists():
            continue
        start, *parts = _HEADER.split(path.read_text(encoding="utf-8"))
        beginnings[file] = start
        for name, title, chapter, text in zip(*[iter(parts)] * 4, strict=True):
            number = len(steps) + 1
            heading = f"# ---- {number}. {name}: {title} (chapter {chapter}) ----\n"
            steps.append(Step(number, name, title, int(chapter), file, heading + text.rstrip() + "\n"))
    return beginnings, steps


BEGINNINGS, STEPS = _read()
MILESTONES = {
    "leaves": "Seppo Linnainmaa's thesis did in 1970: derivatives of a program with a single walk back over its record",
    "operators": "HIPS autograd did in 2015: gradients of ordinary NumPy code, of any shapes that broadcast",
    "linear": "Rumelhart, Hinton and Williams did in 1986: networks with hidden layers learn by back-propagation",
    "transformer": 'Figure 1 of "Attention Is All You Need" did in 2017: encoder and decoder, forward and backward',
    "translator": "the paper did on WMT, in small: a Transformer, trained from text to text, translates with a beam",
}
"""By the step that completes it: an earlier program that the learner's code now equals in what it can do."""


def find_step(word: str) -> Step:
    """The step of a number or a name.  Raises: UserError for any other word"""
    for step in STEPS:
        if word in (str(step.number), step.name):
            return step
    raise UserError(
        f"there is no step {shortened(word, 40)}{nearest(word, [step.name for step in STEPS])}; choose 1 to "
        f"{len(STEPS)}, or a name"
    )


def hand_out(step: Step, folder: Path) -> Path:
    """Append what is given of a step to the learner's file, which it begins if need be; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{step.file}.py"
    with os_errors_explained(f"look at {path}"):
        text = read_small_file(path).decode("utf-8-sig") if path.exists() else BEGINNINGS[step.file]
    if f"# ---- {step.number}. {step.name}: " in text:
        return path
    with atomic_write(path) as file:
        file.write(f"{text.rstrip()}\n\n\n{step.given}".encode())
    return path
