"""The settings that methods of a translator take, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

from minitf.decoding.sampling import SamplingConfig
from minitf.errors import nearest


class Settings(TypedDict, total=False):
    """Settings of a translation; a setting that is missing or None is taken from the translator."""

    beam: int | None
    alpha: float | None
    beta: float | None
    max_extra_length: int | None
    max_length: int | None
    min_length: int | None
    n_best: int | None
    """See `BeamSearchConfig`."""
    sampling: SamplingConfig | None
    """Draw translations at random instead of searching for the best."""
    max_tokens_per_batch: int
    """Most source subwords searched at once, padding included."""
    max_sentences_per_batch: int | None
    progress: Callable[[int], object] | None
    """Called with the number of lines finished since the last call."""


def unknown_setting(name: str) -> TypeError:
    """Return the error for a setting that is not in `Settings`, with the names that may have been meant."""
    valid = list(Settings.__annotations__)
    begin = [each for each in valid if each.startswith(name)]  # n: n_best
    hint = f"; did you mean {' or '.join(begin)}?" if begin else nearest(name, valid)
    return TypeError(f"{name} is not a setting of a translation{hint}; the settings are {', '.join(valid)}")
