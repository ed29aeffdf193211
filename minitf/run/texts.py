"""The texts of a run: found, checked, copied into its directory, and turned into token ids.

`data/train` and `data/valid` hold the token ids of the training and the validation text, `data/texts` copies of the
validation and the test text: a run that is resumed needs no file but its own.
"""

from __future__ import annotations

import itertools
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from minitf.config import PathPair, RunConfig
from minitf.corpora.built_in import built_in_corpus, write_corpus
from minitf.data.batches import Batches
from minitf.data.prepared import OtherVocabularyError, PreparedCorpus, is_prepared, prepare
from minitf.data.text import read_lines, read_pairs
from minitf.data.vocabulary import AnyVocabulary, Vocabulary, load_vocabulary
from minitf.errors import UserError
from minitf.storage.run_directory import RunDirectory
from minitf.system.environment import load
from minitf.system.files import atomic_write, open_regular, os_errors_explained, remove_leftovers, require_regular
from minitf.system.process import Say
from minitf.training.run import Texts, TrainingData


def find_texts(config: RunConfig, resumed: RunDirectory | None, say: Say) -> Texts | None:
    """Return the texts of a run: its own copies, once it has token ids, or those that the configuration names.

    None for the built-in corpus.
    Raises: UserError if a corpus cannot be downloaded, or its files are not those expected.
    """
    if config.data is None and config.train is None:
        return None
    if resumed is not None and is_prepared(resumed.data_path / "train") and resumed.vocabulary_path.exists():
        return Texts(None, kept_copy(resumed, "valid") or config.valid, kept_copy(resumed, "test") or config.test)
    if config.data is None:
        return Texts(config.train, config.valid, config.test)
    corpora = load("minitf.corpora", "public", f"--data {config.data}", "additions.corpora")
    return Texts(**corpora.find(config.data, config.data_dir, say))


def check_texts(texts: Texts, say: Say) -> None:
    """Read every text once, so that errors in any of them are reported before anything is written.

    Warn of held-out sources that are also in the training text, but for white space, on which scores say nothing.
    Raises: UserError for a text that is missing, empty, not UTF-8, or not aligned with its other side.
    """
    for path in itertools.chain(*filter(None, (texts.train, texts.valid, texts.test))):
        require_regular(path)  # before a byte of a pipe is taken
    held_out = {
        name: {" ".join(source.split()) for source, _ in read_pairs(*pair)} - {""}
        for name, pair in (("valid", texts.valid), ("test", texts.test))
        if pair is not None
    }
    if texts.train is None:
        return
    shared: dict[str, set[str]] = {name: set() for name in held_out}
    for source, _ in read_pairs(*texts.train):
        for name, sources in held_out.items():
            if (key := " ".join(source.split())) in sources:
                shared[name].add(key)
    for name, found in shared.items():
        if found:
            share = f"{len(found):,} of {len(held_out[name]):,} source sentences of --{name}"
            say(f"warning: {share} also occur in the training text; minitf split splits a corpus without overlap")


def prepare_data(
    config: RunConfig, texts: Texts | None, directory: RunDirectory, say: Say, kept: AnyVocabulary | None = None
) -> TrainingData:
    """Make the vocabulary and the token ids in the run's directory, unless it contains them.

    texts: None for the built-in corpus
    kept: the vocabulary of the model that the run starts from
    """
    given = make_texts(directory) if texts is None else texts
    texts = given if texts is None else keep_held_out(texts, directory)
    vocabulary = load_or_train_vocabulary(config, directory, texts, say, kept)
    train = prepare_split("train", texts.train, given.train, vocabulary, directory, config, say)
    valid = None
    if texts.valid is not None:
        valid = prepare_split("valid", texts.valid, given.valid, vocabulary, directory, config, say)
    settings: Any = {"seed": config.seed, "source_eos": config.model.source_eos}
    budget = config.max_tokens_per_batch
    return TrainingData(
        texts,
        vocabulary,
        train=Batches(train, budget, **settings),
        valid=Batches(valid, budget, shuffle=False, **settings) if valid else None,
    )


def make_texts(directory: RunDirectory) -> Texts:
    """Write the built-in corpus into the run's directory, unless it holds it."""
    folder = directory.data_path / "phrases"
    pairs = {split: (folder / f"{split}.en", folder / f"{split}.de") for split in ("train", "valid", "test")}
    if not all(path.exists() for pair in pairs.values() for path in pair):
        if folder.exists():
            with os_errors_explained(f"clean {folder}"):
                remove_leftovers(folder)
        write_corpus(folder, built_in_corpus())
    return Texts(**pairs)


def keep_held_out(texts: Texts, directory: RunDirectory) -> Texts:
    """Copy the validation and the test text into the run's directory, unless it holds them; return the run's texts.

    Scores are those of the copies: a text that is changed while the run trains changes none of them.
    """
    folder = directory.data_path / "texts"
    for split, pair in (("valid", texts.valid), ("test", texts.test)):
        if pair is None or kept_copy(directory, split) is not None:
            continue
        with os_errors_explained(f"make the folder {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            remove_leftovers(folder)
        for path, side in zip(pair, ("source", "target"), strict=True):
            name = f"{split}.{side}" + (".gz" if path.suffix == ".gz" else "")
            with os_errors_explained(f"read {path}"), open_regular(path) as text, atomic_write(folder / name) as copy:
                shutil.copyfileobj(text, copy)
    valid, test = (kept_copy(directory, split) for split in ("valid", "test"))
    return replace(texts, valid=valid or texts.valid, test=test or texts.test)


def kept_copy(directory: RunDirectory, split: str) -> PathPair | None:
    """Return the paths of the run's copies of a held-out text; None if it has none, or that of one side alone."""
    folder = directory.data_path / "texts"
    forms = ([folder / f"{split}.{side}{ending}" for ending in ("", ".gz")] for side in ("source", "target"))
    source, target = (next(filter(Path.exists, paths), None) for paths in forms)
    return (source, target) if source and target else None


def load_or_train_vocabulary(
    config: RunConfig, directory: RunDirectory, texts: Texts, say: Say, kept: AnyVocabulary | None = None
) -> AnyVocabulary:
    """Load the vocabulary in the run's directory, or copy the one given there, or learn one of both languages."""
    if directory.vocabulary_path.exists():
        return load_vocabulary(directory.vocabulary_path)
    if kept is None and config.vocabulary is not None:
        kept = load_vocabulary(config.vocabulary)
    if kept is not None:
        kept.save(directory.path / kept.file_name)
        return kept
    if texts.train is None:
        raise UserError(f"{directory.vocabulary_path} is missing; restore it, or start a new run")
    say(f"learning a joint vocabulary of {config.vocab_size:,} subwords")
    lines = (line for path in texts.train for line in read_lines(path))
    vocabulary = Vocabulary.train(lines, config.vocab_size, directory.vocabulary_path)
    if len(vocabulary) < config.vocab_size:
        say(f"the words of the training text allow {len(vocabulary):,} subwords: that is the vocabulary's size")
    return vocabulary


def prepare_split(
    name: str,
    paths: PathPair | None,
    given: PathPair | None,
    vocabulary: AnyVocabulary,
    directory: RunDirectory,
    config: RunConfig,
    say: Say,
) -> PreparedCorpus:
    """Return the memory-mapped token ids of one split, without its text the kept ones; report how many are left out.

    given: the files that the user named, of which `paths` may be the run's copies; messages name these
    """
    folder = directory.data_path / name
    corpus = kept_ids(folder, vocabulary, config) if paths is None else None
    if corpus is None:
        text, given = paths or config.train, given or config.train
        assert text is not None  # to a type checker: `kept_ids` has seen to it
        names = f"{given[0]} and {given[1]}" if given else None
        corpus = prepare(*text, vocabulary, folder, names=names, max_length=config.max_length)
    left_out = []
    if corpus.dropped_empty:
        left_out.append(f"{corpus.dropped_empty:,} with an empty side")
    if corpus.dropped_long:
        left_out.append(f"{corpus.dropped_long:,} with a side of more than {config.max_length} tokens")
    say(f"{name}: {len(corpus):,} pairs" + (f"; omitted: {', '.join(left_out)}" if left_out else ""))
    if not len(corpus):
        raise UserError(f"no pair of the {name} text can be used; increase --max-length or check the texts")
    return corpus


def kept_ids(folder: Path, vocabulary: AnyVocabulary, config: RunConfig) -> PreparedCorpus | None:
    """Return the token ids that a run holds; None if they are damaged and its training text is still there."""
    try:
        return PreparedCorpus.load(folder, vocabulary, max_length=config.max_length)
    except OtherVocabularyError:
        raise
    except UserError:
        if config.train is None or not all(path.exists() for path in config.train):
            raise
        return None
