"""Reference answers to the steps of train.py."""

from collections import Counter
from itertools import pairwise

import numpy as np
from model import BOS, EOS, PAD, UNK


# ---- learning_rate ----
def learning_rate(step, d_model, warmup):
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


# ---- adam ----
class Adam:
    def __init__(self, parameters, beta1=0.9, beta2=0.98, eps=1e-9):
        self.beta1, self.beta2, self.eps, self.t = beta1, beta2, eps, 0
        self.learning = [(p, np.zeros_like(p.data), np.zeros_like(p.data)) for p in parameters]

    def step(self, rate):
        self.t += 1
        for p, m, v in self.learning:
            if p.grad is not None:
                g = p.grad.data
                m += (1 - self.beta1) * (g - m)
                v += (1 - self.beta2) * (g * g - v)
                m_hat, v_hat = m / (1 - self.beta1**self.t), v / (1 - self.beta2**self.t)
                p.data -= rate * m_hat / (np.sqrt(v_hat) + self.eps)

    def zero_grad(self):
        for p, _, _ in self.learning:
            p.grad = None


# ---- vocabulary ----
class Vocabulary:
    def __init__(self, lines, merges):
        self.merges = []
        words = Counter(self.spelled(word) for line in lines for word in line.split())
        self.pieces = ["<pad>", "<unk>", "<s>", "</s>", *sorted({piece for word in words for piece in word})]
        for _ in range(merges):
            pairs = Counter()
            for word, count in words.items():
                for pair in pairwise(word):
                    pairs[pair] += count
            if not pairs:
                break
            best = max(pairs, key=pairs.get)
            self.merges.append(best)
            self.pieces.append("".join(best))
            words = Counter({self.merged(word, best): count for word, count in words.items()})
        self.ids = {piece: i for i, piece in enumerate(self.pieces)}
        self.known = {}

    def spelled(self, word):
        return ("▁" + word[0], *word[1:])

    def merged(self, word, pair):
        pieces, i = [], 0
        while i < len(word):
            if word[i : i + 2] == pair:
                pieces.append("".join(pair))
                i += 2
            else:
                pieces.append(word[i])
                i += 1
        return tuple(pieces)

    def encode(self, line):
        found = []
        for word in line.split():
            if word not in self.known:
                pieces = self.spelled(word)
                for pair in self.merges:
                    pieces = self.merged(pieces, pair)
                self.known[word] = [self.ids.get(piece, UNK) for piece in pieces]
            found += self.known[word]
        return found

    def decode(self, ids):
        return "".join(self.pieces[i] for i in ids).replace("▁", " ").strip()


# ---- batches ----
def padded(sentences):
    width = max(map(len, sentences))
    return np.array([[*s, *[PAD] * (width - len(s))] for s in sentences])


def batches(pairs, max_tokens, rng):
    def width(i):
        return max(map(len, pairs[i])) + 1

    while True:
        groups = [[]]
        for i in sorted(rng.permutation(len(pairs)), key=width):
            if groups[-1] and (len(groups[-1]) + 1) * width(i) > max_tokens:
                groups.append([])
            groups[-1].append(i)
        for k in rng.permutation(len(groups)):
            chosen = [pairs[i] for i in groups[k]]
            source = padded([[*s, EOS] for s, _ in chosen])
            yield source, padded([[BOS, *t] for _, t in chosen]), padded([[*t, EOS] for _, t in chosen])


# ---- train ----
def train(model, adam, batches, steps, warmup, say=lambda step, loss: None):
    model.train()
    losses = []
    for step in range(1, steps + 1):
        source, target, labels = next(batches)
        loss = model.loss(source, target, labels, 0.1) * (1 / np.count_nonzero(labels != PAD))
        adam.zero_grad()
        loss.backward()
        adam.step(learning_rate(step, model.config.d_model, warmup))
        losses.append(loss.item())
        say(step, losses[-1])
    return losses
