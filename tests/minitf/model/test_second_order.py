"""The curvature of the whole training loss, dropout included."""

import numpy as np
import pytest

import autograd as ag
from autograd import random
from minitf.fast.accelerate import accelerate
from minitf.model.transformer import Transformer
from minitf.training.optim import batch_loss
from tests.cases.modules import CONFIG, bind
from tests.helpers.batches import batch_of

SLOW = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("plain", "accelerated")]


@pytest.fixture(params=["with layers computed again", *SLOW])
def loss_and_weights(request):
    """The loss of a batch as a function of all weights, and the weights."""
    model = Transformer(CONFIG, seed=1, dtype=np.float64)
    if request.param != "plain":
        model = accelerate(model, checkpoint_layers=request.param != "accelerated")
    batch = batch_of([[5, 6, 7, 8], [9, 3]], [[4, 5, 3], [10, 9, 8, 7]])
    weights = {name: p.data for name, p in model.named_parameters().items()}

    def loss(weights):
        random.set_state((7, 3, 0))
        bind(model, list(weights), list(weights.values()))
        return batch_loss(model, batch, 0.1)[0]

    return loss, weights


def product(u, tensors):
    return sum(float((u[name] * tensors[name].data).sum()) for name in u)


def test_the_hessian_is_symmetric(loss_and_weights):
    loss, weights = loss_and_weights
    rng = np.random.default_rng(5)
    u, v = [{name: rng.standard_normal(w.shape) for name, w in weights.items()} for _ in range(2)]
    one, other = product(u, ag.hvp(loss, weights, v)), product(v, ag.hvp(loss, weights, u))
    assert abs(one - other) < 1e-12 * abs(one)
    gradient, along = ag.jvp(lambda w: ag.value_and_grad(loss)(w)[1], (weights,), (v,))
    assert abs(product(u, along) - one) < 1e-11 * abs(one)
    assert gradient.keys() == weights.keys()
