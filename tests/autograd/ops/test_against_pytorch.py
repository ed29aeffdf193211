"""Values and gradients of every op against PyTorch's, at random examples of the cases."""

import numpy as np
import pytest

import autograd as ag
from autograd import Op, Tensor
from tests.cases import cases_for

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

EXAMPLES = 120  # of each op, over all of its cases
NO_PEER = {"Dropout"}  # PyTorch draws other random numbers
EXACT_ONLY = {  # at whole numbers, PyTorch has other conventions, or the function is too steep
    "Clip: between numbers": "between equal bounds, PyTorch's slope is 1",
    "Clip: between Tensors, broadcast": "PyTorch gives no gradient to equal bounds",
    "LayerNorm: any shape": "rows of equal numbers have no variance",
    "DropoutAddLayerNorm: no dropout": "likewise",
    "TakeAlongAxis: the largest elements": "PyTorch takes any of equal elements",
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
        function,
        arrays,
        lambda a: torch.tensor(np.array(a, order="C"), requires_grad=True),
        lambda t: t.detach().numpy(),
        backward,
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


# ---- Cases ----


def rounded(array):
    """The nearest whole numbers, for ties and zeros; away from 0 where all numbers are away from it (logarithms)."""
    if (abs(array) >= 0.3).all():
        return np.copysign(np.ceil(abs(array)), array)
    return np.rint(array)


@pytest.mark.filterwarnings("ignore:(var|std)")  # of an array without elements
@pytest.mark.parametrize("op", sorted(set(Op.registry) - NO_PEER))
def test_cases(op):
    cases = [case for case in cases_for(op) if getattr(case.draw(np.random.default_rng(0)), "torch", None)]
    assert cases, f"no case of {op} has PyTorch's function: pass torch= to an Example, or name {op} in NO_PEER"
    for case in cases:
        for seed in range(-(-EXAMPLES // len(cases))):
            example = case.draw(np.random.default_rng([seed, len(case.name)]))
            drawn = [example.arrays] + [[rounded(a) for a in example.arrays]] * (str(case) not in EXACT_ONLY)
            for arrays in drawn:
                compare(example.function, example.torch, arrays, 1e-12, 1e-12, f"{case}, example {seed}")
                narrow = [a.astype(np.float32) for a in arrays]
                compare(example.function, example.torch, narrow, 2e-5, 2e-5, f"{case} in float32, example {seed}")
