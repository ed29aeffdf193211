"""The trees of a run as aligned lines of text, so that the machinery of translation learns from them unchanged.

    train.words     the cat sleeps .                                          the source
    train.tokens    (S (NP the (DT) cat (NN) )NP (VP sleeps (VBZ) )VP … )S    the target
    train.trees     (TOP (S (NP (DT the) (NN cat)) …))                        to score against, and to read

and the same for valid and test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from minitf.data.text import read_lines, write_atomically
from minitf.data.vocabulary import Vocabulary
from minitf.errors import UserError
from minitf.files import os_errors_explained, remove_leftovers
from minitf.parsing.linearise import BRACKET, linearise
from minitf.parsing.trees import Tree, clean, read_trees
from minitf.parsing.words import as_token

if TYPE_CHECKING:
    from minitf.config import ParsingConfig

SPLITS = ("train", "valid", "test")
KINDS = ("words", "tokens", "trees")
HELD_OUT = 20
"""Where no held-out trees are given, the last twentieth of the file tests, and the twentieth before it validates:
neighbours in a treebank are of one article, and a parser shall be tested on articles it does not know."""

PathPair = tuple[Path, Path]


def check_trees(config: ParsingConfig, errors: str) -> None:
    """Read every treebank once.  Raises: UserError for text that is no tree."""
    for path in (config.trees, config.valid_trees, config.test_trees):
        if path is not None and not sum(1 for _ in _cleaned(read_trees(path, errors))):
            raise UserError(f"{path} holds no tree with a word; give trees such as (S (NP (NN cat)) (VP (VB sit)))")


def prepare_texts(config: ParsingConfig, errors: str, folder: Path) -> dict[str, PathPair]:
    """(words, tokens) of each split, written into `folder` unless it holds them."""
    found = {split: {kind: folder / f"{split}.{kind}" for kind in KINDS} for split in SPLITS}
    if not all(path.exists() for paths in found.values() for path in paths.values()):
        with os_errors_explained(f"make the folder {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            remove_leftovers(folder)
        for split, trees in _splits(config, errors).items():
            _write(trees, config, found[split])
    return {split: (paths["words"], paths["tokens"]) for split, paths in found.items()}


def learn_vocabulary(train: PathPair, vocab_size: int, path: Path, say: Callable[[str], object]) -> Vocabulary:
    """Subwords of the words, and each bracket as one piece of its own."""
    words, tokens = train
    brackets = brackets_in(tokens)
    say(f"learning a vocabulary of {vocab_size:,}: {len(brackets)} brackets and tags, and subwords of the words")
    return Vocabulary.train(read_lines(words), vocab_size, path, symbols=brackets)


def brackets_in(path: Path) -> list[str]:
    """Every bracket and tag of a text of tokens, in the order of their first occurrence."""
    tokens = dict.fromkeys(token for line in read_lines(path) for token in line.split())
    return [token for token in tokens if BRACKET.fullmatch(token)]


def _splits(config: ParsingConfig, errors: str) -> dict[str, Iterable[Tree]]:
    """The trees of each split; cleaned ones where one file is cut into several."""
    if config.trees is None:
        from minitf.parsing.grammar import generate_treebank

        made = generate_treebank()
        return {"train": made.train, "valid": made.valid, "test": made.test}
    trees = list(_cleaned(read_trees(config.trees, errors)))
    count = held_out_count(len(trees)) if config.valid_trees is None or config.test_trees is None else 0
    splits: dict[str, Iterable[Tree]] = {}
    for split, path in (("test", config.test_trees), ("valid", config.valid_trees)):
        if path is not None:
            splits[split] = read_trees(path, errors)
        else:
            splits[split] = trees[-count:]
            del trees[-count:]
    return {"train": trees, **splits}


def held_out_count(trees: int) -> int:
    """How many trees of a file are held out for each of the two splits.  Raises: UserError where there are too few."""
    if trees < 3:
        raise UserError(
            f"the treebank has {trees} trees, of which none can be held out; give more, or held-out ones of their own"
        )
    return max(1, trees // HELD_OUT)


def _write(trees: Iterable[Tree], config: ParsingConfig, paths: dict[str, Path]) -> None:
    """Write the lines of one split; trees without a word have none."""
    with ExitStack() as stack:
        words, tokens, brackets = (stack.enter_context(write_atomically(paths[kind])) for kind in KINDS)
        for tree in _cleaned(trees):
            words.write(" ".join(map(as_token, tree.words())) + "\n")
            tokens.write(" ".join(linearise(tree, config.tags, config.leaves)) + "\n")
            brackets.write(f"{tree}\n")


def _cleaned(trees: Iterable[Tree]) -> Iterator[Tree]:
    return (cleaned for cleaned in map(clean, trees) if cleaned is not None)
