"""The tools of the cases: checks reject what is wrong, draws give what they promise."""

import numpy as np
import pytest

import autograd as ag
from autograd import Op, Tensor, apply
from autograd.gradcheck import GradcheckError
from tests.cases import checks, draw
from tests.cases.checks import Case, Errors, Example, cases_for, check_case, check_example, register

# ---- Cases ----


def test_unknown_ops():
    with pytest.raises(ValueError, match=r"there is no op 'relu'; did you mean Relu"):
        cases_for("relu")
    with pytest.raises(ValueError, match=r"no op 'Xyzzy'; choose from Abs, Add"):
        cases_for("Xyzzy")


def test_register(monkeypatch):
    monkeypatch.setattr(checks, "_cases", {})

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


# ---- Draws ----


@pytest.mark.parametrize("seed", range(20))
def test_shrunk_and_relayout(seed):
    rng = np.random.default_rng(seed)
    shape = draw.shape(rng)
    assert np.broadcast_shapes(draw.shrunk(rng, shape), shape) == shape
    x = np.asarray(rng.standard_normal(shape))
    np.testing.assert_array_equal(draw.relayout(rng, x), x)
