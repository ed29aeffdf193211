"""Data parallelism: the share of each rank, and what the ranks tell each other."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitf.parallel.group import Group, ParallelError
from minitf.training.data_parallel import require_same, share_of_update
from minitf.training.loop import interleaved

# ---- Shares ------------------------------------------------------------------------------------------------------


@given(batches=st.integers(1, 40), size=st.integers(1, 40))
def test_every_row_of_every_batch_is_computed_once(batches, size):
    """In parts that cover each batch, and as much by each process as by any other."""
    shares = [share_of_update(batches, rank, size) for rank in range(size)]
    parts = [piece for share in shares for piece in share]
    assert len(set(parts)) == len(parts)
    for number in range(batches):
        found = sorted(part for n, part, _ in parts if n == number)
        assert found == list(range(len(found)))
        assert {of for n, _, of in parts if n == number} == {len(found)}
    assert {sum(Fraction(1, of) for _, _, of in share) for share in shares} == {Fraction(batches, size)}


def test_whole_batches_where_they_can_be_dealt_out():
    assert share_of_update(16, 3, 8) == [(3, 0, 1), (11, 0, 1)]
    assert share_of_update(4, 3, 8) == [(1, 1, 2)]
    assert share_of_update(3, 3, 8) == [(0, 3, 8), (1, 3, 8), (2, 3, 8)]
    assert share_of_update(5, 0, 1) == [(number, 0, 1) for number in range(5)]


# ---- What ranks tell each other ----------------------------------------------------------------------------------


class Told(Group):
    """A group whose others say what the test says."""

    def __init__(self, *values):
        self.values, self.size = values, len(values)

    def all_gather(self, value, purpose=""):
        return list(self.values)


def test_the_first_fact_that_differs_is_named():
    require_same(Told({"a": 1}, {"a": 1}), {"a": 1}, "")
    with pytest.raises(ParallelError, match=r"rank 2 disagrees with rank 0: the seed is 8 there, 7 here; use one"):
        require_same(Told({"the seed": 7}, {"the seed": 7}, {"the seed": 8}), {"the seed": 7}, "use one")


def test_figures_of_batches_come_back_in_their_order():
    assert interleaved([[0, 3, 6], [1, 4], [2, 5]]) == [0, 1, 2, 3, 4, 5, 6]
