"""A tape: the backward pass of numbers

A program computes numbers one after the other; number i is values[i]. The tape has one entry for each operation, in the
order of execution:

    (output, inputs, slopes)        (5, [3, 4], [2.0, -1.0])

says that number 5 was computed from numbers 3 and 4, with d n5 / d n3 = 2 and d n5 / d n4 = -1. By the chain rule, each
operation adds

    g[input] += slope · g[output]

for each of its inputs, once g[output] is complete. The gradient of the last output by itself is 1.

Shapes: tape, a list of such entries; count, the number of numbers -> a list of `count` gradients, of the last output
Source: Linnainmaa 1970; `autograd/engine.py` does this with arrays
"""


def backward(tape, count):
    """The gradient of the last entry's output by every number."""
    # solution
    g = [0.0] * count
    g[tape[-1][0]] = 1.0
    for output, inputs, slopes in reversed(tape):
        for i, slope in zip(inputs, slopes, strict=True):
            g[i] += slope * g[output]
    return g
    # end


HINTS = (
    "Start with a list of zeros, except for the last output, whose gradient is 1. In which order must the entries be "
    "visited so that g[output] is complete when it is used?",
    "Visit the entries in reverse: for output, inputs, slopes in reversed(tape). Every use of a number comes later "
    "on the tape than its computation, so its gradient is complete by then.",
    "A number that is used twice gets two contributions: g[i] += slope * g[output], not =.",
)

MISTAKES = (
    ("all gradients are 0: the gradient of the last output by itself, 1, is where the backward pass starts",
     "    g[tape[-1][0]] = 1.0\n", ""),
    ("the gradient stops after one operation: the tape is to be read from its end, so that g[output] is complete "
     "before it is passed on", "reversed(tape)", "tape"),
    ("all gradients start at 1; only that of the last output by itself does", "[0.0] * count", "[1.0] * count"),
    ("the backward pass starts at the output of the first operation; it is that of the last",
     "g[tape[-1][0]]", "g[tape[0][0]]"),
    ("only the first input of an operation gets a gradient",
     "zip(inputs, slopes, strict=True)", "zip(inputs[:1], slopes)"),
    ("an output that the last one does not depend on has a gradient; it is 0",
     "    g[tape[-1][0]] = 1.0\n", "    for entry in tape:\n        g[entry[0]] = 1.0\n"),
)  # fmt: skip


def check_chain(answer):
    """a chain: n1 = 3 n0, n2 = -2 n1"""
    yield "g", answer.backward([(1, [0], [3.0]), (2, [1], [-2.0])], 3)


def check_two_inputs(answer):
    """two inputs: n2 = 2 n0 + 5 n1"""
    yield "g", answer.backward([(2, [0, 1], [2.0, 5.0])], 3)


def check_used_twice(answer):
    """a number used twice: n1 = 2 n0, n2 = 3 n0, n3 = n1 + n2"""
    yield "g", answer.backward([(1, [0], [2.0]), (2, [0], [3.0]), (3, [1, 2], [1.0, 1.0])], 4)
    yield "g of n1 = n0 · n0 at 3", answer.backward([(1, [0, 0], [3.0, 3.0])], 2)


def check_not_reached(answer):
    """a number that the output does not depend on"""
    yield "g", answer.backward([(1, [0], [2.0]), (2, [0], [7.0])], 3)
