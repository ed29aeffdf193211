"""Whole models, of this project and of others: what is right, and which mistake a wrong one looks like."""

import numpy as np
import pytest

import autograd as ag
from additions.course.conformance import check_model
from additions.course.tests.conformance.numpy_transformer import NumpyTransformer, V
from autograd import Tensor
from minitf.config import TransformerConfig
from minitf.fast.array_layers import with_classes
from minitf.model.transformer import MultiHeadAttention, Transformer
from tests.helpers.marks import parametrize_some

pytestmark = pytest.mark.heavy

ALL = {
    "repeatable",
    "future", "padding", "scale 1/√d_k", "norm order", "residual", "embeddings · √d_model", "positions",
    "weight sharing", "label smoothing", "cached = uncached", "gradients",
}  # fmt: skip


def not_right(table):
    return {row.name for row in table.rows if row.outcome != "right"}


def smoothed(logits, targets):
    return ag.cross_entropy(logits, targets, label_smoothing=0.1, ignore_index=0)


@parametrize_some(
    "changes",
    [{}, {"norm": "pre"}, {"positions": "sinusoidal-halves", "first_position": 1, "activation": "gelu"}],
    keep=(),  # docs/learn.md checks the first
    ids=str,
)
def test_the_model_of_this_project_is_right_in_everything(changes):
    model = Transformer(TransformerConfig(vocab_size=20, layers=2, d_model=8, heads=2, d_ff=16, **changes))
    before = {name: p.numpy().copy() for name, p in model.named_parameters().items()}
    table = check_model(model, 20, loss=smoothed)
    assert {row.name for row in table.rows} == ALL
    assert (not_right(table), table.is_right) == (set(), True)
    assert all(np.array_equal(p.numpy(), before[name]) for name, p in model.named_parameters().items())


class Unscaled(MultiHeadAttention):
    def attend(self, q, k, v, mask, is_causal=False):
        return ag.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal, scale=1.0)


def test_other_configurations_are_what_they_are():
    changes = {
        "share_embeddings": "none",
        "scale_embeddings": False,
        "positions": "learned",
    }
    model = Transformer(TransformerConfig(vocab_size=20, layers=1, d_model=8, heads=2, d_ff=16, **changes))
    model = with_classes(model, lambda kind: Unscaled if kind is MultiHeadAttention else kind)
    table = check_model(model, 20)
    assert not_right(table) == {"scale 1/√d_k", "embeddings · √d_model", "weight sharing", "label smoothing"}
    assert table.outcome("label smoothing") == "not given"
    assert not table.is_right


def test_an_object_with_methods():
    table = check_model(NumpyTransformer(), V)
    assert not_right(table) == {"gradients"}  # of an object without the methods that compute them
    assert table.outcome("gradients") == "not given"
    assert table.is_right


def test_a_function_alone():
    model = NumpyTransformer()
    table = check_model(lambda source, target: model.logits(source, target), V)
    assert ALL - not_right(table) == {"repeatable", "future", "padding", "positions", "weight sharing"}
    assert table.is_right
    assert "give embed and weights" in str(table)


@pytest.mark.parametrize(
    ("mistake", "row", "message"),
    [
        ("future seen", "future", "the causal mask is missing, or lets them through"),
        ("off by one", "future", "the causal mask is off by one"),
        ("padding seen", "padding", "is padding attended to"),
        ("no √d_k", "scale 1/√d_k", "is the division by √d_k missing?"),
        ("no √d_model", "embeddings · √d_model", "embeddings are not multiplied by √d_model = 2.828"),
        ("no positions", "positions", "there are no positions"),
        ("norm inside", "norm order", "x + norm(f(x))"),
        ("output copied", "weight sharing", "equal, but two arrays"),
        ("target apart", "weight sharing", "are two matrices"),
        ("no smoothing", "label smoothing", "the labels are not smoothed"),
        ("others only", "label smoothing", "the V - 1 other classes"),
        ("padding counts", "label smoothing", "padding counts in the loss"),
        ("cache forgets", "cached = uncached", "at position 2, cached logits differ"),
    ],
)
def test_a_mistake_is_seen_in_its_row(mistake, row, message):
    table = check_model(NumpyTransformer(mistake), V)
    wrong = [each for each in table.rows if each.outcome == "wrong"]
    assert [each.name for each in wrong] == [row]
    assert message in wrong[0].detail


def test_no_positions_are_seen_without_parts():
    model = NumpyTransformer("no positions")
    table = check_model(lambda source, target: model.logits(source, target), V)
    assert table.outcome("positions") == "wrong"
    assert "the same for the source in reverse order" in str(table)


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_gradients_of_an_object_are_compared_with_differences(factor):
    weight = np.random.default_rng(0).standard_normal((V, V))

    def logits(source, target):
        return weight[target] * np.arange(1, source.sum(), dtype=float)[:1]

    def gradients(source, target, g):
        g_weight = np.zeros_like(weight)
        np.add.at(g_weight, target, g)
        return {"weight": factor * g_weight}

    table = check_model(logits, V, parameters={"weight": weight}, gradients=gradients)
    assert table.outcome("gradients") == ("right" if factor == 1 else "wrong")
    assert factor == 1 or "2 times as much" in str(table)


def test_a_parameter_without_gradient_and_a_model_of_this_project_that_cuts_the_graph():
    class Cut(Transformer):
        def encode(self, source):
            return super().encode(source).detach()

    model = Cut(TransformerConfig(vocab_size=20, layers=1, d_model=8, heads=2, d_ff=16))
    table = check_model(model, 20)
    assert not_right(table) == {"gradients", "label smoothing"}
    assert "the gradient of source_embedding.weight" in str(table)


def test_what_raises_is_one_row():
    table = check_model(lambda source, target: Tensor(source) @ "x", V)
    assert [row.name for row in table.rows] == ["repeatable"]
    assert "raises UFuncTypeError" in str(table)
    wrong_shape = check_model(lambda source, target: np.zeros((3, 3)), V)
    assert f"the logits have shape (3, 3), expected (2, 5, {V})" in " ".join(str(wrong_shape).split())


def test_unknown_parts_and_a_vocabulary_too_small_are_refused():
    with pytest.raises(TypeError, match="unknown part 'embde'; the parts are embed, weights"):
        check_model(NumpyTransformer(), V, embde=1)
    with pytest.raises(ValueError, match="vocab_size=3 is too small"):
        check_model(NumpyTransformer(), 3)


def test_dropout_that_is_on_is_told():
    model = Transformer(TransformerConfig(vocab_size=20, layers=1, d_model=8, heads=2, d_ff=16))
    table = check_model(lambda source, target: model(source, target), 20)
    assert not table.is_right
    assert "is dropout on?" in str(table)
    model.eval()
    assert check_model(lambda source, target: model(source, target), 20).is_right
