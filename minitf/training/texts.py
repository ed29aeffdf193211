"""The texts of a run, its vocabulary, and its token ids: found, checked, or made in its folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from minitf.config import RunConfig
from minitf.data.prepared import PreparedCorpus, prepare
from minitf.data.text import read_lines, read_pairs
from minitf.data.vocabulary import Vocabulary
from minitf.errors import UserError
from minitf.parsing.aligned_text import learn_vocabulary, prepare_texts, read_splits
from minitf.parsing.trees import Tree
from minitf.storage.run_directory import RunDirectory
from minitf.system.files import os_errors_explained, remove_leftovers

Say = Callable[[str], None]
PathPair = tuple[Path, Path]


@dataclass
class Texts:
    """The files of a run, source and target of each split."""

    train: PathPair
    valid: PathPair | None
    test: PathPair | None


def given_texts(config: RunConfig, say: Say) -> Texts | None:
    """The texts that the run names, by themselves or as a public corpus; None where it is to have the built-in one.

    Raises: UserError where a corpus cannot be downloaded, or its files are not those expected.
    """
    if config.data is not None:
        from minitf.data.datasets import find

        return Texts(**find(config.data, config.data_dir, say))
    return None if config.train is None else Texts(config.train, config.valid, config.test)


def check_texts(texts: Texts, errors: str) -> None:
    """Read every text once, so that a fault in any of them is named before anything is written.

    Raises: UserError for a text that is missing, empty, not UTF-8, or not aligned with its other side.
    """
    for pair in (texts.train, texts.valid, texts.test):
        if pair is not None:
            for _ in read_pairs(*pair, errors=errors):
                pass


def made_texts(config: RunConfig, directory: RunDirectory) -> Texts:
    """The lines that trees make, or the built-in corpus, written into the folder of the run unless they are there."""
    if config.task == "parsing":
        return Texts(**prepare_texts(lambda: splits_of(config), config.parsing, directory.data_path / "treebank"))
    folder = directory.data_path / "phrases"
    pairs = {split: (folder / f"{split}.en", folder / f"{split}.de") for split in ("train", "valid", "test")}
    if not all(path.exists() for pair in pairs.values() for path in pair):
        from minitf.corpora.phrases import generate_corpus, write_corpus

        if folder.exists():
            with os_errors_explained(f"clean {folder}"):
                remove_leftovers(folder)
        write_corpus(folder, generate_corpus())
    return Texts(pairs["train"], pairs["valid"], pairs["test"])


def splits_of(config: RunConfig) -> Mapping[str, Iterable[Tree]]:
    """The trees of each split: those given, else the built-in treebank."""
    if config.parsing.trees is not None:
        return read_splits(config.parsing, config.errors)
    from minitf.corpora.treebank import generate_treebank

    treebank = generate_treebank()
    return {"train": treebank.train, "valid": treebank.valid, "test": treebank.test}


def load_or_train_vocabulary(config: RunConfig, directory: RunDirectory, texts: Texts, say: Say) -> Vocabulary:
    """The vocabulary of the run: the one in its folder, else a copy of the one given, else one learned jointly."""
    if directory.vocabulary_path.exists():
        return Vocabulary.load(directory.vocabulary_path)
    if config.vocabulary is not None:
        given = Vocabulary.load(config.vocabulary)
        given.save(directory.vocabulary_path)
        return given
    if config.task == "parsing":
        return learn_vocabulary(texts.train, config.vocab_size, directory.vocabulary_path, say)
    say(f"learning a joint vocabulary of {config.vocab_size:,} subwords")
    lines = (line for path in texts.train for line in read_lines(path, errors=config.errors))
    return Vocabulary.train(lines, config.vocab_size, directory.vocabulary_path)


def prepare_split(
    name: str, paths: PathPair, vocabulary: Vocabulary, directory: RunDirectory, config: RunConfig, say: Say
) -> PreparedCorpus:
    """Token ids of one split, memory-mapped; says how many pairs are left out and why."""
    corpus = prepare(*paths, vocabulary, directory.data_path / name, max_length=config.max_length, errors=config.errors)
    left_out = []
    if corpus.dropped_empty:
        left_out.append(f"{corpus.dropped_empty:,} with an empty side")
    if corpus.dropped_long:
        left_out.append(f"{corpus.dropped_long:,} with a side of more than {config.max_length} tokens")
    say(f"{name}: {len(corpus):,} pairs" + (f"; left out: {', '.join(left_out)}" if left_out else ""))
    if not len(corpus):
        raise UserError(f"no pair of {paths[0]} and {paths[1]} can be used; raise --max-length or check the texts")
    return corpus
