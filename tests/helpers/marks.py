"""Parameters of a test of which `make test` takes some and `make prove` all."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any

import pytest


def parametrize_some(
    names: str | tuple[str, ...], values: Iterable[Any], keep: int | Container[int] = 1, **more: Any
) -> Callable[[Any], Any]:
    """`pytest.mark.parametrize`, with the mark `slow` on all values but the first `keep`, or those at these places.

    For repetitions: what is kept must fail for the same reasons as what is not.
    """
    places = range(keep) if isinstance(keep, int) else keep
    several = len(names.split(",") if isinstance(names, str) else names) > 1
    parameters = []
    for place, value in enumerate(values):
        given = tuple(value) if several else (value,)
        parameters.append(pytest.param(*given, marks=[] if place in places else [pytest.mark.slow]))
    return pytest.mark.parametrize(names, parameters, **more)
