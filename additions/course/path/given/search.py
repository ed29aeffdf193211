"""My search: greedy, beam, and a translator."""

import math

import numpy as np
from engine import no_grad
from model import BOS, EOS, PAD, UNK, Transformer, padding_mask

from train import Adam, Vocabulary, batches, train

# ---- greedy_search: The best token, again and again (chapter 11) ----
# ids: a sentence without EOS, which the encoder is to see. Begin with BOS; append the most probable next token, which
# is never PAD, UNK or BOS; end with EOS, or at `limit` tokens, EOS included. Return the ids without BOS and EOS. The
# model is in evaluation mode, nothing is recorded, and the sentence is encoded once.


def greedy_search(model, ids, limit):
    raise NotImplementedError


# ---- length_penalty: Long and short compared (chapter 11) ----
# ((5 + length) / 6)^alpha, Wu et al. 2016.


def length_penalty(length, alpha):
    raise NotImplementedError


# ---- beam_search: Several ways at once (chapter 11) ----
# In each step, extend the alive hypotheses by every token, and take the best 2 · beam of all candidates by
# log-probability. One that ends with EOS is finished; the best `beam` of the others stay alive. Return (ids without BOS
# and EOS, score) of the finished hypothesis with the largest score, log-probability / length_penalty(length, alpha),
# where the length counts EOS; at `limit` tokens the search ends. With none finished, return the most probable alive
# one. As for greedy search, PAD, UNK and BOS are never produced.


def beam_search(model, ids, beam, limit, alpha=0.6):
    raise NotImplementedError


# ---- translator: All of it (chapter 14) ----
# Translator(pairs, steps, merges, ...) learns from pairs of lines: it makes a vocabulary of both languages together, a
# model of Config, Adam on its parameters, and trains it on batches. losses: what `train` returns. translate(line) is
# the translation of a line, by beam search, of at most 50 tokens more than the line has. Then: minitf learn build
# FOLDER --demo "half past seven"


class Config:
    """The sizes of a model."""

    def __init__(self, vocab_size, layers=2, d_model=64, heads=4, d_ff=256, dropout=0.1, norm_epsilon=1e-6):
        self.vocab_size, self.layers, self.d_model, self.heads = vocab_size, layers, d_model, heads
        self.d_ff, self.dropout, self.norm_epsilon = d_ff, dropout, norm_epsilon


class Translator:
    def __init__(self, pairs, steps, merges=300, max_tokens=1024, warmup=400, say=lambda step, loss: None, **sizes):
        """sizes: of Config, such as d_model=32"""
        raise NotImplementedError

    def translate(self, line, beam=4):
        raise NotImplementedError
