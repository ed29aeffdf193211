"""A rank's share of the cores."""

from minitf.parallel.join import share_of_cores


def test_cores_are_divided_among_those_who_share_them():
    assert share_of_cores([0, 1, 2, 3], [[0, 1, 2, 3]] * 2) == 2
    assert share_of_cores([0, 1], [[0, 1], [2, 3]]) == 2  # the launcher has bound them already
    assert share_of_cores([0, 1], [[0, 1]] * 8) == 1
