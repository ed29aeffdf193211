"""Scores of translations: BLEU and chrF through sacrebleu."""
