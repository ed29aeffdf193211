"""Compiled kernels: what the comparisons of test_plain_equals_fast.py leave open, and how they are switched on."""

import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("numba", reason="needs Numba")

from numba.core import config
from numba.core.caching import FunctionCache

from autograd.fast import compiled_kernels as kernels
from autograd.fast import compiling, cpu_kernels, set_kernels

pytestmark = pytest.mark.heavy


class Chosen:
    """The kernels of the CPU, chosen by name at each call."""

    def __init__(self, name):
        self.name = name

    def __getattr__(self, kernel):
        def call(*arguments, **settings):
            set_kernels(self.name)
            return getattr(cpu_kernels(), kernel)(*arguments, **settings)

        return call


PLAIN, COMPILED = Chosen("numpy"), Chosen("numba")
f4 = np.float32


def run(program, **environment):
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


# ---- Switching on ----


def test_kernels_are_switched_for_every_op_and_keep_their_threads():
    program = """
import numpy as np
from autograd import Tensor, linear
from autograd.fast import cpu_kernels, set_kernels, set_threads, thread_count
op = linear(Tensor(np.ones((3, 3)), requires_grad=True), np.ones((3, 3))).op
set_threads(2)
set_kernels("numba")
print(op.kernels.kernels, thread_count(), op.kernels is cpu_kernels())
set_kernels("numpy")
print(op.kernels.kernels, thread_count())
"""
    assert run(program).stdout.split() == ["numba", "2", "True", "numpy", "2"]


def test_a_compiler_that_is_switched_off_is_named():
    done = run("import autograd.fast as b; b.set_kernels('numba')", NUMBA_DISABLE_JIT="1")
    assert "ValueError: compiled kernels need Numba's compiler, which NUMBA_DISABLE_JIT=1 switches off" in done.stderr


def test_without_numba_the_error_says_what_to_install():
    done = run("import sys; sys.modules['numba'] = None; import autograd.fast as b; b.set_kernels('numba')")
    assert "ValueError: compiled kernels need Numba" in done.stderr
    assert "pip install '.[numba]'" in done.stderr


# ---- Numbers ----


def test_exponentials_to_the_last_digit():
    x = np.concatenate([np.linspace(-87.3, 0, 300_001), -np.logspace(-30, 1.9, 1_001)]).astype(f4)
    y = np.array([kernels.exp(each) for each in x])
    np.testing.assert_allclose(y, np.exp(x.astype(np.float64)), rtol=2**-23, atol=0)
    assert [kernels.exp(f4(each)) for each in (0, -88, -np.inf)] == [1, 0, 0]
    assert np.isnan(kernels.exp(f4(np.nan)))


NEGATIVE_NAN = np.array([0xFFC00000], np.uint32).view(f4)[0]  # what x86 makes of ∞ - ∞
STRANGE = [np.nan, NEGATIVE_NAN, np.inf, -np.inf, f4(3e38)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("strange", STRANGE, ids=["NaN", "-NaN", "inf", "-inf", "huge"])
@pytest.mark.parametrize("width", [1, 7, 40])
def test_no_nan_is_lost(strange, width):
    """A number that is none, in one row of three: the same rows as with the definitions become none."""
    rng = np.random.default_rng(width)
    x, others = rng.standard_normal((2, 3, width)).astype(f4)
    x[1, width // 2] = strange
    weight, bias, targets = np.ones(width, f4), np.zeros(width, f4), np.zeros(3, int)
    keep = np.ones((3, width), bool)
    p = np.full((1, 1, 3, width), f4(1 / width))
    moments = others.copy(), others * others
    for call in (
        lambda b: b.dropout_add_layer_norm(x, None, None, 1.0, weight, bias, 1e-6),
        lambda b: b.dropout_add_layer_norm(others, x, keep, 1.5, weight, bias, 1e-6),
        lambda b: b.dropout_add_layer_norm_backward(x, others, np.ones((3, 1), f4), weight, None, 1.0)[1:],
        lambda b: softmax(b, x, None),
        lambda b: softmax(b, x, np.arange(width) != width // 2),
        lambda b: (scores := x[None, None].copy(), b.weights_to_scores_(scores, p, 1.0))[0],
        lambda b: b.cross_entropy_(x.copy(), targets, 0.1),
        lambda b: b.relu_backward_sum(x, others),
        lambda b: b.relu_backward_sum(others, x),
        lambda b: b.linear(x, np.ones((5, width), f4), np.zeros(5, f4), relu=True),
        lambda b: b.linear_of_few(x, np.ones((width, 5), f4), np.zeros(5, f4), relu=True),
        lambda b: b.top_tokens(x, np.zeros(width, bool), 1)[2],
        lambda b: updated(b, others, x, *moments),
    ):
        for ours, plain in zip(_arrays(call(COMPILED)), _arrays(call(PLAIN)), strict=True):
            np.testing.assert_array_equal(np.isnan(ours), np.isnan(plain))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("place", [2, 4], ids=["of the target", "of another class"])
def test_the_loss_of_a_logit_of_minus_infinity(place, smoothing):
    x = np.random.default_rng(0).standard_normal((3, 7)).astype(f4)
    x[1, place] = -np.inf
    ours, plain = (b.cross_entropy_(x.copy(), np.array([1, 2, 3]), smoothing) for b in (COMPILED, PLAIN))
    for a, b in zip(ours, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    assert np.isinf(ours[0][1]) == (place == 2 or smoothing > 0)


def updated(kernels, parameter, gradient, m, v):
    arrays = parameter.copy(), gradient, m.copy(), v.copy()
    settings = {"step_size": 0.1, "beta1": 0.9, "beta2": 0.98, "eps": 1e-9, "gradient_scale": 1.0}
    kernels.adam_all_([(*arrays, None)], **settings)
    return arrays


def softmax(kernels, x, mask):
    scores = x[None, None].copy()
    kernels.softmax_(scores, mask, 1.0)
    return scores


def _arrays(found):
    return list(found) if isinstance(found, tuple | list) else [found]


def test_a_row_is_computed_alike_among_others():
    rng = np.random.default_rng(0)
    x, weight, bias = rng.standard_normal((9, 77)).astype(f4), np.ones(77, f4), np.zeros(77, f4)
    targets = rng.integers(0, 77, 9)
    for call in (
        lambda rows: COMPILED.dropout_add_layer_norm(x[rows], None, None, 1.0, weight, bias, 1e-6)[0],
        lambda rows: COMPILED.cross_entropy_(x[rows].copy(), targets[rows], 0.1)[0],
        lambda rows: softmax(COMPILED, x[rows], None)[0, 0],
    ):
        whole = call(slice(None))
        for i in range(9):
            np.testing.assert_array_equal(call(slice(i, i + 1)), whole[i : i + 1])


@pytest.mark.parametrize("index", [-5, 4])
def test_an_index_outside_reaches_no_memory(index):
    """NumPy's kernels take over, and raise their error."""
    rows = np.zeros((3, 4), f4)
    with pytest.raises(IndexError):
        COMPILED.cross_entropy_(rows, np.array([0, index, 1]), 0.1)
    with pytest.raises(IndexError):
        COMPILED.embedding_backward(rows, np.array([0, 5 * index, 1]), 4)


def test_shapes_that_do_not_fit_reach_no_memory():
    rows = np.zeros((3, 4), f4)
    with pytest.raises(ValueError, match="broadcast"):
        COMPILED.dropout_add_layer_norm(rows, None, None, 1.0, np.ones(5, f4), np.zeros(5, f4), 1e-6)
    with pytest.raises(ValueError, match="mismatch"):
        COMPILED.attention(*np.zeros((2, 1, 1, 3, 4), f4), np.zeros((1, 1, 2, 4), f4), None, None, 1.0, 1.0)
    with pytest.raises(ValueError, match="broadcast"):
        COMPILED.softmax_(np.zeros((3, 1, 2, 4), f4), np.ones((2, 1, 1, 4), bool), 1.0)
    with pytest.raises(ValueError, match="not aligned"):
        COMPILED.linear_of_few(rows, np.zeros((2, 3), f4).T, None)
    with pytest.raises(ValueError, match="broadcast"):
        COMPILED.linear_of_few(rows, np.zeros((2, 4), f4).T, np.zeros(3, f4))


# ---- Compiled code on disk ----

PROGRAM = """
import numpy as np
from autograd.fast import cpu_kernels, set_kernels
set_kernels("numba")
norm = cpu_kernels().dropout_add_layer_norm
print(norm(np.eye(2, 3, dtype="f"), None, None, 1.0, np.ones(3, "f"), np.ones(3, "f"), 0.5)[0].sum())
"""


def run_with_cache(folder):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    return subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=False)


@pytest.mark.slow  # compiles three times
def test_broken_files_are_compiled_again(tmp_path):
    first = run_with_cache(tmp_path)
    for suffix in (".nbi", ".nbc"):
        files = [path for path in tmp_path.rglob("*") if path.suffix == suffix]
        assert files
        for path in files:
            path.write_bytes(b"garbage")
        again = run_with_cache(tmp_path)
        assert (again.returncode, again.stdout, again.stderr) == (0, first.stdout, first.stderr)
        assert all(path.read_bytes() != b"garbage" for path in files if path.suffix == ".nbi")


def double(x):
    return x + x


def test_code_is_compiled_again_once_the_kernels_have_changed(monkeypatch, tmp_path):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    def found_on_disk():
        compiled = compiling.compiled(double)
        assert compiled(3) == 6
        return sum(compiled.stats.cache_hits.values())

    assert [found_on_disk() for _ in range(2)] == [0, 1]
    monkeypatch.setattr(compiling, "_kernels", lambda: "of another file")
    assert [found_on_disk() for _ in range(2)] == [0, 1]


@pytest.fixture
def warned_anew():
    """A warning is given once in a process."""
    compiling._warn.cache_clear()
    yield
    compiling._warn.cache_clear()


@pytest.mark.usefixtures("warned_anew")
def test_a_disk_that_is_full_is_a_warning(monkeypatch):
    def full(self, *arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FunctionCache, "save_overload", full)
    monkeypatch.setattr(FunctionCache, "load_overload", lambda self, *arguments: None)
    function = compiling.compiled(lambda x: x + x)
    with pytest.warns(UserWarning, match=r"cannot be kept on disk .*No space left.*; set NUMBA_CACHE_DIR"):
        assert function(3) == 6


@pytest.mark.usefixtures("warned_anew")
def test_without_a_place_on_disk_kernels_are_compiled_in_memory_with_one_warning(monkeypatch):
    def nowhere(self, function):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(FunctionCache, "__init__", nowhere)
    with pytest.warns(UserWarning, match="no directory to write to for .*fast"):
        function = compiling.compiled(lambda x: x + x)
    assert function(3) == 6
    assert compiling.compiled(double)(3) == 6


def test_code_is_compiled_again_for_other_settings(monkeypatch, tmp_path):
    """Numba's own key of compiled code leaves them out."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    compiling.compiled(double)(3)
    monkeypatch.setattr(config, "LOOP_VECTORIZE", 0)
    again = compiling.compiled(double)
    assert again(3) == 6
    assert not again.stats.cache_hits
