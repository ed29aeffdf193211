"""Parallel corpora and treebanks: the built-in ones, and statistics and splits of others."""
