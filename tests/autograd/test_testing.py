"""The tools for testing ops: checks reject what is wrong, strategies draw what they promise."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

import autograd as ag
from autograd import Op, Tensor, apply
from autograd.gradcheck import GradcheckError
from autograd.gradcheck import cases as case_module
from autograd.testing import Case, Errors, Example, cases_for, check_case, check_example, draw, register
from autograd.testing import strategies as ags

FEW = settings(max_examples=20, derandomize=True, deadline=None)

# ---- Cases ----


def test_unknown_ops():
    with pytest.raises(ValueError, match=r"there is no op 'relu'; did you mean Relu"):
        cases_for("relu")
    with pytest.raises(ValueError, match=r"no op 'Xyzzy'; choose from Abs, Add"):
        cases_for("Xyzzy")


def test_register(monkeypatch):
    monkeypatch.setattr(case_module, "_cases", {})

    @register("Mine", "plain")
    def mine(rng):
        return Example(ag.tanh, [rng.standard_normal(3)])

    (case,) = cases_for("Mine")
    assert case == Case("Mine", "plain", mine)
    assert check_case(case, np.random.default_rng(0)).central < 1e-9
    with pytest.raises(ValueError, match="op Mine has a case named 'plain' already"):
        register("Mine", "plain")(mine)


# ---- Checks ----


def broken(forward, backward):
    def run(self, x):
        self.save(x)
        return forward(x)

    return lambda x: apply(type("Broken", (Op,), {"forward": run, "backward": backward}), x)


X = np.random.default_rng(0).standard_normal((2, 3))


def test_check_example_uses_all_three_sources():
    right = check_example(Example(ag.tanh, [X], lambda x: 1 - 2 / (ag.exp(2 * x) + 1)))
    assert 0 < right.central < 1e-8
    assert right.complex_step < 1e-14
    assert right.plain < 1e-14
    assert check_example(Example(ag.tanh, [X]), analytic=False)[1:] == (None, None)


def test_check_example_rejects_small_errors():
    def off(by):
        return broken(np.sin, lambda self, g: g * np.cos(self.saved[0]) * (1 + by))

    with pytest.raises(GradcheckError, match="numerical"):
        check_example(Example(off(1e-5), [X]), analytic=False)
    check_example(Example(off(1e-9), [X]), analytic=False)  # less than differences can see
    with pytest.raises(GradcheckError, match="numerical"):
        check_example(Example(off(1e-9), [X]))


@pytest.mark.parametrize(
    "plain",
    [
        lambda x: ag.tanh(x) * (1 + 1e-10),
        lambda x: ag.tanh(x)[None],
        lambda x: ag.tanh(x) + (x - x.detach()) * 1e-9,
        lambda x: (ag.tanh(x), x),
    ],
    ids=["value", "shape", "gradient", "number of outputs"],
)
def test_check_example_rejects_another_function(plain):
    with pytest.raises(GradcheckError, match="plain composition"):
        check_example(Example(ag.tanh, [X], plain))


def test_a_plain_composition_may_have_values_only():
    assert check_example(Example(ag.tanh, [X], lambda x: Tensor(np.tanh(x.data)))).plain == 0


def test_errors_merge_to_the_worse():
    assert Errors(1e-9, None, None).merge(Errors(1e-8, 1e-16, None)) == Errors(1e-8, 1e-16, None)


# ---- Strategies: each property holds, and each kind of value is found ----


def finds(strategy, condition, examples=2000):
    try:
        find(strategy, condition, settings=settings(max_examples=examples, derandomize=True, database=None))
    except NoSuchExample:
        return False
    return True


def never(strategy, condition):
    return not finds(strategy, condition, examples=30)


def test_shapes():
    assert finds(ags.shapes(), lambda s: s == ())
    assert finds(ags.shapes(), lambda s: len(s) == 3 and 0 in s)
    assert never(
        ags.shapes(min_ndim=1, min_side=1, max_side=2, max_ndim=2), lambda s: not s or {*s} - {1, 2} or len(s) > 2
    )


@FEW
@given(ags.arrays(away_from=(0, 1), low=-1, high=3))
def test_arrays_away_from_points(x):
    assert x.dtype == np.float64
    assert (abs(x) >= draw.GAP).all()
    assert (abs(x - 1) >= draw.GAP).all()
    assert ((x >= -1 - draw.GAP) & (x <= 3 + draw.GAP)).all()


@FEW
@given(ags.arrays(ags.shapes(min_side=1), distinct=True))
def test_distinct_arrays(x):
    assert (np.diff(np.sort(x.reshape(-1))) >= draw.GAP * 0.999).all()


def test_layouts():
    x = np.arange(6.0).reshape(2, 3)
    for wanted in (
        lambda a: not a.flags.writeable,
        lambda a: a.flags.f_contiguous and not a.flags.c_contiguous,
        lambda a: a.strides[1] < 0 < a.strides[0],
        lambda a: abs(a.strides[1]) == 16,
        lambda a: a.flags.c_contiguous and a.flags.writeable,
    ):
        assert finds(ags.layouts(x), wanted)
    assert never(ags.layouts(x), lambda a: (a != x).any() or a.shape != x.shape)
    assert never(ags.layouts(x.astype(np.int16)), lambda a: (a != x).any() or a.dtype != np.int16)
    assert finds(ags.arrays((2, 3)), lambda a: not a.flags.writeable)
    assert never(ags.arrays((2, 3), negative_strides=False), lambda a: min(a.strides) < 0)
    assert never(ags.arrays((2, 3), read_only=False), lambda a: not a.flags.writeable)
    assert never(ags.arrays((2, 3), any_layout=False), lambda a: not a.flags.c_contiguous or not a.flags.writeable)


def test_points_that_are_too_close_are_an_error():
    assert finds(ags.arrays(away_from=(0, 0, 0.21)), lambda x: x.size > 0)
    with pytest.raises(ValueError, match=r"away_from=\(0, 0.1\): points must be more than 0.2 apart"):
        find(ags.arrays(away_from=(0, 0.1)), lambda x: True)


@FEW
@given(ags.rngs())
def test_rngs_tell_their_seed(rng):
    again = eval(repr(rng))
    assert rng.standard_normal() == again.standard_normal()


@FEW
@given(st.data(), ags.rngs())
def test_shrunk_and_relayout(data, rng):
    shape = draw.shape(rng)
    assert np.broadcast_shapes(draw.shrunk(rng, shape), shape) == shape
    x = np.asarray(rng.standard_normal(shape))
    np.testing.assert_array_equal(draw.relayout(rng, x), x)


# ---- Without Hypothesis ----


@pytest.mark.heavy
def test_only_strategies_need_hypothesis():
    code = """
import sys
sys.modules["hypothesis"] = None
from tests.cases.__main__ import main
assert main(["--ops", "Add", "--examples", "1"]) == 0
try:
    from autograd.testing import strategies
except ImportError as error:
    assert str(error) == "autograd.testing.strategies needs Hypothesis: pip install hypothesis", error
else:
    raise AssertionError("no error")
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, capture_output=True)


def test_example_of_the_documentation(monkeypatch):
    import autograd.testing

    monkeypatch.setattr(case_module, "_cases", {})
    code = "\n".join(line[4:] for line in autograd.testing.__doc__.splitlines() if line.startswith("    ") or not line)
    assert "check_case(" in code
    exec(code, {"np": np, "cube": lambda x: x**3})
    with pytest.raises(GradcheckError, match="plain composition"):
        exec(code.replace("plain=lambda x: x * x * x", "plain=lambda x: x * x").replace("any shape", "wrong"), {
            "np": np, "cube": lambda x: x**3,
        })  # fmt: skip
