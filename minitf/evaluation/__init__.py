"""Scores of outputs: BLEU and chrF through sacrebleu, and EVALB."""
