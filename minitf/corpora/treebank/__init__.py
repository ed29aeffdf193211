"""A grammar of English of our own, and the default treebank that is drawn from it.

rules      what a constituent may consist of
lexicon    the words of each kind
draw       a random tree, of a word at a time
treebank   distinct trees, split and written
"""

from minitf.corpora.treebank.trees import Treebank, generate_treebank, write_treebank

__all__ = ["Treebank", "generate_treebank", "write_treebank"]
