"""The barrier of ranks on one host."""

import pytest

from minitf.parallel.shared_memory import barrier_distances


@pytest.mark.parametrize("size", range(1, 20))
def test_the_barrier_reaches_everyone(size):
    """Whoever has passed it has heard, through others, of everyone."""
    heard = [{rank} for rank in range(size)]
    for reach in barrier_distances(size):
        heard = [heard[rank] | heard[(rank - reach) % size] for rank in range(size)]
    assert all(each == set(range(size)) for each in heard)
    assert len(barrier_distances(size)) == (size - 1).bit_length()
