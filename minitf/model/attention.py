"""Multi-head attention (section 3.2.2) and the padding mask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import autograd as ag
from autograd import Tensor
from autograd.backend import backend_of
from minitf.config.model import PAD
from minitf.model.layers import Dropout, Initializer, Linear, Module, Parameter

Array = Any


def padding_mask(ids: Array) -> Array:
    """True at real tokens, which every position may attend to.  Shapes: ids [B, S] -> bool [B, 1, 1, S]"""
    return (ids != PAD)[:, None, None, :]


class MultiHeadAttention(Module):
    """Concat(head_1 … head_H) W^O, head_i = Attention(query W_i^Q, key W_i^K, value W_i^V).

    The H projections of a kind are one matrix: W^Q and W^K are [H · K, D], W^V is [H · d_v, D].
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_k: int,
        d_v: int,
        dropout: float,
        init: Initializer,
        *,
        bias: bool = True,
        gain: float = 1.0,
        kind: str = "scaled-dot-product",
        neighbourhood: int | None = None,
    ):
        """gain: factor on the initial weights of query, key and value

        kind: "scaled-dot-product", "dot-product" or "additive" (section 3.2.1)
        neighbourhood: for self-attention, the number of positions that one attends to (section 4); None: all
        """
        self.heads, self.kind, self.neighbourhood = heads, kind, neighbourhood
        self.query = Linear(d_model, heads * d_k, init, bias=bias, gain=gain)
        self.key = Linear(d_model, heads * d_k, init, bias=bias, gain=gain)
        self.value = Linear(d_model, heads * d_v, init, bias=bias, gain=gain)
        self.output = Linear(heads * d_v, d_model, init, bias=bias)
        if kind == "additive":
            self.score = init.glorot_uniform(heads, d_k)  # of tanh(query + key), in each head
        self.dropout = Dropout(dropout)

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Array | None = None, is_causal: bool = False
    ) -> Tensor:
        """Shapes: query [B, T, D], key and value [B, S, D], mask bool broadcastable to [B, H, T, S] -> [B, T, D]"""
        if query is key is value and are_packed(layers := [self.query, self.key, self.value]):
            q, k, v = linear_heads(query, layers, self.heads)
        else:
            q = self.split_heads(self.query(query))  # [B, H, T, K]
            k = self.split_heads(self.key(key))  # [B, H, S, K]
            v = self.split_heads(self.value(value))  # [B, H, S, d_v]
        return self.output(join_heads(self.attend(q, k, v, mask, is_causal)))

    def over(self, query: Tensor, k: Tensor, v: Tensor, mask: Array) -> Tensor:
        """The same with keys and values that are projected already.

        Shapes: query [B, T, D], k [B, H, S, K], v [B, H, S, d_v] -> [B, T, D]
        """
        return self.output(join_heads(self.attend(self.split_heads(self.query(query)), k, v, mask)))

    def packed(self) -> Iterator[list[Parameter]]:
        yield from side_by_side([self.query, self.key, self.value])

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Array | None, is_causal: bool = False) -> Tensor:
        """The heads, from projected queries, keys and values.

        Shapes: q [B, H, T, K], k [B, H, S, K], v [B, H, S, d_v] -> [B, H, T, d_v]
        """
        p = self.dropout.p if self.training else 0.0
        if self.kind == "additive":
            return ag.additive_attention(q, k, v, self.score, mask, is_causal=is_causal, dropout=p)
        if self.neighbourhood is not None:
            positions = None if mask is None else mask[..., 0, :]  # [B, 1, S]
            return ag.local_attention(
                q, k, v, positions, neighbourhood=self.neighbourhood, is_causal=is_causal, dropout=p, scale=self.scale
            )
        return ag.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal, dropout=p, scale=self.scale)

    @property
    def scale(self) -> float | None:
        """The factor on dot products of queries and keys; None: 1/√d_k."""
        return 1.0 if self.kind == "dot-product" else None

    def split_heads(self, x: Tensor) -> Tensor:
        """Shapes: [B, T, H · K] -> [B, H, T, K], a view"""
        b, t, width = x.shape
        return x.reshape(b, t, self.heads, width // self.heads).swapaxes(1, 2)


def are_packed(layers: Sequence[Linear]) -> bool:
    """Whether the weights of layers lie side by side in memory, so that one product of all is faster than several."""
    weights = [layer.weight.data for layer in layers]
    return backend_of(weights[:1]).are_side_by_side(weights)


def side_by_side(layers: Sequence[Linear]) -> Iterator[list[Parameter]]:
    """The weights of several layers, and their biases."""
    yield [layer.weight for layer in layers]
    yield [layer.bias for layer in layers if layer.bias is not None]


def linear_heads(x: Tensor, layers: Sequence[Linear], heads: int) -> tuple[Tensor, ...]:
    """The results of several linear layers as one product, divided into heads.  Shapes: x [B, T, D] -> [B, H, T, K]"""
    biases = [layer.bias for layer in layers if layer.bias is not None]
    return ag.linear_heads(x, [layer.weight for layer in layers], biases, heads=heads)


def join_heads(x: Tensor) -> Tensor:
    """Shapes: [B, H, T, K] -> [B, T, H · K]; a view of what the attention op returns"""
    b, h, t, k = x.shape
    return x.swapaxes(1, 2).reshape(b, t, h * k)
