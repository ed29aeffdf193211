"""Token ids of a parallel corpus, computed once, kept on disk and mapped into memory.

A corpus of millions of pairs then takes no more memory than a small one: preparing holds one chunk of lines, training
reads the pages of the sentences it is at. A folder holds

    prepared.json            what was prepared from what, written last: without it the rest counts as half-written
    source-<key>.ids         the ids of all source sentences, end to end; uint16, or int32 for more than 65,536 pieces
    source-<key>.offsets     int64: sentence i is ids[offsets[i] : offsets[i + 1]]
    target-<key>.ids, target-<key>.offsets

where the key is a digest of everything the ids depend on. Ids are stored without BOS and EOS, which batches add.
"""

import contextlib
import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from minitf.data.text import PathLike, in_chunks, read_pairs, unreadable, write_atomically
from minitf.data.vocabulary import Vocabulary
from minitf.errors import UserError
from minitf.system.files import os_errors_explained, parse_json

FORMAT = 2  # raise it when the same text would give other ids or other files
DESCRIPTION = "prepared.json"
COUNTS = ("pairs", "dropped_empty", "dropped_long", "source_tokens", "target_tokens")
FIELDS = {"format": int, "key": str, "dtype": str, "sha256": dict, **dict.fromkeys(COUNTS, int)}  # loading needs these
ID_TYPES = ("<u2", "<i4")
PAIRS_AT_A_TIME, CHARACTERS_AT_A_TIME = 20_000, 2_000_000
OFFSET_TYPE = "<i8"


@dataclass(frozen=True, eq=False)
class PreparedCorpus:
    """Pairs of sentences as token ids, without BOS and EOS."""

    source_ids: np.ndarray  # [source tokens]
    source_offsets: np.ndarray  # [pairs + 1] int64
    target_ids: np.ndarray  # [target tokens]
    target_offsets: np.ndarray  # [pairs + 1] int64
    dropped_empty: int = 0  # pairs left out because a side has no token
    dropped_long: int = 0  # pairs left out because a side has more than max_length tokens
    fingerprint: str = ""  # equal for equal text, vocabulary and settings

    @classmethod
    def load(cls, folder: PathLike) -> "PreparedCorpus":
        """Maps what `prepare` wrote, once all its bytes have been checked: reading them takes a second for a gigabyte.

        Raises: UserError when the folder holds no whole preparation.
        """
        folder = Path(folder)
        about = _read_description(folder)
        source_ids, source_offsets, target_ids, target_offsets = (
            _map(folder / name, dtype, count, about["sha256"].get(name)) for name, dtype, count in _files(about)
        )
        return cls(
            source_ids,
            source_offsets,
            target_ids,
            target_offsets,
            dropped_empty=about["dropped_empty"],
            dropped_long=about["dropped_long"],
            fingerprint=about["key"],
        )

    @classmethod
    def from_ids(cls, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> "PreparedCorpus":
        """Pairs held in memory, for corpora that are made rather than read."""
        if len(sources) != len(targets):
            raise UserError(f"{len(sources):,} sources do not pair with {len(targets):,} targets; give equally many")
        source_ids, target_ids = _end_to_end(sources, "<i4"), _end_to_end(targets, "<i4")
        source_offsets, target_offsets = _offsets(sources), _offsets(targets)
        digest = hashlib.sha256()
        for part in (source_ids, source_offsets, target_ids, target_offsets):
            digest.update(part.tobytes())
        return cls(source_ids, source_offsets, target_ids, target_offsets, fingerprint=digest.hexdigest())

    def __len__(self) -> int:
        return len(self.source_offsets) - 1

    def source(self, index: int) -> np.ndarray:
        """The ids of source sentence `index`, a read-only view of the file."""
        return _sentence(self.source_ids, self.source_offsets, index)

    def target(self, index: int) -> np.ndarray:
        """The ids of target sentence `index`, a read-only view of the file."""
        return _sentence(self.target_ids, self.target_offsets, index)

    def sources(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Source sentences laid end to end [tokens], and the length of each [B]: a batch in one gather."""
        return _gather(self.source_ids, self.source_offsets, indices)

    def targets(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Target sentences laid end to end [tokens], and the length of each [B]."""
        return _gather(self.target_ids, self.target_offsets, indices)

    @cached_property
    def source_lengths(self) -> np.ndarray:
        """[pairs] int32, without EOS."""
        return np.diff(self.source_offsets).astype(np.int32)

    @cached_property
    def target_lengths(self) -> np.ndarray:
        """[pairs] int32, without BOS and EOS."""
        return np.diff(self.target_offsets).astype(np.int32)


def prepare(
    source_path: PathLike,
    target_path: PathLike,
    vocabulary: Vocabulary,
    folder: PathLike,
    *,
    max_length: int = 256,
    errors: str = "strict",
    progress: Callable[[int], None] | None = None,
) -> PreparedCorpus:
    """Encodes a parallel corpus into `folder`, unless the folder already holds exactly that.

    Left out, and counted: pairs with a side that has no token, and pairs with a side of more than `max_length` tokens,
    its EOS included (256, as in the paper's first public code). `progress` is told the number of pairs read so far.

    Several processes may call this at once with one folder: one prepares, the others wait for it.
    The corpus is recognised by its content, not its time stamp: a copied file stays valid, an edited one never does.

    Raises: UserError when a file is unreadable, counts of lines differ, or no pair remains.
    """
    if max_length < 2:
        raise UserError(f"max_length={max_length} leaves no room for a token and EOS; choose 2 or more")
    folder = Path(folder)
    wanted = {
        "format": FORMAT,
        "source": _content(source_path),
        "target": _content(target_path),
        "vocabulary": vocabulary.fingerprint(),
        "max_length": max_length,
        "errors": errors,
    }
    key = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()
    if (corpus := _load_if_current(folder, key)) is not None:
        return corpus
    with _alone(folder):
        if (corpus := _load_if_current(folder, key)) is not None:
            return corpus  # another process has prepared it meanwhile
        about: dict[str, Any] = {**wanted, "key": key, "dtype": ID_TYPES[len(vocabulary) > 2**16]}
        about |= _write_ids(folder, about, vocabulary, read_pairs(source_path, target_path, errors), progress)
        about["sha256"] = {name: _content(folder / name)["sha256"] for name in _names(about)}
        with write_atomically(folder / DESCRIPTION) as file:
            json.dump(about, file, indent=2)
            file.write("\n")
        _remove_leftovers(folder, about)
    return PreparedCorpus.load(folder)


def _write_ids(
    folder: Path,
    about: dict[str, Any],
    vocabulary: Vocabulary,
    pairs: Iterator[tuple[str, str]],
    progress: Callable[[int], None] | None,
) -> dict[str, int]:
    """Writes the four arrays; returns the counts that describe them."""
    counts = dict.fromkeys(COUNTS, 0)
    read = 0
    with contextlib.ExitStack() as files:
        names = _names(about)
        source_ids, source_offsets, target_ids, target_offsets = (
            files.enter_context(write_atomically(folder / name, binary=True)) for name in names
        )
        for offsets in (source_offsets, target_offsets):
            offsets.write(np.zeros(1, OFFSET_TYPE).tobytes())
        for sources, targets in _encoded(pairs, vocabulary):
            kept = _kept(sources, targets, about["max_length"], counts)
            for side, ids, offsets, sentences in (
                ("source_tokens", source_ids, source_offsets, [sources[i] for i in kept]),
                ("target_tokens", target_ids, target_offsets, [targets[i] for i in kept]),
            ):
                ids.write(_end_to_end(sentences, about["dtype"]).tobytes())
                ends = counts[side] + _offsets(sentences)
                offsets.write(ends[1:].tobytes())
                counts[side] = int(ends[-1])
            read += len(sources)
            if progress is not None:
                progress(read)
        if not counts["pairs"]:
            raise UserError(
                f"no pair is left to train on: {counts['dropped_empty']:,} have an empty side and "
                f"{counts['dropped_long']:,} have more than max_length={about['max_length']} tokens; raise max_length"
            )
    return counts


def _encoded(pairs: Iterable[tuple[str, str]], vocabulary: Vocabulary) -> Iterator[tuple[list[list[int]], ...]]:
    """The token ids of the sources and targets of one chunk of pairs after the other.

    While sentencepiece, which lets go of the interpreter lock, encodes one chunk, the next is read and the one before
    is written: it never waits for either.
    """

    def encode(chunk: list[tuple[str, str]]) -> tuple[list[list[int]], ...]:
        return tuple(vocabulary.encode(lines) for lines in zip(*chunk, strict=True))

    with ThreadPoolExecutor(1, "encode") as thread:
        under_way: Future[tuple[list[list[int]], ...]] | None = None
        for chunk in in_chunks(pairs, _characters, max_items=PAIRS_AT_A_TIME, max_characters=CHARACTERS_AT_A_TIME):
            following = thread.submit(encode, chunk)
            if under_way is not None:
                yield under_way.result()
            under_way = following
        if under_way is not None:
            yield under_way.result()


def _kept(sources: list[list[int]], targets: list[list[int]], max_length: int, counts: dict[str, int]) -> np.ndarray:
    """Which pairs of a chunk stay; what is left out is added to the counts."""
    source_lengths = np.fromiter(map(len, sources), np.int64, len(sources))
    target_lengths = np.fromiter(map(len, targets), np.int64, len(targets))
    empty = np.minimum(source_lengths, target_lengths) == 0
    long = ~empty & (np.maximum(source_lengths, target_lengths) + 1 > max_length)  # + 1: EOS
    kept = np.flatnonzero(~empty & ~long)
    counts["pairs"] += len(kept)
    counts["dropped_empty"] += int(empty.sum())
    counts["dropped_long"] += int(long.sum())
    return kept


def _characters(pair: tuple[str, str]) -> int:
    return len(pair[0]) + len(pair[1])


def _end_to_end(sentences: Sequence[Sequence[int]], dtype: str) -> np.ndarray:
    return np.fromiter(itertools.chain.from_iterable(sentences), dtype)


def _offsets(sentences: Sequence[Sequence[int]]) -> np.ndarray:
    offsets = np.zeros(len(sentences) + 1, OFFSET_TYPE)
    np.cumsum([len(sentence) for sentence in sentences], out=offsets[1:])
    return offsets


def _sentence(ids: np.ndarray, offsets: np.ndarray, index: int) -> np.ndarray:
    if not 0 <= index < len(offsets) - 1:
        raise IndexError(f"pair {index} of a corpus of {len(offsets) - 1:,}, counted from 0")
    return ids[offsets[index] : offsets[index + 1]]


def _gather(ids: np.ndarray, offsets: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    starts = offsets[indices]  # [B]
    lengths = offsets[indices + 1] - starts  # [B]
    # Token k of all is ids[k + (its sentence's start in the corpus - its sentence's start here)].
    shifts = starts - np.cumsum(lengths) + lengths  # [B]
    return ids[np.repeat(shifts, lengths) + np.arange(lengths.sum())], lengths


def _content(path: PathLike) -> dict[str, Any]:
    """Size and SHA-256 of a file; hashing runs at about 1 GB/s, encoding at some MB/s."""
    path = Path(path)
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise UserError(f"{path} is a pipe or device; a corpus is read more than once, so save it to a file first")
        with open(path, "rb") as file:
            return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
    except OSError as error:
        raise unreadable(path, error) from error


def _names(about: dict[str, Any]) -> list[str]:
    return [f"{side}-{about['key'][:16]}.{part}" for side in ("source", "target") for part in ("ids", "offsets")]


def _files(about: dict[str, Any]) -> list[tuple[str, str, int]]:
    """(name, dtype, items) of the four arrays, in the order of PreparedCorpus's fields."""
    ends = about["pairs"] + 1
    kinds = [about["dtype"], OFFSET_TYPE, about["dtype"], OFFSET_TYPE]
    return list(zip(_names(about), kinds, [about["source_tokens"], ends, about["target_tokens"], ends], strict=True))


def _read_description(folder: Path) -> dict[str, Any]:
    path = folder / DESCRIPTION
    try:
        about = parse_json(path.read_bytes())
    except FileNotFoundError:
        raise UserError(f"{folder} holds no prepared corpus ({DESCRIPTION} is missing); prepare it first") from None
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}); prepare the corpus again") from error
    whole = isinstance(about, dict) and all(isinstance(about.get(name), kind) for name, kind in FIELDS.items())
    if not whole or about["format"] != FORMAT or about["dtype"] not in ID_TYPES or min(map(about.get, COUNTS)) < 0:
        raise UserError(f"{path} does not describe a corpus of format {FORMAT}; prepare the corpus again")
    return about


def _map(path: Path, dtype: str, count: int, sha256: str | None) -> np.ndarray:
    try:
        found, expected = path.stat().st_size, count * np.dtype(dtype).itemsize
        if found != expected:
            raise UserError(f"{path} has {found:,} bytes where {expected:,} are expected; prepare the corpus again")
        if not count or _content(path)["sha256"] != sha256:
            raise UserError(f"the bytes of {path} have changed since they were written; prepare the corpus again")
        return np.asarray(np.memmap(path, dtype, mode="r", shape=(count,)))  # asarray: slices of a memmap are slow
    except OSError as error:
        raise unreadable(path, error) from error


def _load_if_current(folder: Path, key: str) -> PreparedCorpus | None:
    """What the folder holds if it was prepared from the same text in the same way and is whole."""
    try:
        corpus = PreparedCorpus.load(folder)
    except UserError:
        return None  # missing or half-written: to be made (again)
    return corpus if corpus.fingerprint == key else None


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Makes the folder and keeps other processes out of it; the lock ends with the process, however that ends."""
    import fcntl

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / "prepare.lock", "w")  # noqa: SIM115
    except OSError as error:
        raise UserError(
            f"cannot prepare a corpus in {folder}: {error.strerror or error}; choose a folder that can be written to"
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _remove_leftovers(folder: Path, about: dict[str, Any]) -> None:
    """Deletes earlier preparations, and what a killed process left; mapped files live on until they are let go."""
    current = set(_names(about))
    ours = re.compile(r"(source|target)-[0-9a-f]{16}\.(ids|offsets)|\.((source|target)-|prepared\.json).*\.partial")
    with os_errors_explained(f"clean {folder}"):
        for path in folder.iterdir():
            if ours.fullmatch(path.name) and path.name not in current:
                path.unlink()
