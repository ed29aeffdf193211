"""The cases of ops, layers and models: they reach every op and are what they promise; their command and its page."""

import re
from pathlib import Path

import numpy as np
import pytest

import autograd as ag
from autograd import Op, Tensor
from autograd.gradcheck import GradcheckError
from tests.cases import all_cases, cases_for
from tests.cases.__main__ import main
from tests.cases.checks import Example, check_example
from tests.cases.layers import LAYERS
from tests.cases.models import MODELS

PAGE = Path(__file__).parent.parent / "docs" / "gradient-tables.md"
HOW_TO = PAGE.with_name("gradient-checks.md")

# ---- The cases ----


def test_every_op_has_cases():
    assert [name for name in Op.registry if not cases_for(name)] == []


def test_cases_run_the_op_they_name():
    """A case whose function avoids its op would prove nothing about it."""
    for case in all_cases():
        function, arrays = case.make(np.random.default_rng(0))
        outputs = function(*[Tensor(a, requires_grad=True) for a in arrays])
        stack = [y.op for y in (outputs if isinstance(outputs, tuple) else (outputs,))]
        seen = set()
        while stack:
            node = stack.pop()
            seen.add(type(node).__name__)
            stack += [edge[0] for edge in getattr(node, "edges", ()) if edge is not None and isinstance(edge[0], Op)]
        assert case.op in seen, str(case)


def test_make_is_repeatable_and_gives_float64():
    for case in all_cases():
        (_, first), (_, again) = (case.make(np.random.default_rng(3)) for _ in range(2))
        assert first, str(case)
        for a, b in zip(first, again, strict=True):
            assert isinstance(a, np.ndarray)
            assert a.dtype == np.float64
            assert a.flags.writeable
            np.testing.assert_array_equal(a, b)
            assert a.strides == b.strides


# ---- Checks ----


X = np.random.default_rng(0).standard_normal((2, 3))


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


# ---- The command and its page ----


def test_the_command(capsys):
    assert main(["--ops", "Relu", "Abs", "--examples", "2", "--seed", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["Relu", "Abs"]
    assert lines[1].split()[1:3] == ["3", "6"]
    assert lines[-1].startswith("2 ops, 6 cases, 12 examples; worst error")


def test_the_command_finds_a_broken_op(capsys, monkeypatch):
    monkeypatch.setattr(Op.registry["Tanh"], "backward", staticmethod(lambda xp, g, y, x: g * (1 - y)))
    assert main(["--ops", "Exp", "Tanh", "--examples", "1"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].endswith("FAILED")
    assert "Tanh: any shape (example 0): GradcheckError: wrong gradient of the input" in lines[3]
    assert lines[-1] == "FAILED: 1 of 2 ops: Tanh"


def test_the_command_errors(capsys):
    assert main(["--ops", "Rellu"]) == 2
    assert capsys.readouterr().err == "error: there is no op 'Rellu'; did you mean Relu or Gelu or LinearRelu?\n"
    assert main(["--device", "abacus"]) == 2
    assert "abacus" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["--examples", "0"])
    assert "'0' is not a whole number of at least 1" in capsys.readouterr().err


def test_the_page_is_up_to_date():
    """Names, cases and examples; the errors belong to the machine that wrote it."""
    text = PAGE.read_text(encoding="utf-8")
    examples = int(re.search(r"--examples (\d+)", text).group(1))
    tables = [{name: cases_for(name) for name in sorted(Op.registry)}, LAYERS, MODELS]
    expected = [
        (name, str(len(cases)), str(len(cases) * examples)) for table in tables for name, cases in table.items()
    ]
    found = re.findall(r"^\| ([^|]+?) \| (\d+) \| (\d+) \|", text, re.MULTILINE)
    assert found == expected, "write it again: python -m tests.cases --write docs/gradient-tables.md"


def test_the_page_on_gradient_checks_works():
    """Its first example runs, and fails as the page says if its last line is wrong."""
    text = HOW_TO.read_text(encoding="utf-8")
    first, *_ = re.findall(r"```python\n(.*?)```", text, re.DOTALL)  # tests/test_docs.py runs the others
    exec(first, {})
    with pytest.raises(GradcheckError) as caught:
        exec(first.replace("3 * x**2 * g_y", "x**2 * g_y"), {})
    shown, *_ = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    number = r"-?\d+\.\d{6,}"
    assert re.sub(number, "#", shown.strip()) == re.sub(number, "#", str(caught.value))
    np.testing.assert_allclose(
        [float(x) for x in re.findall(number, shown)], [float(x) for x in re.findall(number, str(caught.value))], 1e-6
    )
