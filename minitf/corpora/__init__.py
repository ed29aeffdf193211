"""Built-in corpora: parallel phrases and a treebank, drawn from grammars."""
