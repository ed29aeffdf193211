"""Find the bug: is the line that a student names the wrong one?"""

from __future__ import annotations

from dataclasses import dataclass

from minitf.errors import UserError
from minitf.learn.exercise import MARK, Exercise


@dataclass(frozen=True)
class Finding:
    """is_right: the line named is the wrong one; message: why it is or is not."""

    is_right: bool
    message: str


def find_bug(exercise: Exercise, text: str, line: int | None = None) -> Finding | None:
    """Compare the line named, by its number or by `# bug` at its end, with the wrong one.

    text: the student's file, in which lines may have moved
    Returns: None if no line is named and the file has been changed: it is to be judged by running it
    Raises: UserError if no line is named in a file as given out, several lines are, or there is no line of that number
    """
    lines = text.splitlines()
    marked = [number for number, each in enumerate(lines, 1) if each.rstrip().endswith(MARK)]
    if line is None:
        if not marked and _code(lines) != _code(exercise.starter.splitlines()):
            return None
        if len(marked) != 1:
            found = f"lines {', '.join(map(str, marked))} have" if marked else "no line has"
            raise UserError(f"{found} `{MARK}` at the end; mark one, or give its number: --line N")
        (line,) = marked
    if not 1 <= line <= len(lines):
        raise UserError(f"--line {line} is not a line of the file, which has {len(lines)}")
    named = _plain(lines[line - 1])
    wrong_line = exercise.wrong_line - 1
    if named in (_plain(text.splitlines()[wrong_line]) for text in (exercise.starter, exercise.solution)):  # or mended
        return Finding(True, f"line {line} is the bug: {exercise.constant('WHY')}")
    if not named or named.startswith("#"):
        return Finding(False, f"line {line} does nothing; name a line of code")
    for part, why in exercise.constant("RIGHT_LINES").items():
        if part in named:
            return Finding(False, f"line {line} is right: {why}")
    return Finding(False, f"line {line} is right, or does not explain the symptom: `{named}`")


def _plain(line: str) -> str:
    return line.strip().removesuffix(MARK).rstrip()


def _code(lines: list[str]) -> list[str]:
    return [plain for plain in map(_plain, lines) if plain]
