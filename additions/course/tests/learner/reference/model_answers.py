"""Reference answers to the steps of model.py."""

import math

import numpy as np
import ops
from engine import Tensor, apply
from ops import Mask

PAD, UNK, BOS, EOS = range(4)
RNG = np.random.default_rng(0)


# ---- module ----
class Parameter(Tensor):
    def __init__(self, data):
        super().__init__(data, requires_grad=True)


class Module:
    training = True

    def parts(self):
        for name, value in vars(self).items():
            if isinstance(value, list):
                yield from ((f"{name}.{i}", each) for i, each in enumerate(value))
            else:
                yield name, value

    def named_parameters(self):
        found = {}
        for name, value in self.parts():
            inner = {"": value} if isinstance(value, Parameter) else {}
            if isinstance(value, Module):
                inner = value.named_parameters()
            for rest, p in inner.items():
                if not any(p is each for each in found.values()):
                    found[f"{name}.{rest}" if rest else name] = p
        return found

    def parameters(self):
        return list(self.named_parameters().values())

    def train(self, training=True):
        self.training = training
        for _, value in self.parts():
            if isinstance(value, Module):
                value.train(training)
        return self

    def eval(self):
        return self.train(False)


# ---- initializer ----
class Initializer:
    def __init__(self, seed, dtype=np.float32):
        self.rng, self.dtype = np.random.default_rng(seed), dtype

    def glorot_uniform(self, n_out, n_in, gain=1.0):
        bound = gain * math.sqrt(6 / (n_in + n_out))
        return Parameter(self.rng.uniform(-bound, bound, (n_out, n_in)).astype(self.dtype))

    def normal(self, rows, width):
        return Parameter((self.rng.standard_normal((rows, width)) / math.sqrt(width)).astype(self.dtype))

    def zeros(self, size):
        return Parameter(np.zeros(size, self.dtype))

    def ones(self, size):
        return Parameter(np.ones(size, self.dtype))


# ---- layers ----
class Linear(Module):
    def __init__(self, n_in, n_out, init, bias=True, **more):
        self.weight = init.glorot_uniform(n_out, n_in)
        self.bias = init.zeros(n_out) if bias else None

    def __call__(self, x):
        return apply(ops.Linear, x, self.weight, self.bias)


class LayerNorm(Module):
    def __init__(self, d_model, eps, init):
        self.weight, self.bias, self.eps = init.ones(d_model), init.zeros(d_model), eps

    def __call__(self, x):
        return apply(ops.LayerNorm, x, self.weight, self.bias, eps=self.eps)


class Embedding(Module):
    def __init__(self, vocab_size, d_model, init, **more):
        self.weight = init.normal(vocab_size, d_model)

    def __call__(self, ids):
        return apply(ops.Embedding, self.weight, ids) * math.sqrt(self.weight.shape[1])


# ---- dropout_layer ----
class Dropout(Module):
    def __init__(self, p):
        self.p = p

    def __call__(self, x):
        if not self.training or not self.p:
            return x
        return apply(ops.Dropout, x, drop=Mask(x.shape, self.p, RNG))


# ---- feed_forward ----
class FeedForward(Module):
    def __init__(self, d_model, d_ff, activation, dropout, init):
        self.up = Linear(d_model, d_ff, init)
        self.dropout = Dropout(dropout)
        self.down = Linear(d_ff, d_model, init)

    def __call__(self, x):
        return self.down(self.dropout(apply(ops.Relu, self.up(x))))


# ---- sinusoids ----
def sinusoids(length, d_model):
    angle = np.arange(length)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    table = np.empty((length, d_model))
    table[:, 0::2] = np.sin(angle)
    table[:, 1::2] = np.cos(angle)
    return table


# ---- padding_mask ----
def padding_mask(ids):
    return (ids != PAD)[:, None, None, :]


# ---- heads ----
class MultiHeadAttention(Module):
    def __init__(self, d_model, heads, dropout, init, **more):
        self.heads = heads
        self.query, self.key = Linear(d_model, d_model, init), Linear(d_model, d_model, init)
        self.value, self.output = Linear(d_model, d_model, init), Linear(d_model, d_model, init)

    def split(self, x):
        b, t, d = x.shape
        return x.reshape(b, t, self.heads, d // self.heads).swapaxes(1, 2)

    def __call__(self, query, key, value, mask=None, is_causal=False):
        q, k, v = self.split(self.query(query)), self.split(self.key(key)), self.split(self.value(value))
        if is_causal:
            causal = np.tri(q.shape[2], k.shape[2], dtype=bool)
            mask = causal if mask is None else mask & causal
        y = apply(ops.ScaledDotProductAttention, q, k, v, mask=mask, scale=1 / math.sqrt(q.shape[-1]))
        return self.output(y.swapaxes(1, 2).reshape(query.shape))


# ---- residual ----
class Residual(Module):
    def __init__(self, config, init):
        self.norm = LayerNorm(config.d_model, config.norm_epsilon, init)
        self.dropout = Dropout(config.dropout)

    def __call__(self, x, sublayer):
        return self.norm(x + self.dropout(sublayer(x)))


# ---- encoder_layer ----
class EncoderLayer(Module):
    def __init__(self, config, init):
        self.self_attention = MultiHeadAttention(config.d_model, config.heads, 0.0, init)
        self.self_attention_residual = Residual(config, init)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, "relu", 0.0, init)
        self.feed_forward_residual = Residual(config, init)

    def __call__(self, x, mask):
        x = self.self_attention_residual(x, lambda y: self.self_attention(y, y, y, mask))
        return self.feed_forward_residual(x, self.feed_forward)


# ---- decoder_layer ----
class DecoderLayer(Module):
    def __init__(self, config, init):
        self.self_attention = MultiHeadAttention(config.d_model, config.heads, 0.0, init)
        self.self_attention_residual = Residual(config, init)
        self.cross_attention = MultiHeadAttention(config.d_model, config.heads, 0.0, init)
        self.cross_attention_residual = Residual(config, init)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, "relu", 0.0, init)
        self.feed_forward_residual = Residual(config, init)

    def __call__(self, x, memory, memory_mask, cache=None):
        x = self.self_attention_residual(x, lambda y: self.self_attention(y, y, y, is_causal=True))
        x = self.cross_attention_residual(x, lambda y: self.cross_attention(y, memory, memory, memory_mask))
        return self.feed_forward_residual(x, self.feed_forward)


# ---- transformer ----
class Layers(Module):
    def __init__(self, layers):
        self.layers = layers


class Transformer(Module):
    def __init__(self, config, seed=0, dtype=np.float32, init=None):
        init = init or Initializer(seed, dtype)
        self.config = config
        self.source_embedding = self.target_embedding = Embedding(config.vocab_size, config.d_model, init)
        self.dropout = Dropout(config.dropout)
        self.encoder = Layers([EncoderLayer(config, init) for _ in range(config.layers)])
        self.decoder = Layers([DecoderLayer(config, init) for _ in range(config.layers)])

    def embed(self, ids):
        x = self.source_embedding(ids)
        return self.dropout(x + sinusoids(x.shape[1], x.shape[2]).astype(x.dtype))

    def encode(self, source):
        x = self.embed(source)
        for layer in self.encoder.layers:
            x = layer(x, padding_mask(source))
        return x

    def decode(self, target, memory, memory_mask):
        x = self.embed(target)
        for layer in self.decoder.layers:
            x = layer(x, memory, memory_mask)
        return x

    def logits(self, hidden):
        return apply(ops.Linear, hidden, self.target_embedding.weight, None)

    def __call__(self, source, target):
        return self.logits(self.decode(target, self.encode(source), padding_mask(source)))

    def loss(self, source, target, labels, label_smoothing):
        logits = self(source, target)
        rows, targets = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
        counted = targets != PAD
        return apply(ops.CrossEntropy, rows, targets=targets, counted=counted, label_smoothing=label_smoothing)
