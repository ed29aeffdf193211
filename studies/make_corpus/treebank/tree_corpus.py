"""The default treebank: distinct trees, split into training, validation and test set."""

from __future__ import annotations

from collections.abc import Iterator

from additions.parsing.treebank import Treebank
from additions.parsing.trees import Tree, clean
from minitf.corpora.built_in import require_non_negative, split
from minitf.errors import UserError
from studies.make_corpus.portable_random import PortableRandom
from studies.make_corpus.treebank.random_tree import random_tree

MAX_WORDS = 14
"""Longer sentences are drawn again: the rules are recursive, but a model is to learn the sentences within minutes."""
PATIENCE = 10_000
"""Draws in a row without a new sentence after which the grammar counts as used up."""


def generate_treebank(
    seed: int = 2015, *, train_trees: int = 30_000, valid_trees: int = 500, test_trees: int = 1_000
) -> Treebank:
    """Generate a treebank; the same arguments give the same trees on every machine.

    Raises: UserError if a number is negative or the grammar has too few sentences
    """
    require_non_negative(seed=seed, train_trees=train_trees, valid_trees=valid_trees, test_trees=test_trees)
    trees = list(distinct_trees(PortableRandom(seed), train_trees + valid_trees + test_trees))
    return split(trees, valid_trees, test_trees)


def distinct_trees(rng: PortableRandom, count: int) -> Iterator[Tree]:
    """Draw `count` trees of different sentences, none of more than MAX_WORDS words."""
    seen: set[tuple[str, ...]] = set()
    while len(seen) < count:
        for _ in range(PATIENCE):
            tree = random_tree(rng)
            cleaned = clean(tree)
            assert cleaned is not None
            words = tuple(cleaned.words())
            if len(words) <= MAX_WORDS and words not in seen:
                break
        else:
            raise UserError(f"the grammar has no more sentences after {len(seen):,} of {count:,}; ask for fewer")
        seen.add(words)
        yield tree
