"""The whole model against an independent PyTorch one with the same weights: logits, loss, gradients, Adam."""

import math

import numpy as np
import pytest

import autograd as ag
from minitf.config import OptimizerConfig, TransformerConfig
from minitf.config.special_tokens import PAD
from minitf.model.transformer import Transformer
from minitf.training.optim import Adam, learning_rate

torch = pytest.importorskip("torch", reason="PyTorch is a peer, installed only for comparisons")

CONFIGS = {
    "paper": {},
    "pre-norm": {"norm": "pre"},
    "narrow keys": {"d_k": 3, "d_v": 5},
    "concatenated sinusoids, gelu": {"positions": "sinusoidal-concatenated", "activation": "gelu"},
    "learned positions, silu": {"positions": "learned", "max_positions": 12, "activation": "silu"},
    "unshared": {"share_embeddings": False},
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
        shared = self.config.share_embeddings
        table = self.p["source_embedding.weight" if shared else f"{side}_embedding.weight"]
        x = table[ids] * math.sqrt(self.config.d_model)
        if self.config.positions == "learned":
            return x + self.p[f"{side}_positions.weight"][: ids.shape[1]]
        d = self.config.d_model
        code = torch.zeros(ids.shape[1], d, dtype=torch.float64)
        for pos in range(ids.shape[1]):
            for i in range(d // 2):
                if self.config.positions == "sinusoidal":
                    angle = pos / 10000 ** (2 * i / d)
                    code[pos, 2 * i], code[pos, 2 * i + 1] = math.sin(angle), math.cos(angle)
                else:
                    angle = pos / 10000 ** (i / (d // 2 - 1))
                    code[pos, i], code[pos, d // 2 + i] = math.sin(angle), math.cos(angle)
        return x + code

    def logits(self, source, target):
        source, target = torch.tensor(source, dtype=torch.long), torch.tensor(target, dtype=torch.long)
        seen = (source != PAD)[:, None, None, :]
        causal = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).tril()
        x, y = self.embed("source", source), self.embed("target", target)
        for i in range(self.config.layers):
            x = self.sublayer(f"encoder.layers.{i}.self_attention", x, lambda n, z: self.attention(n, z, z, seen))
            x = self.sublayer(f"encoder.layers.{i}.feed_forward", x, self.feed_forward)
        if self.config.norm == "pre":
            x = self.norm("encoder.norm", x)
        for i in range(self.config.layers):
            y = self.sublayer(f"decoder.layers.{i}.self_attention", y, lambda n, z: self.attention(n, z, z, causal))
            y = self.sublayer(f"decoder.layers.{i}.cross_attention", y, lambda n, z: self.attention(n, z, x, seen))
            y = self.sublayer(f"decoder.layers.{i}.feed_forward", y, self.feed_forward)
        if self.config.norm == "pre":
            y = self.norm("decoder.norm", y)
        shared = self.config.share_embeddings
        return y @ self.p["source_embedding.weight" if shared else "projection"].T

    def loss(self, source, target, expected, label_smoothing):
        logits = self.logits(source, target)
        return torch.nn.functional.cross_entropy(
            logits.flatten(0, 1),
            torch.tensor(expected, dtype=torch.long).flatten(),
            ignore_index=PAD,
            label_smoothing=label_smoothing,
        )


def setup(changes, seed=0):
    config = TransformerConfig(vocab_size=23, layers=2, d_model=16, heads=4, d_ff=24, dropout=0.0, **changes)
    model = Transformer(config, seed=seed, dtype=np.float64)
    rng = np.random.default_rng(seed)
    for parameter in model.parameters():  # zeros and ones would hide mistakes in biases and norms
        parameter.data += 0.1 * rng.standard_normal(parameter.shape)
    peer = Peer(config, {name: p.data.copy() for name, p in model.named_parameters().items()})
    return model, peer, rng


def batch(rng, sentences=3, s=7, t=6):
    source, target = rng.integers(4, 23, (sentences, s)), rng.integers(4, 23, (sentences, t + 1))
    source[1, 5:] = PAD
    target[1, 4:] = PAD
    target[2, 6:] = PAD
    return source, target[:, :-1], target[:, 1:]


def loss_of(model, source, target, expected, label_smoothing=0.1):
    return ag.cross_entropy(model(source, target), expected, label_smoothing=label_smoothing, ignore_index=PAD)


def relative_error(ours, theirs):
    return np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-3)


@pytest.mark.parametrize("changes", CONFIGS.values(), ids=CONFIGS.keys())
def test_logits_loss_and_every_gradient(changes):
    model, peer, rng = setup(changes)
    source, target, expected = batch(rng)
    real = expected != PAD
    with torch.no_grad():
        theirs = peer.logits(source, target).numpy()
    assert relative_error(model(source, target).data[real], theirs[real]) < 1e-10
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
