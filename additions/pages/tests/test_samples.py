"""Arrays as a page has them: whole if they are small, else sampled, with the statistics of all their elements."""

import json
import zlib

import numpy as np
import pytest

from additions.pages.samples import MOST, Samples

rng = np.random.default_rng(0)


def unpacked(described, packed):
    """The elements of each sample, as the page decodes them."""
    numbers = zlib.decompress(packed)
    made = []
    for each in described:
        kept = each.get("kept", [None] * len(each["shape"]))
        shape = [n if k is None else len(k) for n, k in zip(each["shape"], kept, strict=True)]
        made.append(np.frombuffer(numbers, f"<{each['code']}", int(np.prod(shape)), each["at"]).reshape(shape))
    return made


@pytest.mark.parametrize(
    "array",
    [
        rng.standard_normal((3, 4)),
        rng.standard_normal((2, 3, 4)).astype(np.float32),
        np.array(2.5),
        np.zeros((0, 3)),
        rng.random((5, 4)) < 0.5,
        np.arange(7),
        np.array([2**40, -1]),
        np.array([0, np.iinfo(np.int64).min]),
        np.arange(300) * 1e300,
        np.array([np.nan, np.inf, -np.inf, 1.0]),
        rng.standard_normal((4, 3)).T,
    ],
)
def test_a_small_array_is_kept_exactly(array):
    samples = Samples()
    samples.add(rng.standard_normal(5).astype(np.float32))  # the offset of the next is not 0
    samples.add(array)
    described, packed = samples.pack(10**6)
    np.testing.assert_array_equal(unpacked(described, packed)[1], array)
    assert "kept" not in described[1]
    json.dumps(described, allow_nan=False)


def test_float64_becomes_float32_only_where_the_page_would_be_too_large():
    array = rng.standard_normal(1000)
    samples = Samples()
    samples.add(array)
    np.testing.assert_array_equal(unpacked(*samples.pack(10**6))[0], array)
    np.testing.assert_array_equal(unpacked(*samples.pack(5000))[0], array.astype(np.float32))


def test_the_elements_of_a_large_array_are_at_the_stated_indices():
    array = rng.standard_normal((6, 300, 200)).astype(np.float32)
    samples = Samples()
    samples.add(array)
    (described,), packed = samples.pack(10**6)
    kept = [range(n) if k is None else k for n, k in zip(array.shape, described["kept"], strict=True)]
    (elements,) = unpacked([described], packed)
    np.testing.assert_array_equal(elements, array[np.ix_(*kept)])
    assert 100 < elements.size <= MOST
    assert all(k[0] == 0 and k[-1] == n - 1 for k, n in zip(kept, array.shape, strict=True))
    np.testing.assert_allclose(described["stats"][:2], [array.min(), array.max()], rtol=1e-5)
    np.testing.assert_allclose(described["stats"][3], np.sqrt((array.astype(float) ** 2).mean()), rtol=1e-5)


def test_rows_in_focus_are_kept_first():
    wanted = [7, 4_001, 9_999]
    samples = Samples({10_000: wanted})
    samples.add(rng.standard_normal((10_000, 64)))
    (described,), _ = samples.pack(10**6)
    assert {*wanted} <= {*described["kept"][0]}


def test_samples_shrink_until_they_fit():
    samples = Samples()
    arrays = [rng.standard_normal((60, 60)).astype(np.float32) for _ in range(20)]
    for array in arrays:
        samples.add(array)
    described, packed = samples.pack(50_000)
    assert len(packed) <= 50_000
    for each, elements, array in zip(described, unpacked(described, packed), arrays, strict=True):
        np.testing.assert_array_equal(elements, array[np.ix_(*each["kept"])])


def test_equal_arrays_are_kept_once_and_nothing_refers_to_them():
    samples = Samples()
    array = rng.standard_normal((3, 3))
    assert samples.add(array) == samples.add(array.copy()) != samples.add(array.T)
    array[:] = 0
    described, packed = samples.pack(10**6)
    assert unpacked(described, packed)[0].any()
    assert not any(np.shares_memory(each.elements, array) for each in samples.all)
