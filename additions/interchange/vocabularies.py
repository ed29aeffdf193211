"""The vocabularies of foreign models: files of pieces, and our order of the ids."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from sentencepiece import SentencePieceProcessor

from additions.interchange.normaliser import with_normaliser
from additions.interchange.stored_arrays import MAX_CONFIG_BYTES, ModelFileError, SourceFile, read_text
from minitf.config.model import BOS, EOS, PAD, UNK
from minitf.data.vocabulary import Vocabulary
from minitf.system.files import atomic_write, parse_json, parse_json_object

Item = TypeVar("Item")

MAX_PIECES = 2_000_000
NAMES = {PAD: "<pad>", UNK: "<unk>", BOS: "<s>", EOS: "</s>"}
"""Names of special tokens that are added, where no other piece has them."""


@dataclass(frozen=True)
class Pieces:
    """The pieces of one language in the foreign order, and the foreign ids of our special tokens."""

    names: list[str]
    special: dict[int, int | None]
    """PAD, UNK, BOS and EOS -> the foreign id; None where there is no such token."""
    kind: str = "words"
    model: bytes = b""
    joiner: str = ""

    @classmethod
    def of(cls, names: list[str], special: dict[int, int | None], model: bytes, rows: int, path: Path) -> Pieces:
        """Pieces of a sentencepiece model, or without one of words or characters; as many as the matrix has rows.

        More rows get fillers.  Raises: ModelFileError for fewer
        """
        if rows < len(names):
            raise ModelFileError(f"{path} has {rows} rows for {len(names)} pieces; give the model its own vocabulary")
        kind, joiner = ("sentencepiece", "") if model else kind_of(names)
        taken = set(names)
        fillers = [_unused(f"<filler{index}>", taken) for index in range(len(names), rows)]
        return cls(names + fillers, special, kind, model, joiner)

    @cached_property
    def order(self) -> list[int]:
        """The foreign id of each of our pieces: the special tokens, then all others; -1 for an added token."""
        first = [-1 if (found := self.special[each]) is None else found for each in NAMES]
        return first + self._without_specials(range(len(self.names)))

    @property
    def ours(self) -> list[str]:
        """The names of the pieces in our order."""
        taken = set(self.names)
        first = [
            self.names[found] if (found := self.special[each]) is not None else _unused(NAMES[each], taken)
            for each in NAMES
        ]
        return first + self._without_specials(self.names)

    def _without_specials(self, items: Iterable[Item]) -> list[Item]:
        """Return the items, one for each foreign id, without those of special tokens."""
        rest = list(items)
        for index in sorted({found for found in self.special.values() if found is not None}, reverse=True):
            del rest[index]
        return rest

    @property
    def added(self) -> tuple[int, ...]:
        """Our ids of added tokens, which the model never writes."""
        return tuple(each for each in NAMES if self.special[each] is None)


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def place_of(names: Sequence[str], *wanted: str) -> int | None:
    """Return the id of the first of these names that is a piece."""
    return next((names.index(each) for each in wanted if each in names), None)


def kind_of(names: Sequence[str]) -> tuple[str, str]:
    """Return how text is segmented without a sentencepiece model, by characters or words, and what joins words."""
    plain = [name for name in names if len(name) == 1 or name[:1] + name[-1:] not in ("<>", "[]")]
    if plain and all(len(name) == 1 for name in plain):
        return "characters", ""
    text = "\n".join(plain) + "\n"  # one search in a long text is faster than one in each piece
    return "words", next((joiner for joiner in ("@@", "￭") if f"{joiner}\n" in text), "")


# ---- Files -------------------------------------------------------------------------------------------------------


def lines_of(path: Path) -> list[str]:
    """Return the lines of a vocabulary, a piece each: only "\\n" ends a line."""
    lines = read_text(path).split("\n")
    return _checked(lines[:-1] if lines and not lines[-1] else lines, path)


def read_json(path: Path, parse: Callable[[str], Any] = parse_json) -> Any:
    """Return the content of a JSON file.  Raises: ModelFileError for what is not JSON, or not what `parse` expects"""
    text = read_text(path)
    try:
        return parse(text)
    except ValueError as error:
        raise ModelFileError(f"{path} cannot be read: {error}") from None


def json_list(path: Path) -> list[str]:
    """Return a JSON list of pieces.  Raises: ModelFileError for anything else"""
    found = read_json(path)
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise ModelFileError(f"{path} is not a list of pieces")
    return _checked(found, path)


def json_ids(path: Path) -> list[str]:
    """Return a JSON object from piece to id, as `vocab.json` of Hugging Face."""
    return _by_id(read_json(path, parse_json_object), path)


def yaml_ids(path: Path) -> list[str]:
    """Marian's `vocab.yml`, read line by line: a YAML library takes some pieces for numbers, dates or truth values.

    A line is `piece: id`, the piece plain or in quotation marks; a long piece is `? piece` and `: id` on two lines.
    """
    text = LONG_PIECE.sub(r"\1:", read_text(path))
    entries = ENTRY.findall(text)  # one search in a long text is faster than one in each line
    if len(entries) < text.count("\n"):
        lines = [line for line in text.split("\n") if line.strip() and line.rstrip("\r") != "---"]
        wrong = next((line for line in lines if not ENTRY.fullmatch(line)), None)
        if wrong is not None:
            raise ModelFileError(f"{path}: {wrong[:40]!r} is not a piece, a colon and its id")
    names = [piece if piece[:1] not in " \"'" else unquoted(piece) for piece, _ in entries]
    return _by_id(dict(zip(names, [int(number) for _, number in entries], strict=True)), path)


LONG_PIECE = re.compile(r"^\? ([^\n]*?)\r?\n:", re.MULTILINE)
ENTRY = re.compile(r"^([^\n]*):[ \t]*([0-9]{1,9})[ \t\r]*$", re.MULTILINE)
ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|u(?!d[89ab])[0-9A-Fa-f]{4}|.)", re.DOTALL | re.IGNORECASE)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else ESCAPES.get(code, code)


def unquoted(text: str) -> str:
    """Return the text of a scalar of YAML: `"a\\"b"`, `'it''s'` or plain."""
    if text[:1] == '"' == text[-1:] and "\\" not in text and len(text) >= 2:  # nearly all of a list
        return text[1:-1]
    text = text.strip(" ")
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return ESCAPE.sub(_unescaped, text[1:-1]) if "\\" in text else text[1:-1]
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return text


def dict_txt(path: Path) -> list[str]:
    """fairseq's `dict.en.txt`: a piece and its count on each line, after the four special tokens."""
    names = ["<s>", "<pad>", "</s>", "<unk>"]
    for number, line in enumerate(lines_of(path), start=1):
        line = line.removesuffix(" #fairseq:overwrite")
        piece, space, count = line.rpartition(" ")
        if not space or not count.lstrip("-").isdigit():
            raise ModelFileError(f"{path}, line {number}: expected is a piece, a space and its count")
        names.append(piece)
    return _checked(names, path)


def sentencepiece_model(folder: Path, *names: str) -> bytes:
    """Return the bytes of the first of these sentencepiece models that a folder holds; empty if it holds none."""
    path = next((folder / name for name in names if (folder / name).is_file()), None)
    if path is None:
        return b""
    with SourceFile(path) as file:
        if file.size > MAX_CONFIG_BYTES:
            raise file.damaged(f"it has {file.size} bytes, more than a sentencepiece model")
        return file.bytes(0, file.size)


def sentencepiece_pieces(model: bytes, path: Path) -> list[str]:
    """Return the pieces of a sentencepiece model, in the order of its ids."""
    processor = SentencePieceProcessor()
    try:
        processor.load_from_serialized_proto(model)
        return _checked(processor.id_to_piece(list(range(len(processor)))), path)
    except (RuntimeError, UnicodeDecodeError):
        raise ModelFileError(f"{path} is not a sentencepiece model") from None


def _by_id(found: Mapping[str, object], path: Path) -> list[str]:
    ids: Any = list(found.values())
    if not {*map(type, ids)} <= {int} or sorted(ids) != list(range(len(ids))):
        seen: set[object] = set()  # to name one that is wrong
        for name, index in found.items():
            if type(index) is not int or not 0 <= index < len(ids) or index in seen:
                raise ModelFileError(f"{path}: the ids are not 0 to {len(ids) - 1}, each once; see {name[:40]!r}")
            seen.add(index)
    return _checked(sorted(found, key=found.__getitem__), path)  # type: ignore[arg-type]


def _checked(names: list[str], path: Path) -> list[str]:
    if not 0 < len(names) <= MAX_PIECES:
        raise ModelFileError(f"{path} has {len(names)} pieces; expected are 1 to {MAX_PIECES}")
    return names


# ---- Writing -----------------------------------------------------------------------------------------------------


def yaml_text(names: Sequence[str]) -> str:
    """`vocab.yml`: each piece as a quoted text, and its id."""
    return "".join(f"{json.dumps(name, ensure_ascii=False)}: {index}\n" for index, name in enumerate(names))


def json_text(value: object) -> str:
    """Return a JSON text that keeps all characters as they are."""
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def write_text(path: Path, text: str) -> None:
    """Write a text file, completely or not at all."""
    with atomic_write(path) as file:
        file.write(text.encode())


def write_sentencepiece(vocabulary: Any, folder: Path) -> bool:
    """Write `source.spm` and `target.spm`, if the vocabularies have sentencepiece models; returns whether both do.

    The model of a run's own vocabulary gets the normalisation that a run does without it.
    """
    models = {side: getattr(vocabulary, side).model for side in ("source", "target")}
    for side, model in models.items():
        if model:
            with atomic_write(folder / f"{side}.spm") as file:
                file.write(with_normaliser(model) if isinstance(vocabulary, Vocabulary) else model)
    return all(models.values())
