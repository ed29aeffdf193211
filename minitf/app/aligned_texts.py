"""Texts with a line for each input line of `minitf translate`: references, translations to score."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path

from minitf.config import TranslateConfig
from minitf.data.text import read_lines
from minitf.errors import UserError

ALIGNED = ("reference", "score")


def read_aligned_texts(config: TranslateConfig) -> tuple[dict[str, Iterable[str] | None], int | None]:
    """Read the texts that have a line for each line of the input, None if not given, and count the lines of the input.

    Errors in files are found before translation begins. Pipes are read only once: the count is None for an input that
    is a pipe, and the other texts are then read along with the input.
    Raises: UserError if the number of lines of a text differs from that of the input
    """
    line_count = None
    if config.input is not None and not _is_stream(config.input):
        line_count = sum(1 for _ in read_lines(config.input))
    paths = {name: getattr(config, name) for name in ALIGNED}
    return {name: path and _read_aligned(path, config, line_count) for name, path in paths.items()}, line_count


def _read_aligned(path: Path, config: TranslateConfig, line_count: int | None) -> Iterable[str]:
    is_stream = _is_stream(path)
    if line_count is None:
        lines = read_lines(path)
        return lines if is_stream else list(lines)
    found = list(itertools.islice(read_lines(path), line_count + 1 if is_stream else None))
    if len(found) != line_count:
        more = "more" if is_stream and len(found) > line_count else f"{len(found):,}"
        raise UserError(
            f"{config.input} has {line_count:,} lines but {path} has {more}; give one line for each line of the input"
        )
    return found


def _is_stream(path: Path) -> bool:
    """Return whether a path is a pipe or device, which can be read only once."""
    return path.exists() and not path.is_file() and not path.is_dir()
