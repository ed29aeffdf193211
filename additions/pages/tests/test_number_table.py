"""Numbers in a notebook: each stands in its cell, the middle of a large array is left out, and text is escaped."""

import re

import numpy as np

from additions.pages.number_table import MOST, table


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
