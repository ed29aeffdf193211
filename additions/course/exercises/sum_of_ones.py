"""The number where counting ends

A loop adds 1 to a floating-point number again and again, beginning with 0. At some number it stops growing: adding 1
gives the same number. The experiment looks for it in formats with 10, 23 and 52 bits for the digits after the leading
one (float16, float32, float64).

Shapes: bits, a number -> a number
Source: IEEE 754; why sums of many numbers are made in float32 or float64
"""

import numpy as np

from additions.course.expect import predicted


def prediction(bits):
    """The number that adding 1 no longer changes."""
    # solution
    return 2.0 ** (bits + 1)
    # end


HINTS = (
    "Between 2^k and 2^(k + 1) there are 2^bits numbers. How far apart are they?",
    "From where on are neighbours 2 apart? Half of 2 is rounded to the even neighbour.",
    "Neighbours are 2 apart from 2^(bits + 1) on.",
)

MISTAKES = (
    ("there, neighbours are 1 apart, and adding 1 still works; the leading one is a digit, too", "(bits + 1)", "bits"),
    ("there, neighbours are 4 apart; 2 is enough, since half of it is rounded to even", "(bits + 1)", "(bits + 2)"),
    ("that is one less: adding 1 to it gives the power of 2", "2.0 ** (bits + 1)", "2.0 ** (bits + 1) - 1"),
    ("that is one more, which is no number of this format", "2.0 ** (bits + 1)", "2.0 ** (bits + 1) + 1"),
    ("the largest number of float16 is not reached: 1 is too small to change it long before",
     "2.0 ** (bits + 1)", "65504.0"),
)  # fmt: skip


def check_prediction(answer):
    """the experiment, for 10, 23 and 52 bits"""
    for bits, dtype in ((10, np.float16), (23, np.float32), (52, np.float64)):
        x = dtype(1)
        while x + dtype(1) != x:
            x = x + x
        predicted(f"the number for {bits} bits", answer.prediction(bits), float(x), 1e-16)
