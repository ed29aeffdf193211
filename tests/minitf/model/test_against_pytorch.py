"""The whole model against an independent PyTorch one with the same weights: logits, loss, gradients, Adam."""

import math

import numpy as np
import pytest

from minitf.config import OptimizerConfig, TransformerConfig
from minitf.config.model import BOS, EOS, PAD
from minitf.data.batches import Batch
from minitf.model.transformer import Transformer
from minitf.training.optim import Adam, batch_loss, learning_rate
from tests.helpers.model_variants import VARIANTS

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

CONFIGS = {
    **VARIANTS,
    "start with a zero vector": {"decoder_start": "zero", "output_bias": True, "masked_tokens": (0, 2)},
    "masked tokens": {"masked_tokens": (0, 1, 2, 7), "output_bias": True},
}


class Peer:
    """The same network on PyTorch tensors, from its own modules and functions."""

    def __init__(self, config, weights):
        self.config = config
        self.p = {name: torch.tensor(a, dtype=torch.float64, requires_grad=True) for name, a in weights.items()}

    def attention(self, name, query, memory, mask):
        h = self.config.heads
        q, k, v = (
            torch.nn.functional.linear(x, self.p[f"{name}.{kind}.weight"], self.p[f"{name}.{kind}.bias"])
            .unflatten(-1, (h, -1))
            .transpose(1, 2)
            for kind, x in (("query", query), ("key", memory), ("value", memory))
        )
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        p = torch.softmax(scores.masked_fill(~mask, -1e30), dim=-1)
        heads = (p @ v).transpose(1, 2).flatten(2)
        return torch.nn.functional.linear(heads, self.p[f"{name}.output.weight"], self.p[f"{name}.output.bias"])

    def norm(self, name, x):
        weight, bias = self.p[f"{name}.weight"], self.p[f"{name}.bias"]
        return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, self.config.norm_epsilon)

    def sublayer(self, name, x, function):
        if self.config.norm == "pre":
            return x + function(name, self.norm(f"{name}_residual.norm", x))
        return self.norm(f"{name}_residual.norm", x + function(name, x))

    def feed_forward(self, name, x):
        f = torch.nn.functional
        hidden = getattr(f, self.config.activation)(f.linear(x, self.p[f"{name}.up.weight"], self.p[f"{name}.up.bias"]))
        return f.linear(hidden, self.p[f"{name}.down.weight"], self.p[f"{name}.down.bias"])

    def embed(self, side, ids):
        c = self.config
        x = self.table(side)[ids] * (math.sqrt(c.d_model) if c.scale_embeddings else 1)
        if side == "target" and c.decoder_start == "zero":
            x = x.masked_fill((ids == BOS)[:, :, None], 0)
        if side == "target" and c.decoder_start == "eos":
            x[ids == BOS] = self.table(side)[EOS] * (math.sqrt(c.d_model) if c.scale_embeddings else 1)
        x = x + self.positions(side, ids.shape[1])
        return self.norm(f"{side}_embedding_norm", x) if c.embedding_norm else x

    def table(self, side):
        shared = side == "source" or self.config.share_embeddings in ("all", "source-target")
        return self.p["source_embedding.weight" if shared else f"{side}_embedding.weight"]

    def positions(self, side, length):
        first, d, kind = self.config.first_position, self.config.d_model, self.config.positions
        if kind == "learned":
            return self.p[f"{side}_positions.weight"][first : first + length]
        code = torch.zeros(length, d, dtype=torch.float64)
        for t in range(length):
            for i in range(d // 2):
                angle = (first + t) / 10000 ** (i / (d // 2 - 1) if kind == "sinusoidal-concatenated" else 2 * i / d)
                places = (2 * i, 2 * i + 1) if kind == "sinusoidal" else (i, d // 2 + i)
                code[t, places[0]], code[t, places[1]] = math.sin(angle), math.cos(angle)
        return code.float().double() if kind == "sinusoidal-halves" else code  # rounded there

    def logits(self, source, target):
        source, target = torch.tensor(source, dtype=torch.long), torch.tensor(target, dtype=torch.long)
        seen = (source != PAD)[:, None, None, :]
        causal = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).tril()
        x, y = self.embed("source", source), self.embed("target", target)
        for i in range(self.config.encoder_depth):
            mix = lambda n, z: self.attention(n, z, z, seen)  # noqa: E731
            x = self.sublayer(f"encoder.layers.{i}.self_attention", x, mix)
            x = self.sublayer(f"encoder.layers.{i}.feed_forward", x, self.feed_forward)
        if self.config.norm == "pre":
            x = self.norm("encoder.norm", x)
        for i in range(self.config.decoder_depth):
            y = self.sublayer(f"decoder.layers.{i}.self_attention", y, lambda n, z: self.attention(n, z, z, causal))
            y = self.sublayer(f"decoder.layers.{i}.cross_attention", y, lambda n, z: self.attention(n, z, x, seen))
            y = self.sublayer(f"decoder.layers.{i}.feed_forward", y, self.feed_forward)
        if self.config.norm == "pre":
            y = self.norm("decoder.norm", y)
        tied = self.config.share_embeddings in ("all", "target-output")
        logits = y @ (self.table("target") if tied else self.p["projection"]).T
        logits = logits + self.p["output_bias"] if self.config.output_bias else logits
        logits[..., list(self.config.masked_tokens)] = -math.inf
        return logits

    def loss(self, source, target, expected, label_smoothing):
        """Σ over real tokens of (1 - ε) · nll + ε · the mean over the tokens allowed, by its definition."""
        logits, expected = self.logits(source, target), torch.tensor(expected, dtype=torch.long)
        logp = torch.log_softmax(logits, dim=-1)
        mean = logp[..., [v for v in range(logp.shape[-1]) if v not in self.config.masked_tokens]].mean(dim=-1)
        nll = -logp.gather(-1, expected[..., None])[..., 0]
        counted = expected != PAD
        return ((1 - label_smoothing) * nll - label_smoothing * mean)[counted].mean()


def setup(changes, seed=0):
    config = TransformerConfig(vocab_size=23, layers=2, d_model=16, heads=4, d_ff=24, dropout=0.0, **changes)
    model = Transformer(config, seed=seed, dtype=np.float64)
    rng = np.random.default_rng(seed)
    for parameter in model.parameters():  # zeros and ones would hide mistakes in biases and norms
        parameter.data += 0.1 * rng.standard_normal(parameter.shape)
    peer = Peer(config, {name: p.data.copy() for name, p in model.named_parameters().items()})
    return model, peer, rng


def batch(rng, sentences=3, s=7, t=6):
    source, target = rng.integers(8, 23, (sentences, s)), rng.integers(8, 23, (sentences, t + 1))
    target[:, 0] = BOS
    source[1, 5:] = PAD
    target[1, 4:] = PAD
    target[2, 6:] = PAD
    return source, target[:, :-1], target[:, 1:]


def loss_of(model, source, target, expected, label_smoothing=0.1):
    batch = Batch(np.arange(len(source)), source, target, expected)
    return batch_loss(model, batch, label_smoothing, reduction="mean")[0]


def relative_error(ours, theirs):
    return np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-3)


@pytest.mark.parametrize("changes", CONFIGS.values(), ids=CONFIGS.keys())
def test_logits_loss_and_every_gradient(changes):
    model, peer, rng = setup(changes)
    source, target, expected = batch(rng)
    real = expected != PAD
    with torch.no_grad():
        theirs = peer.logits(source, target).numpy()
    logits, allowed = model(source, target).data, np.delete(np.arange(23), changes.get("masked_tokens", ()))
    np.testing.assert_array_equal(np.isneginf(logits), np.isneginf(theirs))
    assert relative_error(logits[real][:, allowed], theirs[real][:, allowed]) < 1e-10
    ours, their_loss = loss_of(model, source, target, expected), peer.loss(source, target, expected, 0.1)
    ours.backward()
    their_loss.backward()
    assert abs(ours.item() - their_loss.item()) < 1e-10
    for name, parameter in model.named_parameters().items():
        assert relative_error(parameter.grad.data, peer.p[name].grad.numpy()) < 1e-10, name


def test_ten_adam_steps():
    model, peer, rng = setup({})
    config = OptimizerConfig(warmup_steps=4)
    named = model.named_parameters()
    ours = Adam(named, config)
    theirs = torch.optim.Adam(peer.p.values(), lr=1.0, betas=(config.beta1, config.beta2), eps=config.epsilon)
    for step in range(1, 11):
        source, target, expected = batch(rng)
        rate = learning_rate(step, 16, config)
        ours.zero_grad()
        loss_of(model, source, target, expected).backward()
        ours.step(rate)
        theirs.zero_grad()
        peer.loss(source, target, expected, 0.1).backward()
        theirs.param_groups[0]["lr"] = rate
        # softmax ignores a constant added to all keys' scores: the true gradient of a key bias is zero, and Adam,
        # with ε = 1e-9, would turn what rounding leaves of it into steps; take the same noise on both sides
        for name, parameter in peer.p.items():
            if name.endswith("key.bias"):
                assert np.abs(named[name].grad.data).max() < 1e-15
                assert parameter.grad.abs().max() < 1e-15
        theirs.step()
        for name, parameter in named.items():
            if name.endswith("key.bias"):
                parameter.data[...] = peer.p[name].detach().numpy()
    for name, parameter in named.items():
        assert np.abs(parameter.data - peer.p[name].detach().numpy()).max() < 1e-9, name
