"""The key/value cache: it returns what was stored, whatever it has grown to, and copies little."""

import numpy as np
import pytest

from autograd.fast import cpu_kernels
from minitf.fast.state import DecodingState

B, H, K, WIDTH = 3, 2, 4, 5


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def started():
    return DecodingState(cpu_kernels(), [(normal(B, H, 6, K), normal(B, H, 6, WIDTH))], None)


def step(state, position):
    """Store a key and a value for each row; returns these, and those of all nodes."""
    k, v = (normal(state.sentences, H, state.beams, width, seed=position + width) for width in (K, WIDTH))
    state.begin_step()
    keys, values = state.append(0, k, v)
    state.end_step()
    return (k, v), (keys, values)


def test_the_cache_returns_all_that_was_stored():
    """Also when its arrays have grown, twice."""
    state = started()
    stored = []
    for position in range(40):
        new, found = step(state, position)
        stored.append(new)
        for of_steps, array in zip(zip(*stored, strict=True), found, strict=True):
            np.testing.assert_array_equal(array, np.concatenate(of_steps, axis=2))
            assert array.dtype == of_steps[0].dtype
    assert state.length == state.node_count == 40


def test_most_steps_copy_nothing():
    state = started()
    arrays = []
    for position in range(64):
        _, (keys, _) = step(state, position)
        if not any(np.shares_memory(keys, array) for array in arrays):
            arrays.append(keys)
    assert len(arrays) == 3  # of 16, 32 and 64 positions


def seen_by_rows(state, keys):
    """The keys that each row attends to, one after the other."""
    mask = state.ancestors[:, :, : state.node_count]
    return [keys[b][:, mask[b, n]] for b in range(state.sentences) for n in range(state.beams)]


@pytest.mark.parametrize("length", [1, 5, 16, 17])
@pytest.mark.parametrize("rows", [[2, 0, 1], [0, 0, 1, 1, 2, 2], [2], [0, 0, 0, 0], []])
def test_reordered_rows_attend_to_what_their_rows_attended_to(length, rows):
    state = started()
    for position in range(length):
        _, (keys, _) = step(state, position)
    before = seen_by_rows(state, keys.copy())
    state.reorder(np.array(rows, int))
    (k, _), (keys, _) = step(state, 99)
    new = k.swapaxes(1, 2).reshape(len(rows), H, 1, K)  # a row each
    for row, found, own in zip(rows, seen_by_rows(state, keys), new, strict=True):
        np.testing.assert_array_equal(found, np.concatenate([before[row], own], axis=1))


def test_reordering_before_the_first_step():
    state = started()
    state.reorder(np.array([0, 0, 1, 1, 2, 2]))
    (k, _), (keys, _) = step(state, 0)
    np.testing.assert_array_equal(keys, k)
    assert state.mask().sum() == 6  # each row attends to itself alone
