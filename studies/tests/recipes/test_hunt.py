"""The hunt for wrong derivatives: what it finds among functions whose answer is known, and its page."""

import os
from collections import Counter
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool

import numpy as np
import pytest

from studies.tests.load_recipes import load_recipe

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
        found = self.factors[composition] * 6 * self.w * arrays[0] * v[0]
        return [(found * v[0]).sum() if composition == "forward over forward" else found]


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


def test_a_wrong_first_derivative_is_found_and_its_derivatives_are_not_judged():
    point = hunt.point_of("cube", "at X", Cubes("reverse"), [X])
    first, forward, *second = hunt.verdicts(point)
    assert isinstance(first, hunt.Finding)
    assert forward == "right"
    assert len(second) == 4
    assert all(said.startswith("of order 2, where the first") for said in second)


def test_partial_derivatives_alone_are_not_judged():
    """x where c is not 0, and y elsewhere, has partial derivatives at 0, but no derivative."""

    class Where:
        def value(self, arrays):
            c, x, y = arrays
            return float(np.where(c, x, y).sum())

        def gradient(self, arrays):
            return [np.zeros_like(arrays[0]), 1.0 * (arrays[0] != 0), 1.0 * (arrays[0] == 0)]

        def slope(self, arrays, v):
            return sum(float((g * d).sum()) for g, d in zip(self.gradient(arrays), v, strict=True))

        def second(self, composition, arrays, v):
            return [np.zeros_like(x) for x in arrays]

    point = hunt.point_of("where", "at 0", Where(), [np.zeros(2)] * 3)
    assert isinstance(hunt.examine(point, "forward"), hunt.Finding)
    assert [*hunt.verdicts(point)][:2] == ["right", "not differentiable here"]


@pytest.mark.parametrize(
    ("function", "at", "smooth"),
    [
        (lambda x: x**2, 0.0, True),
        (lambda x: 1e4 * np.exp(x), 1.0, True),
        (lambda x: x**2 + 1e8, 1.0, True),
        (abs, 0.0, False),
        (np.sign, 0.0, False),
        (lambda x: np.where(x == 0, 0.0, 1.0), 0.0, False),
        (np.sqrt, 0.0, False),
        (np.log, 0.0, False),
    ],
)
def test_whether_a_function_has_a_derivative(function, at, smooth):
    with np.errstate(all="ignore"):
        assert hunt.is_differentiable(lambda xs: float(function(xs[0]).sum()), [np.full(3, at)]) == smooth


def test_what_is_not_implemented_is_not_judged():
    class Fewer(Cubes):
        def second(self, composition, arrays, v):
            if composition == "forward over forward":
                raise NotImplementedError
            return super().second(composition, arrays, v)

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
    text = hunt.section("numpy 2", findings, counts, 1, 60.0)
    assert "| sign: cos | reverse | as listed |" in text
    assert "1 derivatives compared with differences, 1 of them wrong" in text


def test_a_section_replaces_that_of_the_same_library_alone(tmp_path):
    page = tmp_path / "hunt.md"
    for library, functions in (("torch 2", 1), ("jax 0", 2), ("torch 3", 5)):
        hunt.write_section(page, hunt.section(library, [], Counter(right=3), functions, 1.0))
    text = page.read_text()
    assert text.startswith(hunt.HEAD)
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## jax 0", "## torch 3"]
    assert "2 functions" in text
    assert "5 functions" in text
    assert "1 functions" not in text


def test_known_issues_are_linked():
    finding = hunt.Finding("linalg.det", "forward over forward", "sample 0", "1", "2", "")
    text = hunt.section("torch 2", [finding, finding], Counter(right=3), 1, 1.0)
    assert "sample 0 and 1 more" in text
    assert "[196696](https://github.com/pytorch/pytorch/issues/196696)" in text
    assert "| no |" in hunt.section("jax 0", [finding], Counter(right=3), 1, 1.0)


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
    text = hunt.section("torch 2", findings, counts, 1, 1.0)
    assert "0 of them wrong, in 0 functions; 2 not judged" in text
    assert f"| {points[1].why} | 1 |" in text


class Pool:
    """A pool of processes, one of which ends when it gets a fatal function, and with it all that have not finished."""

    def __init__(self, processes, context, initializer, initargs):
        # a killed hunt leaves no process behind
        assert (initializer, initargs) == (hunt.exit_with_parent, (os.getpid(),))
        self.broken = False

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def submit(self, function, library, name):
        self.broken |= name.startswith("fatal")
        future = Future()
        if self.broken:
            future.set_exception(BrokenProcessPool("a process ended"))
        else:
            future.set_result(([], Counter(right=1)))
        return future


def test_a_library_that_ends_the_process_is_left_out_and_the_others_are_not(monkeypatch):
    monkeypatch.setattr(hunt, "ProcessPoolExecutor", Pool)
    findings, counts, functions = hunt.hunt("torch", ["a", "b", "fatal", "c", "fatal too", "d"], 2, 1.0)
    assert (findings, functions) == ([], 4)
    assert counts == {"right": 4, "the library ended the process": 2}


def test_processes_end_when_the_time_is_over(monkeypatch, capsys):
    class Slow(Pool):
        def submit(self, function, library, name):
            return Future()  # which never ends

        def shutdown(self, wait, cancel_futures):
            assert (wait, cancel_futures) == (False, True)

    class Process:
        ended = False

        def terminate(self):
            self.ended = True

    process = Process()
    monkeypatch.setattr(hunt, "ProcessPoolExecutor", Slow)
    monkeypatch.setattr(hunt, "active_children", lambda: [process])
    assert hunt.hunt("torch", ["a", "b"], 2, 0.0) == ([], {}, 0)
    assert process.ended
    assert "the time is over at a" in capsys.readouterr().err
