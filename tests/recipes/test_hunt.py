"""The hunt for wrong derivatives: what it finds among functions whose answer is known, and its page."""

from collections import Counter

import numpy as np
import pytest

from tests.helpers.recipes import load_recipe

hunt = load_recipe("hunt")
X = np.random.default_rng(0).uniform(0.2, 0.9, (2, 3))


class Cubes:
    """φ = Σ w x³ and its derivatives, of which one may be wrong by a factor."""

    def __init__(self, wrong="", factor=1.5):
        self.factors = dict.fromkeys(hunt.COMPOSITIONS, 1.0) | {wrong: factor}
        self.w = np.random.default_rng(1).standard_normal(X.shape)

    def value(self, arrays):
        return float((self.w * arrays[0] ** 3).sum())

    def gradient(self, arrays):
        return [self.factors["reverse"] * 3 * self.w * arrays[0] ** 2]

    def slope(self, arrays, v):
        return self.factors["forward"] * float((3 * self.w * arrays[0] ** 2 * v[0]).sum())

    def second(self, composition, arrays, v):
        return self.factors[composition] * 6 * self.w * arrays[0] * v[0]

    def reverse_over_reverse(self, arrays, v):
        return [self.second("reverse over reverse", arrays, v)]

    def forward_over_reverse(self, arrays, v):
        return [self.second("forward over reverse", arrays, v)]

    def reverse_over_forward(self, arrays, v):
        return [self.second("reverse over forward", arrays, v)]

    def forward_over_forward(self, arrays, v):
        return float((self.second("forward over forward", arrays, v) * v[0]).sum())


def examined(phi, values=X):
    point = hunt.Point("cube", "at X", hunt.compositions_of(phi, [values]))
    return {composition: hunt.examine(point, composition) for composition in hunt.COMPOSITIONS}


def test_right_derivatives_are_right():
    assert set(examined(Cubes()).values()) == {"right"}
    assert set(examined(Cubes(), hunt.some_zero([X])[0]).values()) == {"right"}


@pytest.mark.parametrize("wrong", hunt.COMPOSITIONS[1:])
def test_the_wrong_composition_is_found_and_no_other(wrong):
    found = examined(Cubes(wrong))
    assert [name for name, said in found.items() if said != "right"] == [wrong]
    finding = found[wrong]
    assert float(finding.found) == pytest.approx(1.5 * float(finding.expected), rel=1e-3)


def test_a_wrong_first_derivative_is_found():
    assert isinstance(examined(Cubes("reverse"))["reverse"], hunt.Finding)


def test_what_is_not_implemented_is_not_judged():
    class Fewer(Cubes):
        def forward_over_forward(self, arrays, v):
            raise NotImplementedError

    assert examined(Fewer())["forward over forward"].startswith("not judged")


def test_kinks_are_not_judged():
    class Kinks(Cubes):
        def value(self, arrays):
            return float((self.w * abs(arrays[0])).sum())

        def gradient(self, arrays):
            return [self.w * np.sign(arrays[0])]

    assert examined(Kinks(), hunt.some_zero([X])[0])["reverse"] == "not differentiable here"


def test_numpy_functions_and_their_page():
    findings, counts = hunt.examine_function("numpy", "sign: cos")
    assert [finding.cause[:17] for finding in findings] != []
    assert hunt.examine_function("numpy", "element-wise: sin") == ([], {"right": 1})
    text = hunt.page("numpy 2", findings, counts, 1, 60.0)
    assert "| sign: cos | reverse | as listed |" in text
    assert "1 derivatives compared with differences, 1 of them wrong" in text


def test_known_issues_are_linked():
    finding = hunt.Finding("linalg.det", "forward over forward", "sample 0", "1", "2", "")
    text = hunt.page("torch 2", [finding, finding], Counter(right=3), 1, 1.0)
    assert "sample 0 and 1 more" in text
    assert "[196696](https://github.com/pytorch/pytorch/issues/196696)" in text
    assert "| no |" in hunt.page("jax 0", [finding], Counter(right=3), 1, 1.0)


def test_what_is_left_out_is_counted_and_named(monkeypatch):
    points = [
        hunt.Point("cube", "at X", hunt.compositions_of(Cubes(), [X])),
        hunt.LeftOut("outside of the domain, or not taken: ValueError"),
    ]

    def of_cube(name, function):
        yield from points
        raise ImportError("no module of this name")

    monkeypatch.setitem(hunt.LIBRARIES, "torch", (lambda: {"cube": None}, of_cube))
    hunt.functions_of.cache_clear()
    findings, counts = hunt.examine_function("torch", "cube")
    hunt.functions_of.cache_clear()
    assert findings == []
    assert counts == {"right": 6, points[1].why: 1, "no samples: ImportError": 1}
    text = hunt.page("torch 2", findings, counts, 1, 1.0)
    assert "0 of them wrong, 2 not judged" in text
    assert f"| {points[1].why} | 1 |" in text
