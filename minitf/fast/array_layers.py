"""The layers of the model on plain arrays, for decoding: without gradients, and with weights read together.

Each class computes what the layer computes that it replaces, and the layers above (`EncoderLayer`, `Decoder`, …) stay
as they are: arrays walk through them in place of Tensors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np

import autograd as ag
from autograd import Tensor
from autograd.backend import backend_of
from autograd.fast.int8 import Int8Weights
from minitf.model import transformer as plain
from minitf.model import variants
from minitf.model.layers import Dropout, Embedding, FeedForward, LayerNorm, Linear, Module
from minitf.model.parameters import Parameter
from minitf.model.transformer import MultiHeadAttention, Positions, Transformer, join_heads

__all__ = ["PARTS", "ArrayAttention", "ArrayTransformer", "OfArrays", "matrices", "recast", "with_classes"]

Array = Any
Pack = Callable[..., Int8Weights]
"""(matrix [out, in], bias [out] or None) -> its weights in 8 bits"""


# ---- The same module with the methods of other classes: how fast parts come into the places of plain ones ----


def recast(module: Module, cls: type[Module]) -> Any:
    """The same module, parameters and parts included, with the methods of another class."""
    new = object.__new__(cls)
    vars(new).update(vars(module))
    return new


def with_classes(value: Any, choose: Callable[[type[Module]], Any], done: dict[int, Module] | None = None) -> Any:
    """The same module, its parts included, with the methods of the classes that `choose` gives for theirs.

    value: a module; of its attributes, also a list or tuple of modules, or another value
    done: the parts so far, by id: one that is used twice stays one
    """
    done = {} if done is None else done
    if isinstance(value, Module):
        if id(value) not in done:
            new = done[id(value)] = recast(value, choose(type(value)))
            for name, part in vars(new).items():
                setattr(new, name, with_classes(part, choose, done))
        return done[id(value)]
    if isinstance(value, dict):
        return {key: with_classes(item, choose, done) for key, item in value.items()}
    return type(value)([with_classes(item, choose, done) for item in value]) if type(value) in (list, tuple) else value


# ---- Layers ----


class Product:
    """x Wᵀ + b of one or several linear layers side by side.

    weight: [out, in], or None with `packed`, weights and bias in 8 bits
    each_step: each step of the decoder computes the product
    dtype: type of the result; None: that of x. Logits are not rounded to bfloat16
    """

    def __init__(
        self, kernels: Any, weight: Array | None, bias: Array | None = None, *, ends: Sequence[int] = (),
        each_step: bool = True, dtype: Any = None, packed: Int8Weights | None = None,
    ):  # fmt: skip
        self.kernels, self.bias, self.each_step, self.dtype, self.packed = kernels, bias, each_step, dtype, packed
        self.w = cast(Any, None if weight is None else weight.T)
        self.size: int = self.w.size if packed is None else packed.size
        self.columns = [slice(start, end) for start, end in itertools.pairwise([0, *ends])]

    def __call__(self, x: Array, relu: bool = False) -> Array:
        """x Wᵀ + b, or max(x Wᵀ + b, 0).  Shapes: x [..., in] -> [..., out]"""
        rows = x.reshape(-1, x.shape[-1])
        kernels = self.kernels
        if self.packed is not None:
            y = kernels.linear_packed(rows, self.packed, relu)
        else:
            many = self.each_step and kernels.prefers_contiguous(len(rows), len(self.w))
            y = kernels.linear_of_few(rows, self.contiguous if many else self.w, self.bias, relu, dtype=self.dtype)
        return y.reshape(*x.shape[:-1], y.shape[-1])

    @cached_property
    def contiguous(self) -> Array:
        """A contiguous copy of w, made when it is first faster."""
        return backend_of([self.w]).xp.ascontiguousarray(self.w)


class ArrayLinear(Linear):
    """`Linear` of an array."""

    product: Product

    def __call__(self, x: Array) -> Array:
        return self.product(x)


class ArrayDropout(Dropout):
    """No dropout."""

    def __call__(self, x: Array) -> Array:
        return x


class ArrayLayerNorm(LayerNorm):
    """`LayerNorm` of an array."""

    kernels: Any

    def __call__(self, x: Array) -> Array:
        rows, settings = x.reshape(-1, x.shape[-1]), (1.0, self.weight.data, self.bias.data, self.eps)
        return self.kernels.dropout_add_layer_norm(rows, None, None, *settings)[0].reshape(x.shape)


class ArrayFeedForward(FeedForward):
    """`FeedForward` of an array; the first product ends in ReLU."""

    up: ArrayLinear

    def __call__(self, x: Array) -> Array:
        if self.activation is ag.relu:
            return self.down(self.up.product(x, relu=True))
        return self.down(self.activation(Tensor(self.up(x))).data)


class ArrayResidual(plain.Residual):
    """`Residual` of an array: sum and norm in one pass."""

    kernels: Any

    def __call__(self, x: Array, sublayer: Callable[[Array], Array]) -> Array:
        y, rows, norm = sublayer(x), x.reshape(-1, x.shape[-1]), self.norm
        out = self.kernels.dropout_add_layer_norm(
            y.reshape(rows.shape), rows, None, 1.0, norm.weight.data, norm.bias.data, norm.eps
        )[0]
        return out.reshape(x.shape)


class ArrayAttention(MultiHeadAttention):
    """`MultiHeadAttention` of arrays.

    inward: the product of queries, keys and values of self-attention; of keys and values of attention to the source
    """

    kernels: Any
    inward: Product

    def __call__(self, query: Array, key: Array, value: Array, mask: Any = None, is_causal: bool = False) -> Array:
        if not (query is key is value):
            return super().__call__(query, key, value, mask, is_causal)
        q, k, v = self.projections(query)
        return self.joined(q, k, v, mask, is_causal)

    def projections(self, x: Array) -> list[Array]:
        """Return the parts of `inward` by head.  Shapes: x [B, T, D] -> [B, H, T, K] each"""
        y = self.inward(x)
        return [self.split_heads(y[:, :, part]) for part in self.inward.columns]

    def keys_and_values(self, key: Array, value: Array) -> tuple[Array, Array]:
        """Contiguous, as every step reads them."""
        k, v = map(backend_of([key]).xp.ascontiguousarray, self.projections(key))
        return k, v

    def joined(self, q: Array, k: Array, v: Array, mask: Any, is_causal: bool = False) -> Array:
        """Attention and the output's product.  Shapes: q [B, H, T, K], k [B, H, S, K] -> [B, T, D]"""
        return self.output(join_heads(self.attend(q, k, v, mask, is_causal)))

    def attend(self, q: Array, k: Array, v: Array, mask: Array | None, is_causal: bool = False) -> Array:
        if is_causal:
            mask = backend_of([q]).causal_mask(q.shape[2], k.shape[2])
        return self.kernels.attention(q, k, v, mask, None, 1.0, self.scale)[0]

    @property
    def scale(self) -> float:
        """The factor on products of queries and keys."""
        return 1 / math.sqrt(self.query.weight.shape[0] // self.heads)


class ArrayDecoderLayer(plain.DecoderLayer):
    """`DecoderLayer` of arrays; the rows of a step are the hypotheses of a sentence, whose past is in one cache."""

    self_attention: ArrayAttention

    def attend_to_target(self, x: Array, cache: Any) -> Array:
        attention = self.self_attention
        if cache is None:
            return attention(x, x, x, is_causal=True)
        q, k, v = attention.projections(x)
        keys, values = cache.append(k, v)
        return attention.joined(q, keys, values, cache.mask)


class ArrayEmbedding(Embedding):
    """`Embedding` of arrays.  table: the weights in 8 bits, or None"""

    kernels: Any
    table: Int8Weights | None

    def __call__(self, ids: Array) -> Array:
        if self.table is None:
            return self.kernels.embedding(self.weight.data, ids, None, self.scale, None, 1.0)
        y = self.table.rows(ids.reshape(-1)).reshape(*ids.shape, -1)
        y *= self.scale
        return y


class OfArrays(Positions):
    """`Positions` of an array, which is overwritten."""

    def __call__(self, x: Array, start: int = 0) -> Array:
        x += self.encodings(x, start)
        return x

    def encodings(self, x: Array, start: int) -> Array:
        """Shapes: x [B, T, D] -> [T, D]"""
        rows = self.rows(x.shape[1], start, backend_of([x]))
        return rows.data if isinstance(rows, Tensor) else rows


class ArrayLearnedPositions(OfArrays, variants.LearnedPositions):
    """`LearnedPositions` of an array."""


class ArrayTransformer(Transformer):
    """`Transformer` on arrays.

    dtype: type of activations
    output: the product that makes logits
    """

    dtype: Any
    output: Product
    target_positions: OfArrays

    def embed_source(self, ids: Array) -> Array:
        return super().embed_source(ids).astype(self.dtype, copy=False)

    def embed_target(self, ids: Array, start: int = 0) -> Array:
        return super().embed_target(ids, start).astype(self.dtype, copy=False)

    def logits(self, hidden: Array) -> Array:
        return self.output(hidden)


PARTS: dict[type[Module], type[Module]] = {
    Linear: ArrayLinear,
    Embedding: ArrayEmbedding,
    Dropout: ArrayDropout,
    LayerNorm: ArrayLayerNorm,
    FeedForward: ArrayFeedForward,
    MultiHeadAttention: ArrayAttention,
    Positions: OfArrays,
    variants.LearnedPositions: ArrayLearnedPositions,
    plain.Residual: ArrayResidual,
    plain.DecoderLayer: ArrayDecoderLayer,
    Transformer: ArrayTransformer,
    **{each: each for each in (  # which compute with arrays as they are
        plain.EncoderLayer, plain.Encoder, plain.Decoder, variants.PreNormResidual, variants.PreNormEncoder,
        variants.PreNormDecoder,
    )},
}  # fmt: skip


def part_for(kind: type[Module]) -> type[Module] | None:
    """Return the class of arrays for a class of the model, or of its fast layers."""
    return PARTS.get(next(each for each in kind.__mro__ if not each.__module__.startswith("minitf.fast.")))


def on_arrays(model: Transformer, kernels: Any, pack: Pack | None = None) -> ArrayTransformer | None:
    """Return the model with layers that compute with arrays, and its weights as they are now; None if a layer has none.

    pack: round the matrices to 8 bits
    """
    if any(part_for(type(module)) is None for module in model.modules()):
        return None
    new: ArrayTransformer = with_classes(model, part_for)
    new.dtype = np.dtype(getattr(model, "compute_dtype", None) or model.output_matrix.dtype)
    embeddings = new.source_embedding, new.target_embedding
    tables = {id(each.weight): pack(each.weight.data) for each in {*embeddings}} if pack else {}
    for module in new.modules():
        vars(module)["kernels"] = kernels
    for each in embeddings:
        vars(each)["table"] = tables.get(id(each.weight))

    def product(*linears: Linear, each_step: bool = True) -> Product:
        weight = kernels.stacked([linear.weight.data for linear in linears]).astype(new.dtype, copy=False)
        biases = [linear.bias.data for linear in linears if linear.bias is not None]
        bias, ends = kernels.stacked(biases) if biases else None, [len(each.weight.data) for each in linears]
        settings: Any = {"ends": np.cumsum(ends).tolist(), "each_step": each_step}
        packed = None if pack is None else pack(weight, bias)
        return Product(kernels, None if pack else weight, bias, packed=packed, **settings)

    layers: list[Any] = [*new.encoder.layers, *new.decoder.layers]
    for layer in layers:
        own, feed_forward, each_step = layer.self_attention, layer.feed_forward, isinstance(layer, ArrayDecoderLayer)
        own.inward = product(own.query, own.key, own.value, each_step=each_step)
        for linear in (own.output, feed_forward.up, feed_forward.down):
            linear.product = product(linear, each_step=each_step)
    for layer in layers[len(new.encoder.layers) :]:
        cross = layer.cross_attention
        cross.inward = product(cross.key, cross.value, each_step=False)
        cross.query.product, cross.output.product = product(cross.query), product(cross.output)
    bias: Tensor | None = new.logit_bias() if hasattr(new, "logit_bias") else None  # of another program's model
    shift, matrix = None if bias is None else bias.data, new.output_matrix
    weight, packed = matrix.data.astype(new.dtype, copy=False), None
    if pack is not None:
        packed = tables.get(id(matrix)) or pack(matrix.data)
        if shift is not None:
            packed.bias[: packed.shape[0]] = shift
    new.output = Product(kernels, None if pack else weight, shift, packed=packed, dtype=matrix.dtype)
    return new


def matrices(model: Transformer) -> list[Parameter]:
    """Return the parameters that `pack` rounds."""
    layers = [each for each in model.modules() if isinstance(each, Linear | Embedding)]
    return [*{id(p): p for p in (*(each.weight for each in layers), model.output_matrix)}.values()]
