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
        trials.another_axis()
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
                self._resized(n, 2, "axes of size 2")
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

    def another_axis(self) -> None:
        """One more leading axis of the arrays with most axes, or of all: axis 1 may then not be the last."""
        sides = {n for k in self.arrays for n in self.given[k].shape}
        side = next(n for n in range(2, 9) if n not in sides or n == 8)
        most = max((self.given[k].ndim for k in self.arrays), default=0)
        for least in sorted({most, 1} - {0}, reverse=True):
            arguments = list(self.given)
            for k in self.arrays:
                if self.given[k].ndim >= least:
                    arguments[k] = self._in_shape(self.given[k], (side, *self.given[k].shape))
            if any(arguments[k] is None for k in self.arrays):
                continue
            more = [len(shape) + 1 for shape in self.outputs]
            if self._try(
                arguments, f"one more axis, of shape {self._shapes(arguments)}",
                lambda shapes, more=more: [len(shape) for shape in shapes] == more,
            ):  # fmt: skip
                return

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
        """Masks inverted, all True and all False; integers that are all different repeated, and from 0 to the last."""
        for k in self.arrays:
            x = self.given[k]
            others: dict[str, Array] = {}
            if x.dtype.kind in "iu" and x.size:
                if 1 < x.size == len(np.unique(x)):
                    repeated = np.resize(x.reshape(-1)[: max(1, x.size // 2)], x.shape)
                    others[f"repeated indices in input {k}"] = repeated
                sizes = {n for j in self.function.positions for n in self.given[j].shape if n > x.max()}
                others |= {f"indices from 0 to {n - 1} in input {k}": self._to_the_ends(x, n) for n in sorted(sizes)}
            if x.dtype == bool or (x.dtype.kind in "iu" and x.size and 0 <= x.min() <= x.max() <= 1):
                others |= {f"input {k} inverted": x ^ np.ones_like(x), f"input {k} all True": np.ones_like(x),
                           f"input {k} all False": np.zeros_like(x)}  # fmt: skip
            for what, other in others.items():
                if not np.array_equal(other, x):
                    arguments = [other if j == k else given for j, given in enumerate(self.given)]
                    same = x.dtype != bool  # indices choose as many elements as before, a mask may choose others
                    self._try(arguments, what, lambda shapes, same=same: not same or shapes == self.outputs, same)

    def _to_the_ends(self, x: Array, n: int) -> Array:
        """Indices of n elements that hold the last and the first, without repetition and in order if x is so."""
        if x.size > len(np.unique(x)) or x.size > n:
            drawn = self.rng.integers(0, n, x.size)
        else:
            drawn = 1 + self.rng.permutation(max(0, n - 2))[: x.size]
            drawn = np.append(drawn, [0, 0])[: x.size]
        drawn[: x.size][-2:] = [0, n - 1][-x.size :]
        ordered = (np.diff(x.reshape(-1)) >= 0).all()
        return np.asarray(np.sort(drawn) if ordered else self.rng.permutation(drawn), x.dtype).reshape(x.shape)

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

    def _try(self, changed: list[Any], what: str, expected: Any, only_used: bool = False, loud: Any = None) -> bool:
        """Return whether the function takes these inputs, and its gradient is right.

        expected: says of the shapes of the outputs whether it does what it does for the given inputs
        only_used: True where a gradient at elements that the function does not use says that it asks for other inputs:
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
                values = other.middle = other.vector(outputs)
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
            if only_used and elsewhere.reaches_unused(self.rng):
                return True
            found = elsewhere.wrong_element(self.rng)
            if found is None:
                return True
            raise elsewhere.report(f"the gradient is right for the given inputs, and wrong for {what}", found, self.rng)


def _broadcastable(full: Shape) -> Iterator[Shape]:
    """Shapes that broadcast to `full`: itself, one axis of size 1, only one axis not of size 1, without the first."""
    axes = range(len(full))
    ones = [tuple([1 if k == axis else n for k, n in enumerate(full)]) for axis in axes]
    alone = [tuple([n if k == axis else 1 for k, n in enumerate(full)]) for axis in axes]
    yield from dict.fromkeys([*ones, *alone, full, full[1:]])
