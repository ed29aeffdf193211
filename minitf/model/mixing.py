"""The layers of Table 1 that can replace self-attention in the encoder.

Each maps x [B, S, D] and the padding mask to [B, S, D]; padding does not change what other positions get.
"""

from __future__ import annotations

from typing import Any

import autograd as ag
from autograd import Tensor
from minitf.model.layers import Linear, Module
from minitf.model.parameters import Initializer

Array = Any


class Recurrent(Module):
    """A gated recurrent unit that reads the sentence once, forwards.  Shapes: x [B, S, D] -> [B, S, D]"""

    def __init__(self, d_model: int, init: Initializer):
        self.inputs = Linear(d_model, 3 * d_model, init)
        self.weight = init.glorot_uniform(3 * d_model, d_model)
        self.bias = init.zeros(3 * d_model)

    def __call__(self, x: Tensor, mask: Array) -> Tensor:
        """Shapes: x [B, S, D], mask bool [B, 1, 1, S] -> [B, S, D]

        Padding stands at the end, where no other position reads it.
        """
        return ag.gru(self.inputs(x), self.weight, self.bias)


class Convolution(Module):
    """y_t = b + Σ_j W_j x_{t+j}, over the `width` positions around t.  Shapes: x [B, S, D] -> [B, S, D]"""

    def __init__(self, d_model: int, width: int, init: Initializer):
        self.width = width
        self.output = Linear(width * d_model, d_model, init)

    def __call__(self, x: Tensor, mask: Array) -> Tensor:
        """Shapes: x [B, S, D], mask bool [B, 1, 1, S] -> [B, S, D]"""
        return self.output(ag.concatenate(_neighbours(x, mask, self.width), axis=-1))  # of [B, S, k · D]


class SeparableConvolution(Module):
    """y_t = b + W Σ_j w_j x_{t+j}: a convolution of each feature alone, then a product at each position.

    Shapes: x [B, S, D] -> [B, S, D]
    """

    def __init__(self, d_model: int, width: int, init: Initializer):
        self.width = width
        self.weight = init.normal(d_model, width)  # of standard deviation 1/√k
        self.output = Linear(d_model, d_model, init)

    def __call__(self, x: Tensor, mask: Array) -> Tensor:
        """Shapes: x [B, S, D], mask bool [B, 1, 1, S] -> [B, S, D]"""
        terms = [x_j * self.weight[:, j] for j, x_j in enumerate(_neighbours(x, mask, self.width))]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return self.output(total)


Mixing = Recurrent | Convolution | SeparableConvolution


def _neighbours(x: Tensor, mask: Array, width: int) -> list[Tensor]:
    """x at each of the `width` positions around each position, 0 outside the sentence; one more before if even.

    Shapes: x [B, S, D], mask bool [B, 1, 1, S] -> [B, S, D] each
    """
    length = x.shape[1]
    inside = ag.where(mask[:, 0, 0, :, None], x, 0)
    padded = ag.pad(inside, ((0, 0), (width // 2, (width - 1) // 2), (0, 0)))
    return [padded[:, j : j + length] for j in range(width)]
