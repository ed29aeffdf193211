"""A learner who walks the path with the reference answers, or with a mistake in one of them."""

import re
from pathlib import Path

from additions.course.path.steps import BEGINNINGS, FILES, STEPS, Step

_MARK = re.compile(r"^# ---- (\w+) ----\n", re.MULTILINE)


def answers_of(file: str) -> dict[str, str]:
    """The reference answer to each step of a file."""
    path = Path(__file__).parent / "reference" / f"{file}_answers.py"
    parts = _MARK.split(path.read_text(encoding="utf-8"))
    return dict(zip(parts[1::2], parts[2::2], strict=True))


ANSWERS = {name: text for file in FILES if file in BEGINNINGS for name, text in answers_of(file).items()}


def write_answers(folder: Path, last: Step, changes: tuple[tuple[str, str], ...] = ()) -> None:
    """Write the reference answers up to a step into the learner's files, with changes to the answer of that step.

    Raises: ValueError where a text to change does not occur exactly once
    """
    folder.mkdir(exist_ok=True)
    texts: dict[str, str] = {}
    for step in STEPS[: last.number]:
        text = ANSWERS[step.name]
        for old, new in changes if step is last else ():
            if text.count(old) != 1:
                raise ValueError(f"{step.name}: {old!r} occurs {text.count(old)} times, must occur once")
            text = text.replace(old, new)
        texts[step.file] = texts.get(step.file, BEGINNINGS[step.file]) + "\n\n" + text
    for file, text in texts.items():
        (folder / f"{file}.py").write_text(text, encoding="utf-8")
