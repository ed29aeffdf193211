"""A tiny task: a Transformer learns in a few seconds to write a sequence of digits backwards.

Run it with `python -m examples.tiny_task` in the project's directory.
"""

import numpy as np

import autograd as ag
from minitf import BOS, EOS, PAD, Adam, OptimizerConfig, Transformer, TransformerConfig, greedy_search, learning_rate

FIRST_DIGIT = 4  # after the special tokens
LENGTH, BATCH, STEPS = 6, 64, 250

config = TransformerConfig(vocab_size=FIRST_DIGIT + 10, layers=1, d_model=64, heads=4, d_ff=128, dropout=0.0)
optimizer_config = OptimizerConfig(warmup_steps=50, peak_learning_rate=0.002, label_smoothing=0.0)
model = Transformer(config, seed=0)
optimizer = Adam(model.named_parameters(), optimizer_config)
rng = np.random.default_rng(0)


def with_column(tokens, token, at):
    """Put one more token at the start (at=0) or the end (at=LENGTH) of every row."""
    return np.insert(tokens, at, token, axis=1)


for step in range(1, STEPS + 1):
    digits = rng.integers(FIRST_DIGIT, FIRST_DIGIT + 10, (BATCH, LENGTH))
    backwards = digits[:, ::-1]
    # The decoder's input is its output shifted right by one: at each position it predicts the next token.
    logits = model(with_column(digits, EOS, LENGTH), with_column(backwards, BOS, 0))  # [B, T, V]
    loss = ag.cross_entropy(logits, with_column(backwards, EOS, LENGTH), ignore_index=PAD)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step(learning_rate(step, config.d_model, optimizer_config))
    if step % 50 == 0:
        print(f"step {step}  loss {loss.item():.3f}")

source = rng.integers(FIRST_DIGIT, FIRST_DIGIT + 10, (200, LENGTH))
found = greedy_search(model.eval(), with_column(source, EOS, LENGTH))
right = sum(list(each.tokens) == row[::-1].tolist() for each, row in zip(found, source, strict=True))
print("source ", *(source[0] - FIRST_DIGIT))
print("output ", *(token - FIRST_DIGIT for token in found[0].tokens))
print(f"{right} of {len(source)} sequences are right")
