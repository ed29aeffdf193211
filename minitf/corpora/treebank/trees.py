"""The default treebank: distinct trees, split into training and held-out sets, and written as brackets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from minitf.corpora.draw import Draw
from minitf.corpora.treebank.random_tree import random_tree
from minitf.data.text import write_atomically
from minitf.errors import UserError
from minitf.parsing.trees import Tree, clean
from minitf.system.files import os_errors_explained

MAX_WORDS = 14
"""Longer sentences are drawn again: the rules have no bound, but what is to be learned in minutes must have one."""
PATIENCE = 10_000
"""Draws in a row without anything new after which there are no more sentences to be had."""


@dataclass(frozen=True)
class Treebank:
    """Lists of trees, with traces and function tags; no sentence occurs twice in all three together."""

    train: list[Tree]
    valid: list[Tree]
    test: list[Tree]


def generate_treebank(
    seed: int = 2015, *, train_trees: int = 30_000, valid_trees: int = 500, test_trees: int = 1_000
) -> Treebank:
    """Draw a treebank; the same arguments bring the same trees on every machine.

    Raises: UserError if a number is negative or the grammar does not suffice for so many trees
    """
    sizes = {"seed": seed, "train_trees": train_trees, "valid_trees": valid_trees, "test_trees": test_trees}
    for name, value in sizes.items():
        if value < 0:
            raise UserError(f"{name}={value} is negative; give a whole number from 0 on")
    trees = list(distinct_trees(Draw(seed), train_trees + valid_trees + test_trees))
    held_out = valid_trees + test_trees
    return Treebank(train=trees[held_out:], valid=trees[:valid_trees], test=trees[valid_trees:held_out])


def distinct_trees(draw: Draw, count: int) -> Iterator[Tree]:
    """Draw `count` trees of different sentences, none of more than MAX_WORDS words."""
    seen: set[tuple[str, ...]] = set()
    while len(seen) < count:
        for _ in range(PATIENCE):
            tree = random_tree(draw)
            cleaned = clean(tree)
            assert cleaned is not None
            words = tuple(cleaned.words())
            if len(words) <= MAX_WORDS and words not in seen:
                break
        else:
            raise UserError(f"the grammar has no more sentences after {len(seen):,} of {count:,}; ask for fewer")
        seen.add(words)
        yield tree


def write_treebank(folder: str | os.PathLike[str], treebank: Treebank) -> None:
    """Write train.mrg, valid.mrg and test.mrg: one tree a line. The folder is made if there is none.

    Raises: UserError if the folder or a file cannot be written
    """
    folder = Path(folder)
    with os_errors_explained(f"make the folder {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    for name, trees in (("train", treebank.train), ("valid", treebank.valid), ("test", treebank.test)):
        with write_atomically(folder / f"{name}.mrg") as file:
            file.writelines(f"{tree}\n" for tree in trees)
