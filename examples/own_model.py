"""A model of your own: a decoder that learns to write as a text file does, character by character.

Run it with `python -m examples.own_model my.txt` in the project's directory; without a file, it reads README.md.
"""

import sys
from pathlib import Path

import numpy as np

import autograd as ag
from minitf import Adam, Embedding, FeedForward, LayerNorm, Linear, Module, MultiHeadAttention

D_MODEL, HEADS, LAYERS, LENGTH, BATCH, STEPS = 32, 4, 2, 32, 16, 600


class Block(Module):  # x [B, T, D] -> [B, T, D]
    def __init__(self):
        self.attention = MultiHeadAttention(D_MODEL, HEADS)
        self.feed_forward = FeedForward(D_MODEL, 4 * D_MODEL)
        self.norms = LayerNorm(D_MODEL), LayerNorm(D_MODEL)

    def __call__(self, x):
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, is_causal=True)  # a character sees only those before it
        return x + self.feed_forward(self.norms[1](x))


class Writer(Module):  # ids [B, T] -> logits of each next character [B, T, V]
    def __init__(self, characters):
        self.characters, self.positions = Embedding(characters, D_MODEL), Embedding(LENGTH, D_MODEL)
        self.blocks = [Block() for _ in range(LAYERS)]
        self.norm, self.output = LayerNorm(D_MODEL), Linear(D_MODEL, characters)

    def __call__(self, ids):
        x = self.characters(ids) + self.positions(np.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.output(self.norm(x))


text = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
characters = sorted(set(text))
ids = np.array([characters.index(each) for each in text])
rng, model = np.random.default_rng(0), Writer(len(characters))
adam = Adam(model.parameters(), lr=5e-3)
for step in range(1, STEPS + 1):
    rows = ids[rng.integers(0, len(ids) - LENGTH, BATCH)[:, None] + np.arange(LENGTH + 1)]  # [B, T + 1]
    loss = ag.cross_entropy(model(rows[:, :-1]), rows[:, 1:])
    adam.zero_grad()
    loss.backward()
    adam.step()
    if step % 100 == 0:
        print(f"step {step}  loss {loss.item():.2f} nats per character")

written = [*ids[:8]]
for _ in range(200):
    logits = model(np.array([written[-LENGTH:]])).detach()[0, -1].astype("float64")
    written.append(rng.choice(len(characters), p=ag.softmax(2 * logits).numpy()))  # a temperature of 1/2
print("".join(characters[i] for i in written))
