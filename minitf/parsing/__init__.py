"""Constituency parsing as translation (section 6.3): trees, and trees as sequences of tokens."""

from minitf.parsing.linearise import Repairs, delinearise, linearise
from minitf.parsing.trees import Leaf, Tree, clean, read_trees, trees_of
from minitf.parsing.words import tokenize

__all__ = [
    "Leaf",
    "Repairs",
    "Tree",
    "clean",
    "delinearise",
    "linearise",
    "read_trees",
    "tokenize",
    "trees_of",
]
