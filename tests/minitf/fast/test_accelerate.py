"""Every fast part computes what the plain part computes: values, gradients, and the same dropout masks."""

from dataclasses import replace

import numpy as np
import pytest

import autograd as ag
from additions.interchange.foreign_transformer import ForeignTransformer
from autograd import Tensor, random, safety
from autograd.fast import kernels_on, recomputed
from autograd.modes import Observer, observe
from minitf.config import OptimizerConfig, TransformerConfig
from minitf.config.model import BOS, PAD
from minitf.fast.accelerate import REPLACEMENTS, accelerate, accelerate_adam
from minitf.model import transformer, variants
from minitf.model.layers import FeedForward
from minitf.model.parameters import Initializer, Parameter
from minitf.model.transformer import Transformer, padding_mask
from minitf.training.optim import Adam
from tests.helpers.leaves import saved_bytes
from tests.helpers.marks import parametrize_some
from tests.helpers.model_variants import batch, every_variant, loss_of, model_with

recomputed.recompute_large_outputs()

BASE = TransformerConfig(
    vocab_size=17, layers=2, d_model=6, heads=2, d_ff=7,
    dropout=0.3, attention_dropout=0.2, activation_dropout=0.25, max_positions=9,
)  # fmt: skip
SHAPES = [(3, 5, 4), (1, 1, 1), (2, 1, 6), (0, 3, 2), (2, 3, 0)]  # B, T, S
ODD = [{}, {"heads": 1, "d_k": 5, "d_v": 1}, {"attention_bias": False}, {"heads": 3, "d_model": 6, "d_ff": 1}]


class Parts:
    """A plain part of the class `plain`, and calls of it on random inputs."""

    def __init__(self, plain, changes, dtype, b, t, s):
        self.plain, self.dtype = plain, dtype
        self.config = replace(BASE, **ASKS.get(plain, {}), **changes)
        rng = np.random.default_rng(0)
        d = self.config.d_model
        self.x, self.memory = (rng.standard_normal((b, n, d)).astype(dtype) for n in (t, s))
        seen = np.where(np.arange(s) < rng.integers(1, s + 1, (b, 1)) if s else np.zeros((b, 0), bool), 5, PAD)
        self.source, self.mask = seen, padding_mask(seen)  # [B, S], [B, 1, 1, S]
        self.target, self.labels = rng.integers(4, 17, (2, b, t))
        self.target[:, :1] = BOS

    def build(self):
        init = Initializer(1, self.dtype)
        if issubclass(self.plain, FeedForward):
            module = FeedForward(**self.config.feed_forward_arguments, init=init)
        elif issubclass(self.plain, transformer.MultiHeadAttention):
            module = self.plain(**self.config.attention_arguments, init=init)
        elif issubclass(self.plain, Transformer):
            module = self.plain(self.config, 1, self.dtype)
        else:
            module = self.plain(self.config, init)
        assert type(module) is self.plain
        rng = np.random.default_rng(2)
        for p in module.parameters():
            p.data += rng.normal(0, 0.3, p.shape).astype(self.dtype)
        return module

    def leaves(self):
        return [Tensor(self.x, requires_grad=True), Tensor(self.memory, requires_grad=True)]

    def calls(self, module, x, memory):
        """All results of the module."""
        if issubclass(self.plain, FeedForward):
            return [module(x)]
        if issubclass(self.plain, transformer.MultiHeadAttention):
            return [
                module(x, x, x, is_causal=True),
                module(memory, memory, memory, self.mask),
                module(x, memory, memory, self.mask),
            ]
        if issubclass(self.plain, transformer.Residual):
            return [module(x, ag.tanh)]
        if issubclass(self.plain, transformer.Encoder):
            return [module(memory, self.mask)]
        if issubclass(self.plain, transformer.DecoderLayer | transformer.Decoder):
            return [module(x, memory, self.mask)]
        assert issubclass(self.plain, Transformer)
        return [
            module(self.source, self.target),
            *module.loss(self.source, self.target, self.labels, 0.1),
            *module.loss(self.source, self.target, self.labels, 0.1, "none"),
        ]


ASKS = {  # the changes of the configuration that ask for a part
    FeedForward: {},
    transformer.MultiHeadAttention: {},
    transformer.Residual: {},
    transformer.DecoderLayer: {},
    transformer.Encoder: {},
    variants.PreNormEncoder: {"norm": "pre"},
    transformer.Decoder: {},
    variants.PreNormDecoder: {"norm": "pre"},
    Transformer: {},
    ForeignTransformer: {
        "decoder_start": "zero", "embedding_norm": True, "output_bias": True, "masked_tokens": (0, 2, 16),
    },
}  # fmt: skip


def results(module, parts):
    """Values and gradients of all calls, and the random numbers used."""
    random.set_state((3, 4, 0))
    leaves = parts.leaves()
    found = parts.calls(module, *leaves)
    rng = np.random.default_rng(5)
    smooth = [y for y in found if y.requires_grad and np.isfinite(y.data).all()]  # not logits of masked tokens
    sum((y * rng.standard_normal(y.shape).astype(y.dtype)).sum() for y in smooth).backward()
    values = [np.nan_to_num(y.data) for y in found]
    gradients = {name: p.grad for name, p in [*enumerate(leaves), *module.named_parameters().items()]}
    return values, gradients, random.get_state()


def compare(module, other, parts):
    values, gradients, state = results(module, parts)
    other_values, other_gradients, other_state = results(other, parts)
    tolerance = 1e-10 if parts.dtype == np.float64 else 3e-5
    assert state == other_state
    for one, two in zip(values, other_values, strict=True):
        assert one.dtype == two.dtype
        np.testing.assert_allclose(two, one, rtol=tolerance, atol=tolerance)
    assert gradients.keys() == other_gradients.keys()
    for name, gradient in gradients.items():
        if gradient is None or other_gradients[name] is None:  # an empty batch
            assert gradient is other_gradients[name] is None or not np.any((gradient or other_gradients[name]).data)
        else:
            size = max(1.0, float(abs(gradient.data).max(initial=0)))
            np.testing.assert_allclose(other_gradients[name].data, gradient.data, rtol=tolerance, atol=tolerance * size)


@pytest.mark.heavy
@pytest.mark.parametrize("plain", REPLACEMENTS, ids=lambda plain: plain.__name__)
@parametrize_some(
    ("dtype", "changes"),
    [(dtype, changes) for dtype in (np.float64, np.float32) for changes in ODD],
    keep=(1, 6),
    ids=str,
)
def test_plain_equals_fast(plain, dtype, changes):
    """A class in the table that has no example in ASKS fails."""
    assert plain in ASKS, f"give an example of {plain.__name__}"
    of_layers = issubclass(
        plain, transformer.Encoder | transformer.Decoder | Transformer
    )  # whose parts have all shapes
    for b, t, s in SHAPES[:: 3 if of_layers else 1]:
        parts = Parts(plain, changes, dtype, b, t, s)
        module, other = parts.build(), accelerate(parts.build())
        assert type(other) is REPLACEMENTS[plain]
        assert [*other.named_parameters()] == [*module.named_parameters()]
        compare(module, other, parts)
        compare(module.eval(), other.eval(), parts)


def test_whole_models_have_every_part_replaced():
    def classes(module):
        return {type(module)}.union(*(classes(child) for _, child in module.children()))

    for changes in ({}, {"norm": "pre"}, {"output_bias": True}):
        model = accelerate(Transformer(replace(BASE, **changes)))
        assert not classes(model) & {*REPLACEMENTS}
        assert model.source_embedding is model.target_embedding


# ---- Activations that are computed again ----


@pytest.mark.heavy
@every_variant
def test_checkpointed_activations_give_the_same_bits(changes, monkeypatch):
    """With the layers' outputs in no node's memory, only their inputs, as if these outputs were large."""
    monkeypatch.setattr(recomputed, "LARGE_BYTES", 0)
    found = []
    for on in (False, True):  # without dropout after ReLU, the next product may look at the op before it
        model = model_with({**changes, "dropout": 0.2, "attention_dropout": 0.2}, dtype=np.float32)
        model = accelerate(model, checkpoint_layers=on)
        random.set_state((3, 4, 0))
        loss = loss_of(model, *batch())
        kept = saved_bytes(loss)
        loss.backward()
        gradients = [p.grad.data for p in model.parameters()]
        found.append((loss.item(), random.get_state(), gradients, kept))
    (loss, state, gradients, kept), (again, state_again, gradients_again, kept_again) = found
    assert (again, state_again) == (loss, state)
    assert kept_again < kept / 3
    for g, g_again in zip(gradients, gradients_again, strict=True):
        np.testing.assert_array_equal(g_again, g)


# ---- Projections as one product ----


def gradients_of(model, source, target):
    for p in model.parameters():
        p.grad = None
    loss = (model(source, target) ** 2).sum()
    loss.backward()
    return loss.item(), {name: p.grad.data.copy() for name, p in model.named_parameters().items()}


class Names(Observer):
    """Of the ops of a forward pass."""

    def __init__(self):
        self.found = []

    def before_forward(self, op, arrays):
        self.found.append(type(op).__name__)


def products_of_several(model, source, target):
    with observe(names := Names()):
        model(source, target)
    return names.found.count("LinearHeads")


@pytest.mark.heavy
@every_variant
def test_projections_are_one_product_of_weights_side_by_side(changes):
    """Without copies of the weights; where these are apart, they are copied, and the numbers are the same."""
    model = accelerate(model_with(changes))
    source, target, _ = batch()
    for layer in model.decoder.layers:
        attention = layer.self_attention
        weights = [projection.weight.data for projection in (attention.query, attention.key, attention.value)]
        stacked = kernels_on(model.backend).stacked(weights)
        assert all(np.shares_memory(stacked, weight) for weight in weights)
    in_layers = model.config.decoder_depth + model.config.encoder_depth
    assert products_of_several(model, source, target) == in_layers + 1  # keys and values of the memory for all layers
    loss, gradients = gradients_of(model, source, target)
    for p in model.parameters():
        p.data = p.data.copy()
    expected_loss, expected = gradients_of(model, source, target)
    assert loss == pytest.approx(expected_loss, rel=1e-12)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(gradient, expected[name], rtol=1e-9, atol=1e-12, err_msg=name)


# ---- Adam ----

PARAMETERS = {"matrix": (40, 30), "vector": (7,), "one": (1, 1), "empty": (0, 3), "unused": (2,), "large": (300, 1000)}


def steps_of_adam(dtype, accelerated):
    rng = np.random.default_rng(0)
    named = {name: Parameter(rng.standard_normal(shape).astype(dtype)) for name, shape in PARAMETERS.items()}
    optimizer = Adam(named, OptimizerConfig())
    optimizer = accelerate_adam(optimizer) if accelerated else optimizer
    norms = []
    for _ in range(3):
        for name, parameter in named.items():
            gradient = rng.standard_normal(parameter.shape).astype(dtype)
            parameter.grad = None if name == "unused" else Tensor(np.asfortranarray(gradient))
        norms.append(optimizer.gradient_norm())
        before = safety.now()
        optimizer.step(0.1, gradient_scale=0.3)
        assert [safety.last_change(p.data) > before for p in named.values()] == [True] * 4 + [False, True]
    return norms, {name: p.data for name, p in named.items()} | optimizer.state_arrays()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_adam_is_the_plain_one(dtype):
    (norms, arrays), (fast_norms, fast_arrays) = steps_of_adam(dtype, False), steps_of_adam(dtype, True)
    tolerance = 1e-12 if dtype == np.float64 else 2e-6
    assert fast_norms == pytest.approx(norms, rel=tolerance)
    for name, array in arrays.items():
        assert fast_arrays[name].dtype == array.dtype == dtype
        np.testing.assert_allclose(fast_arrays[name], array, rtol=tolerance, atol=tolerance)
