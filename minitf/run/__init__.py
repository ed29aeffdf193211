"""A run from its start to its scores: texts, weights to begin with, resumption, and what is made of a run."""
