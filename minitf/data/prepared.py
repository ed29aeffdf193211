"""Token ids of a parallel corpus, computed once, kept on disk and mapped into memory.

A corpus of millions of pairs then takes no more memory than a small one: preparing holds one chunk of lines, training
reads the pages of the sentences of a batch. A folder holds

    prepared.json            what the ids depend on, written last: without it the rest counts as incomplete
    source-<key>.ids         the ids of all source sentences, end to end; uint16, or int32 for more than 65,536 pieces
    source-<key>.offsets     int64: sentence i is ids[offsets[i] : offsets[i + 1]]
    target-<key>.ids, target-<key>.offsets

where the key is a digest of everything the ids depend on. Ids are stored without BOS and EOS, which batches add.
"""

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minitf.data.batches import Corpus, Sentences
from minitf.data.text import PathLike, in_chunks, read_pairs
from minitf.data.vocabulary import AnyVocabulary
from minitf.errors import UserError
from minitf.system.files import atomic_write, os_errors_explained, parse_json_object, read_small_file, sha256_of

__all__ = ["PreparedCorpus", "is_prepared"]

FORMAT = 2  # raise it when the same text would give other ids or other files
DESCRIPTION = "prepared.json"
IDENTITY = ("format", "source", "target", "vocabulary", "max_length", "errors")  # what the key is a digest of
COUNTS = ("pairs", "dropped_empty", "dropped_long", "source_tokens", "target_tokens")
FIELDS = {"format": int, "key": str, "dtype": str, "sha256": dict, **dict.fromkeys(COUNTS, int)}  # loading needs these
ID_TYPES = ("<u2", "<i4")
PAIRS_AT_A_TIME, CHARACTERS_AT_A_TIME = 10_000, 1_000_000
OFFSET_TYPE = "<i8"
OURS = re.compile(r"(source|target)-[0-9a-f]{16}\.(ids|offsets)")


class OtherVocabularyError(UserError):
    """Token ids are those of another vocabulary, or of another length of sentences."""


@dataclass(frozen=True, eq=False)
class PreparedCorpus(Corpus):
    """A corpus, and the number of pairs that were left out of it."""

    dropped_empty: int = 0  # because a side has no token
    dropped_long: int = 0  # because a side has more than max_length tokens

    @classmethod
    def load(cls, folder: PathLike, vocabulary: AnyVocabulary, *, max_length: int) -> "PreparedCorpus":
        """Check and map the files that `prepare` wrote; checking takes a second for a gigabyte.

        Raises: UserError when the folder does not hold a complete preparation with this vocabulary and length.
        """
        folder = Path(folder)
        about = read_description(folder)
        if (about["vocabulary"], about["max_length"]) != (vocabulary.fingerprint(), max_length):
            raise OtherVocabularyError(
                f"{folder} contains token ids for another vocabulary or max_length; restore that vocabulary"
            )
        arrays = [_map(folder / name, *shape, about["sha256"].get(name)) for name, shape in _files(about).items()]
        source, target = Sentences(*arrays[:2]), Sentences(*arrays[2:])
        for side, size in ((source, len(vocabulary.source)), (target, len(vocabulary))):
            lengths = np.diff(side.offsets)
            ends = side.offsets[0] == 0 and side.offsets[-1] == len(side.ids)
            if not ends or lengths.min() < 1 or lengths.max() >= max_length:  # EOS is not among the ids
                raise UserError(f"{folder} contains offsets that are not those of sentences; prepare the corpus again")
            if not 0 <= side.ids.min() <= side.ids.max() < size:
                raise UserError(f"{folder} contains token ids outside the vocabulary; prepare the corpus again")
        return cls(source, target, about["key"], about["dropped_empty"], about["dropped_long"])

    @classmethod
    def from_ids(cls, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> "PreparedCorpus":
        """Make a corpus in memory."""
        if len(sources) != len(targets):
            raise UserError(f"{len(sources):,} sources do not match {len(targets):,} targets; give the same number")
        source, target = Sentences.from_lists(sources), Sentences.from_lists(targets)
        digest = hashlib.sha256()
        for part in (source.ids, source.offsets, target.ids, target.offsets):
            digest.update(part.tobytes())
        return cls(source, target, fingerprint=digest.hexdigest())

    def __len__(self) -> int:
        return len(self.source)


def prepare(
    source_path: PathLike, target_path: PathLike, vocabulary: AnyVocabulary, folder: PathLike, *,
    max_length: int = 256, names: str | None = None,
) -> PreparedCorpus:  # fmt: skip
    """Encode a parallel corpus into `folder`, unless the folder already holds exactly that.

    Left out, and counted: pairs with a side that has no token, and pairs with a side of more than `max_length` tokens,
    its EOS included (256, as in the paper's first public code).

    names: what messages call the texts, where they are copies; default: the paths

    The corpus is identified by its content, not by time stamps: a copied file stays valid, an edited one does not.

    Raises: UserError when a file is unreadable, counts of lines differ, or no pair remains.
    """
    folder = Path(folder)
    about: dict[str, Any] = {
        "format": FORMAT,
        "source": content_of(source_path),
        "target": content_of(target_path),
        "vocabulary": vocabulary.fingerprint(),
        "max_length": max_length,
        "errors": "strict",  # a setting of earlier versions, whose ids stay valid
    }
    about |= {"key": key_of(about), "dtype": ID_TYPES[max(len(vocabulary.source), len(vocabulary)) > 2**16]}
    with os_errors_explained(f"prepare a corpus in {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(UserError):
        if read_description(folder)["key"] == about["key"]:
            return PreparedCorpus.load(folder, vocabulary, max_length=max_length)
    pairs = read_pairs(source_path, target_path)
    about |= _write_ids(folder, about, vocabulary, pairs, names or f"{source_path} and {target_path}")
    about["sha256"] = {name: content_of(folder / name)["sha256"] for name in _files(about)}
    with atomic_write(folder / DESCRIPTION, "w") as file:
        json.dump(about, file, indent=2)
        file.write("\n")
    with os_errors_explained(f"clean {folder}"):  # of earlier preparations; files that are mapped stay readable
        for path in folder.iterdir():
            if OURS.fullmatch(path.name) and path.name not in _files(about):
                path.unlink(missing_ok=True)
    return PreparedCorpus.load(folder, vocabulary, max_length=max_length)


def key_of(about: dict[str, Any]) -> str:
    """The digest of everything that token ids depend on; of the text by its content."""
    identity = {name: about.get(name) for name in IDENTITY}
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def is_prepared(folder: PathLike) -> bool:
    """Return whether `prepare` has completed a corpus in the folder; `PreparedCorpus.load` also checks its bytes."""
    try:
        return bool(read_description(Path(folder)))
    except UserError:
        return False


def _write_ids(
    folder: Path, about: dict[str, Any], vocabulary: AnyVocabulary, pairs: Iterator[tuple[str, str]], texts: str
) -> dict[str, int]:
    """Write the four arrays; return the counts that describe them.  texts: their names, for messages"""
    counts = dict.fromkeys(COUNTS, 0)
    limits: Any = {"max_items": PAIRS_AT_A_TIME, "max_characters": CHARACTERS_AT_A_TIME}
    with contextlib.ExitStack() as stack:
        names = _files({**about, **counts})
        files = [stack.enter_context(atomic_write(folder / name)) for name in names]
        for offsets in files[1::2]:
            offsets.write(np.zeros(1, OFFSET_TYPE).tobytes())
        for chunk in in_chunks(pairs, lambda pair: len(pair[0]) + len(pair[1]), **limits):
            lines = zip(*chunk, strict=True)
            languages = vocabulary.source, vocabulary.target
            sides = [Sentences.from_lists(each.encode(side)) for each, side in zip(languages, lines, strict=True)]
            kept = _kept(sides[0], sides[1], about["max_length"], counts)
            for side, encoded, ids, offsets in zip(COUNTS[-2:], sides, files[::2], files[1::2], strict=True):
                sentences = encoded.take(kept)
                ids.write(sentences.ids.astype(about["dtype"]).tobytes())
                offsets.write((counts[side] + sentences.offsets[1:]).tobytes())
                counts[side] += len(sentences.ids)
        if not counts["pairs"]:
            raise UserError(
                f"no pair is left of {texts}: {counts['dropped_empty']:,} have an empty side and "
                f"{counts['dropped_long']:,} have more than max_length={about['max_length']} tokens"
                + ("; raise max_length" if counts["dropped_long"] else "; give other texts")
            )
    return counts


def _kept(sources: Sentences, targets: Sentences, max_length: int, counts: dict[str, int]) -> np.ndarray:
    """The indices of the pairs of a chunk that are not left out; `counts` is updated."""
    empty = np.minimum(sources.lengths, targets.lengths) == 0
    long = ~empty & (np.maximum(sources.lengths, targets.lengths) + 1 > max_length)  # + 1: EOS
    kept = np.flatnonzero(~empty & ~long)
    counts["pairs"] += len(kept)
    counts["dropped_empty"] += int(empty.sum())
    counts["dropped_long"] += int(long.sum())
    return kept


def content_of(path: PathLike) -> dict[str, Any]:
    """Size and SHA-256 of a file; hashing runs at about 1 GB/s, encoding at some MB/s."""
    path = Path(path)
    with os_errors_explained(f"read {path}"):
        return {"bytes": path.stat().st_size, "sha256": sha256_of(path)}


def _files(about: dict[str, Any]) -> dict[str, tuple[str, int]]:
    """{name: (dtype, items)} of the four arrays: ids and offsets of the source, then of the target."""
    return {
        f"{side}-{about['key'][:16]}.{part}": shape
        for side in ("source", "target")
        for part, shape in (
            ("ids", (about["dtype"], about[f"{side}_tokens"])),
            ("offsets", (OFFSET_TYPE, about["pairs"] + 1)),
        )
    }


def read_description(folder: Path) -> dict[str, Any]:
    """The content of a folder's prepared.json.  Raises: UserError where it is missing, damaged or of other programs"""
    path = folder / DESCRIPTION
    with os_errors_explained(f"read {path}"):
        if not path.exists():
            raise UserError(f"{folder} contains no prepared corpus ({DESCRIPTION} is missing); prepare it first")
        content = read_small_file(path)
    try:
        about = parse_json_object(content)
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}); prepare the corpus again") from error
    whole = all(isinstance(about.get(name), kind) for name, kind in FIELDS.items())
    if not whole or about["format"] != FORMAT or about["dtype"] not in ID_TYPES or min(about[n] for n in COUNTS) < 0:
        raise UserError(f"{path} does not describe a corpus of format {FORMAT}; prepare the corpus again")
    if about["key"] != key_of(about):
        raise UserError(f"{path} is damaged (its key is another); prepare the corpus again")
    return about


def _map(path: Path, dtype: str, count: int, sha256: str | None) -> np.ndarray:
    with os_errors_explained(f"read {path}"):
        found, expected = path.stat().st_size, count * np.dtype(dtype).itemsize
        if found != expected:
            raise UserError(f"{path} has {found:,} bytes where {expected:,} are expected; prepare the corpus again")
        if not count or content_of(path)["sha256"] != sha256:
            raise UserError(f"the bytes of {path} have changed since they were written; prepare the corpus again")
        return np.asarray(np.memmap(path, dtype, mode="r", shape=(count,)))  # asarray: slices of a memmap are slow
