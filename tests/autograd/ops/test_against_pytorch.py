"""Values and gradients of every op against PyTorch's, in thousands of random cases.

Each generator draws one call: the arrays, our function of them and PyTorch's.  Shapes have up to four axes of sizes
0 to 4, values are often small integers (ties, zeros), and arrays are often views.
"""

import string

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor
from tests.helpers.shapes import all_axes, axis_of, broadcastable, shape_of, values

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
F = torch.nn.functional

CASES = 120  # of each generator


# ---- The generators: rng -> arrays, our function, PyTorch's ----


def two(ours, theirs, low=None):
    return lambda rng: ([values(rng, shape, low) for shape in broadcastable(rng, 2)], ours, theirs)


def one(ours, theirs, low=None):
    return lambda rng: ([values(rng, shape_of(rng), low)], ours, theirs)


def power_by_constant(rng):
    n = [0, 1, 2, 3, -1, -2, 0.5, 1.5, 2.0, -0.5][rng.integers(10)]
    return [values(rng, shape_of(rng), 0.3 if n != int(n) or n < 0 else None)], lambda x: x**n, lambda x: x**n


def constant_to_power(rng):
    c = float(rng.choice([0.0, 0.5, 1.0, 2.0, 3.5]))
    return [values(rng, shape_of(rng), 0.0)], lambda x: c**x, lambda x: c**x


def clip(rng):
    low, high = sorted(rng.integers(-2, 3, 2).tolist())
    low, high = [(low, high), (None, high), (low, None)][rng.integers(3)]
    return [values(rng, shape_of(rng))], lambda x: ag.clip(x, low, high), lambda x: torch.clamp(x, low, high)


def clip_by_tensors(rng):
    arrays = [values(rng, shape) for shape in broadcastable(rng, 3)]
    arrays[2] = arrays[2] + 0.25  # equal bounds are a corner where PyTorch drops the gradient of both
    return arrays, ag.clip, lambda *xs: torch.clamp(*torch.broadcast_tensors(*xs))  # its own broadcasting fails here


def where(rng):
    condition, a, b = broadcastable(rng, 3)
    mask = np.asarray(rng.random(condition) < 0.5)
    theirs = torch.from_numpy(mask.copy())
    return (
        [values(rng, a), values(rng, b)],
        lambda a, b: ag.where(mask, a, b),
        lambda a, b: torch.where(theirs, a, b),
    )


def masked_fill(rng):
    shape, mask_shape = broadcastable(rng, 2)
    mask = np.asarray(rng.random(mask_shape) < 0.5)
    theirs = torch.from_numpy(mask.copy())
    return (
        [values(rng, shape), values(rng, ())],
        lambda x, value: ag.masked_fill(x, mask, value),
        lambda x, value: torch.masked_fill(x, theirs, value),
    )


def reduction(ours, theirs, smallest=0, **options):
    def draw(rng):
        shape = shape_of(rng, smallest=smallest)
        axis, keepdims = axis_of(rng, len(shape)), bool(rng.random() < 0.5)
        dim = all_axes(axis, len(shape))
        return (
            [values(rng, shape)],
            lambda x: ours(x, axis=axis, keepdims=keepdims),
            lambda x: theirs(x, dim=dim, keepdim=keepdims, **options),
        )

    return draw


def variance(rng):
    shape = shape_of(rng, smallest=1)
    axis = axis_of(rng, len(shape))
    axes = range(len(shape)) if axis is None else np.atleast_1d(axis)
    count = int(np.prod([shape[a] for a in axes]))
    ddof = int(rng.integers(0, 2)) if count > 1 else 0
    dim = all_axes(axis, len(shape))
    return (
        [values(rng, shape)],
        lambda x: ag.var(x, axis, ddof=ddof, keepdims=True),
        lambda x: torch.var(x, dim=dim, correction=ddof, keepdim=True),
    )


def along_axis(ours, theirs):
    def draw(rng):
        shape = shape_of(rng, low=1)
        axis = axis_of(rng, len(shape), several=False)
        return [values(rng, shape)], lambda x: ours(x, axis=axis), lambda x: theirs(x, dim=axis)

    return draw


def softmax_with_masked(ours, theirs):
    """Some elements -inf, but no row of nothing else: there we give 0 and PyTorch NaN."""

    def draw(rng):
        x = values(rng, shape_of(rng, low=1, smallest=1)).copy()
        x[..., 1:][rng.random(x[..., 1:].shape) < 0.4] = -np.inf
        return [x], lambda x: ours(x, axis=-1), lambda x: theirs(x, dim=-1)

    return draw


def reshape(rng):
    shape = shape_of(rng, smallest=1)
    size = int(np.prod(shape))
    new = [(size,), (-1,), (1, size), (*shape[::-1], 1), (-1, *shape[:1])][rng.integers(5)]
    return [values(rng, shape)], lambda x: ag.reshape(x, new), lambda x: torch.reshape(x, new)


def transpose(rng):
    shape = shape_of(rng)
    axes = [int(a) - (len(shape) if rng.random() < 0.5 else 0) for a in rng.permutation(len(shape))]
    return [values(rng, shape)], lambda x: ag.transpose(x, axes), lambda x: x.permute(axes)


def swapaxes(rng):
    shape = shape_of(rng, low=1)
    a, b = (axis_of(rng, len(shape), several=False) for _ in range(2))
    return [values(rng, shape)], lambda x: ag.swapaxes(x, a, b), lambda x: x.swapaxes(a, b)


def expand_dims(rng):
    shape = shape_of(rng)
    axis = int(rng.integers(-len(shape) - 1, len(shape) + 1))
    return [values(rng, shape)], lambda x: ag.expand_dims(x, axis), lambda x: x.unsqueeze(axis)


def broadcast_to(rng):
    shape, other = broadcastable(rng, 2)
    new = np.broadcast_shapes(shape, other)
    return [values(rng, shape)], lambda x: ag.broadcast_to(x, new), lambda x: torch.broadcast_to(x, new)


def concatenate(rng):
    shape = shape_of(rng, low=1)
    axis = axis_of(rng, len(shape), several=False)
    shapes = []
    for _ in range(rng.integers(1, 4)):
        new = list(shape)
        new[axis] = int(rng.integers(0, 4))
        shapes.append(tuple(new))
    return (
        [values(rng, s) for s in shapes],
        lambda *xs: ag.concatenate(xs, axis),
        lambda *xs: torch.cat(xs, dim=axis),
    )


def stack(rng):
    shape = shape_of(rng)
    axis = int(rng.integers(-len(shape) - 1, len(shape) + 1))
    arrays = [values(rng, shape) for _ in range(rng.integers(1, 4))]
    return arrays, lambda *xs: ag.stack(xs, axis), lambda *xs: torch.stack(xs, dim=axis)


def split(rng):
    shape = shape_of(rng, low=1)
    axis = axis_of(rng, len(shape), several=False)
    n = shape[axis]
    if rng.random() < 0.5:
        cut = int(rng.choice([k for k in range(1, 5) if n % k == 0]))
    else:
        cut = sorted(rng.integers(0, n + 1, rng.integers(0, 4)).tolist())
    return [values(rng, shape)], lambda x: ag.split(x, cut, axis), lambda x: torch.tensor_split(x, cut, dim=axis)


def pad(rng):
    shape = shape_of(rng, low=1)
    width = rng.integers(0, 3, (len(shape), 2)).tolist()
    flat = [n for pair in reversed(width) for n in pair]
    return [values(rng, shape)], lambda x: ag.pad(x, width, 1.5), lambda x: F.pad(x, flat, value=1.5)


def getitem(rng):
    shape = shape_of(rng, low=1, smallest=1)
    ours, theirs = [], []
    together = shape_of(rng, low=1, high=2, smallest=1)  # the shape of all integer arrays
    integers = rng.random() < 0.5  # NumPy counts an integer among the arrays, PyTorch does not: axes end up elsewhere
    for n in shape[: rng.integers(1, len(shape) + 1)]:
        kind = rng.integers(5)
        if kind == 0 and integers:
            part = int(rng.integers(-n, n))
        elif kind == 1:
            part = slice(*sorted(rng.integers(0, n + 1, 2).tolist()), int(rng.integers(1, 3)))
        elif kind == 2 or integers:
            ours.append(None)
            theirs.append(None)
            part = slice(None)
        else:
            part = rng.integers(-n, n, together)
        ours.append(part)
        theirs.append(torch.from_numpy(part) if isinstance(part, np.ndarray) else part)
    if rng.random() < 0.3:
        ours.append(Ellipsis)
        theirs.append(Ellipsis)
    ours, theirs = tuple(ours), tuple(theirs)
    return [values(rng, shape)], lambda x: x[ours], lambda x: x[theirs]


def getitem_by_mask(rng):
    shape = shape_of(rng, low=1)
    mask = np.asarray(rng.random(shape[: rng.integers(1, len(shape) + 1)]) < 0.5)
    theirs = torch.from_numpy(mask.copy())
    return [values(rng, shape)], lambda x: x[mask], lambda x: x[theirs]


def take(rng):
    shape = shape_of(rng, low=1, smallest=1)
    axis = None if rng.random() < 0.3 else axis_of(rng, len(shape), several=False)
    n = int(np.prod(shape)) if axis is None else shape[axis]
    indices = np.asarray(rng.integers(-n, n, shape_of(rng, high=2)))
    index = torch.from_numpy(indices.copy())

    def theirs(x):
        if axis is None:
            return torch.take(x, index)
        return x[(*[slice(None)] * (axis % x.ndim), index)]

    return [values(rng, shape)], lambda x: ag.take(x, indices, axis), theirs


def matmul(rng):
    m, k, n = rng.choice([0, 1, 2, 3, 4], 3, p=[0.06, 0.1, 0.24, 0.3, 0.3]).tolist()
    batch_a, batch_b = broadcastable(rng, 2)
    a = (k,) if rng.random() < 0.2 else (m, k) if rng.random() < 0.4 else (*batch_a, m, k)
    b = (k,) if rng.random() < 0.2 else (k, n) if rng.random() < 0.4 else (*batch_b, k, n)
    return [values(rng, a), values(rng, b)], ag.matmul, torch.matmul


def linear(rng):
    inputs, outputs = rng.integers(1, 5, 2).tolist()
    arrays = [values(rng, (*shape_of(rng, high=3), inputs)), values(rng, (outputs, inputs))]
    if rng.random() < 0.7:
        arrays.append(values(rng, (outputs,)))
    return arrays, ag.linear, F.linear


def einsum(rng):
    sizes = dict(zip(string.ascii_lowercase[:4], rng.integers(1, 4, 4).tolist(), strict=True))
    terms = ["".join(rng.choice(list(sizes), rng.integers(0, 4))) for _ in range(rng.integers(1, 4))]
    labels = sorted(set("".join(terms)))
    output = "".join(rng.permutation(labels)[: rng.integers(0, len(labels) + 1)])
    batch = shape_of(rng, high=2, smallest=1)
    dots = ["..." if rng.random() < 0.4 else "" for _ in terms]
    shapes = [
        (*(batch[rng.integers(len(batch) + 1) :] if dot else ()), *[sizes[x] for x in term])
        for dot, term in zip(dots, terms, strict=True)
    ]
    subscripts = ",".join(dot + term for dot, term in zip(dots, terms, strict=True))
    subscripts += f"->{'...' if any(dots) else ''}{output}"
    return (
        [values(rng, shape) for shape in shapes],
        lambda *xs: ag.einsum(subscripts, *xs),
        lambda *xs: torch.einsum(subscripts, *xs),
    )


def gelu_tanh(x):
    return ag.gelu(x, approximate="tanh")


GENERATORS = {
    "add": two(ag.add, torch.add),
    "subtract": two(ag.subtract, torch.subtract),
    "multiply": two(ag.multiply, torch.multiply),
    "divide": two(ag.divide, torch.divide, 0.3),
    "power": two(ag.power, torch.pow, 0.3),
    "power by a constant": power_by_constant,
    "constant to a power": constant_to_power,
    "maximum": two(ag.maximum, torch.maximum),
    "minimum": two(ag.minimum, torch.minimum),
    "negative": one(ag.negative, torch.negative),
    "square": one(ag.square, torch.square),
    "exp": one(ag.exp, torch.exp),
    "log": one(ag.log, torch.log, 0.1),
    "sqrt": one(ag.sqrt, torch.sqrt, 0.0),
    "reciprocal": one(ag.reciprocal, torch.reciprocal, 0.2),
    "abs": one(ag.abs, torch.abs),
    "tanh": one(ag.tanh, torch.tanh),
    "relu": one(ag.relu, torch.relu),
    "sigmoid": one(ag.sigmoid, torch.sigmoid),
    "silu": one(ag.silu, F.silu),
    "gelu": one(ag.gelu, F.gelu),
    "gelu tanh": one(gelu_tanh, lambda x: F.gelu(x, approximate="tanh")),
    "clip": clip,
    "clip by tensors": clip_by_tensors,
    "where": where,
    "masked_fill": masked_fill,
    "sum": reduction(ag.sum, torch.sum),
    "mean": reduction(ag.mean, torch.mean, smallest=1),
    "max": reduction(ag.max, torch.amax, smallest=1),
    "min": reduction(ag.min, torch.amin, smallest=1),
    "var": variance,
    "logsumexp": reduction(ag.logsumexp, torch.logsumexp),
    "softmax": along_axis(ag.softmax, torch.softmax),
    "log_softmax": along_axis(ag.log_softmax, torch.log_softmax),
    "softmax with masked": softmax_with_masked(ag.softmax, torch.softmax),
    "log_softmax with masked": softmax_with_masked(ag.log_softmax, torch.log_softmax),
    "logsumexp with masked": softmax_with_masked(ag.logsumexp, torch.logsumexp),
    "reshape": reshape,
    "transpose": transpose,
    "swapaxes": swapaxes,
    "expand_dims": expand_dims,
    "squeeze": one(ag.squeeze, torch.squeeze),
    "broadcast_to": broadcast_to,
    "concatenate": concatenate,
    "stack": stack,
    "split": split,
    "pad": pad,
    "getitem": getitem,
    "getitem by mask": getitem_by_mask,
    "take": take,
    "matmul": matmul,
    "linear": linear,
    "einsum": einsum,
}


# ---- Comparing ----


def gradients_of(function, arrays, make, numpy_of, backward):
    """Outputs and gradients as NumPy arrays; a gradient that never arrived is zeros."""
    leaves = [make(a) for a in arrays]
    outputs = function(*leaves)
    outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    rng = np.random.default_rng(99)
    backward(outputs, [rng.standard_normal(tuple(y.shape)).astype(arrays[0].dtype) for y in outputs])
    return [numpy_of(y) for y in outputs], [
        np.zeros_like(a) if x.grad is None else numpy_of(x.grad) for x, a in zip(leaves, arrays, strict=True)
    ]


def run_ours(function, arrays):
    def backward(outputs, cotangents):
        ag.engine.run_backward(outputs, cotangents)

    return gradients_of(function, arrays, lambda a: Tensor(a, requires_grad=True), lambda t: t.data, backward)


def run_theirs(function, arrays):
    def backward(outputs, cotangents):
        torch.autograd.backward(outputs, [torch.from_numpy(np.asarray(c)) for c in cotangents])

    return gradients_of(
        function, arrays, lambda a: torch.tensor(a, requires_grad=True), lambda t: t.detach().numpy(), backward
    )


def compare(ours, theirs, arrays, rtol, atol, what):
    results, expected = run_ours(ours, arrays), run_theirs(theirs, arrays)
    for kind, one_kind, other_kind in zip(("output", "gradient"), results, expected, strict=True):
        assert len(one_kind) == len(other_kind), what
        for i, (one_array, other) in enumerate(zip(one_kind, other_kind, strict=True)):
            message = f"{what}, {kind} {i}, shapes {[a.shape for a in arrays]}"
            assert one_array.shape == other.shape, message
            assert one_array.dtype == other.dtype, message
            np.testing.assert_allclose(one_array, other, rtol=rtol, atol=atol, err_msg=message)


@pytest.mark.parametrize("name", GENERATORS)
def test_random_cases(name):
    for seed in range(CASES):
        arrays, ours, theirs = GENERATORS[name](np.random.default_rng([seed, len(name)]))
        compare(ours, theirs, arrays, 1e-12, 1e-12, f"{name}, case {seed}")
        narrow = [a.astype(np.float32) for a in arrays]
        compare(ours, theirs, narrow, 2e-5, 2e-5, f"{name} in float32, case {seed}")


@pytest.mark.parametrize("dtypes", [(np.float32, np.float64), (np.float16, np.float32), (np.float64, np.float16)])
@pytest.mark.parametrize("function", [(ag.add, torch.add), (ag.multiply, torch.multiply), (ag.divide, torch.divide)])
def test_mixed_dtypes(function, dtypes):
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(1, 2, (2, 3)).astype(dtypes[0]), rng.uniform(1, 2, (3,)).astype(dtypes[1])]
    ours, theirs = (
        [Tensor(a, requires_grad=True) for a in arrays],
        [torch.tensor(a, requires_grad=True) for a in arrays],
    )
    y, expected = function[0](*ours), function[1](*theirs)
    assert str(y.dtype) == str(expected.dtype).removeprefix("torch.")
    y.sum().backward()
    expected.sum().backward()
    for one_leaf, other in zip(ours, theirs, strict=True):
        assert one_leaf.grad.dtype == other.grad.numpy().dtype
        np.testing.assert_allclose(one_leaf.grad.data, other.grad.numpy(), rtol=2e-3)


# ---- Edges ----

EDGES = np.array([-np.inf, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, np.inf])


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_powers_of_edges():
    """∞, 0, NaN and all, in the value and in both gradients, for all pairs."""
    a, b = (grid.ravel() for grid in np.meshgrid(EDGES[1:-1], EDGES[1:-1]))
    compare(ag.power, torch.pow, [a, b], 1e-14, 0, "power")
    for n in (0, 1, 2, 3, -1, -2, 0.5, 1.5):
        compare(lambda x, n=n: x**n, lambda x, n=n: x**n, [EDGES[1:-1]], 1e-14, 0, f"x ** {n}")
    for c in (0.0, 1.0, 2.0):
        compare(lambda x, c=c: c**x, lambda x, c=c: c**x, [EDGES[1:-1]], 1e-14, 0, f"{c} ** x")


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
@pytest.mark.parametrize(
    "name", ["relu", "abs", "sqrt", "log", "exp", "tanh", "sigmoid", "reciprocal", "square", "negative"]
)
def test_functions_of_edges(name):
    compare(getattr(ag, name), getattr(torch, name), [EDGES], 1e-14, 1e-300, name)


def test_relu_and_clip_with_infinite_gradients():
    for ours, theirs in ((ag.relu, torch.relu), (lambda x: ag.clip(x, -1, 1), lambda x: torch.clamp(x, -1, 1))):
        x, y = Tensor(EDGES.copy(), requires_grad=True), torch.tensor(EDGES, requires_grad=True)
        ours(x).backward(np.full(len(EDGES), np.inf))
        theirs(y).backward(torch.full((len(EDGES),), np.inf, dtype=torch.float64))
        np.testing.assert_array_equal(x.grad.data, y.grad.numpy())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("x", [[-800.0, -100, -20, 20, 100, 800]])
def test_sigmoid_and_silu_far_out(x, dtype):
    for ours, theirs in ((ag.sigmoid, torch.sigmoid), (ag.silu, F.silu)):
        tolerance = 1e-14 if dtype == np.float64 else 1e-6
        compare(ours, theirs, [np.array(x, dtype)], tolerance, 1e-38, "far out")


def test_a_chain_of_everything():
    """A small network of many ops, with shared intermediates."""

    def network(xp, ops):
        def function(x, w, b, table):
            h = ops["gelu"](ops["linear"](x, w, b))
            h = h + ops["softmax"](h @ h.swapaxes(-1, -2)) @ h
            rows = table[np.array([[0, 2, 2], [1, 0, 2]])]
            z = xp.where(xp.asarray(True) if xp is torch else True, h + rows, h)
            z = (z - ops["mean"](z)) / ops["sqrt"](ops["var"](z) + 1e-5)
            return ops["logsumexp"](z) * ops["sum"](ops["tanh"](z) * z)

        return function

    ours = {
        "gelu": ag.gelu, "linear": ag.linear, "softmax": ag.softmax, "sqrt": ag.sqrt, "tanh": ag.tanh,
        "mean": lambda x: ag.mean(x, -1, True), "var": lambda x: ag.var(x, -1, keepdims=True),
        "logsumexp": lambda x: ag.logsumexp(x, (0, 2)), "sum": lambda x: ag.sum(x, (0, 2)),
    }  # fmt: skip
    theirs = {
        "gelu": F.gelu, "linear": F.linear, "softmax": lambda x: torch.softmax(x, -1), "sqrt": torch.sqrt,
        "tanh": torch.tanh, "mean": lambda x: x.mean(-1, True), "var": lambda x: x.var(-1, correction=0, keepdim=True),
        "logsumexp": lambda x: torch.logsumexp(x, (0, 2)), "sum": lambda x: x.sum((0, 2)),
    }  # fmt: skip
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape) for shape in ((2, 3, 4), (4, 4), (4,), (3, 4))]
    compare(network(ag, ours), network(torch, theirs), arrays, 1e-12, 1e-12, "network")
