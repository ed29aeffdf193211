"""Our gradient checker over the differentiable functions of another library: wrong derivatives of order 1 and 2.

    PYTHONPATH=. PYTHON studies/recipes/hunt.py --library torch --write docs/hunt.md

PYTHON is one that has the library; this project needs only NumPy there.

- `torch`: the functions of PyTorch's own register of tests, with its own sample inputs.
- `jax`: functions of jax.numpy, jax.scipy, jax.nn and jax.lax, at random inputs.
- `numpy`: the hand-written gradients of `studies/benchmarks/checked_functions.py`, of order 1.

For each function f and a random weighted sum φ of its outputs, six compositions are compared with central differences
of the step before: φ' by reverse and by forward mode, and φ'' by reverse and forward mode over each of the two.  Each
sample is also tried with random numbers added, with some of its elements 0, where a rule may have a branch of its own,
with the first of several inputs broadcast along its first axis (in the given sizes, and in sizes of 2), and as a
function of its last input alone.  Where a function is not differentiable at a point, or a composition is not
implemented, it is not judged.  A finding must be found twice, along another direction.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import itertools
import os
import re
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray
Arrays = Sequence[Array]
Scalar = Callable[..., Any]

LARGEST = 130  # elements of all inputs
SAMPLES = 5  # of a function
COMPOSITIONS = ("reverse", "forward", "reverse over reverse", "forward over reverse", "reverse over forward",
                "forward over forward")  # fmt: skip
KNOWN = {  # of PyTorch's open issues on wrong derivatives of forward mode and higher order, by name and order
    "cholesky_inverse": 196682,
    "cholesky_solve": 196694,
    "det": 196696,
    "linalg.det": 196696,
    "logdet": 192540,
    "linalg.slogdet": 196697,
    "linalg.solve": 196695,
    "linalg.solve_ex": 196695,
    "linalg.householder_product": 196698,
    "nn.functional.batch_norm": 196699,
    "nn.functional.layer_norm": 196700,
    "cumprod": 196701,
    "scatter_reduce (prod)": 196702,
    "triangular_solve": 196707,
    # By the rule of another that they call
    "native_batch_norm": 196699,
    "nn.functional.instance_norm": 196699,
    "native_layer_norm": 196700,
    "linalg.tensorsolve": 196695,
    "linalg.vander": 196701,
    "masked.cumprod": 196701,
}
EXCLUDED = {  # with the reason why what differs is no mistake
    "jax.lax.stop_gradient": "its gradient is 0 by definition",
    "normal": "draws random numbers; its gradient is defined as 0",
    "to_sparse": "its gradient keeps the sparsity of the input, by definition",
    "nn.functional.max_unpool1d": "indices may name a place twice, which is not defined; its variant `grad` has none",
    "nn.functional.max_unpool2d": "as max_unpool1d",
    "nn.functional.max_unpool3d": "as max_unpool1d",
}


@dataclass(frozen=True)
class Point:
    """A function at one point.

    derivatives: by composition, a function of arrays and the vjp of it, as `from_vjp` takes them, and its inputs
    differentiable: by order, whether there is a derivative, as far as values tell
    """

    function: str
    what: str
    derivatives: Callable[[str, np.random.Generator], tuple[Callable, Callable, Arrays]]
    differentiable: Callable[[int], bool] = lambda order: True


@dataclass(frozen=True)
class LeftOut:
    """A point that a function does not take, and why."""

    why: str


@dataclass(frozen=True)
class Finding:
    function: str
    composition: str
    point: str
    expected: str
    found: str
    cause: str


REASONS = {  # why a derivative is not judged, by a pattern of what the library or the checker says
    r"use forward AD with|forward AD .* not|vmap|setup_context": "forward mode is not implemented",
    r"[Dd]erivative for .* not impl|[Dd]ouble backward": "the derivative of the backward pass is not implemented",
    r"is random": "the function is random",
}


def reason(text: str) -> str:
    line = text.split("\n")[0]
    return next((why for pattern, why in REASONS.items() if re.search(pattern, line)), line[:80].rstrip())


def examine(point: Point, composition: str) -> Finding | str:
    """A finding, or "right", or why the composition is not judged.

    Of the function, only what the derivatives are is asked here: neither other points nor other shapes.
    """
    from autograd.gradcheck import GradcheckError, NondifferentiableError, Options, from_vjp, gradcheck

    findings: list[Finding] = []
    for seed in (0, 1):
        rng = np.random.default_rng([seed, 7])
        options = Options(mode="central", seed=seed, elsewhere=False, layouts=False, float32=False)
        try:
            function, vjp, inputs = point.derivatives(composition, rng)
            with np.errstate(all="ignore"):
                gradcheck(from_vjp(function, vjp), list(inputs), fast=True, atol=1e-5, rtol=1e-4, options=options)
            return "right"
        except NondifferentiableError:
            return "not differentiable here"
        except GradcheckError as error:
            text = str(error)
            numbers = re.search(r"analytic +(\S+)\n +numerical +([^\s,]+)", text)
            if not text.startswith("wrong gradient") or numbers is None:
                return "not judged: " + reason(text)
            cause = text.partition("likely cause: ")[2].partition("\n")[0]
            findings.append(Finding(point.function, composition, point.what, numbers[2], numbers[1], cause))
        except Exception as error:  # whatever the library says that it does not do
            return f"not judged: {type(error).__name__}"
    return findings[0]


def verdicts(point: Point) -> Iterator[Finding | str]:
    """What `examine` says of each composition, as far as the function is differentiable."""
    reverse: Finding | str = "right"
    for composition in COMPOSITIONS:
        order = 2 if composition in COMPOSITIONS[2:] else 1
        if order == 2 and reverse != "right":
            yield "of order 2, where the first derivative by reverse mode is wrong or not judged"
            continue
        found = examine(point, composition)
        if isinstance(found, Finding) and not all(map(point.differentiable, range(1, order + 1))):
            found = "not differentiable here"
        if composition == "reverse":
            reverse = found
        yield found


def is_differentiable(scalar: Callable[[Arrays], float], inputs: Arrays) -> bool:
    """Whether the slopes of a function along directions are those of a linear function, by differences alone.

    Those to the two sides agree, and that along a sum is the sum: of two random directions, of a direction's share in
    each input, and of two halves of its elements.  What disagrees by curvature does so less with a smaller step.
    """
    rng = np.random.default_rng(5)
    v, w = ([rng.standard_normal(x.shape) for x in inputs] for _ in range(2))
    half = [rng.random(x.shape) < 0.5 for x in inputs]
    none = [np.zeros(x.shape) for x in inputs]
    value = scalar(inputs)

    def slope(direction: Arrays, step: float) -> float:
        return (scalar([x + step * d for x, d in zip(inputs, direction, strict=True)]) - value) / step

    errors = []
    for step in (1e-3, 1e-5):
        whole, back = slope(v, step), slope(v, -step)
        sums = [
            (slope([a + b for a, b in zip(v, w, strict=True)], step), [whole, slope(w, step)]),
            (whole, [slope([*none[:k], v[k], *none[k + 1 :]], step) for k in range(len(v))]),
            (whole, [slope([d * (h == one) for d, h in zip(v, half, strict=True)], step) for one in (True, False)]),
        ]
        errors.append(np.max([abs(whole - back), *(abs(both - sum(parts)) for both, parts in sums)]))
        size = sum(abs(part) for both, parts in sums for part in (both, *parts))
    return bool(errors[1] <= max(0.2 * errors[0], 1e-3 * size + 1e-6))


def directional(
    scalar: Callable[[Arrays, Arrays], float], derivative: Callable[[Arrays, Arrays], float], inputs: Arrays, rng: Any
) -> tuple[Callable, Callable, Arrays]:
    """t -> scalar(inputs + t · v, v) for a random direction v, whose derivative is `derivative(inputs + t · v, v)`."""
    v = [rng.standard_normal(x.shape) for x in inputs]

    def at(t: Array) -> Arrays:
        return [x + t.item() * d for x, d in zip(inputs, v, strict=True)]

    return lambda t: np.array([scalar(at(t), v)]), lambda g, t: g * derivative(at(t), v), [np.zeros(1)]


def moved(inputs: Arrays) -> list[Array]:
    """Random numbers are added: samples are often special, as factors are that are nearly the identity."""
    rng = np.random.default_rng(4)
    return [x + 0.5 * rng.standard_normal(x.shape) for x in inputs]


def some_zero(inputs: Arrays) -> list[Array]:
    """Every third element of each input is 0."""
    return [np.where(np.arange(x.size).reshape(x.shape) % 3 == 1, 0.0, x) for x in inputs]


# ---- PyTorch ----


class TorchSum:
    """φ, a weighted sum of the outputs of a function at tensors, and its derivatives as functions of arrays."""

    def __init__(self, function: Callable[[list[Any]], Any], inputs: Arrays):
        import torch

        self.torch, self.function = torch, function
        # Of the outputs, those that PyTorch declares differentiable: not the mean and rstd of native_layer_norm
        found = self._outputs(list(self._tensors(inputs, True)), None)
        self.places = [k for k, y in enumerate(found) if y.requires_grad]
        outputs = [found[k].detach() for k in self.places]
        if not outputs:
            raise ValueError("no differentiable output of real numbers")
        rng = np.random.default_rng(3)
        self.weights = [torch.tensor(rng.standard_normal(tuple(y.shape))) for y in outputs]
        if not all(y.isfinite().all() for y in outputs):
            raise ValueError("outside of the domain")

    def _outputs(self, tensors: list[Any], places: list[int] | None) -> list[Any]:
        found = self.function(tensors)
        found = found if isinstance(found, (tuple, list)) else (found,)
        found = [y for y in found if isinstance(y, self.torch.Tensor) and y.dtype == self.torch.float64]
        return found if places is None else [found[k] for k in places]

    def phi(self, *tensors: Any) -> Any:
        return sum((w * y).sum() for w, y in zip(self.weights, self._outputs(list(tensors), self.places), strict=True))

    def _tensors(self, arrays: Arrays, grad: bool = False) -> tuple[Any, ...]:
        return tuple([self.torch.tensor(x, requires_grad=grad) for x in arrays])

    def value(self, arrays: Arrays) -> float:
        return float(self.phi(*self._tensors(arrays)))

    def _grad(self, y: Any, tensors: Any, graph: bool = False) -> list[Any]:
        if not y.requires_grad:
            return [self.torch.zeros_like(x) for x in tensors]
        found = self.torch.autograd.grad(y, tensors, create_graph=graph, allow_unused=True)
        return [self.torch.zeros_like(x) if g is None else g for g, x in zip(found, tensors, strict=True)]

    def _array(self, g: Any) -> Array:
        """A tensor of PyTorch that stands for zeros has no memory that NumPy could read; a sum with it has."""
        return (self.torch.zeros(g.shape, dtype=g.dtype) + g.detach()).numpy()

    def gradient(self, arrays: Arrays) -> list[Array]:
        tensors = self._tensors(arrays, True)
        return [self._array(g) for g in self._grad(self.phi(*tensors), tensors)]

    def slope(self, arrays: Arrays, direction: Arrays) -> float:
        return float(self.torch.func.jvp(self.phi, self._tensors(arrays), self._tensors(direction))[1])

    def second(self, composition: str, arrays: Arrays, v: Arrays) -> list[Array]:
        """The Hessian times v, or for forward over forward v · H v."""
        func, every = self.torch.func, tuple(range(len(arrays)))
        tensors, direction = self._tensors(arrays, composition == "reverse over reverse"), self._tensors(v)

        def slope(*xs: Any) -> Any:
            return func.jvp(self.phi, xs, direction)[1]

        if composition == "reverse over reverse":
            first = self._grad(self.phi(*tensors), tensors, graph=True)
            found = self._grad(sum((g * d).sum() for g, d in zip(first, direction, strict=True)), tensors)
        elif composition == "forward over reverse":
            found = func.jvp(func.grad(self.phi, argnums=every), tensors, direction)[1]
        elif composition == "reverse over forward":
            found = func.grad(slope, argnums=every)(*tensors)
        else:
            found = [func.jvp(slope, tensors, direction)[1]]
        return [self._array(g) for g in found]


def compositions_of(
    phi: Any, inputs: Arrays
) -> Callable[[str, np.random.Generator], tuple[Callable, Callable, Arrays]]:
    """The derivatives of φ for `examine`.

    A second derivative is checked as the derivative of the first by reverse mode, which is checked by itself.  As the
    Hessian is symmetric, its product with a cotangent is that with a tangent.
    """

    def derivatives(composition: str, rng: np.random.Generator) -> tuple[Callable, Callable, Arrays]:
        if composition == "reverse":
            return (
                lambda *xs: np.array([phi.value(xs)]),
                lambda g, *xs: tuple([g.item() * d for d in phi.gradient(xs)]),
                inputs,
            )

        def value(xs: Arrays, v: Arrays) -> float:
            return phi.value(xs)

        def slope(xs: Arrays, v: Arrays) -> float:
            return _product(phi.gradient(xs), v)

        if composition == "forward":
            return directional(value, phi.slope, inputs, rng)
        second = functools.partial(phi.second, composition)
        if composition == "forward over forward":
            return directional(slope, lambda xs, v: second(xs, v)[0].item(), inputs, rng)
        return lambda *xs: tuple(phi.gradient(xs)), lambda gs, *xs: tuple(second(xs, list(gs))), inputs

    return derivatives


def point_of(function: str, what: str, phi: Any, inputs: Arrays) -> Point:
    """The compositions of φ, a `TorchSum` or `JaxSum`."""

    def differentiable(order: int) -> bool:
        w = [np.random.default_rng(6).standard_normal(x.shape) for x in inputs]
        with np.errstate(all="ignore"):
            return is_differentiable(phi.value if order == 1 else lambda xs: _product(phi.gradient(xs), w), inputs)

    return Point(function, what, compositions_of(phi, inputs), differentiable)


def _product(gradients: Arrays, v: Arrays) -> float:
    return sum(float((g * d).sum()) for g, d in zip(gradients, v, strict=True))


def torch_functions() -> dict[str, Any]:
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    torch.set_num_threads(1)
    return {
        op.name + (f" ({op.variant_test_name})" if op.variant_test_name else ""): op
        for op in op_db
        if op.supports_autograd and torch.float64 in op.supported_dtypes("cpu")
        and not re.match(r"_(?!_)|torch\.ops", op.name)  # private functions
        and (op.name not in EXCLUDED or op.variant_test_name == "grad")
    }  # fmt: skip


def torch_points(name: str, op: Any) -> Iterator[Point | LeftOut]:
    """As PyTorch's own tests call it: with their wrapper for triangular and symmetric inputs, and of the outputs that
    they look at."""
    import torch
    from torch.utils._pytree import tree_flatten, tree_unflatten

    torch.manual_seed(0)
    samples = itertools.islice(op.sample_inputs("cpu", torch.float64, requires_grad=True), 30)
    taken = 0
    for number, sample in enumerate(samples):
        leaves, tree = tree_flatten((sample.input, sample.args, sample.kwargs))
        places = [k for k, x in enumerate(leaves) if isinstance(x, torch.Tensor) and x.requires_grad]
        inputs = [leaves[k].detach().numpy().copy() for k in places]
        if not 0 < sum(x.size for x in inputs) <= LARGEST or any(x.dtype != np.float64 for x in inputs):
            continue
        taken += 1
        if taken > SAMPLES:
            return

        def function(
            tensors: list[Any], sample: Any = sample, leaves: Any = leaves, places: Any = places, tree: Any = tree
        ) -> Any:
            filled = [x.detach().clone() if isinstance(x, torch.Tensor) else x for x in leaves]
            for place, x in zip(places, tensors, strict=True):
                filled[place] = x
            first, args, kwargs = tree_unflatten(filled, tree)
            return sample.output_process_fn_grad(op.gradcheck_wrapper(op.op, first, *args, **kwargs))

        others = [(", random numbers added", moved(inputs)), (", some elements 0", some_zero(inputs))]
        if len(inputs) > 1 and inputs[0].ndim > 2:
            broadcast = moved([inputs[0][0], *inputs[1:]])
            others.append((", the first input broadcast", broadcast))
            # With equal sizes, a matrix may be taken for a batch of vectors
            others.append((", the same with axes of size 2", [x[(slice(2),) * x.ndim].copy() for x in broadcast]))
        for what, values in (("", inputs), *others):
            shapes = ", ".join(str(tuple(x.shape)) for x in values)
            alone = functools.partial(_last_alone, function, values[:-1])
            for which, of, points in (("", function, values), (", by the last input alone", alone, values[-1:])):
                if which and len(values) == 1:
                    continue
                try:
                    phi = TorchSum(of, points)
                except Exception as error:  # outside of the domain
                    yield LeftOut(f"outside of the domain, or not taken: {type(error).__name__}")
                    continue
                yield point_of(name, f"sample {number} of shape {shapes}{what}{which}", phi, points)


def _last_alone(function: Callable[[list[Any]], Any], others: Arrays, tensors: list[Any]) -> Any:
    """The function of its last input: what it does with the tangents that others do not have is a branch of its own."""
    import torch

    return function([*map(torch.tensor, others), *tensors])


# ---- JAX ----


class JaxSum:
    """As `TorchSum`, for a function of jax.numpy's arrays."""

    def __init__(self, function: Callable[[list[Any]], Any], inputs: Arrays):
        import jax

        self.jax, self.function = jax, function
        rng = np.random.default_rng(3)
        outputs = self._outputs([jax.numpy.asarray(x) for x in inputs])
        if not outputs or not all(np.isfinite(y).all() for y in outputs):
            raise ValueError("no output of real numbers")
        weights = [rng.standard_normal(y.shape) for y in outputs]

        def phi(*xs: Any) -> Any:
            return sum((w * y).sum() for w, y in zip(weights, self._outputs(list(xs)), strict=True))

        every = tuple(range(len(inputs)))
        gradient = jax.grad(phi, argnums=every)

        def slope(xs: Any, v: Any) -> Any:
            return jax.jvp(phi, tuple(xs), tuple(v))[1]

        self._value, self._gradient, self._slope = jax.jit(phi), jax.jit(gradient), jax.jit(slope)
        second = {
            "reverse over reverse": lambda xs, v: jax.vjp(gradient, *xs)[1](tuple(v)),
            "forward over reverse": lambda xs, v: jax.jvp(gradient, tuple(xs), tuple(v))[1],
            "reverse over forward": lambda xs, v: jax.grad(lambda *ys: slope(ys, v), argnums=every)(*xs),
            "forward over forward": lambda xs, v: jax.jvp(lambda *ys: slope(ys, v), tuple(xs), tuple(v))[1:],
        }
        self._second = {composition: jax.jit(function) for composition, function in second.items()}

    def _outputs(self, xs: list[Any]) -> list[Any]:
        return [y for y in self.jax.tree.leaves(self.function(xs)) if y.dtype == np.float64]

    def value(self, arrays: Arrays) -> float:
        return float(self._value(*arrays))

    def gradient(self, arrays: Arrays) -> list[Array]:
        return [np.array(g) for g in self._gradient(*arrays)]

    def slope(self, arrays: Arrays, direction: Arrays) -> float:
        return float(self._slope(list(arrays), list(direction)))

    def second(self, composition: str, arrays: Arrays, v: Arrays) -> list[Array]:
        return [np.array(g) for g in self._second[composition](list(arrays), list(v))]


def jax_functions() -> dict[str, Any]:
    import jax
    from jax import lax, nn
    from jax.scipy import linalg, special, stats

    jax.config.update("jax_enable_x64", True)
    modules = {"jax.numpy": jax.numpy, "jax.numpy.linalg": jax.numpy.linalg, "jax.nn": nn, "jax.lax": lax,
               "jax.scipy.special": special, "jax.scipy.linalg": linalg, "jax.scipy.stats.norm": stats.norm,
               "jax.scipy.stats.gamma": stats.gamma, "jax.scipy.stats.beta": stats.beta}  # fmt: skip
    return {
        f"{module}.{name}": function
        for module, contents in modules.items() for name, function in sorted(vars(contents).items())
        if not name.startswith("_") and callable(function) and not isinstance(function, type)
        and f"{module}.{name}" not in EXCLUDED
    }  # fmt: skip


def jax_points(name: str, function: Any) -> Iterator[Point | LeftOut]:
    """At one, two or three arrays of these shapes, where it takes them and gives real numbers."""
    rng = np.random.default_rng(0)
    inside, positive = rng.uniform(-0.9, 0.9, (2, 3)), rng.uniform(0.2, 0.9, (2, 3))
    square = rng.standard_normal((3, 3)) + 3 * np.eye(3)
    tried: list[tuple[str, list[Array]]] = [
        ("between -0.9 and 0.9", [inside]),
        ("between 0.2 and 0.9", [positive]),
        ("above 1", [1 + positive]),
        ("3 × 3", [square]),
        ("3 × 3, symmetric", [square @ square.T]),
        ("two", [positive, 0.3 + positive[:, ::-1].copy()]),
        ("two of 3 × 3", [square, square.T + 1]),
        ("three", [positive, 0.3 + positive[:, ::-1].copy(), 0.5 * positive]),
    ]
    taken = 0
    for what, inputs in tried:
        for zeros in ("", ", some elements 0"):
            values = some_zero(inputs) if zeros else inputs
            try:
                phi = JaxSum(lambda xs: function(*xs), values)
            except Exception as error:  # not a function of these arrays
                yield LeftOut(f"outside of the domain, or not taken: {type(error).__name__}")
                continue
            taken += not zeros
            if taken <= SAMPLES:
                yield point_of(name, what + zeros, phi, values)


# ---- NumPy ----


def numpy_functions() -> dict[str, Any]:
    from studies.benchmarks.checked_functions import RIGHT, WRONG

    return {f"{case.kind}: {case.name}": case for case in (*WRONG, *RIGHT) if not case.closed}


def numpy_points(name: str, case: Any) -> Iterator[Point]:
    yield Point(name, "as listed", lambda composition, rng: (case.function, case.vjp, case.inputs))


LIBRARIES: dict[str, tuple[Callable[[], dict[str, Any]], Callable[[str, Any], Iterator[Point | LeftOut]]]] = {
    "torch": (torch_functions, torch_points),
    "jax": (jax_functions, jax_points),
    "numpy": (numpy_functions, numpy_points),
}


# ---- The page ----


@functools.cache
def functions_of(library: str) -> dict[str, Any]:
    return LIBRARIES[library][0]()


def examine_function(library: str, name: str) -> tuple[list[Finding], Counter[str]]:
    """The findings of one function, and how many derivatives were right, or not judged and why."""
    warnings.simplefilter("ignore")
    findings: list[Finding] = []
    counts: Counter[str] = Counter()
    try:
        for point in LIBRARIES[library][1](name, functions_of(library)[name]):
            if isinstance(point, LeftOut):
                counts[point.why] += 1
                continue
            for found in [examine(point, "reverse")] if library == "numpy" else verdicts(point):
                if isinstance(found, Finding):
                    findings.append(found)
                else:
                    counts[found] += 1
    except Exception as error:  # its samples need what is not installed
        counts[f"no samples: {type(error).__name__}"] += 1
        print(f"{name}: no samples: {type(error).__name__}: {error}", file=sys.stderr)
    return findings, counts


HEAD = """# Wrong derivatives in other libraries

`studies/recipes/hunt.py` compares the derivatives of other libraries' functions with finite differences, using this project's
gradient checker, in six compositions of forward and reverse mode.  Each row is a function and a composition that is
wrong, with one of the values that differ at the named point: the difference quotient (expected) and the library's
derivative (found).  "Known" is an issue that names the function or the function whose rule it uses.

"""


def section(library: str, findings: list[Finding], counts: Counter[str], functions: int, seconds: float) -> str:
    judged = counts["right"] + len(findings)
    wrong = len({finding.function for finding in findings})
    lines = [
        f"## {library}",
        "",
        f"`python studies/recipes/hunt.py --library {library.split()[0]}`: {functions:,} functions, "
        f"{judged:,} derivatives compared with differences, {len(findings):,} of them wrong, in {wrong} functions; "
        f"{counts.total() - counts['right']:,} not judged; {seconds / 60:.0f} minutes.",
        "",
        "| function | composition | points | expected | found | known |",
        "|---|---|---|--:|--:|---|",
    ]
    grouped: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        grouped.setdefault((finding.function, finding.composition), []).append(finding)
    for (function, composition), some in grouped.items():
        first = some[0]
        number = KNOWN.get(function, KNOWN.get(function.split(" (")[0])) if library.startswith("torch") else None
        known = f"[{number}](https://github.com/pytorch/pytorch/issues/{number})" if number else "no"
        more = f" and {len(some) - 1} more" if len(some) > 1 else ""
        lines.append(
            f"| {function} | {composition} | {first.point}{more} | {first.expected} | {first.found} | {known} |"
        )
    lines += ["", "Not judged:", "", "| why | how often |", "|---|--:|"]
    lines += [f"| {why.replace('|', chr(92) + '|')} | {n:,} |" for why, n in counts.most_common() if why != "right"]
    return "\n".join(lines) + "\n"


def write_section(path: Path, text: str) -> None:
    """Write the page with `text` in place of the section of the same library, if there is one."""
    library = text.split()[1]
    old = path.read_text(encoding="utf-8").partition("\n## ")[2] if path.exists() else ""
    sections = {part.split()[0]: "## " + part.rstrip("\n") + "\n" for part in old.split("\n## ") if part}
    sections[library] = text
    path.write_text(HEAD + "\n".join(sections[name] for name in sorted(sections)), encoding="utf-8")


def hunt(library: str, names: Sequence[str], processes: int, minutes: float) -> tuple[list[Finding], Counter[str], int]:
    """The findings, how many derivatives were right or not judged and why, and the number of functions looked at."""
    findings: list[Finding] = []
    counts: Counter[str] = Counter()
    end = time.monotonic() + 60 * minutes
    done = 0
    for name, result in results(library, names, processes, end):
        if isinstance(result, LeftOut):
            print(f"{name}: {result.why}", file=sys.stderr)
            counts[result.why] += 1
            continue
        found, some = result
        done += bool(found or some)
        findings += found
        counts += some
        for finding in found:
            print(f"{finding.function}: {finding.composition}, {finding.point}: expected {finding.expected}, found "
                  f"{finding.found}", flush=True)  # fmt: skip
    return findings, counts, done


def exit_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent exits, whatever the reason (Linux)."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
        if os.getppid() != parent:  # it has exited already
            os._exit(1)


def results(
    library: str, names: Sequence[str], processes: int, end: float
) -> Iterator[tuple[str, tuple[list[Finding], Counter[str]] | LeftOut]]:
    """Each function's findings and counts, until the time is over.

    A library may end the process, as by a segmentation fault.  The first function that has no result then is looked at
    alone, and left out if that ends its process as well; the others go on.  Whatever ends this process ends all.
    """
    waiting = list(names)
    alone = False
    while waiting:
        size = 1 if alone else processes
        with ProcessPoolExecutor(size, get_context("spawn"), exit_with_parent, (os.getpid(),)) as pool:
            futures = {name: pool.submit(examine_function, library, name) for name in waiting[: 1 if alone else None]}
            try:
                for name, future in futures.items():
                    result = future.result(max(0.0, end - time.monotonic()))
                    waiting.remove(name)
                    alone = False
                    yield name, result
            except BrokenProcessPool:
                if alone:
                    yield waiting.pop(0), LeftOut("the library ended the process")
                alone = not alone
            except TimeoutError:
                print(f"the time is over at {waiting[0]}", file=sys.stderr)
                pool.shutdown(wait=False, cancel_futures=True)
                for process in active_children():  # which may have hours to go
                    process.terminate()
                return


def main() -> None:
    root = Path(__file__).resolve().parents[2]
    sys.path.insert(0, str(root))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, choices=["torch", "jax", "numpy"])
    parser.add_argument("--only", default="", metavar="TEXT", help="only functions with TEXT in their name")
    parser.add_argument("--processes", type=int, default=2, help="how many functions are looked at at once")
    parser.add_argument("--minutes", type=float, default=30, help="stop after this time")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the section of the library into this page")
    args = parser.parse_args()
    names = [name for name in functions_of(args.library) if args.only in name]
    start = time.monotonic()
    findings, counts, functions = hunt(args.library, names, args.processes, args.minutes)
    version = f"{args.library} {sys.modules[args.library].__version__}"
    text = section(version, findings, counts, functions, time.monotonic() - start)
    print(text)
    if args.write:
        write_section(args.write, text)


if __name__ == "__main__":
    main()
