"""Arrays as numbers for a page: small ones whole, large ones as the elements at some indices of each axis."""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autograd.backend import backend_of

MOST = 12_000  # elements kept of an array
MOST_TOGETHER = 16_000_000  # elements kept of all arrays while the step runs: 64 MB
FEWEST = 64  # to which arrays are sampled at most to fit into a page


@dataclass
class Sample:
    """An array: its shape, statistics of all its elements, and those at the indices `kept` of each axis (None: all)."""

    shape: tuple[int, ...]
    dtype: str
    statistics: dict[str, Any]
    kept: list[list[int] | None]
    elements: np.ndarray

    def described(self, offset: int) -> dict[str, Any]:
        """Values for JSON; the elements begin at byte `offset` of the page's numbers."""
        kept = {"kept": self.kept} if any(indices is not None for indices in self.kept) else {}
        about = {"shape": self.shape, "dtype": self.dtype, "code": _code(self.elements), "at": offset}
        return {**about, **self.statistics, **kept}


class Samples:
    """The arrays of a recording, each different one once."""

    def __init__(self, focus: Mapping[int, Sequence[int]] | None = None):
        """focus: by length of an axis, the indices to keep first where the axis is sampled"""
        self.all: list[Sample] = []
        self.focus = focus or {}
        self._limit, self._elements = MOST, 0
        self._known: dict[tuple[Any, ...], int] = {}

    def add(self, array: Any) -> int:
        """Return the number of the sample of an array as it is now; nothing refers to the array afterwards."""
        a = np.asarray(backend_of([array]).to_host(array)) if hasattr(array, "dtype") else np.asarray(array)
        key = a.shape, str(a.dtype), hashlib.blake2b(np.ascontiguousarray(a).tobytes(), digest_size=16).digest()
        if key not in self._known:
            self._known[key] = len(self.all)
            self.all.append(self._sample(a))
            self._elements += self.all[-1].elements.size
            while self._elements > MOST_TOGETHER and self._limit > FEWEST:
                self._limit //= 2
                self.all = [self._shrunk(each, self._limit) for each in self.all]
                self._elements = sum(each.elements.size for each in self.all)
        return self._known[key]

    def _sample(self, a: np.ndarray) -> Sample:
        dtype = str(a.dtype)
        if a.dtype.kind not in "biuf":
            try:
                a = a.astype(np.float32)  # bfloat16
            except (TypeError, ValueError):
                a = np.empty((0,), np.float32)
        whole = Sample(a.shape, dtype, _statistics(a), [None] * a.ndim, np.array(a))
        return self._shrunk(whole, self._limit)

    def _shrunk(self, sample: Sample, limit: int) -> Sample:
        """Return the sample with at most `limit` elements."""
        elements, kept = sample.elements, list(sample.kept)
        for axis, count in enumerate(_counts(elements.shape, limit)):
            size = elements.shape[axis]
            if count < size:
                present = kept[axis] or range(size)
                wanted = {*self.focus.get(sample.shape[axis], ())}
                places = _places([i for i, index in enumerate(present) if index in wanted], size, count)
                elements = elements.take(places, axis)
                kept[axis] = [present[i] for i in places]
        return replace(sample, kept=kept, elements=elements)

    def pack(self, budget: int) -> tuple[list[dict[str, Any]], bytes]:
        """Descriptions for JSON and the compressed elements, with smaller samples until these take `budget` bytes."""
        samples, limit = self.all, self._limit
        packed = _packed(samples)
        if len(packed[1]) > budget:
            samples = [_in_four_bytes(each) for each in samples]
            packed = _packed(samples)
        while len(packed[1]) > budget and limit > FEWEST:
            limit = max(FEWEST, int(0.95 * limit * budget / len(packed[1])))
            samples = [self._shrunk(each, limit) for each in samples]
            packed = _packed(samples)
        return packed


def _in_four_bytes(sample: Sample) -> Sample:
    if _code(sample.elements) != "f8":
        return sample
    with np.errstate(over="ignore"):
        return replace(sample, elements=sample.elements.astype(np.float32))


def _counts(shape: Sequence[int], limit: int) -> list[int]:
    """Numbers of indices to keep of each axis: few of leading axes, then half of the longest as often as needed."""
    counts = list(shape)
    for axis in range(len(counts) - 2):
        if math.prod(counts) > limit:
            counts[axis] = min(counts[axis], 2)
    while math.prod(counts) > limit:
        longest = counts.index(max(counts))
        counts[longest] = (counts[longest] + 1) // 2
    return counts


def _places(first: list[int], size: int, count: int) -> list[int]:
    """`count` of `size` places: those in `first` before any other, the others at equal distances."""
    chosen = dict.fromkeys(first[:count])
    spread = np.unique(np.linspace(0, size - 1, count).round().astype(int)).tolist()
    for place in [*spread, *range(size)]:
        if len(chosen) == count:
            break
        chosen.setdefault(place)
    return sorted(chosen)


def _statistics(a: np.ndarray) -> dict[str, Any]:
    """Minimum, maximum, mean and root mean square of the finite elements, and the number of others."""
    finite = a[np.isfinite(a)].astype(np.float64)
    made: dict[str, Any] = {"other": int(a.size - finite.size)} if finite.size < a.size else {}
    if finite.size:
        with np.errstate(over="ignore"):
            numbers = (finite.min(), finite.max(), finite.mean(), math.sqrt(float(np.mean(finite * finite))))
        made["stats"] = [min(max(float(f"{number:.6g}"), -1e308), 1e308) for number in numbers]  # JSON has no infinity
    return made


def _code(a: np.ndarray) -> str:
    """Return the type of the elements in the page."""
    if a.dtype.kind == "b" or a.dtype == np.uint8:
        return "u1"
    if a.dtype.kind in "iu":
        return "i4" if not a.size or (a.min() >= -(2**31) and a.max() < 2**31) else "f8"
    return "f8" if a.dtype == np.float64 else "f4"


def _packed(samples: Sequence[Sample]) -> tuple[list[dict[str, Any]], bytes]:
    """Return the elements of one sample after the other, each from a multiple of eight bytes."""
    described, parts, at = [], [], 0
    for sample in samples:
        elements = sample.elements.astype(f"<{_code(sample.elements)}").tobytes()
        described.append(sample.described(at))
        parts.append(elements + bytes(-len(elements) % 8))
        at += len(parts[-1])
    return described, zlib.compress(b"".join(parts), 9)
