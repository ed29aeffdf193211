"""What the page of a step says about an op comes from its source."""

import numpy as np
import pytest

import autograd as ag
from autograd.engine import Op
from autograd.inspect.sources import ROOT, class_description, input_names, saved_names, shown_path

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


@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
def test_every_op_has_a_formula_and_both_sources(op):
    described = class_description(op)
    assert described["formula"]
    assert described["forward"][0]["text"].startswith("def forward(")
    assert described["backward"][0]["text"].startswith("def backward(")
    assert described["forward"][0]["file"].startswith("autograd/")
    assert described["kind"] != "other"


def test_sources_include_the_methods_and_kernels_that_are_called():
    names = [each["name"] for each in class_description(OPS["ScaledDotProductAttention"])["backward"]]
    assert names[0] == "ScaledDotProductAttention.backward"
    assert {"Backend.attention_backward", "Backend.softmax_backward_"} <= {*names}
    assert "Halves._half" in [each["name"] for each in class_description(Halves)["forward"]]


def test_lines_are_those_of_the_file():
    (forward, *_) = class_description(OPS["Tanh"])["forward"]
    lines = (ROOT / forward["file"]).read_text(encoding="utf-8").splitlines()
    assert lines[forward["line"] - 1].strip() == "def forward(self, x):"


def test_names_of_inputs_and_of_saved_arrays():
    assert input_names(OPS["Linear"], 3) == ["x", "weight", "bias"]
    assert input_names(OPS["Concatenate"], 2) == ["arrays[0]", "arrays[1]"]
    assert saved_names(OPS["Linear"], 2) == ["x", "weight"]
    assert saved_names(OPS["ScaledDotProductAttention"], 5) == ["q", "k", "v", "keep", "p"]
    assert saved_names(OPS["ScaledDotProductAttention"], 6)[-1] == "kept[1]"
    assert saved_names(Halves, 2) == ["x", "self._half(x)"]
    assert saved_names(Halves, 1) == ["x"]
    assert saved_names(Halves, 3) == ["saved[0]", "saved[1]", "saved[2]"]


def test_paths_of_other_places_are_shortened():
    assert shown_path("/somewhere/else/file.py") == "file.py"
    assert shown_path(np.__file__).endswith("__init__.py")
