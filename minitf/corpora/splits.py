"""Training, validation and test set of a generated corpus, and their files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from minitf.errors import UserError
from minitf.system.files import os_errors_explained
from minitf.system.writing import make_folder, write_atomically

Item = TypeVar("Item")


@dataclass(frozen=True)
class Splits(Generic[Item]):
    """Training, validation and test set."""

    train: list[Item]
    valid: list[Item]
    test: list[Item]

    def write(self, folder: str | os.PathLike[str], formats: Mapping[str, Callable[[Item], str]]) -> None:
        """Write a file per set and format, such as `train.en`: UTF-8, one item per line, line ends LF.

        formats: for each suffix of a name, the function that turns an item into a line
        The folder is created if it does not exist; each file gets its name only when it is complete.
        Raises: UserError if the folder or a file cannot be written.
        """
        folder = Path(folder)
        with os_errors_explained(f"create the folder {folder}"):
            make_folder(folder)
        for name, items in vars(self).items():
            for suffix, line_of in formats.items():
                with write_atomically(folder / f"{name}.{suffix}") as file:
                    file.writelines(f"{line_of(item)}\n" for item in items)


def split(items: list[Item], valid: int, test: int) -> Splits[Item]:
    """The first `valid` items for validation, the next `test` ones for testing, the others for training."""
    return Splits(train=items[valid + test :], valid=items[:valid], test=items[valid : valid + test])


def require_non_negative(**numbers: int) -> None:
    """Raises: UserError that names the first negative number."""
    for name, value in numbers.items():
        if value < 0:
            raise UserError(f"{name}={value} is negative; give a whole number from 0 on")
