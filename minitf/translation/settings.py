"""Settings of a translation: those given for a call, and the translator's own in the place of those missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, TypedDict

from minitf.decoding.lines import Plan
from minitf.decoding.sampling import SamplingConfig
from minitf.decoding.search import BeamSearchConfig
from minitf.decoding.shortlist import Shortlist
from minitf.errors import nearest


class Settings(TypedDict, total=False):
    """How to translate; a setting that is missing or None is the translator's."""

    beam: int | None
    alpha: float | None
    beta: float | None
    max_extra_length: int | None
    max_length: int | None
    min_length: int | None
    beam_patience: float | None
    n_best: int | None
    """See `BeamSearchConfig`."""
    sampling: SamplingConfig | None
    """Draw translations at random instead of searching for the best."""
    shortlist: Shortlist | None
    """Choose among its tokens instead of the whole vocabulary: faster, with other results."""
    max_tokens_per_batch: int
    """Most source subwords searched at once, padding included."""
    max_sentences_per_batch: int | None
    progress: Callable[[int], object] | None
    """Called with the number of lines finished since the last call."""


def plan_of(settings: Settings, search: BeamSearchConfig) -> Plan:
    """Fill in the settings that are missing; `search` has those of the search.

    Raises: TypeError for an unknown setting.
    """
    given: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    unknown = given.keys() - Settings.__annotations__.keys()
    if unknown:
        name, valid = min(unknown), list(Settings.__annotations__)
        begin = [each for each in valid if each.startswith(name)]  # n: n_best
        hint = f"; did you mean {' or '.join(begin)}?" if begin else nearest(name, valid)
        raise TypeError(f"{name} is not a setting of a translation{hint}; the settings are {', '.join(valid)}")
    of_search = {each.name: given.pop(each.name) for each in fields(BeamSearchConfig) if each.name in given}
    return Plan(replace(search, **of_search), **given)
