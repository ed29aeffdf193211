"""Products with epilogues, over a stand-in for nvmath-python: the numbers of the plain path, in fewer launches."""

import sys
from typing import Any

import numpy as np
import pytest
from autograd.fast.fused import linear_after_relu
from autograd.fast.row_gradient import ProductGradient

import autograd as ag
from autograd import Tensor
from autograd.devices import get_backend
from tests.emulation import nvmath_stand_in
from tests.emulation.cupy_stand_in import installed
from tests.emulation.device import _recorded
from tests.emulation.emulator import Emulator

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(not Emulator.available(), reason="needs g++ to emulate the CUDA kernels"),
]
BIAS, RELU_BIAS, RELU_MASK, RELU_BACKWARD, BIAS_GRADIENT = 4, 6, 134, 136, 512


def results(dtype: Any, nvmath: Any = None, used_twice: bool = False) -> tuple[list[np.ndarray], list[str], list[int]]:
    """Outputs and gradients of two linear layers and of attention's projections; kernels and epilogues launched."""
    emulator = Emulator()
    with installed(emulator, nvmath=nvmath), _recorded(get_backend("cuda"), emulator) as gpu:
        rng = np.random.default_rng(0)

        def tensor(*shape: int, kind: Any = np.float32) -> Tensor:
            a = rng.integers(-2, 3, shape)  # sums of small integers are exact
            return Tensor(gpu.asarray(a).astype(kind), requires_grad=True)

        master = np.float64 if dtype == np.float64 else np.float32
        x = tensor(2, 5, 8, kind=dtype)
        parameters = [tensor(*shape, kind=master) for shape in ((6, 8), (6,), (4, 6), (4,), (8, 8), (8,), (4, 8), (4,))]
        up, b_up, down, b_down, w_q, b_q, w_k, b_k = parameters
        hidden = ag.fast.linear_relu(x, up, b_up)
        y = linear_after_relu(hidden, down, b_down)
        q, k = ag.fast.linear_heads(x, [w_q, w_k], [b_q, b_k], heads=2)
        loss = (y * y).sum() + q.sum() * 2 + (k * k).sum()
        (loss + hidden.sum() if used_twice else loss).backward()
        found = [a.numpy().astype(float) for a in (y, q, k, *[p.grad for p in (x, *parameters)])]
        launched = [name.split("<")[0] for name in gpu.launched]
    return found, launched, [] if nvmath is None else nvmath["nvmath.bindings.cublasLt"].multiplied


@pytest.mark.parametrize("dtype", [np.float64, np.float32, "bfloat16"])
def test_epilogues_give_the_numbers_of_the_plain_path(dtype: Any) -> None:
    dtype = np.dtype(pytest.importorskip("ml_dtypes").bfloat16) if dtype == "bfloat16" else dtype
    plain, launches, _ = results(dtype)
    found, fewer, epilogues = results(dtype, nvmath_stand_in.module(set()))
    for ours, theirs in zip(found, plain, strict=True):
        # the plain path rounds a product to bfloat16 before it adds the bias
        np.testing.assert_allclose(ours, theirs, rtol=0.02 if np.dtype(dtype).itemsize == 2 else 1e-6)
    assert (launches.count("bias_"), launches.count("column_sum")) == (3, 3)
    assert (fewer.count("bias_"), fewer.count("column_sum")) == (0, 0)
    counts = [epilogues.count(each) for each in (BIAS, RELU_BIAS, RELU_MASK, RELU_BACKWARD, BIAS_GRADIENT)]
    assert counts == [2, 0, 1, 1, 3]


def test_a_gradient_that_is_not_the_next_layers_alone_is_masked_by_a_kernel() -> None:
    """The sum of a gradient with ReLU's and of one without."""
    plain, *_ = results(np.float32, used_twice=True)
    found, launches, epilogues = results(np.float32, nvmath_stand_in.module(set()), used_twice=True)
    for ours, theirs in zip(found, plain, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert epilogues.count(RELU_BACKWARD) == launches.count("column_sum") == 1


def test_a_kernel_stands_in_where_there_is_no_algorithm() -> None:
    plain, launches, _ = results(np.float32)
    every = {BIAS, RELU_BIAS, RELU_MASK, RELU_BACKWARD, BIAS_GRADIENT}
    for refused in (every, {1, *every}, {RELU_BACKWARD}, {RELU_MASK}):
        found, same, epilogues = results(np.float32, nvmath_stand_in.module(refused))
        for ours, theirs in zip(found, plain, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert same == launches or BIAS not in refused
        assert not {*epilogues} & refused
        assert ("column_sum" in same) == bool(refused & every)


def test_a_product_is_added_to_the_gradient_that_is_there() -> None:
    """In its launch, whether or not cuBLASLt has an algorithm; what is there is not changed."""
    for refused in (set[int](), {1}):
        modules: Any = nvmath_stand_in.module(refused)
        with installed(Emulator(), nvmath=modules):
            gpu: Any = get_backend("cuda")
            rng = np.random.default_rng(0)
            total, a, b = (rng.integers(-2, 3, shape).astype(np.float32) for shape in ((6, 5), (6, 4), (4, 5)))
            given = gpu.asarray(total.reshape(2, 3, 5))
            gradient = ProductGradient(gpu, gpu.asarray(a), gpu.asarray(b), (2, 3, 5))
            found = np.add(given, gradient)
            np.testing.assert_array_equal(found.get(), (total + a @ b).reshape(2, 3, 5))
            np.testing.assert_array_equal(given.get(), total.reshape(2, 3, 5))
            for first in (np.add(gradient, given), np.add(given, gradient, out=given)):
                np.testing.assert_array_equal(first.get(), found.get())
            np.testing.assert_array_equal(gpu.asarray(gradient).get(), (a @ b).reshape(2, 3, 5))


def test_shapes_that_are_forgotten_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A description and three layouts each; also of what there is no algorithm for."""
    modules: Any = nvmath_stand_in.module({BIAS})
    destroyed = modules["nvmath.bindings.cublasLt"].destroyed
    with installed(Emulator(), nvmath=modules):
        gpu: Any = get_backend("cuda")
        monkeypatch.setattr(sys.modules["autograd.fast.cublaslt"], "MOST_PLANS", 3)
        for n in range(1, 6):
            gpu.product(gpu.asarray(np.ones((n, 4))), gpu.asarray(np.ones((4, 2))))
        assert len(gpu._lt._plans) == 3
        assert len({*destroyed}) == len(destroyed) == 2 * 4
        gpu.linear(*[gpu.asarray(np.ones(shape)) for shape in ((9, 4), (2, 4), (2,))])
        assert len(gpu._lt._plans) == 3
        assert len({*destroyed}) == len(destroyed) == 5 * 4  # two for room, and the one that is not supported


def test_a_library_that_cannot_be_used_is_said() -> None:
    modules: Any = nvmath_stand_in.module(set())
    modules["nvmath.bindings.cublasLt"].create = lambda: 1 / 0
    with pytest.warns(UserWarning, match="cuBLASLt cannot be used, cuBLAS is: ZeroDivisionError"):
        results(np.float32, modules)


def test_the_stand_in_is_as_the_installed_package() -> None:
    """Names, numbers, types and signatures, where nvmath-python is installed; no GPU is needed."""
    real = pytest.importorskip("nvmath.bindings").cublasLt
    for name, text in nvmath_stand_in.SIGNATURES.items():
        assert getattr(real, name).__doc__.splitlines()[0] == text
    for kind in ("Epilogue", "MatmulDescAttribute", "MatmulPreferenceAttribute"):
        for each in getattr(nvmath_stand_in, kind):
            assert int(getattr(real, kind)[each.name]) == int(each)
    for attribute, dtype in nvmath_stand_in.DESCRIPTION_TYPES.items():
        assert np.dtype(real.get_matmul_desc_attribute_dtype(attribute)) == dtype
    for attribute, dtype in nvmath_stand_in.PREFERENCE_TYPES.items():
        assert np.dtype(real.get_matmul_preference_attribute_dtype(attribute)) == dtype
    stand_in: Any = nvmath_stand_in.module(set())["nvmath.bindings.cublasLt"]
    assert real.matmul_heuristic_result_dtype == stand_in.matmul_heuristic_result_dtype
