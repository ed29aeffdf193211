"""Positional encoding: sinusoids

    PE[pos, 2i] = sin(pos / 10000^(2i / n))        PE[pos, 2i + 1] = cos(pos / 10000^(2i / n))

Positions count from 0; sines and cosines alternate, each pair with one wavelength.

Shapes: length, n even -> [length, n]
Source: section 3.5
"""

import numpy as np


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

MISTAKES = (
    ("all sines come before all cosines; in the paper they alternate (older models have your order)",
     "table[:, 0::2]", "table[:, : n // 2]", "table[:, 1::2]", "table[:, n // 2 :]"),
    ("the exponent is i / n; it is 2i / n, with i from 0 to n/2 - 1", "(2 * pair / n)", "(pair / n)"),
    ("positions start at 1; the first is 0", "np.arange(length)[:", "np.arange(1, length + 1)[:"),
    ("sines and cosines are exchanged", "np.sin(angle)", "np.cos(0 + angle)", "np.cos(angle)", "np.sin(angle)"),
    ("a cosine has another wavelength than its sine: 2i is the same number for both columns of a pair",
     "np.cos(angle)", "np.cos(np.arange(length)[:, None] / 10000 ** ((2 * pair + 1) / n))"),
    ("the exponent is 2i / n, where 2i is the number of the column: here it is twice that", "(2 * pair / n)",
     "(4 * pair / n)", "np.cos(angle)", "np.cos(np.arange(length)[:, None] / 10000 ** ((4 * pair + 2) / n))"),
    ("the base is 10000", "10000 **", "1000 **"),
    ("the axes are exchanged: positions are the first", "return table", "return table.T"),
    ("the exponent is 4i / n: i counts pairs, of which there are n / 2", "(2 * pair / n)", "(4 * pair / n)"),
)  # fmt: skip


def check_table(answer):
    """5 positions of 8 elements"""
    yield "PE", answer.positional_encoding(5, 8)


def check_sizes(answer):
    """other sizes"""
    for length, n in [(1, 2), (50, 16), (0, 4), (3, 512)]:
        yield f"PE of shape ({length}, {n})", answer.positional_encoding(length, n)
