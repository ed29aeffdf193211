"""studies/recipes/table_1.py: fits, crossings, and what is measured by counting, which no machine changes."""

import math

import numpy as np
import pytest

from studies.tests.load_recipes import load_recipe

load_recipe("compared_layers")
load_recipe("resumable")
table_1 = load_recipe("table_1")
BY_NAME = {kind.name.partition(",")[0]: kind for kind in table_1.KINDS}


def test_the_exponent_of_a_power():
    assert table_1.exponent([4, 8, 16], [3 * n**1.5 for n in (4, 8, 16)]) == pytest.approx(1.5)


def test_where_two_powers_cross():
    lengths = [16, 32, 64, 128]
    squares, lines = [n**2 for n in lengths], [50 * n for n in lengths]
    assert table_1.crossing(lengths, squares, lines) == pytest.approx(50)
    assert table_1.crossing(lengths, lines, [n + 10_000 for n in lines]) is None
    assert table_1.crossing(lengths, squares, [1] * 4) == 16


@pytest.mark.heavy
@pytest.mark.parametrize("n", [9, pytest.param(40, marks=pytest.mark.slow)])
def test_the_path_between_the_first_and_the_last_position(n):
    found = {name: table_1.path_length(kind, n) for name, kind in BY_NAME.items()}
    neighbours = table_1.NEIGHBOURHOOD // 2
    assert found == {
        "self-attention": 1,
        "self-attention with projections": 1,
        "recurrent": 1,
        "convolutional": n - 1,
        "separable": n - 1,
        "restricted": math.ceil((n - 1) / neighbours),
    }


@pytest.mark.parametrize("name", BY_NAME)
def test_only_the_steps_of_recurrence_grow_with_the_length(name):
    short, long = (table_1.sequential_steps(BY_NAME[name], n) for n in (10, 20))
    if name == "recurrent":
        assert long - short > 10 * 5  # several ops a position
    else:
        assert long == short < 12


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "in_n", "in_d"),
    [("self-attention", 2, 1), ("recurrent", 1, 2), ("convolutional", 1, 2), ("restricted", 1, 1)],
)
def test_operations_are_of_the_papers_order(name, in_n, in_d):
    def operations(n, d):
        return table_1.cost(BY_NAME[name].make(d), n, d, 0).operations

    assert table_1.exponent([256, 512], [operations(n, 32) for n in (256, 512)]) == pytest.approx(in_n, abs=0.05)
    assert table_1.exponent([256, 512], [operations(64, d) for d in (256, 512)]) == pytest.approx(in_d, abs=0.1)


def test_the_plain_recurrent_layer_is_the_one_measured():
    x = table_1.Tensor(np.random.default_rng(0).standard_normal((1, 5, 8)))
    fused, plain = BY_NAME["recurrent"].make(8)(x), BY_NAME["recurrent"].plain(8)(x)
    np.testing.assert_allclose(fused.data, plain.data, rtol=1e-6)


@pytest.mark.heavy
def test_the_whole_table_in_small(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib", reason="the pictures need matplotlib, the extra plot")
    page, picture = tmp_path / "table.md", tmp_path / "table.svg"
    assert table_1.main(["--quick", "--write", str(page), "--plot", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert printed.count("\n| ") == 1 + 2 * len(BY_NAME) - 1
    assert printed.strip() in page.read_text(encoding="utf-8")
    assert picture.read_text(encoding="utf-8").count("<path") > 12
