"""Positional encoding: sinusoids

    PE[pos, 2i] = sin(pos / 10000^(2i / n))        PE[pos, 2i + 1] = cos(pos / 10000^(2i / n))

Positions count from 0; sines and cosines alternate, each pair with one wavelength.

Shapes: length, n even -> [length, n]
Source: section 3.5
"""

import numpy as np

from minitf.learn.expect import equal


def positional_encoding(length, n):
    """PE, for positions 0 to length - 1."""
    # solution
    pair = np.arange(n // 2)
    angle = np.arange(length)[:, None] / 10000 ** (2 * pair / n)  # [length, n / 2]
    table = np.empty((length, n))
    table[:, 0::2] = np.sin(angle)
    table[:, 1::2] = np.cos(angle)
    return table
    # end


HINTS = (
    "There are n / 2 wavelengths; compute the angles as an array [length, n / 2] by broadcasting positions against "
    "pairs.",
    "With pair = np.arange(n // 2), the exponent is 2 * pair / n.",
    "table[:, 0::2] are the even columns, the sines; table[:, 1::2] the odd ones, the cosines.",
)


def _table(length, n, *, factor=2.0, start=0, base=10000.0):
    angle = np.arange(start, length + start)[:, None] / base ** (factor * np.arange(n // 2) / n)
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(length, n)


def _columns(length, n, factor=1):
    """The exponent of each column by its own number, as if 2i were the column."""
    angle = np.arange(length)[:, None] / 10000 ** (factor * np.arange(n) / n)
    return np.where(np.arange(n) % 2 == 0, np.sin(angle), np.cos(angle))


def check_table(answer):
    """7 positions of 8 elements"""
    right = _table(7, 8)
    halves = np.concatenate([right[:, 0::2], right[:, 1::2]], axis=1)
    mistakes = {
        "all sines come before all cosines; in the paper they alternate (older models have your order)": halves,
        "the exponent is i / n; it is 2i / n, with i from 0 to n/2 - 1": _table(7, 8, factor=1.0),
        "positions start at 1; the first is 0": _table(7, 8, start=1),
        "sines and cosines are exchanged": right.reshape(7, 4, 2)[:, :, ::-1].reshape(7, 8),
        "a cosine has another wavelength than its sine: 2i is the same number for both columns of a pair": _columns(
            7, 8
        ),
        "the exponent is 2i / n, where 2i is the number of the column: here it is twice that": _columns(7, 8, 2),
        "the base is 10000": _table(7, 8, base=1000.0),
        "the odd columns are cosines, here they are sines": np.repeat(right[:, 0::2], 2, axis=1),
        "the axes are exchanged: positions are the first": right.T,
        "the angle is multiplied by 10000^(2i / n); divide": lambda: _multiplied(7, 8),
        "the exponent is 4i / n: i counts pairs, of which there are n / 2": _table(7, 8, factor=4.0),
    }
    equal("PE", answer.positional_encoding(7, 8), right, mistakes)


def _multiplied(length, n):
    angle = np.arange(length)[:, None] * 10000 ** (2 * np.arange(n // 2) / n)
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(length, n)


def check_sizes(answer):
    """other sizes"""
    for length, n in [(1, 2), (50, 16), (0, 4), (3, 512)]:
        equal(f"PE of shape ({length}, {n})", answer.positional_encoding(length, n), _table(length, n))
