"""The task of `minitf train --preset parsing-tiny` and of `minitf translate`: see minitf/run/tasks.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from additions.parsing.aligned_text import PathPair, check_trees, prepare_texts, read_splits
from additions.parsing.aligned_text import learn_vocabulary as learn_pieces
from additions.parsing.final_tree_scores import score_trees as score
from additions.parsing.parser import Parser
from additions.parsing.treebank import built_in_treebank
from additions.parsing.trees import Tree
from minitf.config import RunConfig
from minitf.data.vocabulary import Vocabulary
from minitf.translation.translator import Translator

__all__ = ["check", "learn_vocabulary", "line_translator", "make_texts", "score"]


def line_translator(translator: Translator) -> Parser:
    """Return the parser that a translator of words into tokens of trees makes up."""
    return Parser(translator)


def check(config: RunConfig) -> None:
    """Read every treebank once.  Raises: UserError for malformed trees, and for a treebank without a word"""
    check_trees(config.task_options)


def make_texts(config: RunConfig, folder: Path) -> dict[str, PathPair]:
    """Write the lines made of trees into the folder `treebank`, unless it holds them."""
    return prepare_texts(lambda: splits_of(config), config.task_options, folder / "treebank")


def splits_of(config: RunConfig) -> Mapping[str, Iterable[Tree]]:
    """Return the trees of each split: those that the configuration names, else the built-in treebank."""
    if config.task_options.trees is not None:
        return read_splits(config.task_options)
    treebank = built_in_treebank()
    return {"train": treebank.train, "valid": treebank.valid, "test": treebank.test}


def learn_vocabulary(config: RunConfig, train: PathPair, path: Path, say: Callable[[str], object]) -> Vocabulary:
    """Learn subwords of the words, and pieces for the tokens of trees."""
    return learn_pieces(train, config.vocab_size, path, say)
