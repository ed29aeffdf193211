"""Token ids of a parallel corpus, computed once, kept on disk and mapped into memory.

A corpus of millions of pairs then takes no more memory than a small one: preparing holds one chunk of lines and a table
of words, training reads the pages of the sentences of a batch. A folder holds

    prepared.json            what the ids depend on, written last: without it the rest counts as incomplete
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
from pathlib import Path
from typing import Any

import numpy as np

from minitf.data.piece_vocabulary import PieceVocabulary
from minitf.data.sentences import Sentences
from minitf.data.text import PathLike, in_chunks, read_pairs, words_of
from minitf.data.vocabulary import AnyVocabulary, Vocabulary
from minitf.errors import UserError
from minitf.system.files import os_errors_explained, parse_json_object, read_small_file, require_regular, sha256_of
from minitf.system.writing import atomic_write, locked

__all__ = ["PreparedCorpus", "all_fields_of", "fields_of"]

FORMAT = 2  # raise it when the same text would give other ids or other files
DESCRIPTION = "prepared.json"
COUNTS = ("pairs", "dropped_empty", "dropped_long", "source_tokens", "target_tokens")
FIELDS = {"format": int, "key": str, "dtype": str, "sha256": dict, **dict.fromkeys(COUNTS, int)}  # loading needs these
ID_TYPES = ("<u2", "<i4")
PAIRS_AT_A_TIME, CHARACTERS_AT_A_TIME = 20_000, 2_000_000
OFFSET_TYPE = "<i8"
Sides = tuple[Sentences, Sentences]  # token ids of sources and of targets


@dataclass(frozen=True, eq=False)
class PreparedCorpus:
    """A parallel corpus as token ids, without BOS and EOS."""

    source: Sentences
    target: Sentences
    dropped_empty: int = 0  # pairs left out because a side has no token
    dropped_long: int = 0  # pairs left out because a side has more than max_length tokens
    fingerprint: str = ""  # equal for equal text, vocabulary and settings

    @classmethod
    def load(cls, folder: PathLike) -> "PreparedCorpus":
        """Check and map the files that `prepare` wrote; checking takes a second for a gigabyte.

        Raises: UserError when the folder does not hold a complete preparation.
        """
        folder = Path(folder)
        about = read_description(folder)
        arrays = [_map(folder / name, *shape, about["sha256"].get(name)) for name, shape in _files(about).items()]
        for offsets, ids in ((arrays[1], arrays[0]), (arrays[3], arrays[2])):
            if offsets[0] != 0 or offsets[-1] != len(ids) or (np.diff(offsets) < 1).any():
                raise UserError(f"{folder} contains offsets that are not those of sentences; prepare the corpus again")
        source, target = Sentences(*arrays[:2]), Sentences(*arrays[2:])
        return cls(source, target, about["dropped_empty"], about["dropped_long"], about["key"])

    def check(self, folder: PathLike, vocabulary: AnyVocabulary, max_length: int) -> None:
        """Raises: UserError for sentences that `prepare` cannot have made with this vocabulary and length."""
        for side, size in ((self.source, len(vocabulary.source)), (self.target, len(vocabulary))):
            if len(side.ids) and not 0 <= side.ids.min() <= side.ids.max() < size:
                raise UserError(f"{folder} contains token ids outside the vocabulary; prepare the corpus again")
            if len(side) and np.diff(side.offsets).max() >= max_length:  # EOS is not among the ids
                raise UserError(f"{folder} contains sentences longer than max_length; prepare the corpus again")

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
    source_path: PathLike,
    target_path: PathLike,
    vocabulary: AnyVocabulary,
    folder: PathLike,
    *,
    max_length: int = 256,
    names: str | None = None,
) -> PreparedCorpus:
    """Encode a parallel corpus into `folder`, unless the folder already holds exactly that.

    Left out, and counted: pairs with a side that has no token, and pairs with a side of more than `max_length` tokens,
    its EOS included (256, as in the paper's first public code).

    names: what messages call the texts, where they are copies; default: the paths

    Several processes may call this at once with one folder: one prepares, the others wait for it.
    The corpus is identified by its content, not by time stamps: a copied file stays valid, an edited one does not.

    Raises: UserError when a file is unreadable, counts of lines differ, or no pair remains.
    """
    if max_length < 2:
        raise UserError(f"max_length={max_length} is too small for a token and EOS; choose 2 or more")
    folder = Path(folder)
    wanted = identity_of(content_of(source_path), content_of(target_path), vocabulary, max_length)
    key = key_of(wanted)
    if (corpus := _load_if_current(folder, key, vocabulary, max_length)) is not None:
        return corpus
    with os_errors_explained(f"prepare a corpus in {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "prepare.lock"):
        if (corpus := _load_if_current(folder, key, vocabulary, max_length)) is not None:
            return corpus  # another process has prepared it meanwhile
        about: dict[str, Any] = {
            **wanted,
            "key": key,
            "dtype": ID_TYPES[max(len(vocabulary.source), len(vocabulary)) > 2**16],
        }
        pairs = read_pairs(source_path, target_path)
        about |= _write_ids(folder, about, vocabulary, pairs, names or f"{source_path} and {target_path}")
        about["sha256"] = {name: content_of(folder / name)["sha256"] for name in _files(about)}
        about["digest"] = _digest(about)
        with atomic_write(folder / DESCRIPTION, "w") as file:
            json.dump(about, file, indent=2)
            file.write("\n")
        _remove_leftovers(folder, about)
    return PreparedCorpus.load(folder)


def identity_of(source: Any, target: Any, vocabulary: AnyVocabulary, max_length: int) -> dict[str, Any]:
    """Everything that token ids depend on; the text by its content."""
    return {
        "format": FORMAT,
        "source": source,
        "target": target,
        "vocabulary": vocabulary.fingerprint(),
        "max_length": max_length,
        "errors": "strict",  # a setting of earlier versions, whose ids stay valid
    }


def key_of(identity: dict[str, Any]) -> str:
    """The digest by which a folder's ids are found to be current."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def _write_ids(
    folder: Path, about: dict[str, Any], vocabulary: AnyVocabulary, pairs: Iterator[tuple[str, str]], texts: str
) -> dict[str, int]:
    """Write the four arrays; return the counts that describe them.  texts: their names, for messages"""
    counts = dict.fromkeys(COUNTS, 0)
    with contextlib.ExitStack() as stack:
        names = _files({**about, **counts})
        files = [stack.enter_context(atomic_write(folder / name)) for name in names]
        for offsets in files[1::2]:
            offsets.write(np.zeros(1, OFFSET_TYPE).tobytes())
        for sides in _encoded(pairs, vocabulary):
            kept = _kept(*sides, about["max_length"], counts)
            for side, encoded, ids, offsets in zip(COUNTS[-2:], sides, files[::2], files[1::2], strict=True):
                sentences = encoded.take(kept)
                ids.write(sentences.ids.astype(about["dtype"]).tobytes())
                offsets.write((counts[side] + sentences.offsets[1:]).tobytes())
                counts[side] += len(sentences.ids)
        if not counts["pairs"]:
            raise UserError(
                f"no pair is left of {texts}: {counts['dropped_empty']:,} have an empty side and "
                f"{counts['dropped_long']:,} have more than max_length={about['max_length']} tokens; raise max_length"
            )
    return counts


def _encoded(pairs: Iterable[tuple[str, str]], vocabulary: AnyVocabulary) -> Iterator[Sides]:
    """Encode pairs in chunks: the token ids of the sources and of the targets of each.

    While sentencepiece, which releases the interpreter lock, encodes one chunk, the next is read and the one before is
    written: it never waits for either.
    """
    encode_sources, encode_targets = line_encoder(vocabulary.source), line_encoder(vocabulary.target)

    def encode(chunk: list[tuple[str, str]]) -> Sides:
        sources, targets = zip(*chunk, strict=True)
        return encode_sources(sources), encode_targets(targets)

    def characters(pair: tuple[str, str]) -> int:
        return len(pair[0]) + len(pair[1])

    with ThreadPoolExecutor(1, "encode") as thread:
        under_way: Future[Sides] | None = None
        for chunk in in_chunks(pairs, characters, max_items=PAIRS_AT_A_TIME, max_characters=CHARACTERS_AT_A_TIME):
            following = thread.submit(encode, chunk)
            if under_way is not None:
                yield under_way.result()
            under_way = following
        if under_way is not None:
            yield under_way.result()


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
    require_regular(path)
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


def _digest(about: dict[str, Any]) -> str:
    """SHA-256 of a description, without its own."""
    rest = {name: value for name, value in about.items() if name != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


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
    whole = whole and re.fullmatch("[0-9a-f]{64}", about["key"]) is not None  # of which names of files are made
    if not whole or about["format"] != FORMAT or about["dtype"] not in ID_TYPES or min(about[n] for n in COUNTS) < 0:
        raise UserError(f"{path} does not describe a corpus of format {FORMAT}; prepare the corpus again")
    if about.get("digest", found := _digest(about)) != found:  # those of earlier versions have none
        raise UserError(f"{path} is damaged (its digest differs); prepare the corpus again")
    return about


def _map(path: Path, dtype: str, count: int, sha256: str | None) -> np.ndarray:
    with os_errors_explained(f"read {path}"):
        found, expected = path.stat().st_size, count * np.dtype(dtype).itemsize
        if found != expected:
            raise UserError(f"{path} has {found:,} bytes where {expected:,} are expected; prepare the corpus again")
        if not count or content_of(path)["sha256"] != sha256:
            raise UserError(f"the bytes of {path} have changed since they were written; prepare the corpus again")
        return np.asarray(np.memmap(path, dtype, mode="r", shape=(count,)))  # asarray: slices of a memmap are slow


def _load_if_current(folder: Path, key: str, vocabulary: AnyVocabulary, max_length: int) -> PreparedCorpus | None:
    """Load the folder's corpus if it was prepared from the same text in the same way and is complete."""
    try:
        corpus = PreparedCorpus.load(folder)
        corpus.check(folder, vocabulary, max_length)
    except UserError:
        return None
    return corpus if corpus.fingerprint == key else None


def _remove_leftovers(folder: Path, about: dict[str, Any]) -> None:
    """Delete earlier preparations, and partial files of a killed process; files that are mapped stay readable."""
    ours = re.compile(r"(source|target)-[0-9a-f]{16}\.(ids|offsets)|\.((source|target)-|prepared\.json).*\.partial")
    with os_errors_explained(f"clean {folder}"):
        for path in folder.iterdir():
            if ours.fullmatch(path.name) and path.name not in _files(about):
                path.unlink(missing_ok=True)


MAX_WORDS, MAX_IDS = 2**18, 2**22
"""A table of words is begun again once it holds more, some 60 MB."""
BYTE_PAIRS = 2  # ModelProto.trainer_spec.model_type


def line_encoder(vocabulary: Vocabulary | PieceVocabulary) -> Callable[[Sequence[str]], Sentences]:
    """Return a function that encodes lines as `vocabulary.encode` does, with all ids in one array.

    It keeps what it has encoded, and is to be called by one thread at a time.
    """
    if isinstance(vocabulary, Vocabulary) and encodes_words_apart(vocabulary):
        return WordTable(vocabulary).encode
    return lambda lines: Sentences.from_lists(vocabulary.encode(lines))


class WordTable:
    """The words seen so far, and their token ids."""

    def __init__(self, vocabulary: Vocabulary):
        self.vocabulary = vocabulary
        self.numbers = _Numbers()  # of each word, its place in `words`
        self.words = Sentences.from_lists([])

    def encode(self, lines: Sequence[str]) -> Sentences:
        """Encode lines."""
        if len(self.numbers) > MAX_WORDS or len(self.words.ids) > MAX_IDS:
            self.numbers, self.words = _Numbers(), Sentences.from_lists([])
        rows = [words_of(line) for line in lines]
        numbers = np.fromiter(map(self.numbers.__getitem__, itertools.chain.from_iterable(rows)), np.int64)
        new = itertools.islice(self.numbers, len(self.words), None)
        added = Sentences.from_lists(self.vocabulary.encode(list(new)))
        offsets = np.concatenate([self.words.offsets, self.words.offsets[-1] + added.offsets[1:]])
        self.words = Sentences(np.concatenate([self.words.ids, added.ids]), offsets)
        by_word = self.words.take(numbers)
        ends = np.cumsum([0, *map(len, rows)])  # [lines + 1] in words
        return Sentences(by_word.ids, by_word.offsets[ends])


class _Numbers(dict[str, int]):
    """The number of each word, in the order in which they are first asked for."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


def encodes_words_apart(vocabulary: Vocabulary) -> bool:
    """Whether a line's ids are those of its words: byte-pair encoding without rules of its own for characters, and no
    piece that reaches across a space.

    Vocabularies that are trained here do; other sentencepiece models may not.
    """
    model = fields_of(vocabulary.model)
    trainer, normalizer = (fields_of(bytes(model.get(number, b""))) for number in (2, 3))
    if trainer.get(3) != BYTE_PAIRS or trainer.get(24):  # 24: treat_whitespace_as_suffix
        return False
    if normalizer.get(2) or not (normalizer.get(3, 1) and normalizer.get(5, 1)):
        return False  # 2: precompiled_charsmap, 3: add_dummy_prefix, 5: escape_whitespaces
    return not any("▁" in piece[1:] for piece in vocabulary.pieces(range(len(vocabulary))))


def fields_of(message: bytes) -> dict[int, Any]:
    """The fields of a protocol buffer by number, the last where one is repeated; none where it has groups."""
    return dict(all_fields_of(message))


def all_fields_of(message: bytes) -> list[tuple[int, Any]]:
    """The fields of a protocol buffer in order, each with its number; none where it has groups."""
    found: list[tuple[int, Any]] = []
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at, value, shift = at + 1, value | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                return value

    while at < len(message):
        number, kind = divmod(varint(), 8)
        if kind == 0:
            found.append((number, varint()))
        elif kind in (1, 2, 5):
            size = varint() if kind == 2 else 8 if kind == 1 else 4
            found.append((number, message[at : at + size]))
            at += size
        else:
            return []
    return found
