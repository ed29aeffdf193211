"""Corpora that are generated from grammars: parallel phrases and a treebank."""
