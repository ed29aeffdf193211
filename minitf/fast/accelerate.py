"""The parts of the model in fewer and larger kernels: the same formulas, and the same dropout masks.

    model = accelerate(Transformer(config))
    optimizer = accelerate_adam(Adam(model.named_parameters(), config))

A fast part is a subclass of the plain one, which stays the definition, with its signature and its parameters.  For
every entry of the table, tests/minitf/fast/test_accelerate.py says that both compute the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, TypeVar, cast

import autograd as ag
from autograd import Tensor, checkpoint
from autograd.backend import Backend, backend_of
from autograd.fast import kernels_of, kernels_on
from autograd.fast.recomputed import LowPrecision
from minitf.config.model import PAD
from minitf.fast.array_layers import recast, with_classes
from minitf.fast.inference import InferenceTransformer
from minitf.model.layers import Embedding, FeedForward, Linear, Module
from minitf.model.parameters import Parameter
from minitf.model.transformer import (
    Cache,
    Decoder,
    DecoderLayer,
    MultiHeadAttention,
    Positions,
    Reduction,
    Residual,
    Transformer,
    join_heads,
    padding_mask,
)
from minitf.model.variants import PreNormDecoder

__all__ = ["REPLACEMENTS", "FastTransformer", "accelerate", "accelerate_adam"]

Array = Any
M = TypeVar("M", bound=Module)
Optimizer = TypeVar("Optimizer")


class FusedFeedForward(FeedForward):
    """The first product ends in ReLU."""

    def __call__(self, x: Tensor) -> Tensor:
        if self.activation is not ag.relu:
            return super().__call__(x)
        return self.down(self.dropout(ag.fast.linear_relu(x, self.up.weight, self.up.bias)))


class FusedResidual(Residual):
    """Dropout, sum and norm in one pass over memory."""

    def __call__(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return ag.fast.dropout_add_layer_norm(
            sublayer(x), x, self.norm.weight, self.norm.bias,
            p=self.dropout.p, eps=self.norm.eps, training=self.training,
        )  # fmt: skip


# ---- Projections as one product ----------------------------------------------------------------------------------


def linear_heads(x: Tensor, layers: Sequence[Linear], heads: int) -> tuple[Tensor, ...]:
    """The results of several linear layers as one product, divided into heads.  Shapes: x [B, T, D] -> [B, H, T, K]"""
    biases = [layer.bias for layer in layers if layer.bias is not None]
    return ag.fast.linear_heads(x, [layer.weight for layer in layers], biases, heads=heads)


class PackedAttention(MultiHeadAttention):
    """Queries, keys and values of self-attention are one product."""

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Array | None = None, is_causal: bool = False
    ) -> Tensor:
        if not (query is key is value):
            return super().__call__(query, key, value, mask, is_causal)
        q, k, v = linear_heads(query, [self.query, self.key, self.value], self.heads)
        return self.output(join_heads(self.attend(q, k, v, mask, is_causal)))


class PackedDecoderLayer(DecoderLayer):
    """The memory may come as keys and values of this layer, which `PackedDecoder` has projected."""

    def attend_to_source(self, x: Tensor, memory: Any, memory_mask: Array, cache: Cache | None) -> Tensor:
        if isinstance(memory, tuple):
            k, v = memory
            return self.cross_attention.over(x, k, v, memory_mask)
        return super().attend_to_source(x, memory, memory_mask, cache)


class PackedDecoder(Decoder):
    """Keys and values of the memory, for all layers, are one product."""

    def __call__(self, x: Tensor, memory: Tensor, memory_mask: Array, caches: Sequence[Cache] | None = None) -> Tensor:
        if caches is not None or not all(isinstance(layer, PackedDecoderLayer) for layer in self.layers):
            return super().__call__(x, memory, memory_mask, caches)
        of_all = linear_heads(memory, memory_projections(self), self.layers[0].cross_attention.heads)
        memories: Any = zip(of_all[::2], of_all[1::2], strict=True)
        for layer, keys_and_values in zip(self.layers, memories, strict=True):
            x = layer(x, keys_and_values, memory_mask)
        return x


class PackedPreNormDecoder(PreNormDecoder, PackedDecoder):
    """The same, and the norm after the stack."""


class Checkpointed(Module):
    """A layer of which only the inputs are kept for the backward pass, which computes it again."""

    def __call__(self, *inputs: Any) -> Tensor:
        return checkpoint(super().__call__, *inputs)  # type: ignore[misc]


def memory_projections(decoder: Decoder) -> list[Linear]:
    """Return the layers that compute keys and values of the encoder's output."""
    return [linear for each in decoder.layers for linear in (each.cross_attention.key, each.cross_attention.value)]


def read_together(model: Transformer) -> Iterator[list[Parameter]]:
    """Groups of parameters that one product reads: weights, and biases where there are any."""
    attentions = [getattr(layer, "self_attention", None) for layer in (*model.encoder.layers, *model.decoder.layers)]
    groups = [[each.query, each.key, each.value] for each in attentions if each is not None]
    for layers in (*groups, memory_projections(model.decoder)):
        yield [layer.weight for layer in layers]
        yield [layer.bias for layer in layers if layer.bias is not None]


# ---- The whole ---------------------------------------------------------------------------------------------------


class FastTransformer(Transformer):
    """Embedding, positions and dropout are one pass, and the loss is computed a block of logits at a time.

    compute_dtype: dtype of activations if not that of the parameters: "bfloat16" for mixed precision
    """

    compute_dtype: str | None = None
    decoder_type = InferenceTransformer

    @property
    def backend(self) -> Backend:
        """The backend of the device of the parameters, found without collecting them all."""
        return backend_of([self.source_embedding.weight.data])

    def embed_source(self, ids: Array) -> Tensor:
        return self.embedded(ids, self.source_embedding, self.source_positions, self.dropout_now)

    def embed_target(self, ids: Array, start: int = 0) -> Tensor:
        return self.embedded(ids, self.target_embedding, self.target_positions, self.dropout_now, start)

    @property
    def dropout_now(self) -> float:
        """Return the probability of dropout: 0 unless the model is training."""
        return self.dropout.p if self.training else 0.0

    def embedded(self, ids: Array, embedding: Embedding, positions: Positions, p: float, start: int = 0) -> Tensor:
        """Dropout(√d_model · E[ids] + positions) as one op.  Shapes: ids int [B, T] -> [B, T, D]"""
        rows = positions.rows(ids.shape[1], start, backend_of([embedding.weight.data]))
        return ag.fast.scaled_embedding(
            ids, embedding.weight, scale=embedding.scale, positions=rows, p=p, dtype=self.compute_dtype
        )

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits, not rounded to `compute_dtype`."""
        return ag.linear(hidden, self.output_matrix, dtype=self.output_matrix.dtype)

    def loss(
        self, source: Array, target: Array, labels: Array, label_smoothing: float, reduction: Reduction = "sum"
    ) -> tuple[Tensor, Tensor]:
        """The loss, without the logits [B, T, V], the largest array of a training step, in memory at once."""
        mask = padding_mask(source)
        hidden = self.decode(target, self.encoder(self.embed_source(source), mask), mask)
        labels, settings = self.loss_settings(labels)
        return ag.fast.linear_cross_entropy(
            hidden, self.output_matrix, labels,
            label_smoothing=label_smoothing, ignore_index=PAD, reduction=reduction, with_nll=True, **settings,
        )  # fmt: skip

    def loss_settings(self, labels: Array) -> tuple[Array, dict[str, Any]]:
        """Return the labels that have a loss, PAD in place of the others, and what else the loss depends on."""
        return labels, {}

    # ---- Where parameters are in memory ----

    def place_side_by_side(self) -> None:
        """Move parameters that one product reads together to one block of memory, and likewise their copies.

        With a `compute_dtype`, the matrices and biases of products have copies in it.
        """
        kernels, xp = kernels_on(self.backend), self.backend.xp

        def side_by_side(arrays: list[Array]) -> list[Array]:
            return kernels.parted(xp.concatenate(arrays), [len(a) for a in arrays])

        embeddings = {id(self.source_embedding.weight), id(self.target_embedding.weight)} - {id(self.output_matrix)}
        if self.compute_dtype is not None:
            for parameter in self.parameters():
                if id(parameter) not in embeddings:
                    parameter.low = LowPrecision(parameter.data, parameter.data.astype(self.compute_dtype))
        for parameters in filter(None, read_together(self)):
            arrays = [parameter.data for parameter in parameters]
            if not kernels.are_side_by_side(arrays):
                for parameter, array in zip(parameters, side_by_side(arrays), strict=True):
                    parameter.data = array
            if self.compute_dtype is not None:
                copies = side_by_side([parameter.low.copy for parameter in parameters])
                for parameter, copy in zip(parameters, copies, strict=True):
                    parameter.low = LowPrecision(parameter.data, copy)

    def to(self, device: str) -> Self:
        """Move all parameters to a device, those that one product reads side by side."""
        super().to(device)
        self.place_side_by_side()
        return self

    def load_parameters(self, arrays: dict[str, Any], *, copy: bool = True) -> None:
        """Copy `arrays` into the parameters of the same names, and into their copies in lower precision."""
        super().load_parameters(arrays, copy=copy)
        for parameter in self.parameters():
            if parameter.low is not None:  # in the same memory: side by side with others, read by graphs
                parameter.low.source, parameter.low.copy[...] = parameter.data, parameter.data
                parameter.low.note_written()


# ---- Entrances ---------------------------------------------------------------------------------------------------

REPLACEMENTS: dict[type[Module], type[Module]] = {
    FeedForward: FusedFeedForward,
    MultiHeadAttention: PackedAttention,
    Residual: FusedResidual,
    DecoderLayer: PackedDecoderLayer,
    Decoder: PackedDecoder,
    PreNormDecoder: PackedPreNormDecoder,
    Transformer: FastTransformer,
}


def accelerate(module: M, *, compute_dtype: str | None = None, checkpoint_layers: bool = False) -> M:
    """Return the module with fast parts, which have the plain parts' parameters; load weights before.

    compute_dtype: of a Transformer: dtype of activations if not that of the parameters: "bfloat16" for mixed precision
    checkpoint_layers: of a Transformer: keep, for the backward pass, only the inputs of layers, and compute the layers
        again
    """
    new: Any = with_classes(module, lambda kind: REPLACEMENTS.get(kind, kind))
    if isinstance(new, FastTransformer):
        new.compute_dtype = compute_dtype
        for stack in (new.encoder, new.decoder) if checkpoint_layers else ():
            stack.layers = [recast(each, type("", (Checkpointed, type(each)), {})) for each in stack.layers]
        new.place_side_by_side()
    return cast(M, new)


def accelerate_adam(adam: Optimizer) -> Optimizer:
    """The optimizer (`Adam` of minitf/training/optim.py), with the functions below for its own of the same names."""
    optimizer: Any = adam
    optimizer.update_all, optimizer.squared_norm = update_all, squared_norm
    return adam


def update_all(learning: Sequence[tuple[Parameter, Array, Array]], **settings: float) -> None:
    """Update several parameters, each with its moments, and their copies in lower precision, in one call."""
    if not learning:
        return
    updates: list[Any] = [
        (parameter.data, parameter.grad.data, m, v, parameter.low and parameter.low.copy)  # type: ignore[union-attr]
        for parameter, m, v in learning
    ]
    kernels_of([updates[0][0]]).adam_all_(updates, **settings)
    for parameter, *_ in learning:
        if parameter.low is not None:
            parameter.low.note_written()


def squared_norm(gradients: Sequence[Array]) -> float:
    """Σ g²: pieces in the gradient's own precision, their sum in float64."""
    return float(kernels_of(gradients).squared_norm(gradients)) if gradients else 0.0
