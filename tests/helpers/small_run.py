"""The configuration and the sentences, as token ids, of a run that takes no time."""

from dataclasses import replace

from minitf.config import PRESETS

CONFIG = replace(
    PRESETS["tiny"],
    valid_every=5,
    save_every=4,
    keep_checkpoints=5,
    model=replace(PRESETS["tiny"].model, layers=1, d_model=8, d_ff=16, heads=2, dropout=0.3, vocab_size=12),
)
SENTENCES = [[5, 6, 7], [8], [9, 10], [11, 5, 5, 6]]
