# mypy: disable-error-code="override, misc"
"""Fast implementations of the ops of a Transformer's step, which have the names of the ops that they replace.

Each keeps what its backward pass would otherwise compute again, and calls the kernels of its device by name.  Where its
guard refuses the inputs, the plain op runs: for other dtypes, for arrays of different dtypes, and for empty ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from autograd.backend import CPU, Backend
from autograd.engine import Op, unbroadcast
from autograd.fast.recomputed import all_in_precision_of, in_precision_of
from autograd.fast.table import Kernels, kernels_on
from autograd.modes import current_modes
from autograd.ops import fused, nn
from autograd.ops.nn import rows_of
from autograd.random import Mask
from autograd.tensor import make_spec, split

PACKED_BYTES = 1 << 20  # masks from this size on are kept as bits: packing them takes 0.02 ns an element
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class FastOp(Op):
    """Base class of implementations: an op with the kernels of its device.

    recomputes: whether a method `recompute` has the output from what the op saved: see recomputed.py
    """

    recomputes = False

    @classmethod
    def takes(cls, backend: Backend, arrays: Sequence[Any], parameters: dict[str, Any]) -> bool:
        """The guard: whether this computes the op of these inputs, and not the plain op."""
        if backend is not CPU:
            taken: bool = backend.takes(cls.__name__, arrays, parameters)  # type: ignore[attr-defined]
            return taken
        return cls.taken_on_cpu(arrays, parameters)

    @classmethod
    def taken_on_cpu(cls, arrays: Sequence[Any], parameters: dict[str, Any]) -> bool:
        """The guard of a CPU: float32 or float64 arrays, all of one dtype, with something in each."""
        return are_floats(arrays)

    @property
    def kernels(self) -> Kernels:
        """The kernels of the device of the op."""
        return kernels_on(self.backend)

    def draw(self, drop: Any, drawn: tuple[int, ...] | None = None) -> tuple[Any, float]:
        """Return a dropout mask as the kernels take it, and its scale 1 / P(keep); without a mask, None and 1.

        `drawn` is the shape of the array that is returned, by default that of the mask.
        """
        return (None, 1.0) if drop is None else (self.kernels.draw(drop, drawn or drop.shape), drop.scale)

    def as_plain(self) -> Any:
        op_class = next(plain for plain, fast in IMPLEMENTATIONS.items() if fast is type(self))
        return op_class, self.read_by_plain(*self.saved), self.parameters

    def read_by_plain(self, *saved: Any) -> tuple[Any, ...]:
        """The output and the inputs that the plain op reads, from what this one saved; None for the others."""
        raise NotImplementedError


def are_floats(arrays: Sequence[Any]) -> bool:
    """Are these arrays of float32, or of float64, with something in each? None is left out."""
    dtype = None
    for a in arrays:
        if a is None:
            continue
        if type(a) is not np.ndarray or not a.size or a.dtype not in FLOATS or dtype not in (None, a.dtype):
            return False
        dtype = a.dtype
    return True


def packed(keep: Any) -> Any:
    """Return a large mask as bits, to be kept for the backward pass; others, and those of GPUs, as they are."""
    return np.packbits(keep) if isinstance(keep, np.ndarray) and keep.nbytes >= PACKED_BYTES else keep


def unpacked(keep: Any, shape: tuple[int, ...]) -> Any:
    """Return the mask of `shape` of which `packed` returned `keep`."""
    if isinstance(keep, np.ndarray) and keep.dtype == np.uint8:
        return np.unpackbits(keep, count=math.prod(shape)).view(bool).reshape(shape)
    return keep


# ---- Products: as few and as large BLAS calls as the shapes allow ----


class Linear(FastOp, nn.Linear):
    """Saves: x and weight, each only if the other one needs a gradient; after ReLU y, which the next layer saves anyway

    relu: whether the result is max(x Wᵀ + b, 0), as in `fused.LinearRelu`
    """

    relu = False

    @classmethod
    def taken_on_cpu(cls, arrays, parameters):
        return are_floats(arrays) and parameters.get("dtype") in (None, arrays[0].dtype)

    def forward(self, x, weight, bias, *, dtype=None):
        self.dtype = weight.dtype
        _, leaf, leaf_of_bias = self._edges
        weight = in_precision_of(x, leaf, weight)
        if bias is not None and dtype is None and self.kernels.uses_epilogues:
            bias = in_precision_of(x, leaf_of_bias, bias)
        needs_x, needs_weight, _ = self.needs_gradient
        y = self.kernels.linear(rows_of(x), weight, bias, self.relu, dtype)  # [rows, in] @ [in, out]
        y = y.reshape(*x.shape[:-1], weight.shape[0])
        self.save(x if needs_weight else None, weight if needs_x else None, *([y] if self.relu else ()))
        return y

    def read_by_plain(self, x, weight, y=None):
        return y, x, weight, None

    def backward(self, g_y):
        x, weight, *after_relu = self.saved
        _, needs_weight, needs_bias = self.needs_gradient
        g_bias, g_rows = None, rows_of(g_y)  # [rows, out]
        if 0 in g_rows.strides:  # of a sum's gradient, whose elements share memory: BLAS cannot read that
            g_rows = self.xp.ascontiguousarray(g_rows)
        for y in after_relu:  # one or none
            g_rows, g_bias = self.kernels.relu_backward_sum(g_rows, rows_of(y))
        factor = x if weight is None else weight
        if factor is not None and factor.dtype != g_rows.dtype and factor.dtype.name == "bfloat16":  # y was float32
            g_rows = g_rows.astype(factor.dtype, copy=False)
        g_x, g_weight, g_linear_bias = linear_gradients(
            self, g_rows, weight, x if needs_weight else None, g_y.shape[:-1], needs_bias and g_bias is None
        )
        return g_x, g_weight, (g_linear_bias if g_bias is None else g_bias) if needs_bias else None


def linear_gradients(
    op: Linear | LinearHeads, g_rows: Any, weight: Any, x: Any, leading: tuple[int, ...], with_bias: bool
) -> tuple[Any, Any, Any]:
    """The gradients of x, weight and bias; None for the first without a weight, for the second without x.

    Shapes: g_rows [rows, out], weight [out, in], x [..., in]
    """
    spec = op.input_specs[0]
    later = op.backend is not CPU and weight is not None and spec is not None and spec.dtype == g_rows.dtype
    later = later and not current_modes().events.after_backward  # whose observers get arrays
    pairs = [
        None if later or weight is None else (g_rows, weight),
        None if x is None else (g_rows.T, rows_of(x), op.dtype),
    ]
    kernels = op.kernels
    found = iter(kernels.products(*[each for each in pairs if each is not None]))
    g_x, g_weight = (None if each is None else next(found) for each in pairs)
    if later:  # in the launch of the product
        product, shape = (g_rows, weight), (*leading, weight.shape[1])
        g_x = Later(
            shape, g_rows.dtype, lambda: kernels.product(*product).reshape(shape),
            lambda total: kernels.add_product_(total, *product),
        )  # fmt: skip
    elif g_x is not None:
        g_x = g_x.reshape(*leading, g_x.shape[-1])
    return g_x, g_weight, kernels.sum_rows(g_rows) if with_bias else None


class Later:
    """A gradient of a shape and type, computed where it is added to a sum.

    It is no array: the engine adds it to a sum that it owns, by `add_to`, or asks for an array, by `dense`.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any, dense: Callable[[], Any], add_to: Callable[[Any], None]):
        self.shape, self.dtype, self.dense, self.add_to = shape, dtype, dense, add_to


# ---- Layers ----


def centred(op: Op, normalised: Any, inverse_std: Any) -> Any:
    """x - mean, which has the gradients of x, from what a layer norm saved.  Shapes: [N, D], [N] -> [..., D]"""
    return (normalised / inverse_std.reshape(-1, 1)).reshape(op.output_specs[0].shape)


class ScaledDotProductAttention(FastOp, nn.ScaledDotProductAttention):
    """Saves: q, k, v, the dropout mask, and on a CPU the probabilities [..., T, S]; a GPU recomputes them from y

    Gradients of results of `LinearHeads` are written where its backward pass reads them.
    """

    recomputes = True

    @classmethod
    def taken_on_cpu(cls, arrays, parameters):
        q, k, v = arrays
        return are_floats(arrays) and q.ndim == k.ndim == v.ndim == 4 and q.shape[:2] == k.shape[:2] == v.shape[:2]

    def forward(self, q, k, v, *, mask, drop, scale):
        self.scale = scale
        keep, self.keep_scale = self.draw(drop)
        y, kept = self.kernels.attention(q, k, v, mask, keep, self.keep_scale, scale)
        self.save(q, k, v, keep, *kept)
        return y

    def read_by_plain(self, q, k, v, *_):
        return None, q, k, v

    def recompute(self, q, k, v, keep, p):
        """The output of what a CPU has saved."""
        return self.kernels.attention(q, k, v, None, keep, self.keep_scale, self.scale, p)[0]

    def backward(self, g_y):
        q, k, v, keep, *kept = self.saved
        behind = [(None, 0) if edge is None else split(edge) for edge in self._edges]
        places = [node.gradient_place(i) if isinstance(node, LinearHeads) else None for node, i in behind]
        return self.kernels.attention_backward(
            g_y, q, k, v, tuple(kept), keep, self.keep_scale, self.scale, places
        )  # fmt: skip


# ---- Fused ops ----


class ScaledEmbedding(FastOp, fused.ScaledEmbedding):
    """Saves: indices and the dropout mask (a large one as bits)"""

    @classmethod
    def taken_on_cpu(cls, arrays, parameters):
        weight, indices, positions = arrays
        return are_floats([weight, positions]) and indices.size > 0 and parameters["dtype"] in (None, weight.dtype)

    def forward(self, weight, indices, positions, *, scale, drop, dtype):
        self.rows, self.scale = len(weight), scale
        keep, self.keep_scale = self.draw(drop)
        self.save(indices, packed(keep))
        return self.kernels.embedding(weight, indices, positions, scale, keep, self.keep_scale, dtype)

    def read_by_plain(self, indices, keep):
        return None, None, indices, None

    def backward(self, g_y):
        indices, keep = self.saved
        needs_weight, _, needs_positions = self.needs_gradient
        drawn = keep if isinstance(keep, Mask) and not needs_positions else None  # a GPU draws it where it adds
        if keep is not None and drawn is None:
            g_y = self.kernels.dropout(g_y, unpacked(keep, g_y.shape), self.keep_scale)
        g_weight = g_positions = None
        if needs_weight:
            g_weight = self._g_weight(g_y.reshape(indices.size, g_y.shape[-1]), indices.reshape(-1), drawn)
            if current_modes().events.after_backward or (self.backend is CPU and indices.size >= self.rows):
                g_weight = g_weight.dense()
        if needs_positions:
            g_positions = self._g_positions(g_y)
        return g_weight, None, g_positions

    def _g_weight(self, g_rows, indices, drop):
        """A gradient that is 0 in most rows: the others are added, each summed before, as `dense` sums it.

        drop: the mask of a dropout of g_rows that is not applied yet, of a GPU

        Shapes: g_rows [N, D], indices int [N]
        """
        kernels, settings = self.kernels, (self.scale, drop)

        def add_to(total: Any) -> None:
            if self.backend is CPU:
                present, place = np.unique(indices, return_inverse=True)
                total[present] += kernels.embedding_backward(g_rows, place, len(present), *settings)
            else:
                kernels.add_embedding_(total, g_rows, indices, *settings)

        def dense() -> Any:
            return kernels.embedding_backward(g_rows, indices, self.rows, *settings)

        return Later((self.rows, g_rows.shape[1]), self.input_specs[0].dtype, dense, add_to)

    def _g_positions(self, g_y):
        """Σ over the batch; in float32 for bfloat16.  Shapes: g_y [..., T, D] -> [T, D]"""
        if g_y.dtype.kind == "f":
            return unbroadcast(g_y, g_y.shape[-2:])
        t, d = g_y.shape[-2:]
        return self.kernels.sum_rows(g_y.reshape(math.prod(g_y.shape[:-2]), t * d)).reshape(t, d)


def layer_norm_backward(op: FastOp, g_y: Any, normalised: Any, *rest: Any) -> tuple[Any, ...]:
    """The gradients of x, the residual, weight and bias.  Shapes: g_y [..., D], normalised [N, D]"""
    if op.backend is not CPU:  # no views, which the engine does not add to
        return op.kernels.dropout_add_layer_norm_backward(g_y, normalised, *rest)
    g_rows = g_y.reshape(normalised.shape)
    g_x, g_residual, *others = op.kernels.dropout_add_layer_norm_backward(g_rows, normalised, *rest)
    return g_x.reshape(g_y.shape), g_residual.reshape(g_y.shape), *others


class DropoutAddLayerNorm(FastOp, fused.DropoutAddLayerNorm):
    """Saves: keep (a large one as bits), x̂ and 1/σ of the sum, bias and weight; neither the sum nor the dropped x"""

    recomputes = True

    def forward(self, x, residual, weight, bias, *, drop, eps):
        width = x.shape[-1]
        keep, self.scale = self.draw(drop, (math.prod(x.shape[:-1]), width))
        y, normalised, inverse_std = self.kernels.dropout_add_layer_norm(
            rows_of(x), rows_of(residual), keep, self.scale, weight, bias, eps
        )
        self.save(packed(keep), bias, normalised, inverse_std, weight)
        return y.reshape(x.shape)

    def read_by_plain(self, keep, bias, normalised, inverse_std, weight):
        total = centred(self, normalised, inverse_std)  # what x and the residual are does not matter, but for their sum
        return None, self.xp.zeros_like(total), total, weight, None

    def recompute(self, keep, bias, normalised, inverse_std, weight):
        """The output of what is saved."""
        return self.kernels.scale_and_shift(normalised, weight, bias).reshape(self.output_specs[0].shape)

    def backward(self, g_y):
        keep, _, normalised, inverse_std, weight = self.saved
        keep = unpacked(keep, normalised.shape)
        return layer_norm_backward(self, g_y, normalised, inverse_std, weight, keep, self.scale)


class LinearRelu(Linear, fused.LinearRelu):
    """Saves: as `Linear`, and y, which the next layer saves anyway"""

    relu = True


class LinearHeads(FastOp, fused.LinearHeads):
    """Saves: x if a weight needs a gradient, and the weights if x does"""

    def forward(self, x, *parameters, heads, count):
        weights, biases = list(parameters[:count]), list(parameters[count:])
        self.heads, self.widths, self.dtype = heads, [len(w) for w in weights], weights[0].dtype
        self.leading, self.count = x.shape[:-1], count
        leaves, leaves_of_biases = self._edges[1 : 1 + count], self._edges[1 + count :]
        weight = self.kernels.stacked(all_in_precision_of(x, leaves, weights))  # [H Σ K_i, D]
        needs_weights = any(self.needs_gradient[1 : 1 + count])
        self.save(x if needs_weights else None, weight if self.needs_gradient[0] else None)
        if self.kernels.uses_epilogues:
            biases = all_in_precision_of(x, leaves_of_biases, biases)
        y = self.kernels.linear(rows_of(x), weight, self.kernels.stacked(biases) if biases else None)
        self.g_y: Any = None  # the memory of all gradients, [rows, H Σ K_i]
        self.places: list[Any] = [None] * count  # views of it that were given to consumers
        return tuple([self._heads(y, i) for i in range(count)])

    def read_by_plain(self, x, weight):
        if weight is None:  # x needs no gradient
            weights = [make_spec((width, x.shape[-1]), self.dtype) for width in self.widths]
        else:
            weights = self.kernels.parted(weight, self.widths)
        return None, x, *weights, *[None] * (len(self._edges) - 1 - self.count)

    def _heads(self, y, i):
        """Output i as a view of y.  Shapes: y [rows, H Σ K_i] -> [..., H, T, K_i]"""
        start, width = sum(self.widths[:i]), self.widths[i]
        columns = y[:, start : start + width]
        return columns.reshape(*self.leading, self.heads, width // self.heads).swapaxes(-2, -3)

    def gradient_place(self, i):
        """Memory for the gradient of output i, to one consumer a backward pass; None to the next."""
        if self.freed or self.places[i] is not None:
            return None
        if self.g_y is None:
            self.g_y = self.xp.empty((math.prod(self.leading), sum(self.widths)), self.output_specs[0].dtype)
        self.places[i] = self._heads(self.g_y, i)
        return self.places[i]

    def backward(self, *g_ys):
        x, weight = self.saved
        places, g_rows = self.places, self.g_y
        if g_rows is None:
            g_rows = self.xp.empty((math.prod(self.leading), sum(self.widths)), g_ys[0].dtype)
        for i, g_y in enumerate(g_ys):
            if g_y is not places[i]:
                self._heads(g_rows, i)[...] = g_y
        self.g_y, self.places = None, [None] * self.count
        with_bias = any(self.needs_gradient[1 + self.count :])
        g_x, g_weights, g_biases = linear_gradients(self, g_rows, weight, x, self.leading, with_bias)
        parts: list[Any] = []
        for g in (g_weights, g_biases):
            parts += [None] * self.count if g is None else self.kernels.parted(g, self.widths)
        needs = self.needs_gradient[1:]  # without biases, half as many as parts
        return g_x, *[part if needed else None for part, needed in zip(parts, needs, strict=False)]


class LinearCrossEntropy(FastOp, fused.LinearCrossEntropy):
    """A block of rows at a time: the logits never stand in memory.

    Saves: the inputs, for derivatives of higher order, and d loss / d inputs, computed in the forward pass while a
           block's exponentials are there; with reduction "none", whose rows get different cotangents, what backward
           computes the logits from again
    """

    def forward(self, x, weight, bias, *, targets, counted, allowed, rows, label_smoothing, reduction):
        self.settings = {"label_smoothing": label_smoothing, "rows": rows}
        self.classes, inputs = len(weight), (x, weight, bias)
        weight = in_precision_of(x, self._edges[1], weight)
        weight, bias, targets = fused.allowed_rows(self.xp, weight, bias, targets, counted, allowed)
        now = any(self.needs_gradient) and reduction != "none"
        wanted = self.needs_gradient if now else (False,) * 3
        arrays = (x, weight, bias, targets, counted)
        losses, *gradients = self.kernels.linear_cross_entropy(*arrays, None, wanted, **self.settings)
        if any(self.needs_gradient):
            self.save(*inputs, *(gradients if now else arrays))
        return tuple(losses if reduction == "none" else nn.reduced(losses, counted, reduction))

    def backward(self, g_loss, _g_nll):
        if self.parameters["reduction"] == "none":
            x, weight, bias, targets, counted = self.saved[3:]
            _, *gradients = self.kernels.linear_cross_entropy(
                x, weight, bias, targets, counted, g_loss, self.needs_gradient, **self.settings
            )
        else:
            factor = nn.of_each(g_loss, self.parameters["counted"], self.parameters["reduction"])
            gradients = list(self.saved[3:])
            if self.backend is not CPU or factor != 1:  # on a GPU, looking at it would wait for the device
                times = partial(self.xp.multiply, casting="same_kind")  # in the type of the gradient
                gradients = [None if g is None else times(g, factor, out=self.xp.empty_like(g)) for g in gradients]
        return tuple([self._of_all_classes(i, g) for i, g in enumerate(gradients)])

    def read_by_plain(self, x, weight, bias, *_):
        return None, x, weight, bias

    def _of_all_classes(self, i, g):
        """Return the gradient of input i, with zeros for classes that were left out, where some were left out."""
        if g is None:
            return None
        if i and (allowed := self.parameters["allowed"]) is not None:
            whole = self.xp.zeros((self.classes, *g.shape[1:]), g.dtype)
            whole[allowed] = g
            return whole
        return g


class Dropout(FastOp, nn.Dropout):
    """Saves: keep, one byte an element"""

    def forward(self, x, *, drop):
        keep, self.scale = self.draw(drop)
        self.save(keep)
        return self.kernels.dropout(x, keep, self.scale)

    def read_by_plain(self, keep):
        return None, None

    def backward(self, g_y):
        (keep,) = self.saved
        return self.kernels.dropout(g_y, keep, self.scale)


class LayerNorm(FastOp, nn.LayerNorm):
    """Saves: x̂ = (x - mean) / σ, 1/σ and the weight; not x and its mean"""

    def forward(self, x, weight, bias, *, eps):
        rows = rows_of(x)
        y, normalised, inverse_std = self.kernels.dropout_add_layer_norm(rows, None, None, 1.0, weight, bias, eps)
        self.save(normalised, inverse_std, weight)
        return y.reshape(x.shape)

    def read_by_plain(self, normalised, inverse_std, weight):
        return None, centred(self, normalised, inverse_std), weight, None

    def backward(self, g_y):
        g_x, _, g_weight, g_bias = layer_norm_backward(self, g_y, *self.saved, None, 1.0)
        return g_x, g_weight, g_bias


IMPLEMENTATIONS: dict[type[Op], type[FastOp]] = {
    nn.Linear: Linear,
    nn.ScaledDotProductAttention: ScaledDotProductAttention,
    nn.Dropout: Dropout,
    nn.LayerNorm: LayerNorm,
    fused.ScaledEmbedding: ScaledEmbedding,
    fused.DropoutAddLayerNorm: DropoutAddLayerNorm,
    fused.LinearRelu: LinearRelu,
    fused.LinearHeads: LinearHeads,
    fused.LinearCrossEntropy: LinearCrossEntropy,
}
"""Plain op -> the class that computes in its place where its guard takes the inputs, on a CPU and on a GPU."""
