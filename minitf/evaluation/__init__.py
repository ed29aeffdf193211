"""Scores of translations and of trees: BLEU and chrF through sacrebleu, EVALB; trees as text."""
