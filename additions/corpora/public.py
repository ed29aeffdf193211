"""Public corpora by name: their addresses, and which of their lines are training, validation and test text.

    texts = find("multi30k", None, print)      # downloads into the cache; needs no connection the next time
    texts = find("multi30k", Path("mine"), print)

A corpus of plain files is used as it is. From archives, the texts are written once into the folder `texts` beside them.

Source: section 5.1 (WMT 2014); Elliott et al. 2016 (Multi30k); Cettolo et al. 2014 (IWSLT)
"""

from __future__ import annotations

import contextlib
import gzip
import json
import lzma
import os
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from additions.corpora.download import Remote, Say, fetch, verify
from minitf.data.text import MAX_LINE_BYTES
from minitf.errors import UserError
from minitf.system.files import atomic_write, os_errors_explained, parse_json_object, sha256_of

PathPair = tuple[Path, Path]
Splits = dict[str, PathPair]  # "train", "valid", "test"
SPLITS = ("train", "valid", "test")
FORMAT = 1  # raise it when the same archives would give other texts
DONE_NAME = "texts.json"


@dataclass(frozen=True)
class Part:
    """Text in an archive: one member for each side."""

    archive: Remote
    source: tuple[str, ...]  # alternative names
    target: tuple[str, ...]
    form: str = "plain"  # or "sgm", "tags"


@dataclass(frozen=True)
class Dataset:
    """A corpus: plain files for each split and side, or concatenated parts of archives."""

    name: str
    languages: tuple[str, str]
    files: dict[str, tuple[Remote, Remote]] | None = None
    parts: dict[str, tuple[Part, ...]] | None = None
    valid_every: int | None = None  # every n-th pair of the training text is validation text


# ---- Multi30k ----

_MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1"
_TOKENIZED_SHA256 = {
    "train.lc.norm.tok.de": "cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505",
    "val.lc.norm.tok.en": "46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec",
    "val.lc.norm.tok.de": "97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00",
    "test_2016_flickr.lc.norm.tok.en": "5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2",
    "test_2016_flickr.lc.norm.tok.de": "c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4",
}
"""Checksums of the files that have had a single version; the English training text has had two."""


def _multi30k(source: str, target: str, *, tokenized: bool) -> dict[str, tuple[Remote, Remote]]:
    stems = {"train": "train", "valid": "val", "test": "test_2016_flickr"}

    def remote(stem: str, language: str) -> Remote:
        name = f"{stem}.lc.norm.tok.{language}" if tokenized else f"{stem}.{language}.gz"
        return Remote(f"{_MULTI30K}/{'tok' if tokenized else 'raw'}/{name}", _TOKENIZED_SHA256.get(name))

    return {split: (remote(stem, source), remote(stem, target)) for split, stem in stems.items()}


# ---- WMT 2014 ----

_STATMT = "https://www.statmt.org"
_EUROPARL = Remote(f"{_STATMT}/wmt13/training-parallel-europarl-v7.tgz")
_COMMON_CRAWL = Remote(f"{_STATMT}/wmt13/training-parallel-commoncrawl.tgz")
_UNITED_NATIONS = Remote(f"{_STATMT}/wmt13/training-parallel-un.tgz")
_NEWS_COMMENTARY = Remote(f"{_STATMT}/wmt14/training-parallel-nc-v9.tgz")
_GIGA = Remote(f"{_STATMT}/wmt10/training-giga-fren.tar")
_DEVELOPMENT = Remote(f"{_STATMT}/wmt14/dev.tgz")
_TEST = Remote(f"{_STATMT}/wmt14/test-full.tgz")


def _both(archive: Remote, stem: str, target: str, ending: str = "") -> Part:
    return Part(archive, (f"{stem}.en{ending}",), (f"{stem}.{target}{ending}",))


def _wmt14(target: str, training: tuple[Part, ...], pair: str) -> dict[str, tuple[Part, ...]]:
    development = Part(
        _DEVELOPMENT,
        ("dev/newstest2013.en", "dev/newstest2013-src.en.sgm"),
        (f"dev/newstest2013.{target}", f"dev/newstest2013-ref.{target}.sgm"),
    )
    stem = f"test-full/newstest2014-{pair}"
    test = Part(_TEST, (f"{stem}-src.en.sgm",), (f"{stem}-ref.{target}.sgm",), "sgm")
    return {"train": training, "valid": (development,), "test": (test,)}


_WMT14_EN_DE = _wmt14(
    "de",
    (
        _both(_EUROPARL, "training/europarl-v7.de-en", "de"),
        _both(_COMMON_CRAWL, "commoncrawl.de-en", "de"),
        _both(_NEWS_COMMENTARY, "training/news-commentary-v9.de-en", "de"),
    ),
    "deen",
)
_WMT14_EN_FR = _wmt14(
    "fr",
    (
        _both(_EUROPARL, "training/europarl-v7.fr-en", "fr"),
        _both(_COMMON_CRAWL, "commoncrawl.fr-en", "fr"),
        _both(_UNITED_NATIONS, "un/undoc.2000.fr-en", "fr"),
        _both(_NEWS_COMMENTARY, "training/news-commentary-v9.fr-en", "fr"),
        _both(_GIGA, "giga-fren.release2.fixed", "fr", ".gz"),
    ),
    "fren",
)

# ---- IWSLT 2014 ----

_IWSLT = Remote("https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz")
_IWSLT_TESTS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
_IWSLT14 = {
    "train": (Part(_IWSLT, ("de-en/train.tags.de-en.de",), ("de-en/train.tags.de-en.en",), "tags"),),
    "test": tuple(
        Part(_IWSLT, (f"de-en/IWSLT14.{name}.de-en.de.xml",), (f"de-en/IWSLT14.{name}.de-en.en.xml",), "sgm")
        for name in _IWSLT_TESTS
    ),
}

_CORPORA = (
    # 29,000 captions of pictures as written; test_2016_flickr
    Dataset("multi30k", ("en", "de"), files=_multi30k("en", "de", tokenized=False)),
    # the same, lower-cased and tokenized by its authors: the text of published scores
    Dataset("multi30k-tok", ("en", "de"), files=_multi30k("en", "de", tokenized=True)),
    # 4.5 million pairs, the paper's; newstest2013 and newstest2014
    Dataset("wmt14-en-de", ("en", "de"), parts=_WMT14_EN_DE),
    # 36 to 41 million pairs, the paper's; newstest2013 and newstest2014
    Dataset("wmt14-en-fr", ("en", "fr"), parts=_WMT14_EN_FR),
    # talks; validated on every 23rd pair, tested on dev2010 to tst2012, as usual
    Dataset("iwslt14", ("de", "en"), parts=_IWSLT14, valid_every=23),
)
DATASETS = {dataset.name: dataset for dataset in _CORPORA}


def cache_folder() -> Path:
    """The folder of downloads: `minitf` in $XDG_CACHE_HOME, by default ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "minitf"
    except RuntimeError:
        raise UserError("there is no home directory to store a corpus in; set HOME, or give --data-dir") from None


def find(name: str, folder: Path | None, say: Say) -> Splits:
    """Find the texts of a corpus in a folder, and download what is missing; default: a folder in the cache.

    Raises: UserError for an unknown name, and for files that cannot be downloaded or used.
    """
    if name not in DATASETS:
        raise UserError(f"data={name!r} is unknown; choose one of {', '.join(DATASETS)}")
    dataset = DATASETS[name]
    folder = cache_folder() / name if folder is None else folder
    if dataset.files is not None:
        files = dataset.files.items()
        return {split: (_plain_file(one, folder, say), _plain_file(two, folder, say)) for split, (one, two) in files}
    return _texts_of_archives(dataset, folder, say)


# ---- Plain files -------------------------------------------------------------------------------------------------


def _plain_file(remote: Remote, folder: Path, say: Say) -> Path:
    """Find the file under its published name or a simpler one, compressed or not; else download it."""
    plain = remote.name.removesuffix(".gz")
    simple = plain.replace(".lc.norm.tok.", ".")
    for name in dict.fromkeys((remote.name, plain, simple, simple + ".gz")):
        path = folder / name
        if path.exists():
            same_bytes = name.endswith(".gz") == remote.name.endswith(".gz")
            verify(path, remote.sha256 if same_bytes else None)
            return path
    return fetch(remote, folder, say)


# ---- Archives ----------------------------------------------------------------------------------------------------


def _texts_of_archives(dataset: Dataset, folder: Path, say: Say) -> Splits:
    """Extract the texts from the archives, unless the folder already has them complete.

    Then the archives, which may be many gigabytes, are no longer needed.
    """
    parts = dataset.parts or {}
    source, target = dataset.languages
    texts = folder / "texts"
    splits = {split: (texts / f"{split}.{source}", texts / f"{split}.{target}") for split in SPLITS}
    if _are_whole(texts, splits, dataset):
        return splits
    archives = {part.archive for split in parts.values() for part in split}
    paths = {remote: fetch(remote, folder, say) for remote in sorted(archives, key=lambda each: each.url)}
    with os_errors_explained(f"create the folder {texts}"):
        texts.mkdir(exist_ok=True)
    say(f"reading the texts of {dataset.name} from {len(paths)} archives")
    for split, chosen in parts.items():
        _write_split(dataset, split, chosen, paths, splits)
    names = [path.name for pair in splits.values() for path in pair]
    about = {"format": FORMAT, "sha256": {name: sha256_of(texts / name) for name in names}}
    with atomic_write(texts / DONE_NAME, "w") as file:  # last: without it, the rest counts as half-written
        json.dump(about, file, indent=2)
    return splits


def _are_whole(texts: Path, splits: Splits, dataset: Dataset) -> bool:
    """Return whether the texts are complete and unchanged.

    Raises: UserError for a text that has changed, perhaps on purpose.
    """
    try:
        about = parse_json_object((texts / DONE_NAME).read_bytes())
        if about["format"] != FORMAT:
            return False
        checksums = {path: about["sha256"][path.name] for pair in splits.values() for path in pair}
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return False  # a missing or damaged description: all is extracted again
    if not all(path.exists() for path in checksums):
        return False
    for path, checksum in checksums.items():
        if sha256_of(path) != checksum:
            raise UserError(
                f"{path} has changed since it was made from the archives of {dataset.name}; delete {texts} to "
                "make it again, or give your own texts with --train, --valid and --test"
            )
    return True


def _write_split(
    dataset: Dataset, split: str, parts: tuple[Part, ...], paths: dict[Remote, Path], splits: Splits
) -> None:
    """Write both sides of a split, and of the validation text if that is cut from the training text."""
    cut = dataset.valid_every if split == "train" else None
    counts = []
    for side in (0, 1):
        with contextlib.ExitStack() as stack:
            out = stack.enter_context(atomic_write(splits[split][side]))
            held_out = stack.enter_context(atomic_write(splits["valid"][side])) if cut else None
            count = 0
            for part in parts:
                for line in _lines(part, side, paths[part.archive]):
                    count += 1
                    (held_out if held_out is not None and count % cut == 0 else out).write(line + b"\n")  # type: ignore
            counts.append(count)
    if counts[0] != counts[1]:
        raise UserError(
            f"the {split} text of {dataset.name} has {counts[0]:,} lines on one side but {counts[1]:,} on the other; "
            "an archive is damaged or not the expected one: delete it to download it again"
        )


def _lines(part: Part, side: int, path: Path) -> Iterator[bytes]:
    """Iterate over the sentences of one side, without the archive's markup."""
    with _member(path, (part.source, part.target)[side]) as (name, stream):
        lines: Iterable[bytes] = _whole_lines(stream, path)
        form = "sgm" if name.endswith((".sgm", ".xml")) else part.form
        if form == "sgm":
            lines = (match[1].strip() for line in lines if (match := re.search(rb"<seg[^>]*>(.*)</seg>", line)))
        elif form == "tags":
            lines = _without_tags(lines)
        yield from lines


def _whole_lines(stream: Any, path: Path) -> Iterator[bytes]:
    while line := stream.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise UserError(f"{path} has a line of more than {MAX_LINE_BYTES:,} bytes, which no corpus has; delete it")
        yield line.rstrip(b"\r\n")


def _without_tags(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Keep the lines of a transcript, its titles and descriptions, which are translated too; drop all other tags."""
    for line in lines:
        line = re.sub(rb"</?(title|description)>", b"", line).strip()
        if not line.startswith((b"<url>", b"<talkid>", b"<keywords>", b"<speaker>", b"<reviewer", b"<translator")):
            yield line


@contextlib.contextmanager
def _member(path: Path, names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Open the first of the names that the archive has, decompressed where the name ends in `.gz`.

    Nothing is unpacked to disk, so that no name in an archive can point outside the folder.
    """
    try:
        with tarfile.open(path) as archive:  # decompressed as its first bytes say
            name, member = _first_of(names, archive, path)
            stream = archive.extractfile(member)
            assert stream is not None  # of a regular file it never is
            yield name.removesuffix(".gz"), gzip.GzipFile(fileobj=stream) if name.endswith(".gz") else stream
    except (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError, ValueError, OverflowError) as error:
        reason = str(error).partition("\n")[0].rstrip(":")  # the rest lists every format that was tried
        raise UserError(f"cannot read {path}: {reason}; delete it to download it again") from error


def _first_of(names: tuple[str, ...], archive: tarfile.TarFile, path: Path) -> tuple[str, tarfile.TarInfo]:
    found = {}
    for member in archive:
        name = member.name.removeprefix("./")
        if member.isfile() and name in names:
            found[name] = member
        if name == names[0]:
            break  # the rest may be gigabytes
    for name in names:
        if name in found:
            return name, found[name]
    raise UserError(
        f"{path} has no {' or '.join(names)}: it is not the expected archive; delete it to download it again"
    )
