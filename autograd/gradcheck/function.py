"""The function under check: its outputs near the inputs, and the gradients of its backward pass.

All that the checker knows of the engine is here: how a graph is made and differentiated, and what an op tells about
itself.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any

import numpy as np

from autograd import engine, functional, modes, random
from autograd.backend import backend_of
from autograd.gradcheck.adapters import GradcheckWarning, Wrapped, as_tuple, is_torch
from autograd.modes import no_grad
from autograd.ops.shape import broadcasts_to
from autograd.tensor import Tensor

Array = np.ndarray
Shape = tuple[int, ...]


class GradcheckError(RuntimeError):
    """A gradient is wrong, or cannot be checked at this point."""


WRONG_SHAPE = re.compile(r"returned a gradient of shape (\([\d, ]*\)) for input \d+ of shape (\([\d, ]*\))")


class WrongShapeError(GradcheckError):
    """An op's backward pass returned a gradient in another shape than that of its input."""


class NotSummedError(WrongShapeError):
    """It returned one in the shape of the output, to which the input was broadcast."""


class NondifferentiableError(GradcheckError):
    """The function has a kink, a jump or the edge of its domain at this point."""


class NotAnalyticError(ValueError):
    """Complex steps do not suit a function, for the reason that is given."""


WIDER = (
    "x.astype('float64'), and Options(float32=True) to compare the gradients in float32 with those in float64; "
    'or precision="float32" for a function that computes in float32 alone'
)


class CheckedFunction:
    """`func` near `inputs`, as a function from vectors to vectors.

    Its input vectors are the elements of each differentiated input, its output vector is the concatenation of all
    differentiable outputs.  In its `with` block, the caller's Tensors hold copies of their data.  They remain the same
    objects, so that a func which closes over them (over a model's parameters) sees every change made here.

    precision: "float32" for inputs in float32, and outputs that may be

    Raises: TypeError or ValueError for inputs that cannot be checked, GradcheckError for such outputs
    """

    def __init__(self, func: Callable[..., Any], inputs: Any, precision: str = "float64"):
        self.precision, self.narrow = precision, precision == "float32"
        self.rounding = float(np.finfo(precision).eps)  # of the outputs, relative to their size
        self.usual = 0.0  # Σ |outputs| at the inputs, of those that are finite
        inputs = [inputs] if hasattr(inputs, "dtype") or not hasattr(inputs, "__iter__") else list(inputs)
        func, parameters = getattr(func, "with_parameters", (func, {}))  # as from_torch and from_pair give them
        self.func = func
        self.parameter_names = [f"the parameter {name!r}" for name in parameters]
        self._take([*inputs, *parameters.values()])

    def _take(self, arguments: list[Any]) -> None:
        """Set the inputs, of which the parameters are the last."""
        self.arguments = arguments
        self.positions: list[int] = []  # of those that are differentiated
        given = len(arguments) - len(self.parameter_names)
        chosen = any((is_torch(x) or isinstance(x, Tensor)) and x.requires_grad for x in arguments[:given])
        for i, x in enumerate(arguments):
            name, dtype, wider = f"input {i}", getattr(x, "dtype", None), WIDER
            if is_torch(x) and x.is_floating_point() and (x.requires_grad or not chosen):
                wider = "x.double()"
                if i >= given:
                    name, wider = self.parameter_names[i - given], "from_torch(module.double())"
                x = arguments[i] = x.detach().cpu().numpy()
            is_real = getattr(getattr(x, "dtype", None), "kind", "") == "f" and getattr(x, "requires_grad", True)
            # A Tensor that is passed twice is one input; an array that is passed twice becomes two Tensors
            if not is_real or any(x is arguments[k] for k in self.positions):
                continue
            if x.dtype.itemsize < np.dtype(self.precision).itemsize:
                raise TypeError(f"{name} is {dtype}, in which small differences are lost to rounding: pass {wider}")
            if isinstance(x, Tensor) and x.op is not None:
                raise ValueError(
                    f"{name} is the result of {x.op}, so its value cannot be varied by itself; "
                    "pass Tensor(x.numpy(), requires_grad=True)"
                )
            self.positions.append(i)
            arguments[i] = x if isinstance(x, Tensor) else Tensor(x, requires_grad=True)
            if np.isnan(arguments[i].numpy()).any():
                raise ValueError(f"{name} contains NaN; gradients can be checked only at numbers")
        if not self.positions:
            found = ", ".join(str(getattr(x, "dtype", type(x).__name__)) for x in arguments)
            raise ValueError(
                f"no input can be differentiated ({found}): pass a float64 array, or a Tensor with requires_grad=True"
            )
        self.tensors: list[Tensor] = [arguments[i] for i in self.positions]
        self.points = [copy_with_layout(tensor.numpy(), self.precision) for tensor in self.tensors]
        self.middle = np.zeros(0)  # [M], the output vector at the points
        self.outputs: list[int] = []  # positions of the differentiable outputs
        self.output_shapes: list[Shape] = []
        self.several = False

    def __enter__(self) -> CheckedFunction:
        self._callers_data = [tensor.data for tensor in self.tensors]
        self._random_state = random.get_state()
        self.move()
        return self

    def __exit__(self, *_: object) -> None:
        for tensor, data in zip(self.tensors, self._callers_data, strict=True):
            tensor.data = data
        random.set_state(self._random_state)

    def at(self, points: Sequence[Array]) -> CheckedFunction:
        """Return the function at another point."""
        there = copy(self)
        there.points = list(points)
        return there

    def of(self, arguments: Iterable[Any]) -> CheckedFunction:
        """Return the function of other arguments.  Raises: TypeError or ValueError for those that cannot be checked"""
        other = copy(self)
        other._take(list(arguments))
        return other

    # ---- Forward ----

    def move(self) -> None:
        """Set the inputs to the points."""
        for tensor, point in zip(self.tensors, self.points, strict=True):
            tensor.data = backend_of([tensor.data]).asarray(point)

    def call(self) -> tuple[Tensor, ...]:
        """All outputs."""
        self.move()
        try:
            outputs = self.func(*self.arguments)
        except Exception as error:
            if not self.output_shapes and (hint := self._hint(str(error))):  # in the first call
                error.add_note(hint)
            raise
        self.several, outputs = isinstance(outputs, (tuple, list)), as_tuple(outputs)
        for j, y in enumerate(outputs):
            if not isinstance(y, Tensor):
                raise TypeError(
                    f"output {j} of the function is a {type(y).__name__}; return a Tensor or a tuple of Tensors\n"
                    + self._hint(str(type(y)))
                )
        return outputs

    def _hint(self, symptom: str) -> str:
        """Return the wrapper for a function of PyTorch's tensors, of float32 numbers, or of NumPy's arrays."""
        if "must be Tensor, not" in symptom or "<class 'torch." in symptom:
            return (
                "the function computes with PyTorch's tensors, and here it got one of autograd's: check "
                "autograd.gradcheck.from_torch(function)"
            )
        if not self.narrow and re.search("float32|'float'|float64|double", symptom, re.IGNORECASE):
            return (
                "the function seems to refuse float64: if its library computes in float32 alone, check it with "
                'precision="float32"; otherwise let a wrapper convert what it takes and returns (x.astype(...))'
            )
        if hasattr(self.func, "__wrapped__"):  # by from_vjp, from_pair or from_torch
            return ""
        return (
            "if the function computes with NumPy arrays, no graph is recorded and there is no backward pass to check: "
            "check autograd.gradcheck.from_vjp(function, vjp), where vjp(g, *inputs) returns the gradient of "
            "(g * function(*inputs)).sum() by each input; or compute with the functions of autograd on Tensors "
            "(autograd.exp for np.exp)"
        )

    def select_outputs(self, outputs: Sequence[Tensor]) -> None:
        """Note which outputs have a graph, and their values.

        Raises: GradcheckError if there is none, or if one is not float64
        """
        self.outputs = [j for j, y in enumerate(outputs) if y.requires_grad]
        self.output_shapes = [outputs[j].shape for j in self.outputs]
        if not self.outputs:
            raise GradcheckError(
                "no output requires a gradient: the function left the graph (through .data, .numpy(), detach(), "
                "no_grad() or an integer type), or does not use the inputs to differentiate"
            )
        for j in self.outputs:
            if outputs[j].dtype.itemsize < np.dtype(self.precision).itemsize:
                raise GradcheckError(
                    f"output {j} is {outputs[j].dtype} for {self.precision} inputs: rounding would hide the "
                    "differences; find the cast (astype, an array made without dtype) and keep float64 while checking, "
                    'or check a function that computes in float32 with precision="float32"'
                )
        self.middle = self.vector(outputs)

    def warn_of_others(self, outputs: Sequence[Tensor]) -> None:
        """Warn of Tensors that the outputs depend on, require a gradient, and are not among the inputs."""
        known = {id(x) for x in self.tensors}
        others: list[str] = []
        for node in functional.ancestors([y for y in outputs if y.requires_grad]):
            if isinstance(node, Wrapped):
                others += node.unchecked()
            elif isinstance(node, Tensor) and id(node) not in known:
                others.append(str(node.shape))
        if others:
            module = ", or a module itself to from_torch" if any("PyTorch" in shape for shape in others) else ""
            warnings.warn(
                f"the function also depends on {len(others)} Tensor(s) that require a gradient and are not among the "
                f"inputs (of shape {', '.join(others)}): their gradients are not checked; pass them too{module}",
                GradcheckWarning,
                stacklevel=5,
            )

    def vector(self, outputs: Sequence[Tensor]) -> Array:
        """Return the elements of all differentiable outputs, copied."""
        values = joined([outputs[j].numpy() for j in self.outputs])
        return values.astype(np.result_type(np.float64, values), copy=False)

    def evaluate(self) -> Array:
        """Return the output vector, computed without a graph.  Shapes: -> [M]"""
        with no_grad():
            return self.vector(self.call())

    def evaluate_complex(self, points: Sequence[Array]) -> Array:
        """Return the output vector at complex `points`.  Shapes: -> [M]

        Raises: NotAnalyticError if the function stops, or an op drops imaginary parts
        """
        ops = _OpAtWork()
        try:
            with warnings.catch_warnings(), modes.observe(ops):
                warnings.simplefilter("error", np.exceptions.ComplexWarning)
                return self.at(points).evaluate()
        except NotAnalyticError:
            raise
        except Exception as error:  # a function of real numbers may stop in any way
            raise NotAnalyticError(f"{ops.op or 'it'} stops with {type(error).__name__}: {error}") from error

    # ---- Backward ----

    def split(self, vector: Array) -> list[Array]:
        """Return an output vector as arrays of the outputs' shapes, copied."""
        return parts_of(vector.copy(), self.output_shapes)

    def gradients(self, weights: Array) -> list[Array]:
        """Gradients of weights · output, by a new graph.  Shapes: weights [M] -> that of each input"""
        return self.pull(self.call(), self.split(weights))

    def pull(
        self, outputs: Sequence[Tensor], cotangents: Sequence[Array | None], *, retain: bool = False
    ) -> list[Array]:
        """Gradients of Σ cotangent · output, one array per input: zeros for an input that requires no gradient now.

        cotangents: of the differentiable ones of all outputs; None leaves an output out

        Raises: GradcheckError if an op's gradient does not fit its input
        """
        pairs = [(y, c if c.dtype == y.dtype else c.astype(y.dtype, order="K"))
                 for y, c in zip([outputs[j] for j in self.outputs], cotangents, strict=True)
                 if c is not None and y.requires_grad]  # fmt: skip
        active = [tensor for tensor in self.tensors if tensor.requires_grad]
        last = _OpAtWork()
        try:
            with modes.observe(last):
                found = functional.grad(
                    [y for y, _ in pairs], active, [c for _, c in pairs], retain_graph=retain, allow_unused=True
                )
        except (RuntimeError, ValueError, IndexError, KeyError, ArithmeticError) as error:
            raise _backward_error(str(error), last.op) from error
        gradients = iter(found)
        return [
            np.zeros(point.shape) if not tensor.requires_grad or (g := next(gradients)) is None
            else np.array(g.numpy(), dtype=np.float64)
            for tensor, point in zip(self.tensors, self.points, strict=True)
        ]  # fmt: skip

    def jacobian(self) -> list[Array]:
        """Analytic d output / d input, by one backward pass through a new graph per row.

        Each row is the gradient of one output alone, so that ops with several outputs are also run with cotangents that
        are missing.

        Shapes: -> [M, n_i] for each input
        """
        rows, count = [], sum(map(math.prod, self.output_shapes))
        for row in range(count):
            cotangents = [c if c.any() else None for c in self.split(np.eye(1, count, row)[0])]
            rows.append(joined(self.pull(self.call(), cotangents)))
        sizes = [x.size for x in self.points]
        return np.split(np.array(rows).reshape(count, sum(sizes)), np.cumsum(sizes)[:-1], axis=1)

    # ---- Names for messages ----

    def input_name(self, i: int, place: int | None = None) -> str:
        """Return the name of input i in messages, with the index of its element `place`."""
        inputs = len(self.arguments) - len(self.parameter_names)
        names = ["the input"] if inputs == 1 else [f"input {k}" for k in range(inputs)]
        name = [*names, *self.parameter_names][self.positions[i]]
        return name if place is None else name + _subscript(self.points[i].shape, place)

    def output_name(self, row: int) -> str:
        """Return the output and the index that a row of the Jacobian belongs to."""
        j, place = locate(row, self.output_shapes)
        name = f"output {self.outputs[j]}" if self.several else "the output"
        return name + _subscript(self.output_shapes[j], place)


class _OpAtWork(modes.Observer):
    """The op whose forward or backward pass ran last, which explains an error."""

    op: engine.Op | None = None
    complex_input = False

    def before_forward(self, op: engine.Op, arrays: Sequence[Any]) -> None:
        self.op = op
        self.complex_input = any(getattr(getattr(a, "dtype", None), "kind", "") == "c" for a in arrays)

    def after_forward(self, op: engine.Op, outputs: Sequence[Any]) -> None:
        if self.complex_input and any(y.dtype.kind == "f" for y in outputs):
            raise NotAnalyticError(f"{op} turns complex numbers into real ones")

    def before_backward(self, op: engine.Op, g_outputs: Sequence[Any]) -> None:
        self.op = op


def _backward_error(message: str, op: engine.Op | None) -> GradcheckError:
    """The error about a backward pass that stopped, with the likely cause of a wrong shape."""
    message = f"the backward pass stopped: {message}"
    wrong = WRONG_SHAPE.search(message)
    if wrong is None or op is None:
        return GradcheckError(message)
    found, expected = map(ast.literal_eval, wrong.groups())
    of_output = found in [spec.shape for spec in op.output_specs]
    causes = [
        (broadcasts_to(expected, found),
         "a missing sum over the axes along which the input was broadcast; sum over them, or set broadcasts = True in "
         "the op's class and the engine will"),
        (of_output and math.prod(found) < math.prod(expected),
         "the gradient of a reduced axis is not broadcast back to the input: give it the reduced axis again (as by "
         "keepdims=True, or np.expand_dims(g, axis)), then np.broadcast_to(g, x.shape)"),
        (found == expected[::-1], "the gradient is transposed: return its .T, or exchange the factors of the product"),
        (math.prod(found) == math.prod(expected),
         "the gradient is not brought back to the shape of the input: g.reshape(x.shape), or axes in another order"),
    ]  # fmt: skip
    cause = next((f"\nlikely cause: {text}" for applies, text in causes if applies), "")
    return (NotSummedError if of_output and broadcasts_to(expected, found) else WrongShapeError)(message + cause)


def arrange(array: Array, order: Sequence[int], steps: Sequence[int], dtype: Any = None) -> Array:
    """Copy an array into memory where its axes follow each other in `order`, each reversed or with gaps by its step.

    The gaps, which no op may read, hold NaN.
    """
    dtype = np.dtype(array.dtype if dtype is None else dtype)
    sides = [array.shape[i] * abs(steps[i]) for i in order]
    room = np.full(sides, np.nan if dtype.kind in "fc" else 0, dtype)
    every: tuple[Any, ...] = (*[slice(None, None, int(step)) for step in steps], ...)  # `...`: 0-d stays an array
    view = room.transpose(np.argsort(np.asarray(order, int)))[every]
    view[...] = array
    return view


def copy_with_layout(a: Array, dtype: Any = None) -> Array:
    """Return a writable copy in which axes follow each other in memory as in `a`: with its order, direction and gaps.

    Ops take other paths for arrays that are not contiguous, so a check must not make them so.  Memory that several
    elements share (broadcasting) becomes separate, or no element could be varied alone.
    """
    if a.flags.forc or not a.size:
        return a.astype(a.dtype if dtype is None else dtype, order="K", copy=True)
    order = sorted(range(a.ndim), key=lambda i: -abs(a.strides[i]))
    steps = [-1 if stride < 0 else 1 for stride in a.strides]
    if abs(a.strides[order[-1]]) > a.itemsize:
        steps[order[-1]] *= 2
    return arrange(a, order, steps, dtype)


def joined(arrays: Iterable[Array]) -> Array:
    """Return the elements of all arrays in one vector."""
    return np.concatenate([np.reshape(a, -1) for a in arrays])


def places_of(shapes: Sequence[Shape]) -> list[slice]:
    """Return the places of the arrays of these shapes in the vector in which they are `joined`."""
    ends = [0, *itertools.accumulate(map(math.prod, shapes))]
    return [slice(*pair) for pair in itertools.pairwise(ends)]


def parts_of(vector: Array, shapes: Sequence[Shape]) -> list[Array]:
    """Return the arrays of these shapes whose elements are `joined` in a vector."""
    return [vector[places].reshape(shape) for places, shape in zip(places_of(shapes), shapes, strict=True)]


def locate(place: int, shapes: Sequence[Shape]) -> tuple[int, int]:
    """Return the array, and its element, that stand at a place of the vector in which arrays are `joined`."""
    return next((i, place - part.start) for i, part in enumerate(places_of(shapes)) if place < part.stop)


def _subscript(shape: Shape, place: int) -> str:
    return str([int(k) for k in np.unravel_index(place, shape)]) if shape else ""
