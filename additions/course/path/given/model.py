"""My Transformer: layers, and Figure 1 of the paper."""

import math

import numpy as np
import ops
from engine import Tensor, apply
from ops import Mask

PAD, UNK, BOS, EOS = range(4)  # ids of padding, unknown, beginning and end of a sentence
RNG = np.random.default_rng(0)  # of dropout


# ---- module: Networks know their parameters (chapter 6) ----
# A Parameter is a Tensor that requires a gradient. A Module has parameters and other modules as attributes, or in lists
# that are attributes. named_parameters() is a dict of all of them by dotted name, in the order of assignment: "weight",
# "norm.weight", "layers.0.weight", with a parameter that is shared once, under its first name. train() and eval() set
# `training` in the module and in all below it, and return the module.


class Parameter(Tensor):
    def __init__(self, data):
        raise NotImplementedError


class Module:
    training = True

    def named_parameters(self):
        raise NotImplementedError

    def parameters(self):
        return list(self.named_parameters().values())

    def train(self, training=True):
        raise NotImplementedError

    def eval(self):
        return self.train(False)


# ---- initializer: Where weights begin (chapter 6) ----
# Parameters of the given dtype, all random numbers from one generator of the seed. glorot_uniform: uniform in ±√(6 /
# (n_in + n_out)), of shape [n_out, n_in]; normal: of standard deviation 1/√width, of shape [rows, width].


class Initializer:
    def __init__(self, seed, dtype=np.float32):
        raise NotImplementedError

    def glorot_uniform(self, n_out, n_in, gain=1.0):
        """`gain` is a factor of the bound."""
        raise NotImplementedError

    def normal(self, rows, width):
        raise NotImplementedError

    def zeros(self, size):
        raise NotImplementedError

    def ones(self, size):
        raise NotImplementedError


# ---- layers: Ops with weights (chapter 6) ----
# Three layers, each one call of an op of yours. An embedding is multiplied by √d_model (section 3.4). From here on, our
# Transformer is made of your layers. It hands in settings that you need not look at, as **more.


class Linear(Module):
    """y = x Wᵀ + b"""

    def __init__(self, n_in, n_out, init, bias=True, **more):
        self.weight = init.glorot_uniform(n_out, n_in)
        self.bias = init.zeros(n_out) if bias else None

    def __call__(self, x):
        raise NotImplementedError


class LayerNorm(Module):
    """Mean 0 and variance 1 along the last axis, then weight and bias"""

    def __init__(self, d_model, eps, init):
        self.weight, self.bias, self.eps = init.ones(d_model), init.zeros(d_model), eps

    def __call__(self, x):
        raise NotImplementedError


class Embedding(Module):
    """y = √d_model · weight[ids]"""

    def __init__(self, vocab_size, d_model, init, **more):
        self.weight = init.normal(vocab_size, d_model)

    def __call__(self, ids):
        raise NotImplementedError


# ---- dropout_layer: Only while training (chapter 6) ----
# While `training`, dropout with a new Mask(x.shape, p, RNG) at each call; else, and with p = 0, x itself.


class Dropout(Module):
    def __init__(self, p):
        self.p = p

    def __call__(self, x):
        raise NotImplementedError


# ---- feed_forward: The network of each position (chapter 6) ----
# max(0, x W₁ + b₁) W₂ + b₂ (equation 2), with dropout between the two, behind the activation.


class FeedForward(Module):
    def __init__(self, d_model, d_ff, activation, dropout, init):
        self.up = Linear(d_model, d_ff, init)
        self.dropout = Dropout(dropout)
        self.down = Linear(d_ff, d_model, init)

    def __call__(self, x):
        raise NotImplementedError


# ---- sinusoids: Where a word stands (chapter 6) ----
# PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos of the same angle (section 3.5). Shapes: ->
# float64 [length, d_model]


def sinusoids(length, d_model):
    raise NotImplementedError


# ---- padding_mask: What no position may attend to (chapter 6) ----
# True at real tokens, False at PAD, in a shape that broadcasts to [B, H, T, S], over heads and queries. Shapes: ids int
# [B, S] -> bool [B, 1, 1, S]


def padding_mask(ids):
    raise NotImplementedError


# ---- heads: Multi-head attention (chapter 6) ----
# Concat(head_1 … head_H) W^O with head_i = Attention(query W_i^Q, key W_i^K, value W_i^V) (section 3.2.2). The
# projections of all heads stand one below the other in one matrix, so that head i is elements i K … (i + 1) K - 1 of
# what `self.query` gives. `mask` is None or boolean, broadcastable to [B, H, T, S]; with is_causal, position t sees
# keys s ≤ t only, and both may be given. Shapes: query [B, T, D], key and value [B, S, D] -> [B, T, D]


class MultiHeadAttention(Module):
    def __init__(self, d_model, heads, dropout, init, **more):
        self.heads = heads
        self.query, self.key = Linear(d_model, d_model, init), Linear(d_model, d_model, init)
        self.value, self.output = Linear(d_model, d_model, init), Linear(d_model, d_model, init)

    def __call__(self, query, key, value, mask=None, is_causal=False):
        raise NotImplementedError


# ---- residual: Around every sub-layer (chapter 6) ----
# LayerNorm(x + Dropout(sublayer(x))), where sublayer is a function (section 3.1).


class Residual(Module):
    def __init__(self, config, init):
        self.norm = LayerNorm(config.d_model, config.norm_epsilon, init)
        self.dropout = Dropout(config.dropout)

    def __call__(self, x, sublayer):
        raise NotImplementedError


# ---- encoder_layer: The left half of Figure 1 (chapter 6) ----
# Self-attention, which sees no padding, then the feed-forward network, each in its residual connection.


class EncoderLayer(Module):
    def __init__(self, config, init):
        self.self_attention = MultiHeadAttention(config.d_model, config.heads, 0.0, init)
        self.self_attention_residual = Residual(config, init)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, "relu", 0.0, init)
        self.feed_forward_residual = Residual(config, init)

    def __call__(self, x, mask):
        raise NotImplementedError


# ---- decoder_layer: The right half (chapter 6) ----
# Causal self-attention, attention to `memory`, the encoder's result, then the feed-forward network. Padding stands at
# the end of a target, so that the causal mask hides it already; that of the source is in `memory_mask`. `cache` is for
# our fast decoder; None here.


class DecoderLayer(Module):
    def __init__(self, config, init):
        self.self_attention = MultiHeadAttention(config.d_model, config.heads, 0.0, init)
        self.self_attention_residual = Residual(config, init)
        self.cross_attention = MultiHeadAttention(config.d_model, config.heads, 0.0, init)
        self.cross_attention_residual = Residual(config, init)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, "relu", 0.0, init)
        self.feed_forward_residual = Residual(config, init)

    def __call__(self, x, memory, memory_mask, cache=None):
        raise NotImplementedError


# ---- transformer: Figure 1 (chapter 6) ----
# encode(source): ids int [B, S] -> memory [B, S, D], through embedding plus sinusoids, dropout, and the encoder's
# layers. decode(target, memory, memory_mask): ids [B, T] -> [B, T, D], likewise. logits(hidden): [B, T, D] -> [B, T,
# V], by the embedding matrix, which serves both embeddings and the output (section 3.4). loss: the sum of the
# cross-entropy of the labels that are not PAD. In `__call__`, the decoder sees no padding of the source.


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

    def encode(self, source):
        raise NotImplementedError

    def decode(self, target, memory, memory_mask):
        raise NotImplementedError

    def logits(self, hidden):
        raise NotImplementedError

    def __call__(self, source, target):
        """Logits of each next token.  Shapes: source int [B, S], target int [B, T] -> [B, T, V]"""
        raise NotImplementedError

    def loss(self, source, target, labels, label_smoothing):
        raise NotImplementedError
