"""Exponential moving average of the weights: as good as a long average of checkpoints, without the checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from minitf.model.layers import Module
from minitf.model.parameters import Parameter, load_arrays

Array = Any


class MovingAverage:
    """a ← a + (1 - d_t) (w - a) after update t, with d_t = min(decay, (1 + t) / (10 + t)).

    The second bound reduces the influence of the initial weights: with a constant decay of 0.9999 they would still have
    a weight of 90 % after 1,000 updates.
    """

    def __init__(self, named_parameters: dict[str, Parameter], decay: float):
        self.named_parameters = named_parameters
        self.decay = decay
        self.arrays: dict[str, Array] = {name: p.data.copy() for name, p in named_parameters.items()}

    def update(self, update_count: int) -> None:
        """Average in the weights after update number `update_count`, counted from 1."""
        share = 1 - min(self.decay, (1 + update_count) / (10 + update_count))
        for name, parameter in self.named_parameters.items():
            average = self.arrays[name]
            average += share * (parameter.data - average)

    @contextmanager
    def in_place(self, model: Module) -> Iterator[None]:
        """Context manager: inside the block the model has the averaged weights, after it its own, bit for bit."""
        own = {name: parameter.data.copy() for name, parameter in self.named_parameters.items()}
        model.load_parameters(self.arrays)
        try:
            yield
        finally:
            model.load_parameters(own)

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        """Continue from the averages of a checkpoint.  Raises: ValueError if names or shapes differ."""
        load_arrays(self.arrays, arrays, "the moving averages")
