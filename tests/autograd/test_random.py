"""Masks are a function of (seed, step, site, position): against the generator written out by hand, and in bulk."""

import math
import threading

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor, random
from tests.helpers.random_bits import bits, keep_mask

WORD = 2**64 - 1


def philox4x64(counter, key):
    """Ten rounds, as Salmon et al. 2011 write them down, on Python integers."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        product0, product2 = 0xD2E7470EE14C6C93 * c0, 0xCA5A826395121157 * c2
        c0, c1, c2, c3 = (product2 >> 64) ^ c1 ^ k0, product2 & WORD, (product0 >> 64) ^ c3 ^ k1, product0 & WORD
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & WORD, (k1 + 0xBB67AE8584CAA73B) & WORD
    return [c0, c1, c2, c3]


def expected_bits(seed, step, site, size):
    """Sixteen bits an element, the low ones of a word first; blocks of four words count from 1."""
    result = []
    block = 0
    while len(result) < size:
        block += 1
        for word in philox4x64((block, step, 0, 0), (seed, site)):
            result += [(word >> shift) & 0xFFFF for shift in (0, 16, 32, 48)]
    return result[:size]


# ---- The generator ----


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0,) * 4, (0,) * 2, "16554d9eca36314c db20fe9d672d0fdc d7e772cee186176b 7e68b68aec7ba23b"),
        ((WORD,) * 4, (WORD,) * 2, "87b092c3013fe90b 438c3c67be8d0224 9cc7d7c69cd777b6 a09caebf594f0ba0"),
        (
            (0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89),
            (0x452821E638D01377, 0xBE5466CF34E90C6C),
            "a528f45403e61d95 38c72dbd566e9788 a5a1610e72fd18b5 57bd43b5e52b7fe6",
        ),
    ],
    ids=["zeros", "ones", "digits of pi"],
)
def test_the_oracle_gives_the_published_answers(counter, key, expected):
    """The known answers of the authors' library for philox4x64 with 10 rounds."""
    assert [f"{word:016x}" for word in philox4x64(counter, key)] == expected.split()


@pytest.mark.parametrize(
    ("seed", "step", "site"),
    [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (WORD, 12_345_678, 77), (0x452821E638D01377, 2**40 + 3, 2**33)],
)
def test_bits_are_those_of_the_generator(seed, step, site):
    for size in [1, 3, 4, 16, 17, 70]:
        found = bits(seed, step, site, (size,))
        assert found.dtype == np.uint16
        assert found.tolist() == expected_bits(seed, step, site, size)


# ---- Masks and their numbering ----


def test_a_mask_keeps_where_the_bits_reach_the_threshold():
    random.set_state((9, 4, 2))
    keep, scale = keep_mask((5, 8), 0.25)
    assert keep.dtype == bool
    assert keep.tolist() == (np.array(expected_bits(9, 4, 2, 40)).reshape(5, 8) >= 16384).tolist()
    assert scale == 65536 / 49152


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_out_of_range_is_refused(seed):
    with pytest.raises(ValueError, match=rf"seed={seed} is outside 0 … 2\*\*64 - 1"):
        random.manual_seed(seed)


def test_state_is_all_there_is_to_save():
    random.manual_seed(21)
    random.begin_step(5)
    keep_mask((3,), 0.5)
    state = random.get_state()
    assert state == (21, 5, 1)
    expected = [keep_mask((40,), 0.5)[0] for _ in range(2)]
    random.manual_seed(0)
    random.set_state(state)
    np.testing.assert_array_equal([keep_mask((40,), 0.5)[0] for _ in range(2)], expected)
    assert random.get_state() == (21, 5, 3)


def test_every_thread_counts_for_itself():
    """A translation in another thread neither takes sites from a training step nor changes its seed."""
    random.set_state((1, 2, 3))
    seen = {}

    def other():
        seen["at first"] = random.get_state()
        random.manual_seed(1)
        random.begin_step(2)
        seen["mask"] = keep_mask((50,), 0.5)[0]
        seen["after"] = random.get_state()

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen["at first"][0] not in (0, 1)
    assert seen["at first"][1:] == (0, 0)
    assert seen["after"] == (1, 2, 1)
    assert random.get_state() == (1, 2, 3)
    random.set_state((1, 2, 0))
    np.testing.assert_array_equal(keep_mask((50,), 0.5)[0], seen["mask"])


# ---- Parts of a batch ----


@pytest.mark.parametrize("shape", [(7, 5), (7, 3, 16), (7,), (7, 2, 3, 1)])
def test_rows_of_a_batch_draw_their_rows_of_its_mask(shape):
    """Whoever computes them: rows that begin amidst a block of the generator, too."""
    random.set_state((4, 5, 6))
    whole = keep_mask(shape, 0.4)[0]
    for first, stop in ((0, 7), (0, 3), (3, 4), (2, 7), (7, 7)):
        random.set_state((4, 5, 6))
        random.set_first_row(first)
        np.testing.assert_array_equal(keep_mask((stop - first, *shape[1:]), 0.4)[0], whole[first:stop])


def test_the_batches_of_a_step_have_sites_of_their_own():
    random.begin_step(3, batch=1)
    assert random.get_state()[1:] == (3, 2**32)
    later = keep_mask((50,), 0.5)[0]
    random.begin_step(3)
    for _ in range(4):
        keep_mask((50,), 0.5)
    random.begin_step(3, batch=1)  # whatever the batch before has drawn
    np.testing.assert_array_equal(keep_mask((50,), 0.5)[0], later)


def test_a_step_and_a_seed_begin_at_the_first_row():
    random.begin_step(1, first_row=9)
    assert random.get_first_row() == 9
    random.begin_step(2)
    assert random.get_first_row() == 0
    random.begin_step(1, first_row=9)
    keep_mask((3,), 0.5)
    random.manual_seed(WORD)
    assert (random.get_state(), random.get_first_row()) == ((WORD, 0, 0), 0)
    with pytest.raises(ValueError, match="first_row=-1 is negative"):
        random.begin_step(1, first_row=-1)


# ---- Probabilities ----


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_the_share_of_dropped_elements(p):
    """Within four standard deviations."""
    random.set_state((17, 0, 0))
    keep, scale = keep_mask((400, 500), p)
    dropped = ~keep
    assert scale == pytest.approx(1 / (1 - p), rel=1e-4)
    assert abs(dropped.mean() - p) < 4 * math.sqrt(p * (1 - p) / dropped.size)


def test_a_probability_of_nearly_one_still_keeps_something():
    """Rounded to 16 bits it would be 1, and what is kept would be scaled by infinity."""
    random.set_state((0, 0, 0))
    keep, scale = keep_mask((400_000,), 1 - 1e-9)
    assert scale == 65536
    assert 0 < keep.sum() < 30


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5, math.nan])
def test_probabilities_outside_the_range_are_refused_without_taking_a_site(p):
    random.set_state((0, 0, 0))
    with pytest.raises(ValueError, match=rf"dropout probability {p} is outside \[0, 1\)"):
        keep_mask((3,), p)
    assert random.get_state() == (0, 0, 0)


def test_ops_take_one_site_each_in_the_order_of_the_calls():
    random.set_state((2, 3, 0))
    x = Tensor(np.ones((6, 4)))
    ag.dropout(x, 0.5)
    ag.dropout(x, 0.0)  # draws nothing
    ag.dropout(x, 0.5, training=False)
    second = ag.dropout(x, 0.5).data
    assert random.get_state() == (2, 3, 2)
    np.testing.assert_array_equal(second, (bits(2, 3, 1, (6, 4)) >= 32768) * 2.0)
