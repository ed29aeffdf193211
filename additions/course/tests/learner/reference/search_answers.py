"""Reference answers to the steps of search.py."""

import numpy as np
from engine import no_grad
from model import BOS, EOS, PAD, UNK, Transformer, padding_mask

from train import Adam, Vocabulary, batches, train


# ---- greedy_search ----
def next_logits(model, tokens, memory, mask):
    logits = model.logits(model.decode(np.array(tokens), memory, mask)).data[:, -1].copy()
    logits[:, [PAD, UNK, BOS]] = -np.inf
    return logits


def greedy_search(model, ids, limit):
    model.eval()
    source, tokens = np.array([[*ids, EOS]]), [BOS]
    with no_grad():
        memory = model.encode(source)
        while len(tokens) <= limit and tokens[-1] != EOS:
            tokens.append(int(next_logits(model, [tokens], memory, padding_mask(source)).argmax()))
    return [token for token in tokens[1:] if token != EOS]


# ---- length_penalty ----
def length_penalty(length, alpha):
    return ((5 + length) / 6) ** alpha


# ---- beam_search ----
def log_softmax_of(x):
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def beam_search(model, ids, beam, limit, alpha=0.6):
    model.eval()
    source, mask = np.array([[*ids, EOS]]), padding_mask(np.array([[*ids, EOS]]))
    alive, finished = [([BOS], 0.0)], []
    with no_grad():
        memory = model.encode(source)
        for length in range(1, limit + 1):
            candidates = []
            for tokens, total in alive:
                logits = model.logits(model.decode(np.array([tokens]), memory, mask)).data[0, -1]
                gains = log_softmax_of(logits)
                gains[[PAD, UNK, BOS]] = -np.inf
                candidates += [([*tokens, k], total + gain) for k, gain in enumerate(gains.tolist())]
            candidates.sort(key=lambda each: -each[1])
            alive = []
            for tokens, total in candidates[: 2 * beam]:
                if tokens[-1] == EOS:
                    finished.append((tokens[1:-1], total / length_penalty(length, alpha)))
                elif len(alive) < beam:
                    alive.append((tokens, total))
    if not finished:
        return alive[0][0][1:], alive[0][1] / length_penalty(limit, alpha)
    return max(finished, key=lambda each: each[1])


# ---- translator ----
class Config:
    def __init__(self, vocab_size, layers=2, d_model=64, heads=4, d_ff=256, dropout=0.1, norm_epsilon=1e-6):
        self.vocab_size, self.layers, self.d_model, self.heads = vocab_size, layers, d_model, heads
        self.d_ff, self.dropout, self.norm_epsilon = d_ff, dropout, norm_epsilon


class Translator:
    def __init__(self, pairs, steps, merges=300, max_tokens=1024, warmup=400, say=lambda step, loss: None, **sizes):
        self.vocabulary = Vocabulary([line for pair in pairs for line in pair], merges)
        self.model = Transformer(Config(len(self.vocabulary.pieces), **sizes))
        coded = [tuple(self.vocabulary.encode(line) for line in pair) for pair in pairs]
        adam = Adam(self.model.parameters())
        feed = batches(coded, max_tokens, np.random.default_rng(0))
        self.losses = train(self.model, adam, feed, steps, warmup, say)

    def translate(self, line, beam=4):
        ids = self.vocabulary.encode(line)
        found, _ = beam_search(self.model, ids, beam, len(ids) + 50)
        return self.vocabulary.decode(found)
