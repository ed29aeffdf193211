"""The texts of a run that is not of the built-in corpus: they are found, checked, and those held out are copied."""

import itertools
import shutil
from dataclasses import replace
from pathlib import Path

from minitf.config import PathPair, RunConfig
from minitf.data.prepared import is_prepared
from minitf.data.text import read_pairs
from minitf.storage.run_directory import RunDirectory
from minitf.system.environment import load
from minitf.system.files import atomic_write, open_regular, os_errors_explained, require_regular
from minitf.system.process import Say
from minitf.training.run import Texts


def find_texts(config: RunConfig, resumed: RunDirectory | None, say: Say) -> Texts:
    """Return the texts of a run: its own copies, once it has token ids, or those that the configuration names.

    Raises: UserError if a corpus cannot be downloaded, or its files are not those expected.
    """
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
