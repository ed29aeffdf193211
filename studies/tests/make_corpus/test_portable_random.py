"""Random numbers that must not depend on the version of Python."""

from collections import Counter

import pytest

from studies.make_corpus.portable_random import PortableRandom

pytestmark = pytest.mark.slow  # the texts that the grammar wrote are pinned by their hashes


def test_draws_are_the_same_on_every_python():
    rng = PortableRandom(2017)
    assert [rng.randint(0, 999) for _ in range(6)] == [199, 343, 321, 510, 731, 848]
    items = list("abcdefgh")
    rng.shuffle(items)
    assert "".join(items) == "ghcbeafd"


def test_draws_of_any_length():
    rng = PortableRandom(0)
    drawn = Counter(rng.randint_of_any_length(3, 4_321) for _ in range(40_000))
    assert (min(drawn), max(drawn)) == (3, 4_321)
    lengths = Counter()
    for number, count in drawn.items():
        lengths[len(str(number))] += count
    for length in (1, 2, 3, 4):
        assert lengths[length] == pytest.approx(10_000, rel=0.05)
    assert set(range(3, 1_000)) <= drawn.keys()


def test_shuffle_brings_every_order_equally_often():
    rng = PortableRandom(0)
    orders: Counter[str] = Counter()
    for _ in range(12_000):
        items = list("abc")
        rng.shuffle(items)
        orders["".join(items)] += 1
    assert len(orders) == 6
    for count in orders.values():
        assert count == pytest.approx(2_000, rel=0.1)
