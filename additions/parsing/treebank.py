"""The built-in treebank: trees with traces and function tags, drawn once from a grammar of this project."""

from __future__ import annotations

import os
from importlib.resources import files

from additions.parsing.trees import Tree, trees_of
from minitf.corpora.built_in import Splits, first, read_text, split

Treebank = Splits[Tree]
"""Trees with traces and function tags; no sentence occurs twice in the three sets together."""


def built_in_treebank(*, train_trees: int = 30_000, valid_trees: int = 500, test_trees: int = 1_000) -> Treebank:
    """Return the built-in treebank, or the first trees of each of its sets.

    Raises: UserError if a number is negative, or larger than that of the set
    """
    lines = split(read_text(files("additions.parsing") / "texts" / "treebank.mrg.bz2"), valid=500, test=1_000)
    chosen = first(lines, train_trees=train_trees, valid_trees=valid_trees, test_trees=test_trees)
    return Splits(
        *(list(trees_of(part, "the built-in treebank")) for part in (chosen.train, chosen.valid, chosen.test))
    )


def write_treebank(folder: str | os.PathLike[str], treebank: Treebank) -> None:
    """Write train.mrg, valid.mrg and test.mrg.  Raises: UserError if the folder or a file cannot be written"""
    treebank.write(folder, {"mrg": str})
