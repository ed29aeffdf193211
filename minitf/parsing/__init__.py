"""Constituency parsing as translation: a sentence in, its tree out, written as a sequence of symbols (section 6.3).

trees        bracketed trees: read, written, cleaned of traces and function tags
linearise    a tree as a sequence of symbols, and back, mending what is no tree
evalb        labelled bracketing recall, precision and F1, figure by figure as EVALB gives them
"""

from minitf.parsing.evalb import Parameters, Report, Summary, evalb, read_parameters
from minitf.parsing.linearise import Repairs, delinearise, linearise
from minitf.parsing.trees import Leaf, Tree, clean, read_trees, trees_of

__all__ = [
    "Leaf",
    "Parameters",
    "Repairs",
    "Report",
    "Summary",
    "Tree",
    "clean",
    "delinearise",
    "evalb",
    "linearise",
    "read_parameters",
    "read_trees",
    "trees_of",
]
