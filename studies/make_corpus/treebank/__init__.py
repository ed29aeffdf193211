"""The English grammar of the built-in treebank.

rules        what a constituent may consist of
words        the words of each part of speech
random_tree  a random tree
tree_corpus  distinct trees, split
"""
