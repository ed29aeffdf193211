"""Constituency parsing as translation: a sentence in, its tree out, written as a sequence of symbols (section 6.3).

trees        bracketed trees: read, written, cleaned of traces and function tags
linearise    a tree as a sequence of symbols, and back, mending what is no tree
evalb        labelled bracketing recall, precision and F1, figure by figure as EVALB gives them
grammar      the built-in treebank, drawn from a grammar
treebank     the trees of a run as lines of words and of symbols, which the machinery of translation learns from
words        raw text into words
parser       a trained run as a parser
held_out     the score at the end of a training run
"""

from minitf.parsing.evalb import Parameters, Report, Summary, read_parameters, score_trees
from minitf.parsing.linearise import Repairs, delinearise, linearise
from minitf.parsing.parser import Parser
from minitf.parsing.trees import Leaf, Tree, clean, read_trees, trees_of
from minitf.parsing.words import tokenize

__all__ = [
    "Leaf",
    "Parameters",
    "Parser",
    "Repairs",
    "Report",
    "Summary",
    "Tree",
    "clean",
    "delinearise",
    "linearise",
    "read_parameters",
    "read_trees",
    "score_trees",
    "tokenize",
    "trees_of",
]
