"""Every layer and the whole model: gradients against differences and complex steps; what must be zero is zero."""

from dataclasses import replace

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor, random
from minitf.config.model import BOS, EOS, PAD
from minitf.model import layers, transformer
from minitf.model.layers import Module
from minitf.model.parameters import Initializer
from minitf.model.transformer import Transformer, padding_mask
from tests.cases.checks import check_case, check_example
from tests.cases.layers import LAYERS
from tests.cases.models import MODELS
from tests.cases.modules import CONFIG, VOCABULARY, bind
from tests.helpers.marks import parametrize_some

LAYER_CASES = [case for cases in LAYERS.values() for case in cases]
MODEL_CASES = [case for cases in MODELS.values() for case in cases]
STACKS = ("Encoder", "Decoder")  # test_whole_model has them
FIRST = [LAYER_CASES.index(cases[0]) for name, cases in LAYERS.items() if name not in STACKS]


def generator(seed):
    return np.random.default_rng(seed)


# ---- Against differences and complex steps ----


@pytest.mark.heavy
@parametrize_some("case", LAYER_CASES, keep=FIRST, ids=str)
def test_layers(case):
    check_case(case, generator(0))


@pytest.mark.heavy
@parametrize_some("case", MODEL_CASES[:2], ids=str)
def test_whole_model(case):
    check_case(case, generator(0))


@pytest.mark.slow
@pytest.mark.parametrize("case", LAYER_CASES, ids=str)
def test_layers_deep(case):
    """Derivative by derivative, also where the quick test looks along one direction an input."""
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


def test_examples_have_dropout_and_padding():
    """Without them, the whole-model proof would prove less than it says."""
    seen = {"dropped": 0, "masked": 0, "ignored": 0}

    class Watch(ag.observers.Observer):
        def after_forward(self, op, outputs):
            name = type(op).__name__
            arrays = op.saved_arrays
            if name in ("Dropout", "DropoutAddLayerNorm"):
                seen["dropped"] += int((~arrays[0]).sum())
            if name == "ScaledDotProductAttention":
                seen["masked"] += int((arrays[3] == 0).sum())

        def before_forward(self, op, arrays):
            if type(op).__name__ == "CrossEntropy":
                seen["ignored"] += 1

    for seed in range(3):
        example = MODEL_CASES[0].draw(generator(seed))
        with ag.observers.observe(Watch()):
            example.function(*[Tensor(a, requires_grad=True) for a in example.arrays])
    assert min(seen.values()) > 0, seen


def test_bind_reaches_every_parameter():
    model = Transformer(CONFIG)
    names = list(model.named_parameters())
    tensors = [Tensor(np.zeros(p.shape)) for p in model.parameters()]
    bind(model, names, tensors)
    assert model.decoder.layers[1].feed_forward.up.bias is tensors[names.index("decoder.layers.1.feed_forward.up.bias")]
    assert model.output_matrix is tensors[0]
    assert model.parameters() == []


# ---- What must be zero is exactly zero ----


class Parts:
    """A model in training mode, a padded batch, and its embeddings as leaves."""

    def __init__(self, **changes):
        self.model = Transformer(replace(CONFIG, **changes), seed=1, dtype=np.float64)
        self.source = np.array([[5, 6, 7, EOS], [8, EOS, PAD, PAD], [9, 5, EOS, PAD]])
        self.target = np.array([[6, 7, EOS], [5, EOS, PAD], [EOS, PAD, PAD]])
        self.shifted = np.concatenate([np.full((3, 1), BOS), self.target[:, :-1]], axis=1)
        model = self.model
        self.source_x = Tensor(model.source_embedding(self.source).data, requires_grad=True)  # [B, S, D]
        self.target_x = Tensor(model.target_embedding(self.shifted).data, requires_grad=True)  # [B, T, D]

    def logits(self):
        """As `Transformer.__call__`, from the leaves on."""
        random.set_state((3, 1, 0))
        model, mask = self.model, padding_mask(self.source)
        memory = model.encoder(model.dropout(model.source_positions(self.source_x)), mask)
        y = model.decoder(model.dropout(model.target_positions(self.target_x)), memory, mask)
        return ag.linear(y, model.output_matrix)  # [B, T, V]

    def loss(self, reduction="sum"):
        return ag.cross_entropy(self.logits(), self.target, label_smoothing=0.1, ignore_index=PAD, reduction=reduction)


NORMS = pytest.mark.parametrize("norm", ["post", "pre"])


def test_the_parts_make_the_whole():
    parts = Parts()
    whole = parts.logits().data
    random.set_state((3, 1, 0))
    np.testing.assert_array_equal(whole, parts.model(parts.source, parts.shifted).data)


@NORMS
def test_predictions_have_no_gradient_by_later_tokens(norm):
    parts = Parts(norm=norm)
    cotangent = generator(0).standard_normal((3, VOCABULARY))
    for t in range(3):
        logits = parts.logits()
        (g,) = ag.grad(ag.sum(logits[:, t] * cotangent), parts.target_x)
        assert (g.data[:, t + 1 :] == 0).all()
        assert (g.data[:, : t + 1] != 0).any(axis=2).all()  # and all earlier ones count


@NORMS
def test_the_loss_has_no_gradient_by_padding(norm):
    parts = Parts(norm=norm)
    g_source, g_target = ag.grad(parts.loss(), [parts.source_x, parts.target_x])
    assert (g_source.data[parts.source == PAD] == 0).all()
    assert (g_source.data[parts.source != PAD] != 0).any(axis=1).all()
    assert (g_target.data[parts.target == PAD] == 0).all()
    assert (g_target.data[parts.target != PAD] != 0).any(axis=1).all()


@NORMS
def test_sentences_of_a_batch_do_not_meet(norm):
    parts = Parts(norm=norm)
    g_source, g_target = ag.grad(ag.sum(parts.loss("none")[0]), [parts.source_x, parts.target_x])
    assert (g_source.data[1:] == 0).all()
    assert (g_target.data[1:] == 0).all()
    assert g_source.data[0].any()


def test_rows_of_words_that_do_not_occur_have_no_gradient():
    """With matrices apart; a shared one is the output projection, too, which every word is in."""
    parts = Parts(share_embeddings="none")
    model = parts.model
    random.set_state((3, 1, 0))
    loss = ag.cross_entropy(model(parts.source, parts.shifted), parts.target, ignore_index=PAD)
    g_source, g_target = ag.grad(loss, [model.source_embedding.weight, model.target_embedding.weight])
    real = {*parts.source.ravel().tolist()} - {PAD}
    for row in range(VOCABULARY):
        assert g_source.data[row].any() == (row in real)
        assert g_target.data[row].any() == (row in {*parts.shifted[parts.target != PAD].tolist()})
