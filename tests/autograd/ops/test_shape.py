"""Other axes for the same elements."""

import numpy as np

import autograd as ag
from autograd import Tensor, safety


def test_views_share_memory():
    x = Tensor(np.ones((2, 3)))
    views = x.T, x.reshape(3, 2), ag.expand_dims(x, 0), x.swapaxes(0, 1), ag.broadcast_to(x, (2, 2, 3)), x[1:]
    for view in (*views, *ag.split(x, 2)):
        assert np.shares_memory(view.data, x.data)
        assert safety.owner_of(view.data) is safety.owner_of(x.data)  # a change of one is noticed in the other


def test_flatten():
    x = Tensor(np.arange(24.0).reshape(2, 3, 4), requires_grad=True)
    shapes = [x.flatten().shape, x.flatten(1).shape, x.flatten(0, 1).shape, Tensor(1.0).flatten().shape]
    assert shapes == [(24,), (2, 12), (6, 4), (1,)]
