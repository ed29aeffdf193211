"""What the page of a step says about an op comes from its source."""

import numpy as np

import autograd as ag
from additions.pages.sources import ROOT, class_description, input_names, saved, saved_names, shown_path
from autograd import fast
from autograd.engine import Op, implementations
from tests.helpers.leaves import random_leaf

OPS = Op.registry


class Halves(ag.Op):
    """y = x / 2

    Saves:  nothing
    """

    def forward(self, x):
        if x.ndim:
            self.save(x, self._half(x))
        else:
            self.save(x)
        return x / 2

    def _half(self, x):
        return x / 2


def test_every_op_has_a_formula_and_both_sources():
    for op in OPS.values():
        described = class_description(op)
        assert described["formula"], op
        assert "def forward(xp, " in described["forward"][0]["text"]
        assert "def backward(xp, " in described["backward"][0]["text"]
        assert described["forward"][0]["file"].startswith("autograd/")
        assert described["kind"] != "other", op


def test_an_implementation_is_described_with_its_definition():
    for plain, implementation in implementations.items():
        described = class_description(implementation)
        assert described["formula"] == class_description(plain)["formula"]
        assert described["kind"] == class_description(plain)["kind"]
        names = [each["name"] for each in described["forward"]]
        assert names[0] == f"{plain.__name__}.forward"
        assert len(names) > 1
        assert (implementation.__doc__ or "") in described["about"] or "Saves:" in described["about"]


def test_sources_include_the_methods_and_kernels_that_are_called():
    described = class_description(fast.ops.ScaledDotProductAttention)["backward"]
    roles = {each["name"]: each["role"] for each in described[1:]}
    assert described[0]["role"] == "definition"
    assert roles["ScaledDotProductAttention.backward"] == "implementation"
    assert roles["attention_backward"] == roles["weights_to_scores_"] == "kernel"
    assert "Halves._half" in [each["name"] for each in class_description(Halves)["forward"]]


def test_lines_are_those_of_the_file():
    (forward, *_) = class_description(OPS["Tanh"])["forward"]
    lines = (ROOT / forward["file"]).read_text(encoding="utf-8").splitlines()
    assert [line.strip() for line in lines[forward["line"] - 1 :][:2]] == ["def forward(xp, x):", "return xp.tanh(x)"]


def test_names_of_inputs_and_of_saved_arrays():
    assert input_names(OPS["Linear"], 3) == input_names(fast.ops.Linear, 3) == ["x", "weight", "bias"]
    assert input_names(OPS["Concatenate"], 2) == ["arrays[0]", "arrays[1]"]
    assert saved_names(fast.ops.Linear, 2) == ["x", "weight"]
    assert saved_names(fast.ops.ScaledDotProductAttention, 5) == ["q", "k", "v", "keep", "p"]
    assert saved_names(Halves, 2) == ["x", "self._half(x)"]
    assert saved_names(Halves, 1) == ["x"]
    assert saved_names(Halves, 3) == ["saved[0]", "saved[1]", "saved[2]"]


def test_what_a_plain_op_keeps_has_the_names_of_its_inputs():
    x, w = random_leaf(2, 3), random_leaf(2, 3)
    assert [name for name, _ in saved(ag.exp(x).op)] == ["y"]
    assert [name for name, _ in saved((x * w).op)] == ["a", "b"]
    assert [name for name, _ in saved((x + w).op)] == []


def test_paths_of_other_places_are_shortened():
    assert shown_path("/somewhere/else/file.py") == "file.py"
    assert shown_path(np.__file__).endswith("__init__.py")
