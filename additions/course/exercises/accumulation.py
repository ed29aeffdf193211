"""Accumulation: sum gradients without changing anybody else's array

Gradients arrive one after the other and are summed for each node. The first one is kept without a copy, which saves
memory; but an op may have given the same array to two nodes (y = a + b passes g_y on as g_a and as g_b), and a caller
may hold it. So an array that arrived must never be changed in place:

    sums, owned = {}, set()
    add(sums, owned, "a", g)
    add(sums, owned, "b", g)       # the same array
    add(sums, owned, "a", h)       # sums["a"] is g + h, sums["b"] is still g

A sum that `add` has made itself belongs to nobody else: from the third gradient on, add in place, without another
array. `owned` is the set of keys whose sums `add` has made.

Shapes: sums, a dict; owned, a set; key; g, an array -> None
Source: `GradientSums` in `autograd/tensor.py`
"""

import numpy as np

from additions.course.expect import true


def add(sums, owned, key, g):
    """Add g to sums[key]."""
    # solution
    if key not in sums:
        sums[key] = g
    elif key in owned:
        sums[key] += g
    else:
        sums[key] = sums[key] + g
        owned.add(key)
    # end


HINTS = (
    "There are three cases: the first gradient of a key, the second, and all later ones.",
    "`sums[key] += g` writes into the array that is there; `sums[key] = sums[key] + g` makes another one.",
    "After the second gradient, sums[key] is an array that add has made: put the key into `owned`, and use += for "
    "keys in `owned`.",
)


MISTAKES = (
    ("a gradient overwrites those before it; they must add up",
     "sums[key] += g", "sums[key] = g", "sums[key] = sums[key] + g", "sums[key] = g "),
    ("only the first gradient is kept: the sum is not stored in sums[key]",
     "sums[key] += g", "pass", "sums[key] = sums[key] + g", "pass"),
)  # fmt: skip


def check_sum(answer):
    """the sum of three gradients"""
    sums, owned = {}, set()
    for part in [np.array([1.0, 2.0]), np.array([10.0, 20.0]), np.array([100.0, 200.0])]:
        answer.add(sums, owned, "a", part)
    true("a" in sums, "sums has no entry for the key")
    yield "sums['a']", sums["a"]


def check_shared(answer):
    """an array that two nodes were given"""
    sums, owned, g = {}, set(), np.array([1.0, 2.0])
    answer.add(sums, owned, "a", g)
    answer.add(sums, owned, "b", g)
    for _ in range(2):
        answer.add(sums, owned, "a", np.array([10.0, 10.0]))
    message = (
        "an array that arrived is changed in place: `a` and `b` were given the same one, and adding to the sum of `a` "
        "changes that of `b`"
    )
    true(np.array_equal(sums["b"], [1, 2]) and np.array_equal(g, [1, 2]), message)
    yield "sums['a']", sums["a"]


def check_caller(answer):
    """the second array is the caller's, too"""
    sums, owned = {}, set()
    parts = [np.array([1.0]), np.array([10.0]), np.array([100.0])]
    for part in parts:
        answer.add(sums, owned, "a", part)
    message = "one of the arrays that arrived is changed in place; only a sum that add has made may be"
    true([part.item() for part in parts] == [1, 10, 100], message)


def check_memory(answer):
    """the first gradient is not copied, and later ones need no further array"""
    sums, owned, g = {}, set(), np.ones(3)
    answer.add(sums, owned, "a", g)
    true(sums["a"] is g, "the first gradient is copied; keep the array itself, it is only read")
    answer.add(sums, owned, "a", np.ones(3))
    made = sums["a"]
    answer.add(sums, owned, "a", np.ones(3))
    true(sums["a"] is made, "the third gradient makes another array; the sum belongs to add by then, use +=")
