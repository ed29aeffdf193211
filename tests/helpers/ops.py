"""Ops made on the spot, with whatever backward pass a test of the checker wants."""

import numpy as np
import pytest

from autograd import Op, apply, gradcheck
from autograd.gradcheck import GradcheckError, Options

RNG = np.random.default_rng(1)
X = RNG.standard_normal((2, 3))
W = RNG.standard_normal((2, 3))
CENTRAL, COMPLEX = Options(mode="central"), Options(mode="complex")
MODES = [{}, {"fast": True}, {"options": CENTRAL}, {"options": COMPLEX}, {"fast": True, "options": COMPLEX}]
each_mode = pytest.mark.parametrize("how", MODES, ids=["full", "fast", "central", "complex", "fast complex"])


def op(forward, backward, **attributes):
    """A function of Tensors with the given forward and backward pass of its op."""

    def run(self, *arrays):
        self.save(*arrays)
        return forward(*arrays)

    op_class = type("Made", (Op,), {"forward": run, "backward": backward, **attributes})
    return lambda *inputs: apply(op_class, *inputs)


def message(function, inputs, **how):
    """What gradcheck says about a wrong gradient."""
    with pytest.raises(GradcheckError) as caught:
        gradcheck(function, inputs, **how)
    return str(caught.value)
