"""An English grammar, and the built-in treebank that is drawn from it.

rules        what a constituent may consist of
words        the words of each part of speech
random_tree  a random tree
tree_corpus  distinct trees, split and written
"""

from minitf.corpora.treebank.tree_corpus import Treebank, generate_treebank, write_treebank

__all__ = ["Treebank", "generate_treebank", "write_treebank"]
