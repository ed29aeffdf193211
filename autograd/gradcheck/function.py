"""The function under check: its outputs near the inputs, and the gradients of its backward pass."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autograd import differentiate, engine, modes, random
from autograd.backend import backend_of
from autograd.gradcheck import GradcheckError
from autograd.tensor import Tensor

Array = np.ndarray
Shape = tuple[int, ...]


class CheckedFunction:
    """`func` near `inputs`, as a function from vectors to vectors.

    Its input vectors are the elements of each differentiated input, its output vector is the concatenation of all
    differentiable outputs.  In its `with` block, the caller's Tensors hold copies of their data.  They remain the same
    objects, so that a func which closes over them (over a model's parameters) sees every change made here.

    Raises: TypeError or ValueError for inputs that cannot be checked, GradcheckError for such outputs
    """

    def __init__(self, func: Callable[..., Any], inputs: Any):
        self.func = func
        if isinstance(inputs, Tensor) or hasattr(inputs, "dtype"):
            inputs = [inputs]
        first = {id(x): i for i, x in reversed(list(enumerate(inputs)))}
        self.positions = [
            i
            for i, x in enumerate(inputs)
            if _is_differentiated(x) and (first[id(x)] == i or not isinstance(x, Tensor))
        ]  # a Tensor that is passed twice is one input; an array that is passed twice becomes two Tensors
        if not self.positions:
            raise ValueError(
                "no input is to be differentiated: pass a float64 array, or a Tensor with requires_grad=True"
            )
        for i in self.positions:
            _check_input(i, inputs[i])
        self.arguments = list(inputs)
        for i in self.positions:
            if not isinstance(inputs[i], Tensor):
                self.arguments[i] = Tensor(inputs[i], requires_grad=True)
        self.tensors: list[Tensor] = [self.arguments[i] for i in self.positions]
        self.backends = [backend_of([tensor.data]) for tensor in self.tensors]
        self.points = [copy_with_layout(tensor.numpy()) for tensor in self.tensors]
        self.outputs: list[int] = []  # positions of the differentiable outputs
        self.output_shapes: list[Shape] = []
        self.several = False

    def __enter__(self) -> CheckedFunction:
        self._callers_data = [tensor.data for tensor in self.tensors]
        self._random_state = random.get_state()
        return self

    def __exit__(self, *_: object) -> None:
        for tensor, data in zip(self.tensors, self._callers_data, strict=True):
            tensor.data = data
        random.set_state(self._random_state)

    # ---- Forward ----

    def call(self, points: Sequence[Array] | None = None) -> tuple[Tensor, ...]:
        """All outputs at `points`, by default at the inputs."""
        points = self.points if points is None else points
        for tensor, backend, point in zip(self.tensors, self.backends, points, strict=True):
            tensor.data = backend.asarray(point)
        try:
            outputs = self.func(*self.arguments)
        except (TypeError, ValueError, AttributeError) as error:
            hint = "" if self.output_shapes else self._hint(str(error))
            if hint:
                raise TypeError(hint) from error
            raise
        self.several = isinstance(outputs, (tuple, list))
        outputs = tuple(outputs) if self.several else (outputs,)
        for j, y in enumerate(outputs):
            if not isinstance(y, Tensor):
                raise TypeError(
                    f"output {j} of the function is a {type(y).__name__}; return a Tensor or a tuple of Tensors"
                    + self._hint(str(type(y)), "\n")
                )
        return outputs

    def _hint(self, symptom: str, start: str = "") -> str:
        """What to do about a function of NumPy's arrays or of PyTorch's tensors; "" for any other."""
        if "must be Tensor, not" in symptom or "<class 'torch." in symptom:
            return (
                f"{start}the function computes with PyTorch's tensors, and here it got one of autograd's: check "
                "autograd.testing.from_torch(function)"
            )
        arrays = [x.numpy().copy() if isinstance(x, Tensor) else x for x in self.arguments]
        try:
            with np.errstate(all="ignore"):
                outputs = self.func(*arrays)
        except Exception:  # whatever it computes with, it is not arrays
            return ""
        outputs = outputs if isinstance(outputs, (tuple, list)) and outputs else (outputs,)
        if not all(isinstance(y, (np.ndarray, np.generic, float)) for y in outputs):
            return ""
        return (
            f"{start}the function computes with NumPy arrays, so that no graph is recorded and there is no backward "
            "pass to check: check autograd.testing.from_vjp(function, vjp), where vjp(g, *inputs) returns the gradient "
            "of (g * function(*inputs)).sum() by each input; or compute with the functions of autograd (autograd.exp "
            "for np.exp) on Tensors"
        )

    def select_outputs(self, outputs: Sequence[Tensor]) -> None:
        """Note which outputs have a graph.

        Raises: GradcheckError if there is none, or if one is not float64
        """
        self.outputs = [j for j, y in enumerate(outputs) if y.requires_grad]
        self.output_shapes = [outputs[j].shape for j in self.outputs]
        if not self.outputs:
            raise GradcheckError(
                "no output requires a gradient: the function left the graph (through .data, .numpy(), detach(), "
                "no_grad() or an integer type), or does not use the inputs that are to be differentiated"
            )
        for j in self.outputs:
            if outputs[j].dtype.itemsize < 8:
                raise GradcheckError(
                    f"output {j} is {outputs[j].dtype} for float64 inputs: differences would drown in its rounding; "
                    "find what narrows it (astype, an array made without dtype) and keep float64 while checking"
                )

    def vector(self, outputs: Sequence[Tensor]) -> Array:
        """The elements of all differentiable outputs, copied."""
        parts = [outputs[j].numpy().reshape(-1) for j in self.outputs]
        return np.concatenate(parts).astype(np.result_type(np.float64, *parts), copy=False)

    def evaluate(self, points: Sequence[Array] | None = None) -> Array:
        """The output vector at `points`, computed without a graph.  Shapes: -> [M]"""
        with modes.no_grad():
            return self.vector(self.call(points))

    # ---- Backward ----

    def split(self, vector: Array) -> list[Array]:
        """An output vector as arrays of the outputs' shapes."""
        parts = np.split(vector, self._ends()[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, self.output_shapes, strict=True)]

    def pull(
        self, outputs: Sequence[Tensor], cotangents: Sequence[Array | None], *, retain: bool = False
    ) -> list[Array]:
        """Gradients of Σ cotangent · output, one array per input; outputs whose cotangent is None are left out.

        Zeros for an input that requires no gradient now.

        Raises: GradcheckError if an op's gradient does not fit its input
        """
        chosen = [(outputs[j], c) for j, c in zip(self.outputs, cotangents, strict=True) if c is not None]
        return self.pull_pairs([(y, c) for y, c in chosen if y.requires_grad], retain=retain)

    def pull_pairs(self, pairs: Sequence[tuple[Tensor, Array]], *, retain: bool = False) -> list[Array]:
        """Likewise, of (output, cotangent) that may be outputs of several calls."""
        active = [tensor for tensor in self.tensors if tensor.requires_grad]
        last = _LastOp()
        try:
            with modes.watch(last):
                found = differentiate.grad(
                    [y for y, _ in pairs], active, [c for _, c in pairs], retain_graph=retain, allow_unused=True
                )
        except RuntimeError as error:
            raise GradcheckError(f"the backward pass stopped: {error}{last.hint()}") from error
        gradients = iter(found)
        return [
            np.zeros(point.shape) if not tensor.requires_grad or (g := next(gradients)) is None
            else np.array(g.numpy(), dtype=np.float64)
            for tensor, point in zip(self.tensors, self.points, strict=True)
        ]  # fmt: skip

    def pull_vector(self, cotangent: Array) -> list[Array]:
        """Gradients of cotangent · output as vectors, by a new graph.  Shapes: [M] -> [n_i] for each input"""
        return [g.reshape(-1) for g in self.pull(self.call(), self.split(cotangent))]

    def jacobian(self) -> list[Array]:
        """Analytic d output / d input, by one backward pass through a new graph per row.

        Each row is the gradient of one output alone, so that ops with several outputs are also run with cotangents that
        are missing.

        Shapes: -> [M, n_i] for each input
        """
        rows: list[list[Array]] = []
        for j, shape in enumerate(self.output_shapes):
            for place in np.ndindex(*shape):
                cotangents: list[Array | None] = [None] * len(self.outputs)
                cotangents[j] = unit = np.zeros(shape)
                unit[place] = 1.0
                rows.append([g.reshape(-1) for g in self.pull(self.call(), cotangents)])
        return [
            np.array([row[i] for row in rows]).reshape(len(rows), point.size) for i, point in enumerate(self.points)
        ]

    # ---- Names for messages ----

    def input_name(self, i: int, place: int | None = None) -> str:
        name = f"input {self.positions[i]}" if len(self.arguments) > 1 else "the input"
        return name if place is None else name + _subscript(self.points[i].shape, place)

    def output_name(self, row: int) -> str:
        """The output and the index that a row of the Jacobian belongs to."""
        j, place = self.locate(row)
        name = f"output {self.outputs[j]}" if self.several else "the output"
        return name + _subscript(self.output_shapes[j], place)

    def locate(self, row: int) -> tuple[int, int]:
        """The differentiable output that a row of the Jacobian belongs to, and the element of it."""
        j = int(np.searchsorted(self._ends(), row, side="right"))
        return j, row - self.rows_of(j).start

    def rows_of(self, j: int) -> slice:
        """The rows of the Jacobian that belong to a differentiable output."""
        ends = [0, *self._ends()]
        return slice(ends[j], ends[j + 1])

    def _ends(self) -> list[int]:
        return list(itertools.accumulate(math.prod(shape) for shape in self.output_shapes))


class _LastOp(modes.Watcher):
    """The op whose backward pass ran last, to explain what it returned."""

    op: engine.Op | None = None
    g_outputs: Sequence[Any] = ()

    def before_backward(self, op: engine.Op, g_outputs: Sequence[Any]) -> None:
        self.op, self.g_outputs = op, g_outputs

    def hint(self) -> str:
        """Where a gradient has the shape of the result of broadcasting its input: what to do about it."""
        if self.op is None or self.op.broadcasts:
            return ""
        try:
            result = self.op.backward(*self.g_outputs)
        except RuntimeError:  # this is the error to explain, and it explains itself
            return ""
        for g, spec in zip(result if isinstance(result, tuple) else (result,), self.op.input_specs, strict=False):
            if g is not None and spec is not None and np.shape(g) != spec[0]:
                cause = _cause_of_shape(np.shape(g), spec[0], [shape for shape, _ in self.op.output_specs])
                return f"\nlikely cause: {cause}" if cause else ""
        return ""


def _broadcasts_to(small: Shape, large: Shape) -> bool:
    if small == large or len(small) > len(large):
        return False
    return all(n in (1, m) for n, m in zip(reversed(small), reversed(large), strict=False))


def _cause_of_shape(found: Shape, expected: Shape, outputs: Sequence[Shape]) -> str:
    """Why a gradient has shape `found` for an input of shape `expected`."""
    if _broadcasts_to(expected, found):
        return (
            "a missing sum over the axes along which the input was broadcast; sum over them, or set broadcasts = True "
            "in the op's class and the engine will"
        )
    if found in outputs and math.prod(found) < math.prod(expected):
        return (
            "the gradient of a reduced axis is not broadcast back to the input: give it the reduced axis again (as by "
            "keepdims=True, or np.expand_dims(g, axis)), then np.broadcast_to(g, x.shape)"
        )
    if found == expected[::-1]:
        return "the gradient is transposed: return its .T, or exchange the factors of the product"
    if math.prod(found) == math.prod(expected):
        return (
            "the gradient is not brought back to the shape of the input: g.reshape(x.shape), or axes in another order"
        )
    return ""


def _is_differentiated(x: Any) -> bool:
    if isinstance(x, Tensor):
        return x.requires_grad
    return hasattr(x, "dtype") and hasattr(x, "shape") and x.dtype.kind == "f"


def _check_input(position: int, x: Any) -> None:
    if x.dtype != np.float64:
        raise TypeError(
            f"input {position} is {x.dtype}, in which small differences are lost to rounding: pass "
            "x.astype('float64'), and float32=True to compare the gradients in float32 with those in float64"
        )
    if isinstance(x, Tensor) and x.op is not None:
        raise ValueError(
            f"input {position} is the result of {x.op}, so its value cannot be varied by itself; "
            "pass Tensor(x.numpy(), requires_grad=True)"
        )
    if np.isnan(x.numpy() if isinstance(x, Tensor) else x).any():
        raise ValueError(f"input {position} contains NaN; gradients can be checked at numbers only")


def copy_with_layout(a: Array, dtype: Any = None) -> Array:
    """A writable copy in which axes follow each other in memory as in `a`: with its order, direction and gaps.

    Ops take other paths for arrays that are not contiguous, so a check must not make them so.  Memory that several
    elements share (broadcasting) becomes separate, or no element could be varied alone.
    """
    dtype = a.dtype if dtype is None else dtype
    if a.flags.forc or not a.size:
        return a.astype(dtype, order="K", copy=True)
    order = sorted(range(a.ndim), key=lambda i: -abs(a.strides[i]))
    gaps = [1] * a.ndim
    if abs(a.strides[order[-1]]) > a.itemsize:
        gaps[order[-1]] = 2
    room = np.full([a.shape[i] * gaps[i] for i in order], np.nan, dtype)
    steps = [-gap if stride < 0 else gap for gap, stride in zip(gaps, a.strides, strict=True)]
    view = room.transpose(np.argsort(order))[tuple([slice(None, None, step) for step in steps])]
    view[...] = a
    return view


def _subscript(shape: tuple[int, ...], place: int) -> str:
    return str([int(k) for k in np.unravel_index(place, shape)]) if shape else ""
