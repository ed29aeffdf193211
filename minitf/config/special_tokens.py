"""Ids of the special tokens, the first four of every vocabulary."""

PAD, UNK, BOS, EOS = 0, 1, 2, 3
"""Padding, unknown, beginning of sequence and end of sequence."""
