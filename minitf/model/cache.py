"""The state that a decoder layer keeps from one position to the next."""

from dataclasses import dataclass
from typing import Any

import autograd as ag
from autograd import Tensor

Array = Any


@dataclass
class Cache:
    """Keys and values that a decoder layer has computed: of the source once, of the target position by position.

    Shapes: keys [B, H, S or T, K], values [B, H, S or T, d_v]
    """

    source: tuple[Tensor, Tensor]
    target: tuple[Tensor, Tensor] | None = None

    @property
    def length(self) -> int:
        """Target positions so far."""
        return 0 if self.target is None else self.target[0].shape[2]

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add keys and values of the newest position; return those of all positions."""
        if self.target is not None:
            k, v = (ag.concatenate([old, new], axis=2) for old, new in zip(self.target, (k, v), strict=True))
        self.target = k, v
        return k, v

    def reorder(self, rows: Array) -> None:
        """Make row i what row rows[i] was."""
        keys, values = self.source
        self.source = keys[rows], values[rows]
        if self.target is not None:
            keys, values = self.target
            self.target = keys[rows], values[rows]
