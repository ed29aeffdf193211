"""Every layer and the whole model: gradients against differences and complex steps; what must be zero is zero."""

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor
from minitf.model import layers, transformer
from minitf.model.layers import Module
from minitf.model.parameters import Initializer
from minitf.model.transformer import Transformer
from tests.cases.checks import check_case, check_example
from tests.cases.layers import LAYERS
from tests.cases.models import MODELS
from tests.cases.modules import CONFIG

LAYER_CASES = [case for cases in LAYERS.values() for case in cases]
MODEL_CASES = [case for cases in MODELS.values() for case in cases]
STACKS = ("Encoder", "Decoder")  # the whole model has them
STEP = 3e-5  # short: a kink of ReLU between the points would spoil the differences
DIFFERENCES = ((1, 4 / 5), (2, -1 / 5), (3, 4 / 105), (4, -1 / 280))  # of eighth order
FIRST = [LAYER_CASES.index(cases[0]) for name, cases in LAYERS.items() if name not in STACKS]


def generator(seed):
    return np.random.default_rng(seed)


# ---- Against differences and complex steps ----


@pytest.mark.heavy
@pytest.mark.parametrize("case", [*(LAYER_CASES[place] for place in FIRST), MODEL_CASES[0]], ids=str)
def test_along_a_direction(case):
    """A random one of all parameters; the slow tests, and `python -m tests.cases`, take each derivative."""
    function, arrays = case.make(generator(0))
    leaves, rng = [Tensor(a, requires_grad=True) for a in arrays], generator(1)
    y, direction = function(*leaves), [rng.standard_normal(a.shape) for a in arrays]
    weights = rng.standard_normal(y.shape)
    slope = sum((g.data * v).sum() for g, v in zip(ag.grad(y, leaves, weights), direction, strict=True))

    def moved(distance):
        return (
            function(*[Tensor(a + distance * v) for a, v in zip(arrays, direction, strict=True)]).data * weights
        ).sum()

    differences = sum(c * (moved(n * STEP) - moved(-n * STEP)) for n, c in DIFFERENCES) / STEP
    assert abs(slope - differences) < 1e-9 * max(1, abs(slope))


@pytest.mark.slow
@pytest.mark.parametrize("case", LAYER_CASES, ids=str)
def test_layers_deep(case):
    for seed in range(20):
        example = case.draw(generator([1, seed]))
        check_example(example, analytic=case.analytic, fast=case.fast and seed > 0)


@pytest.mark.slow
@pytest.mark.parametrize("case", MODEL_CASES, ids=str)
def test_whole_model_deep(case):
    for seed in range(5):
        check_case(case, generator([1, seed]))


def test_every_layer_has_a_case():
    """A class that holds parameters or calls an op, and is missing here, was forgotten."""
    known = {name for module in (layers, transformer) for name, value in vars(module).items()
             if isinstance(value, type) and issubclass(value, Module)}  # fmt: skip
    assert known - {"Module", "Transformer"} == set(LAYERS)


def test_examples_differentiate_every_parameter():
    for case, extra in ((MODEL_CASES[0], 0), (LAYERS["EncoderLayer"][0], 1)):
        example = case.draw(generator(0))
        model = Transformer(CONFIG) if not extra else transformer.EncoderLayer(CONFIG, Initializer(0, np.float64))
        shapes = [p.shape for p in model.parameters()]
        assert [a.shape for a in example.arrays[extra:]] == shapes
        leaves = [Tensor(a, requires_grad=True) for a in example.arrays]
        y = example.function(*leaves)
        found = ag.grad(y, leaves, np.ones(y.shape), allow_unused=True)
        assert all(g is not None and g.data.any() for g in found)
