"""The hunt for wrong derivatives, over functions whose answer is known."""

from functools import partial

import numpy as np
import pytest

from autograd.gradcheck import check_derivatives, check_elementwise
from studies.tests.load_recipes import load_recipe

hunt = load_recipe("hunt")
X = np.random.default_rng(0).uniform(0.2, 0.9, 6)


def library():
    yield "cube", partial(check_elementwise, lambda x: x**3, lambda x: 3 * x**2, lambda x: 6 * x, at=X)
    yield "sine", partial(check_elementwise, np.sin, lambda x: -np.cos(x), at=X)
    yield "absolute value", partial(check_elementwise, abs, lambda x: 2 + 0 * x, at=np.zeros(3))
    yield "refused", partial(check_elementwise, np.linalg.inv, np.linalg.inv, at=X)


def test_each_check_is_counted_and_the_wrong_ones_are_printed(monkeypatch, capsys):
    monkeypatch.setitem(hunt.LIBRARIES, "library", library)
    counts = hunt.hunt("library")
    assert counts == {"right": 1, "wrong": 1, "not differentiable here": 1, "not taken: LinAlgError": 1}
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("sine: wrong")
    assert "sign" in line
    assert hunt.hunt("library", only="cube") == {"right": 1}


class Forward:
    """jacrev and jacfwd of the sum of w x³, one of which is wrong."""

    def __init__(self, wrong):
        self.wrong = wrong

    def derivative(self, name):
        factor = 1.5 if name == self.wrong else 1.0

        def of(f):
            h = 1e-4
            return lambda x: factor * np.stack([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(x.size)])

        return of

    jacrev = property(lambda self: self.derivative("reverse"))
    jacfwd = property(lambda self: self.derivative("forward"))


@pytest.mark.heavy
@pytest.mark.parametrize("wrong", ["", "reverse", "forward"])
def test_the_four_compositions(wrong, monkeypatch, capsys):
    monkeypatch.setitem(
        hunt.LIBRARIES, "library", lambda: hunt._compositions(Forward(wrong), np.asarray, lambda x: x**3, X)
    )
    counts = hunt.hunt("library")
    found = [line.split(":")[0] for line in capsys.readouterr().out.splitlines()]
    orders = [f"{outer} over {inner}" for inner in ("reverse", "forward") for outer in ("reverse", "forward")]
    assert found == [order for order in orders if wrong and wrong in order]
    assert counts["right"] == len(orders) - len(found)


def test_functions_of_other_arguments_are_left_out():
    assert list(hunt._compositions(Forward(""), np.asarray, np.linalg.svd, X)) == []


def test_a_wrong_hessian_is_named_as_such(monkeypatch, capsys):
    check = partial(check_derivatives, lambda x: (x**3).sum(), lambda x: 3 * x**2, lambda x: np.diag(3 * x), at=X)
    monkeypatch.setitem(hunt.LIBRARIES, "library", lambda: iter([("cubes", check)]))
    assert hunt.hunt("library") == {"wrong": 1}
    assert capsys.readouterr().out.startswith("cubes: the Hessian")
