"""A student's progress: exercises started and solved and hints shown, in `minitf-learn.json` beside the answers."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any, Protocol

from additions.course.exercise import ALL, Exercise
from minitf.errors import UserError
from minitf.system.files import atomic_write, read_json_object

FILE_NAME = "minitf-learn.json"
FORMAT = "minitf learn 1"
STATES = ("started", "solved")


class Labelled(Protocol):
    """An exercise, or a step of the path."""

    @property
    def label(self) -> str: ...


class Progress:
    """The state of each exercise, and the number of hints given."""

    def __init__(self, folder: Path, labels: Collection[str] = ALL, file_name: str = FILE_NAME):
        self.folder, self.labels, self.file_name = folder, labels, file_name
        self.states: dict[str, str] = {}
        self.hints: dict[str, int] = {}
        path = folder / file_name
        if path.exists():
            self._load(path)

    def _load(self, path: Path) -> None:
        """Raises: UserError for a file that is damaged or not of this program"""
        found = read_json_object(path)
        states: Any = found.get("states")
        hints: Any = found.get("hints")
        fits = (
            found.get("format") == FORMAT
            and isinstance(states, dict)
            and isinstance(hints, dict)
            and {*states, *hints} <= {*self.labels}
            and all(value in STATES for value in states.values())
            and all(type(value) is int and value >= 0 for value in hints.values())
        )
        if not fits:
            raise UserError(
                f"{path} is damaged or not a file of minitf learn; move it away (progress starts from the beginning, "
                "answers stay), or choose another --folder"
            )
        self.states, self.hints = states, hints

    def save(self) -> None:
        """Write the progress file."""
        plain = {"format": FORMAT, "states": self.states, "hints": self.hints}
        with atomic_write(self.folder / self.file_name) as file:
            file.write(json.dumps(plain, indent=1).encode() + b"\n")

    def set(self, exercise: Labelled, state: str) -> None:
        """Record a state; a solved exercise stays solved."""
        if self.states.get(exercise.label) != "solved":
            self.states[exercise.label] = state
        self.save()

    def next_hint(self, exercise: Exercise) -> int:
        """Count a hint; return how many have been given, with this one."""
        self.hints[exercise.label] = min(self.hints.get(exercise.label, 0) + 1, len(exercise.hints))
        self.save()
        return self.hints[exercise.label]

    def next_unsolved(self, after: Exercise | None = None) -> Exercise | None:
        """Return the first exercise that is not solved, of those after the given one if there is any."""
        labels = [*ALL]
        start = 0 if after is None else labels.index(after.label) + 1
        unsolved = [label for label in labels[start:] + labels[:start] if self.states.get(label) != "solved"]
        return ALL[unsolved[0]] if unsolved else None
