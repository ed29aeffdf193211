"""Multi-head attention (section 3.2.2), who may attend to whom, and the caches of step-by-step decoding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import autograd as ag
from autograd import Tensor
from autograd.backend import backend_of
from minitf.config.special_tokens import PAD
from minitf.model.layers import Dropout, Initializer, Linear, Module

Array = Any


def padding_mask(ids: Array) -> Array:
    """Every position may attend to every real token.  Shapes: ids [B, S] -> bool [B, 1, 1, S]"""
    return (ids != PAD)[:, None, None, :]


class MultiHeadAttention(Module):
    """Concat(head_1 … head_H) W^O, head_i = Attention(query W_i^Q, key W_i^K, value W_i^V).

    The H projections of a kind are one matrix: W^Q and W^K are [H · K, D], W^V is [H · d_v, D].
    """

    record: Callable[[Tensor], object] | None = None
    """Is given the weights [B, H, T, S] of every call while it is set; see `minitf.translation.attention_weights`."""

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
    ):
        """gain: factor on the starting values of query, key and value."""
        self.heads = heads
        self.query = Linear(d_model, heads * d_k, init, bias=bias, gain=gain)
        self.key = Linear(d_model, heads * d_k, init, bias=bias, gain=gain)
        self.value = Linear(d_model, heads * d_v, init, bias=bias, gain=gain)
        self.output = Linear(heads * d_v, d_model, init, bias=bias)
        self.dropout = Dropout(dropout)

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Array | None = None, is_causal: bool = False
    ) -> Tensor:
        """Shapes: query [B, T, D], key and value [B, S, D], mask bool broadcastable to [B, H, T, S] -> [B, T, D]"""
        q = self.split_heads(self.query(query))
        return self.attend(q, self.split_heads(self.key(key)), self.split_heads(self.value(value)), mask, is_causal)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Array | None = None, is_causal: bool = False) -> Tensor:
        """Attention between projected heads.  Shapes: q [B, H, T, K], k [B, H, S, K], v [B, H, S, d_v] -> [B, T, D]"""
        p = self.dropout.p if self.training else 0.0
        if self.record is not None:
            self.record(weights_of(q.detach(), k.detach(), mask, is_causal))
        return self.output(join_heads(ag.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal, dropout=p)))

    def split_heads(self, x: Tensor) -> Tensor:
        """Shapes: [B, T, H · K] -> [B, H, T, K], a view"""
        b, t, width = x.shape
        return x.reshape(b, t, self.heads, width // self.heads).swapaxes(1, 2)


def weights_of(q: Tensor, k: Tensor, mask: Array | None = None, is_causal: bool = False) -> Tensor:
    """softmax(q kᵀ / √K): the fused op keeps its weights to itself, but applied to the identity it gives them.

    Shapes: q [B, H, T, K], k [B, H, S, K], mask bool broadcastable to [B, H, T, S] -> [B, H, T, S]
    """
    xp = backend_of([k.data]).xp
    identity = Tensor(xp.eye(k.shape[2], dtype=k.dtype))
    return ag.scaled_dot_product_attention(q, k, identity, mask, is_causal=is_causal)


def join_heads(x: Tensor) -> Tensor:
    """Shapes: [B, H, T, K] -> [B, T, H · K]; a view where attention wrote its result position by position"""
    b, h, t, k = x.shape
    return x.swapaxes(1, 2).reshape(b, t, h * k)


class SelfAttentionCache:
    """Keys and values of the positions decoded so far, for one layer.

    The buffers hold room for more positions than are filled and double when full, so that a step writes one
    position and copies nothing.
    """

    def __init__(self) -> None:
        self.length = 0
        self.keys: Array | None = None  # [N, H, room, K]
        self.values: Array | None = None  # [N, H, room, d_v]

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add one position; return all.  Shapes: k [N, H, 1, K] -> [N, H, length, K], v likewise"""
        self.keys = self._with_room(self.keys, k.data)
        self.values = self._with_room(self.values, v.data)
        self.keys[:, :, self.length] = k.data[:, :, 0]
        self.values[:, :, self.length] = v.data[:, :, 0]
        self.length += 1
        return Tensor(self.keys[:, :, : self.length]), Tensor(self.values[:, :, : self.length])

    def _with_room(self, buffer: Array | None, new: Array) -> Array:
        if buffer is not None and self.length < buffer.shape[2]:
            return buffer
        n, h, _, width = new.shape
        grown = backend_of([new]).xp.empty((n, h, max(16, 2 * self.length), width), new.dtype)
        if buffer is not None:
            grown[:, :, : self.length] = buffer
        return grown

    def reorder(self, rows: Array) -> None:
        """Row i becomes what row rows[i] was; only filled positions are copied."""
        if self.keys is not None and self.values is not None:
            self.keys = _take_filled(self.keys, rows, self.length)
            self.values = _take_filled(self.values, rows, self.length)


def _take_filled(buffer: Array, rows: Array, length: int) -> Array:
    taken = backend_of([buffer]).xp.empty((len(rows), *buffer.shape[1:]), buffer.dtype)
    taken[:, :, :length] = buffer[rows, :, :length]
    return taken
