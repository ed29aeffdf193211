"""Checks of a gradient at inputs of other shapes, at repeated indices, and where one array is passed twice.

A function may be right for the inputs of a check and wrong for an axis of size 1, an empty array, or a row that an
index names twice.  Each of these is tried where the function takes it.  A function may refuse what nobody gave it, by
any error in its forward or backward pass: an error is no wrong gradient.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from autograd.gradcheck.function import CheckedFunction, GradcheckError, WrongShapeError
from autograd.gradcheck.jacobians import Elsewhere, size_of_outputs
from autograd.gradcheck.numerical import size_of
from autograd.ops.shape import broadcasts_to
from autograd.tensor import Tensor

Array = np.ndarray
Rng = np.random.Generator
Shape = tuple[int, ...]

LARGE = (70, 1100)  # elements to grow to: beyond a row of 64, beyond a block of 1,024, no multiple of either
MOST = 2_000_000  # elements of an output to grow to
PAIRS = 3  # the most pairs of inputs that are given one array


def check_other_inputs(function: CheckedFunction, rng: Rng, atol: float, rtol: float) -> None:
    """Compare the gradients at other inputs with differences along a random direction.

    atol, rtol: as in `check_points`

    Raises: GradcheckError if they differ
    """
    function.evaluate()  # a function that reads its Tensors by itself finds the given inputs in them
    trials = _Trials(function, rng, atol, rtol)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trials.other_sizes()
        trials.other_broadcasts()
        trials.numbers()
        trials.other_indices()
        trials.one_array_twice()


@dataclass
class _Trials:
    function: CheckedFunction
    rng: Rng
    atol: float
    rtol: float

    def __post_init__(self) -> None:
        self.usual = size_of_outputs(self.function, np.ones(sum(map(math.prod, self.function.output_shapes))))
        self.given = [x.numpy().copy() if isinstance(x, Tensor) else x for x in self.function.arguments]
        self.arrays = [k for k, x in enumerate(self.given) if isinstance(x, np.ndarray)]
        self.outputs = self.function.output_shapes
        self.fixed = False  # whether some size cannot change

    # ---- Shapes ----

    def other_sizes(self) -> None:
        """All axes of one size become longer together, then 1, then 0: a function asks some of them to be equal.

        A function that takes no longer ones closes over an array of this size, against which an axis of size 1 would be
        broadcast.  One that takes any size but 1 has forgotten it, even if its backward pass then stops.
        """
        for n in sorted({n for k in self.arrays for n in self.given[k].shape if n > 1}):
            grows = [self._resized(n, m, "larger arrays") for m in self._longer(n)]
            if any(grows):
                self._resized(n, 1, "axes of size 1", loud=True)
                self._resized(n, 0, "empty arrays")
            else:
                self.fixed = True

    def _longer(self, n: int) -> list[int]:
        """Sizes of the axes for which the largest array of them has as many elements as those of LARGE.

        Smaller ones for outputs with more such axes than inputs have, which would fill the memory.
        """

        def size_for(shape: Shape, elements: int) -> float:
            axes = shape.count(n)
            return float((elements / max(1, math.prod(shape) // n**axes)) ** (1 / axes))

        shape = max((self.given[k].shape for k in self.arrays if n in self.given[k].shape), key=math.prod)
        most = min([size_for(output, MOST) for output in self.outputs if n in output], default=math.inf)
        return [max(n + 1, math.ceil(min(size_for(shape, large), most))) for large in LARGE]

    def _resized(self, n: int, m: int, what: str, loud: bool = False) -> bool:
        arguments = list(self.given)
        for k in self.arrays:
            shape = tuple([m if side == n else side for side in self.given[k].shape])
            if shape != self.given[k].shape:
                resized = self._in_shape(self.given[k], shape)
                if resized is None:
                    return False
                arguments[k] = resized

        def follows(shapes: list[Shape]) -> bool:
            """Whether no axis kept its size, as one does that comes from an array that the function closes over."""
            kept = any(a == b == n for old, new in zip(self.outputs, shapes, strict=True)
                       for a, b in zip(old, new, strict=True))  # fmt: skip
            return not kept and (m == 0 or all(math.prod(shape) for shape in shapes))

        same_ndim = [len(shape) for shape in self.outputs]
        return self._try(
            arguments, f"{what}, of shape {self._shapes(arguments)}",
            lambda shapes: [len(shape) for shape in shapes] == same_ndim and follows(shapes),
            loud=lambda error: loud,
        )  # fmt: skip

    def _in_shape(self, x: Array, shape: Shape) -> Array | None:
        """Elements of x in another shape: the first ones of each axis, or drawn from them all and changed by up to 3 %.

        None for indices that occur once each and are to become more: what follows from that, a permutation say, is
        not known.
        """
        if all(m <= n for m, n in zip(shape, x.shape, strict=False)) and len(shape) == x.ndim:
            return np.array(x[tuple(slice(m) for m in shape)])
        if x.dtype.kind not in "fc" and x.dtype != bool and len(np.unique(x)) == x.size:
            return None
        drawn = self.rng.choice(x.reshape(-1), shape) if x.size else np.ones(shape, x.dtype)
        return drawn * self.rng.uniform(0.97, 1.03, shape) if x.dtype.kind == "f" else drawn

    def other_broadcasts(self) -> None:
        """Each input in turn in all shapes that broadcast to that of the output, while the others keep theirs."""
        if len(self.arrays) < 2 or len(self.outputs) != 1 or 0 in (shape := self.outputs[0]):
            return
        for k in self.function.positions:
            own = self.given[k].shape
            if not broadcasts_to(own, shape):
                continue
            summed = own != shape  # the backward pass sums over some axis
            for other in _broadcastable(shape):
                if other == own:
                    continue
                arguments = list(self.given)
                arguments[k] = self._in_shape(self.given[k], other)
                self._try(
                    arguments, f"other broadcasts, of shape {self._shapes(arguments)}",
                    lambda shapes: shapes == self.outputs,
                    loud=lambda error, summed=summed: summed and error.is_not_summed,
                )  # fmt: skip

    def numbers(self) -> None:
        """The first element of each array, without axes."""
        if (
            not self.fixed
            and any(self.given[k].ndim for k in self.arrays)
            and all(self.given[k].size for k in self.arrays)
        ):
            arguments = [x.reshape(-1)[:1].reshape(()) if isinstance(x, np.ndarray) else x for x in self.given]
            self._try(arguments, "arrays of shape ()", lambda shapes: all(shape == () for shape in shapes))

    def _shapes(self, arguments: list[Any]) -> str:
        return " and ".join(str(arguments[k].shape) for k in self.arrays)

    # ---- Values ----

    def other_indices(self) -> None:
        """Integers that are all different are repeated, and masks inverted."""
        for k in self.arrays:
            x, arguments = self.given[k], list(self.given)
            if x.dtype == bool:
                arguments[k] = ~x
                self._try(arguments, f"input {k} inverted", lambda shapes: True)
            elif x.dtype.kind in "iu" and x.size > 1 and len(np.unique(x)) == x.size:
                arguments[k] = np.resize(x.reshape(-1)[: max(1, x.size // 2)], x.shape)
                self._try(arguments, f"repeated indices in input {k}", lambda shapes: shapes == self.outputs, True)

    def one_array_twice(self) -> None:
        """f(x, x): one Tensor in place of two."""
        positions = self.function.positions
        pairs = [(i, j) for i in positions for j in positions if i < j and self.given[i].shape == self.given[j].shape]
        for i, j in pairs[:PAIRS]:
            arguments = list(self.given)
            arguments[i] = arguments[j] = self._tensor(i, self.given[i])
            self._try(arguments, f"one Tensor for input {i} and input {j}", lambda shapes: shapes == self.outputs)

    # ---- One trial ----

    def _tensor(self, k: int, array: Array) -> Tensor:
        backend = self.function.backends[self.function.positions.index(k)]
        return Tensor(backend.asarray(array.copy()), requires_grad=True)

    def _arguments(self, changed: list[Any]) -> Iterator[Any]:
        for k, (x, original) in enumerate(zip(changed, self.function.arguments, strict=True)):
            if isinstance(x, Tensor) or not isinstance(original, Tensor):
                yield x
            elif k in self.function.positions:
                yield self._tensor(k, x)
            elif original.requires_grad:  # the same Tensor as another input
                yield self._tensor(self._first(original), x)
            else:
                yield Tensor(x) if x is not self.given[k] else original

    def _first(self, tensor: Tensor) -> int:
        return next(k for k in self.function.positions if self.function.arguments[k] is tensor)

    def _try(self, changed: list[Any], what: str, expected: Any, only_lost: bool = False, loud: Any = None) -> bool:
        """Return whether the function takes these inputs, and its gradient is right.

        expected: says of the shapes of the outputs whether it does what it does for the given inputs
        only_lost: True where a gradient at elements that the function does not use says that it asks for other inputs:
            y[i] = x and its g[i] for different places i, x[i] and its g[argsort(i)] for a permutation
        loud: says of a gradient in a wrong shape whether it is a mistake; by default, it is a refusal

        Raises: GradcheckError for a wrong gradient
        """
        try:
            other = CheckedFunction(
                self.function.func, list(self._arguments(changed)), self.function.parameter_names,
                self.function.precision,
            )  # fmt: skip
            other.rounding = self.function.rounding
        except Exception:  # NaN, or another Tensor than the function takes
            return False
        with other:
            try:
                outputs = other.call()
                other.select_outputs(outputs)
                values = other.vector(outputs)
                if len(other.outputs) != len(self.outputs) or not expected(other.output_shapes):
                    return False
            except Exception:
                return False
            if not np.isfinite(values).all():
                return False
            weights = self.rng.standard_normal(values.size)
            try:
                gradients = other.pull(outputs, other.split(weights))
            except WrongShapeError as error:
                if loud is not None and loud(error):
                    raise GradcheckError(
                        f"the function takes {what}, and its backward pass does not: {error}"
                    ) from error
                return False
            except Exception:
                return False
            least = [size_of(x) for x in other.points]
            elsewhere = Elsewhere(other, weights, gradients, self.atol, self.rtol, self.usual, least)
            found = elsewhere.wrong_element(self.rng, only_used=only_lost)
            if found is None:
                return True
            raise elsewhere.report(f"the gradient is right for the given inputs, and wrong for {what}", found, self.rng)


def _broadcastable(full: Shape) -> Iterator[Shape]:
    """Shapes that broadcast to `full`: itself, one axis of size 1, only one axis not of size 1, without the first."""
    axes = range(len(full))
    ones = [tuple([1 if k == axis else n for k, n in enumerate(full)]) for axis in axes]
    alone = [tuple([n if k == axis else 1 for k, n in enumerate(full)]) for axis in axes]
    yield from dict.fromkeys([*ones, *alone, full, full[1:]])
