"""My training: learning rate, Adam, pieces of words, batches, and the loop."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np
from engine import Tensor
from model import BOS, EOS, PAD, UNK

# ---- learning_rate: Up, then down (chapter 8) ----
# d_model^-0.5 · min(step^-0.5, step · warmup^-1.5), equation 3. Steps count from 1.


def learning_rate(step, d_model, warmup):
    raise NotImplementedError


# ---- adam: The optimizer (chapter 8) ----
# m ← β₁ m + (1 - β₁) g, v ← β₂ v + (1 - β₂) g², p ← p - rate · m̂ / (√v̂ + ε), with m̂ = m / (1 - β₁^t) and v̂ = v / (1
# - β₂^t) in step t, from 1 (Kingma & Ba 2015). p.data is changed in place, for others hold it too; the gradient stays
# as it is. A parameter whose grad is None stays as it is. zero_grad forgets all gradients.


class Adam:
    def __init__(self, parameters, beta1=0.9, beta2=0.98, eps=1e-9):
        raise NotImplementedError

    def step(self, rate):
        raise NotImplementedError

    def zero_grad(self):
        raise NotImplementedError


# ---- vocabulary: Pieces of words (chapter 11) ----
# Byte-pair encoding of Sennrich et al. 2016. Each word of each line, split at spaces, begins as its characters, with ▁
# before the first: "▁h" "a" "t". `pieces` are the names of the four special tokens (any names, in the order of their
# ids), then these characters in sorted order, then one piece for each of `merges` merges: of the pair of neighbours
# that is the most frequent in all words then, which becomes one piece everywhere; with no pair left, there are fewer.
# encode(line): the ids, by the same merges in the same order; UNK for what is unknown. Words come again and again:
# remember their ids. decode(ids): the line.


class Vocabulary:
    def __init__(self, lines, merges):
        raise NotImplementedError

    def encode(self, line):
        raise NotImplementedError

    def decode(self, ids):
        raise NotImplementedError


# ---- batches: Sentences of similar length (chapter 9) ----
# batches(pairs, max_tokens, rng) never ends. It yields (source, target, labels), int arrays padded with PAD: source is
# a sentence and EOS, target is BOS and its translation, labels the translation and EOS. pairs: lists of ids without
# these. Each epoch has every pair once. A batch has sentences of similar length, and as many as fit: rows times columns
# of its longer side are at most max_tokens, if a single pair is not longer. Its batches come in random order, by the
# generator `rng`.


def batches(pairs, max_tokens, rng):
    raise NotImplementedError


# ---- train: The loop (chapter 9) ----
# `steps` updates of the model, each by one batch: the gradient of the *mean* loss of its target tokens (labels but
# PAD), with label smoothing 0.1, at the learning rate of its step. `batches` is an iterator. Return the mean losses,
# one number a step; after each, call say(step, loss).


def train(model, adam, batches, steps, warmup, say=lambda step, loss: None):
    raise NotImplementedError
