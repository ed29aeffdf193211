"""Snapshots of the texts of a run, so that it can be resumed where they are not.

`data/train` and `data/valid` hold the token ids of the training and the validation text, `data/texts` copies of the
validation and the test text. A text that a resumed run is given again must have the content it had.
"""

from __future__ import annotations

import filecmp
import shutil
from dataclasses import replace
from pathlib import Path

from minitf.config import PathPair, RunConfig
from minitf.data.prepared import is_prepared, other_content
from minitf.data.vocabulary import load_vocabulary
from minitf.errors import UserError
from minitf.run.tasks import task_of
from minitf.storage.run_directory import RunDirectory
from minitf.system.files import open_regular, os_errors_explained
from minitf.system.plugins import load
from minitf.system.process import Say
from minitf.system.writing import atomic_write, remove_leftovers
from minitf.training.run import Texts, exist

NAMES = {"train": "training text", "valid": "validation text", "test": "test text"}


def public_texts(config: RunConfig, say: Say) -> Texts:
    """Return the texts of the public corpus that the configuration names.

    Raises: UserError if it cannot be downloaded, or its files are not those expected.
    """
    corpora = load("minitf.corpora", "public", f"--data {config.data}", "additions.corpora")
    return Texts(**corpora.find(config.data, config.data_dir, say))


# ---- Copies ----------------------------------------------------------------------------------------------------------


def keep_held_out(texts: Texts, directory: RunDirectory) -> Texts:
    """Copy the validation and the test text into the run's directory, unless it holds them; return the run's texts.

    Scores are those of the copies: a text that is changed while the run trains changes none of them.
    """
    folder = directory.data_path / "texts"
    for split, pair in (("valid", texts.valid), ("test", texts.test)):
        if pair is None or not exist(pair) or kept_copies(directory, split) is not None:
            continue
        with os_errors_explained(f"make the folder {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            remove_leftovers(folder)
        for path, side in zip(pair, ("source", "target"), strict=True):
            name = f"{split}.{side}" + (".gz" if path.suffix == ".gz" else "")
            for ending in ("", ".gz"):  # of a copy without the other side
                (folder / f"{split}.{side}{ending}").unlink(missing_ok=True)
            with os_errors_explained(f"read {path}"), open_regular(path) as text, atomic_write(folder / name) as copy:
                shutil.copyfileobj(text, copy)
    valid, test = (kept_copies(directory, split) for split in ("valid", "test"))
    return replace(texts, valid=valid or texts.valid, test=test or texts.test)


def kept_copies(directory: RunDirectory, split: str) -> PathPair | None:
    """Return the paths of the run's copies of a held-out text; None if it has none."""
    folder = directory.data_path / "texts"
    forms = ([folder / f"{split}.{side}{ending}" for ending in ("", ".gz")] for side in ("source", "target"))
    source, target = (next(filter(Path.exists, paths), None) for paths in forms)
    return (source, target) if source and target else None


# ---- Resuming --------------------------------------------------------------------------------------------------------


def texts_of_resumed(config: RunConfig, directory: RunDirectory, say: Say) -> Texts | None:
    """Return the texts of a resumed run: those that are named, or else the run's copies; None for built-in corpora.

    Raises: UserError for a text with other content than the run's, and for a text that is needed but neither there nor
    kept.
    """
    saved = directory.config()
    if config.vocabulary != saved.vocabulary and config.vocabulary is not None:
        _check_vocabulary(config.vocabulary, directory)
    if (task := task_of(config.task)) is not None:
        task.check_resumed(config, directory)
        return None
    if config.data is not None:
        copies = kept_copies(directory, "valid"), kept_copies(directory, "test")
        if is_prepared(directory.data_path / "train") and None not in copies:
            return Texts(None, *copies)  # needs neither the cache nor a connection
        texts = public_texts(config, say)
        for split, pair in (("train", texts.train), ("valid", texts.valid)):
            if pair is not None:
                _check_ids(pair, split, directory)
        return texts
    if config.train is None:
        return None
    return Texts(
        train=_train(config.train, directory, say),
        valid=None if config.valid is None else _valid(config, config.valid, directory),
        test=None if config.test is None else _test(config.test, directory, say),
    )


def _train(pair: PathPair, directory: RunDirectory, say: Say) -> PathPair:
    _check_ids(pair, "train", directory)
    if not exist(pair):
        if not is_prepared(directory.data_path / "train"):
            raise UserError(f"{_missing(pair)} does not exist, and the run needs it; {_advice('train')}")
        say(f"note: {_missing(pair)} does not exist; training continues with the run's token ids")
    return pair


def _valid(config: RunConfig, pair: PathPair, directory: RunDirectory) -> PathPair:
    _check_ids(pair, "valid", directory)
    if exist(pair):
        return pair
    copies = kept_copies(directory, "valid")
    if copies is None and (config.valid_metric == "bleu" or not is_prepared(directory.data_path / "valid")):
        raise UserError(f"{_missing(pair)} does not exist, and the run needs it; {_advice('valid')}")
    return copies or pair


def _test(pair: PathPair, directory: RunDirectory, say: Say) -> PathPair | None:
    copies = kept_copies(directory, "test")
    if not exist(pair):
        if copies is None:
            say(f"note: {_missing(pair)} does not exist: no test score at the end; {_advice('test')}")
        return copies
    for path, copy in zip(pair, copies or (), strict=False):
        if not filecmp.cmp(path, copy, shallow=False):
            raise _changed(path, "test")
    return pair


def _check_ids(pair: PathPair, split: str, directory: RunDirectory) -> None:
    """Refuse a text whose content does not match the run's token ids."""
    for path in other_content(directory.data_path / split, *pair):
        raise _changed(path, split)


def _check_vocabulary(path: Path, directory: RunDirectory) -> None:
    given, own = load_vocabulary(path), directory.vocabulary_path
    if own.exists() and given.fingerprint() != load_vocabulary(own).fingerprint():
        raise UserError(f"{path} is not the vocabulary of the run; omit --vocabulary: the run has a copy")


def _changed(path: Path, split: str) -> UserError:
    return UserError(
        f"{path} is not the {NAMES[split]} of the run: its content differs; restore that text, give its path with "
        f"--{split} SOURCE TARGET, or remove this file: the run then continues with its own copy"
    )


def _missing(pair: PathPair) -> Path:
    return next(path for path in pair if not path.exists())


def _advice(split: str) -> str:
    return f"give their new paths with --{split} SOURCE TARGET"
