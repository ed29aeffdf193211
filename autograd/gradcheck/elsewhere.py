"""The gradients at other points, for other shapes, repeated indices and one array in place of two.

A function may be right for the inputs of a check and wrong beyond a kink, for an axis of size 1, an empty array, or a
row that an index names twice.  Each of these is tried where the function takes it, and compared with differences.  A
function may refuse what nobody gave it, by any error in its forward or backward pass: an error is no wrong gradient.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from autograd.backend import backend_of
from autograd.gradcheck.adapters import as_tuple
from autograd.gradcheck.function import (
    CheckedFunction,
    GradcheckError,
    NotSummedError,
    WrongShapeError,
    copy_with_layout,
    joined,
    locate,
)
from autograd.gradcheck.jacobians import Comparison
from autograd.gradcheck.numerical import Line, size_of
from autograd.gradcheck.variations import check_two_graphs
from autograd.modes import no_grad
from autograd.ops.shape import broadcasts_to
from autograd.tensor import Tensor

Array = np.ndarray
Rng = np.random.Generator
Shape = tuple[int, ...]
Expected = Callable[[list[Shape]], bool]

FAR = 1000.0  # beyond what exp takes, for both signs
UNREACHED = (
    "a branch of the function that the inputs do not reach (beyond a kink, a bound, a threshold), numbers that "
    "overflow, vanish or cancel in backward, or something that backward keeps from the first call"
)
HALF_ZERO = "the inputs, about half of them 0"
LARGE = (70, 1100)  # elements to grow to: beyond a row of 64, beyond a block of 1,024, no multiple of either
MOST = 2_000_000  # elements of an output to grow to
ALONE = 8  # of increasing integers, the most that are changed alone
TWO_GRAPHS = 3  # other points whose graph is alive together with that of the inputs
PAIRS = 3  # the most pairs of inputs that are given one array


# ---- Other points ----


def other_points(points: Sequence[Array], rng: Rng) -> Iterator[tuple[str, list[Array]]]:
    """Points where a function may take other branches; many a function refuses some of them."""

    def ordered(x: Array) -> Array:
        return rng.permutation(x.reshape(-1)).reshape(x.shape) * rng.uniform(0.97, 1.03, x.shape)

    def whole(x: Array) -> Array:
        y = np.copysign(np.ceil(abs(x)), x) + (x == 0)
        return np.copysign(len(points) * (abs(y) - 1) + next(numbers), y)

    numbers = itertools.count(1)  # others for each input: at ties of two inputs, kinks may cancel
    changes: list[tuple[str, Callable[[Array], Array]]] = [
        ("the inputs in another order, each changed by up to 3 %", ordered),
        *[(f"{n:g} times the inputs", partial(np.multiply, n)) for n in (-1.0, 10.0, -10.0, 0.1, 100.0)],
        *[("the inputs times random factors", lambda x: x * 10 ** rng.uniform(-1, 1, x.shape))] * 3,
        *[("random numbers added to the inputs", lambda x: x + rng.uniform(-4, 4, x.shape))] * 3,
        # Where exp overflows or vanishes
        (f"{FAR:g} added to the inputs", lambda x: x + FAR),
        (f"{FAR:g} subtracted from the inputs", lambda x: x - FAR),
        (f"{FAR:g} added or subtracted at random", lambda x: x + FAR * rng.choice([-1, 1], x.shape)),
        # Where x divides, cancels, or has a series of its own
        *[(f"{n:g} times the inputs", partial(np.multiply, n)) for n in (1e-4, 1e-8)],
        (HALF_ZERO, lambda x: np.where(rng.random(x.shape) < 0.5, 0, x)),
        ("the inputs at whole numbers other than 0", whole),
    ]
    for what, change in changes:
        arrays = [copy_with_layout(x) for x in points]
        for array, x in zip(arrays, points, strict=True):
            array[...] = change(x)
        yield what, arrays


# ---- Trials ----


class Elsewhere:
    """Trials of a function beside `here`, the comparison at the inputs, where the gradients are right."""

    def __init__(self, here: Comparison):
        self.here, self.function, self.rng, self.outputs = here, here.function, here.rng, here.function.output_shapes

    def check_points(self) -> None:
        """Compare the gradients at other points with differences."""
        alive, sizes = 0, [size_of(x) for x in self.function.points]
        for what, points in other_points(self.function.points, self.rng):
            try:
                there = self._comparison(self.function.at(points), self._same_shapes, self.here.weights)
            except Exception:  # a function may refuse points that nobody gave it, in any way
                continue
            if there is not None:
                if (alive := alive + 1) <= TWO_GRAPHS:
                    check_two_graphs(self.function, self.here.weights, self.here.gradients, there.gradients, points)
                begin = f"the gradient is right at the inputs, and wrong at another point ({what})"
                # Kinks may cancel at 0: relu(x) - relu(-x) has slope 1, and 0 by the rule of relu
                there.check_slope(sizes, begin, UNREACHED, 0.0 if what == HALF_ZERO else math.nan)

    def check_inputs(self) -> None:
        """Compare the gradients for other inputs with differences along a random direction.

        Raises: GradcheckError if they differ
        """
        function = self.function
        function.evaluate()  # a function that reads its Tensors by itself finds the given inputs in them
        self.given = [x.numpy().copy() if isinstance(x, Tensor) else x for x in function.arguments]
        self.arrays = [k for k, x in enumerate(self.given) if isinstance(x, np.ndarray)]
        grows = self._other_sizes()
        self._another_axis()
        self._other_broadcasts()
        first = {k: self.given[k].reshape(-1)[:1] for k in self.arrays}  # the first element of each array, without axes
        if grows and all(x.size for x in first.values()) and any(self.given[k].ndim for k in first):
            numbers = {k: x.reshape(()) for k, x in first.items()}
            self._try(numbers, "arrays of shape ()", lambda shapes: all(shape == () for shape in shapes))
        self._other_indices()
        same = [(i, j) for i, j in itertools.combinations(function.positions, 2)
                if self.given[i].shape == self.given[j].shape]  # fmt: skip
        for i, j in same[:PAIRS]:
            tensor = self._tensor(i, self.given[i])
            self._try({i: tensor, j: tensor}, f"one Tensor for input {i} and input {j}", self._same_shapes)

    # ---- One trial ----

    def _comparison(
        self, other: CheckedFunction, expected: Expected, weights: Array | None = None
    ) -> Comparison | None:
        """The gradients for other inputs; None if there are others outputs than expected, or infinite ones.

        Raises: what the function raises
        """
        outputs = other.call()
        if not other.outputs:
            other.select_outputs(outputs)
        shapes, other.middle = [outputs[j].shape for j in other.outputs], other.vector(outputs)
        if len(shapes) != len(self.outputs) or not expected(shapes) or not np.isfinite(other.middle).all():
            return None
        weights = self.rng.standard_normal(other.middle.size) if weights is None else weights
        gradients, usual = other.pull(outputs, other.split(weights)), self.here.reference
        return Comparison(other, weights, gradients, self.rng, "central", usual.atol, usual.rtol)

    def _try(
        self, changed: dict[int, Any], what: str, expected: Expected, *, only_used: bool = False,
        loud: type[WrongShapeError] | tuple[()] = (),
    ) -> bool:  # fmt: skip
        """Return whether the function takes these inputs, and its gradient is right.

        changed: the inputs in place of those given, by position
        expected: says of the shapes of the outputs whether it does what it does for the given inputs
        only_used: True where a gradient at elements that the function does not use says that it asks for other inputs:
            y[i] = x and its g[i] for different places i, x[i] and its g[argsort(i)] for a permutation
        loud: the error of a backward pass that is a mistake; any other is a refusal

        Raises: GradcheckError for a wrong gradient
        """
        try:
            other = self.function.of(self._arguments(changed))
        except Exception:  # NaN, or another Tensor than the function takes
            return False
        with other:
            try:
                found = self._comparison(other, expected)
            except loud as error:
                raise GradcheckError(f"the function takes {what}, and its backward pass does not: {error}") from error
            except Exception:
                return False
            if found is not None and not (only_used and self._reaches_unused(found)):
                begin = f"the gradient is right for the given inputs, and wrong for {what}"
                found.check_slope([size_of(x) for x in other.points], begin)
            return found is not None

    def _reaches_unused(self, found: Comparison) -> bool:
        """Whether an element has a gradient, of some that are looked at, that the function does not use at all."""
        shapes = [x.shape for x in found.gradients]
        places = self.rng.permutation(np.flatnonzero(joined(found.gradients)))[:8]
        lines = [Line(found.function, locate(int(place), shapes), found.weights) for place in places]
        return any((line(0.1)[1] == line.middle).all() for line in lines)

    def _tensor(self, k: int, array: Array) -> Tensor:
        backend = backend_of([self.function.arguments[k].data])
        return Tensor(backend.asarray(array.copy()), requires_grad=True)

    def _arguments(self, changed: dict[int, Any]) -> Iterator[Any]:
        for k, original in enumerate(self.function.arguments):
            x = changed.get(k, self.given[k])
            if isinstance(x, Tensor) or not isinstance(original, Tensor):
                yield x
            elif original.requires_grad:
                yield self._tensor(k, x)
            else:
                yield Tensor(x) if k in changed else original

    # ---- Shapes ----

    def _other_sizes(self) -> bool:
        """All axes of one size become longer together, then 1, then 0: a function asks some of them to be equal.

        A function that takes no longer ones closes over an array of this size, against which an axis of size 1 would be
        broadcast.  One that takes any size but 1 has forgotten it, even if its backward pass then stops.

        Returns: whether every size can become longer
        """
        every = True
        for n in sorted({n for k in self.arrays for n in self.given[k].shape if n > 1}):
            grows = [self._resized(n, m, "larger arrays") for m in self._longer(n)]
            if any(grows):
                loud = n == 2 or self._resized(n, 2, "axes of size 2")
                self._resized(n, 1, "axes of size 1", loud)
                self._resized(n, 0, "empty arrays")
            every = every and any(grows)
        return every

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
        def follows(shapes: list[Shape]) -> bool:
            """Whether no axis kept its size, as one does that comes from an array that the function closes over."""
            kept = any(a == b == n for old, new in zip(self.outputs, shapes, strict=True)
                       for a, b in zip(old, new, strict=False))  # fmt: skip
            return self._same_ndim(shapes) and not kept and (m == 0 or all(map(math.prod, shapes)))

        shapes = {k: tuple([m if side == n else side for side in self.given[k].shape]) for k in self.arrays}
        return self._try_shapes(shapes, what, follows, loud=WrongShapeError if loud else ())

    def _another_axis(self) -> None:
        """One more leading axis of the arrays with most axes, or of all: axis 1 may then not be the last."""
        sides = {n for k in self.arrays for n in self.given[k].shape}
        side = next(n for n in range(2, 9) if n not in sides or n == 8)
        most = max([1, *(self.given[k].ndim for k in self.arrays)])
        for least in sorted({most, 1}, reverse=True):
            shapes = {k: (side, *self.given[k].shape) for k in self.arrays if self.given[k].ndim >= least}
            if self._try_shapes(shapes, "one more axis", lambda found: self._same_ndim(found, 1)):
                return

    def _other_broadcasts(self) -> None:
        """Each input in turn in other shapes that broadcast to that of the output, while the others keep theirs.

        These have one axis of size 1, only one axis not of size 1, all axes, or lack the first.
        """
        if len(self.arrays) < 2 or len(self.outputs) != 1 or 0 in (shape := self.outputs[0]):
            return
        axes = range(len(shape))
        ones = [tuple([1 if k == axis else n for k, n in enumerate(shape)]) for axis in axes]
        alone = [tuple([n if k == axis else 1 for k, n in enumerate(shape)]) for axis in axes]
        for k in self.function.positions:
            own = self.given[k].shape
            loud = NotSummedError if own != shape else ()  # the backward pass sums over some axis
            for other in dict.fromkeys([*ones, *alone, shape, shape[1:]]) if broadcasts_to(own, shape) else ():
                if other != own:
                    self._try_shapes({k: other}, "other broadcasts", self._same_shapes, loud=loud)

    def _try_shapes(self, shapes: dict[int, Shape], what: str, expected: Expected, **loud: Any) -> bool:
        """Try arrays of the first elements along each axis, or of elements drawn from all and changed by up to 3 %."""
        changed = {}
        for k, shape in shapes.items():
            x = self.given[k]
            if len(shape) == x.ndim and all(m <= n for m, n in zip(shape, x.shape, strict=True)):
                changed[k] = np.array(x[tuple(map(slice, shape))])
            elif x.dtype.kind not in "fcb" and len(np.unique(x)) == x.size:
                return False  # indices that occur once each: what follows from that, a permutation say, is not known
            else:
                changed[k] = self.rng.choice(x.reshape(-1), shape) if x.size else np.ones(shape, x.dtype)
                if x.dtype.kind == "f":
                    changed[k] = changed[k] * self.rng.uniform(0.97, 1.03, shape)
        every = " and ".join(str(changed.get(k, self.given[k]).shape) for k in self.arrays)
        return self._try(changed, f"{what}, of shape {every}", expected, **loud)

    def _same_shapes(self, shapes: list[Shape]) -> bool:
        return shapes == self.outputs

    def _same_ndim(self, shapes: list[Shape], more: int = 0) -> bool:
        return [len(shape) for shape in shapes] == [len(shape) + more for shape in self.outputs]

    # ---- Values ----

    def _other_indices(self) -> None:
        """Masks inverted, all True and all False; integers that are all different repeated, and from 0 to the last."""
        for k in self.arrays:
            x = self.given[k]
            others: dict[str, Array] = {}
            if x.dtype.kind in "iu" and x.size:
                if 1 < x.size == len(np.unique(x)) and not self._are_offsets(k, x):
                    repeated = np.resize(x.reshape(-1)[: max(1, x.size // 2)], x.shape)
                    others[f"repeated indices in input {k}"] = repeated
                sizes = {n for j in self.function.positions for n in self.given[j].shape if n > x.max()}
                others |= {f"indices from 0 to {n - 1} in input {k}": self._to_the_ends(x, n) for n in sorted(sizes)}
            if x.dtype == bool or (x.dtype.kind in "iu" and x.size and 0 <= x.min() <= x.max() <= 1):
                others |= {f"input {k} inverted": x ^ np.ones_like(x), f"input {k} all True": np.ones_like(x),
                           f"input {k} all False": np.zeros_like(x)}  # fmt: skip
            is_mask = x.dtype == bool  # indices choose as many elements as before, a mask may choose others
            for what, other in others.items():
                if not np.array_equal(other, x):
                    expected = self._same_ndim if is_mask else self._same_shapes
                    self._try({k: other}, what, expected, only_used=not is_mask)

    def _are_offsets(self, k: int, x: Array) -> bool:
        """Whether one of increasing integers changes more than the output at its place, as np.add.reduceat's do."""

        def outputs(integers: Array, sign: int) -> list[Array]:
            changed = {j: sign * self.given[j] for j in self.function.positions}  # a maximum may not show the change
            with no_grad():
                found = as_tuple(self.function.func(*self._arguments({**changed, k: integers})))
            return [found[j].numpy() for j in self.function.outputs]

        if x.ndim != 1 or not (np.diff(x) > 0).all():
            return False
        for place, sign in itertools.product(range(1, min(len(x), ALONE)), (1, -1)):
            try:
                repeated = np.where(np.arange(len(x)) == place, x[0], x)
                pairs = [*zip(outputs(x, sign), outputs(repeated, sign), strict=True)]
            except Exception:  # it refuses integers in this order
                return True
            for before, after in pairs:
                for axis in [axis for axis, size in enumerate(before.shape) if size == len(x)]:
                    if before.shape == after.shape and np.delete(before != after, place, axis).any():
                        return True
        return False

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
