"""Products with epilogues, over a stand-in for nvmath-python: the numbers of the plain path, in fewer launches."""

import sys
from typing import Any

import numpy as np
import pytest

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
BIAS, RELU_BIAS, BIAS_GRADIENT = 4, 6, 512


def results(dtype: Any, nvmath: Any = None) -> tuple[list[np.ndarray], list[str], list[int]]:
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
        y = ag.linear(ag.fast.linear_relu(x, up, b_up), down, b_down)
        q, k = ag.fast.linear_heads(x, [w_q, w_k], [b_q, b_k], heads=2)
        ((y * y).sum() + q.sum() * 2 + (k * k).sum()).backward()
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
    assert (fewer.count("bias_"), fewer.count("column_sum")) == (0, 1)  # ReLU's gradient, and its bias's
    assert [epilogues.count(each) for each in (BIAS, RELU_BIAS, BIAS_GRADIENT)] == [2, 1, 2]


def test_a_kernel_stands_in_where_there_is_no_algorithm() -> None:
    plain, launches, _ = results(np.float32)
    for refused in ({BIAS, RELU_BIAS, BIAS_GRADIENT}, {1, BIAS, RELU_BIAS, BIAS_GRADIENT}):
        found, same, epilogues = results(np.float32, nvmath_stand_in.module(refused))
        for ours, theirs in zip(found, plain, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert same == launches
        assert {*epilogues} == ({1} - refused)


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
