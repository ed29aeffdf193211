"""Numbers in a notebook: each stands in its cell, the middle of a large array is left out, and text is escaped."""

import re

import numpy as np
import pytest

import autograd as ag
from autograd.html import MOST, table


def cells(html):
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", html)]


def test_each_number_stands_in_its_cell_and_labels_are_escaped():
    html = table(np.array([[1.0, -2.0], [0.25, np.nan]]), "a < b", ["<s>", "x"], ["one", "two"])
    assert cells(html) == [[], ["1", "-2"], ["0.25", "nan"]]
    assert "<caption>a &lt; b</caption>" in html
    assert re.findall("<th>(.*?)</th>", html) == ["", "one", "two", "&lt;s&gt;", "x"]


def test_the_largest_number_is_darkest_and_the_sign_has_a_colour():
    shades = re.findall(r"rgba\((.*?),([\d.]+)\)", table(np.array([[1.0, -2.0, 0.0]]), ""))
    assert [float(share) for _, share in shades] == [0.5, 1.0, 0.0]
    assert shades[0][0] == shades[2][0] != shades[1][0]


def test_the_middle_of_a_large_array_is_left_out():
    side = 3 * MOST
    found = cells(table(np.arange(side * side).reshape(side, side), ""))
    assert len(found) == len(found[0]) == MOST + 1
    assert found[0][-1] == str(side - 1)
    assert found[-1][0] == f"{side * (side - 1):.4g}"
    assert found[MOST // 2] == ["…"] * (MOST + 1)
    assert len(table(np.zeros((MOST, MOST)), "").split("…")) == 1


@pytest.mark.parametrize(
    ("tensor", "caption", "shape"),
    [
        (ag.Tensor(2.5), "Tensor [], float64", (1, 1)),
        (ag.Tensor(np.ones(3, np.float32), requires_grad=True), "Tensor [3], float32, requires_grad", (1, 3)),
        (ag.exp(ag.Tensor(np.ones((2, 3)), requires_grad=True)), "Tensor [2, 3], float64, Exp", (2, 3)),
        (ag.Tensor(np.ones((4, 5, 2, 3), bool)), "Tensor [4, 5, 2, 3], bool, element [0, 0]", (2, 3)),
        (ag.Tensor(np.ones((0, 3))), repr(ag.Tensor(np.ones((0, 3)))), (0, 0)),
        (ag.Tensor(np.array([1j])), repr(ag.Tensor(np.array([1j]))), (0, 0)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_tensor(tensor, caption, shape):
    html = tensor._repr_html_()
    assert f"<caption>{caption}</caption>" in html
    found = cells(html)
    assert (len(found), len(found[0]) if found else 0) == shape
