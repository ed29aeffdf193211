"""What is prepared is what the vocabulary gives, is made once, and is never half of anything."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from minitf.data import prepared
from minitf.data.prepared import PreparedCorpus, prepare
from minitf.errors import UserError

SOURCES = ["a b c", "", "d", "a a a a a a a", "e f", "b", "\u2028", "c\u2028c", "a a a a a a"]
TARGETS = ["A B", "A", "D D D", "A", "A B C D E F G", " ", "", "C", ""]


class Letters:
    """Stands in for a vocabulary: one id a word, 10 for "a"; counts what it is asked."""

    def __init__(self, size=100, name="letters"):
        self.size, self.name, self.asked = size, name, []
        self.source = self.target = self

    def __len__(self):
        return self.size

    def fingerprint(self):
        return self.name

    def encode(self, lines):
        self.asked.append(len(lines))
        return [[10 + ord(word[0].lower()) - ord("a") for word in line.split()] for line in lines]


class Room:
    """A corpus and a folder to prepare it in."""

    def __init__(self, path: Path):
        self.path, self.folder = path, path / "prepared"
        self.source, self.target = path / "train.en", path / "train.de"
        self.write(SOURCES, TARGETS)

    def write(self, sources, targets):
        self.source.write_text("".join(line + "\n" for line in sources))
        self.target.write_text("".join(line + "\n" for line in targets))

    def prepare(self, vocabulary=None, **options) -> PreparedCorpus:
        return prepare(self.source, self.target, vocabulary or Letters(), self.folder, **{"max_length": 5, **options})

    def load(self) -> PreparedCorpus:
        return PreparedCorpus.load(self.folder, Letters(), max_length=5)

    def files(self):
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture
def room(tmp_path) -> Room:
    return Room(tmp_path)


def content(corpus: PreparedCorpus) -> list[tuple[list[int], list[int]]]:
    return [(corpus.source[i].tolist(), corpus.target[i].tolist()) for i in range(len(corpus))]


# ---- what is stored ------------------------------------------------------------------------------


def test_pairs_are_stored_or_counted(room):
    corpus = room.prepare()
    assert content(corpus) == [([10, 11, 12], [10, 11]), ([13], [13, 13, 13]), ([12, 12], [12])]
    assert (len(corpus), corpus.dropped_empty, corpus.dropped_long) == (3, 4, 2)
    assert corpus.source.lengths.tolist() == [3, 1, 2]
    assert corpus.target.lengths.tolist() == [2, 3, 1]
    assert corpus.source.lengths.dtype == corpus.target.lengths.dtype == np.int32


@pytest.mark.parametrize(("max_length", "pairs"), [(8, 5), (7, 3), (4, 3), (3, 1)])
def test_max_length_counts_the_end_token(room, max_length, pairs):
    corpus = room.prepare(max_length=max_length)
    assert len(corpus) == pairs
    assert len(corpus) + corpus.dropped_empty + corpus.dropped_long == len(SOURCES)
    assert max(corpus.source.lengths.max(), corpus.target.lengths.max()) + 1 <= max_length


def test_chunks_join_without_a_seam(room, monkeypatch):
    whole = content(room.prepare())
    for size in (1, 2, 3):
        monkeypatch.setattr(prepared, "PAIRS_AT_A_TIME", size)
        shutil.rmtree(room.folder)
        vocabulary = Letters()
        assert content(room.prepare(vocabulary)) == whole
        assert max(vocabulary.asked) == size
        assert sum(vocabulary.asked) == 2 * len(SOURCES)


@pytest.mark.parametrize(("size", "dtype"), [(2**16, "uint16"), (2**16 + 1, "int32")])
def test_the_smallest_type_that_holds_every_id(room, size, dtype):
    vocabulary = Letters(size)
    vocabulary.encode = lambda lines: [[size - 1, 4] for _ in lines]
    corpus = room.prepare(vocabulary)
    assert corpus.source.ids.dtype == corpus.target.ids.dtype == dtype
    assert corpus.source[0].tolist() == [size - 1, 4]


def test_ids_are_mapped_not_loaded_and_cannot_be_written(room):
    corpus = room.prepare()
    assert isinstance(corpus.source.ids.base, np.memmap)
    assert isinstance(corpus.target.offsets.base, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        corpus.source[0][0] = 1


def test_pairs_in_memory():
    corpus = PreparedCorpus.from_ids([[5, 6], [7]], [[8], [9, 9, 9]])
    assert content(corpus) == [([5, 6], [8]), ([7], [9, 9, 9])]
    assert corpus.fingerprint == PreparedCorpus.from_ids([[5, 6], [7]], [[8], [9, 9, 9]]).fingerprint
    assert corpus.fingerprint != PreparedCorpus.from_ids([[5], [6, 7]], [[8], [9, 9, 9]]).fingerprint
    with pytest.raises(UserError, match="2 sources do not match 1 targets"):
        PreparedCorpus.from_ids([[5], [6]], [[7]])


# ---- made once, made again -----------------------------------------------------------------------


def test_a_current_preparation_is_used_again(room):
    first = room.prepare()
    for path in (room.source, room.target):
        shutil.copy(path, path.with_suffix(".copy"))  # other time stamps
        os.replace(path.with_suffix(".copy"), path)
    vocabulary = Letters()
    again = room.prepare(vocabulary)
    assert vocabulary.asked == []
    assert content(again) == content(first) == content(room.load())
    assert again.fingerprint == first.fingerprint == room.load().fingerprint
    assert (again.dropped_empty, again.dropped_long) == (4, 2)


def edit_in_place(path: Path):
    status = path.stat()
    path.write_bytes(path.read_bytes().replace(b"d", b"f").replace(b"D", b"F"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # same size, same time
    assert path.stat().st_size == status.st_size


@pytest.mark.parametrize(
    ("change", "options"),
    [
        (lambda room: edit_in_place(room.source), {}),
        (lambda room: edit_in_place(room.target), {}),
        (lambda room: None, {"max_length": 6}),
        (lambda room: None, {"vocabulary": Letters(name="other")}),
    ],
    ids=["source", "target", "max_length", "vocabulary"],
)
def test_whatever_the_ids_depend_on_makes_it_stale(room, change, options):
    first = room.prepare()
    before, old_files = content(first), room.files()
    change(room)
    vocabulary = options.pop("vocabulary", Letters())
    second = room.prepare(vocabulary, **options)
    assert vocabulary.asked
    assert second.fingerprint != first.fingerprint
    assert content(first) == before  # a run that still has the old files open keeps them
    assert len(room.files()) == len(old_files)  # and the folder does not


def test_a_description_that_was_changed_is_remade(room):
    """Else a bit of the recorded digest of a text would put the blame on the text."""
    expected = content(room.prepare())
    path = room.folder / "prepared.json"
    right = path.read_text()
    path.write_text(right.replace('"sha256": "', '"sha256": "0', 1))
    assert path.read_text() != right
    with pytest.raises(UserError, match=r"prepared.json is damaged .its key is another.; prepare the corpus again"):
        room.load()
    assert content(room.prepare()) == expected
    assert path.read_text() == right


@pytest.mark.parametrize("part", ["source", "target"])
@pytest.mark.parametrize("kind", ["ids", "offsets"])
def test_a_flipped_bit_is_found_and_remade(room, part, kind):
    expected = content(room.prepare())
    (path,) = room.folder.glob(f"{part}-*.{kind}")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(UserError, match=rf"{part}-.*{kind} have changed since they were written"):
        room.load()
    assert content(room.prepare()) == expected


@pytest.mark.parametrize("wrong", [{"dtype": "O"}, {"pairs": -1}, {"sha256": []}, {"key": ""}, {"format": 1.5}])
def test_a_description_that_cannot_be_is_refused_and_remade(room, wrong):
    expected = content(room.prepare())
    path = room.folder / "prepared.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **wrong}))
    with pytest.raises(UserError, match=r"prepare the corpus again|cannot read"):
        room.load()
    path.write_text("[" * 100_000)
    with pytest.raises(UserError, match="is damaged"):
        room.load()
    assert content(room.prepare()) == expected


def test_a_failure_midway_leaves_the_earlier_preparation(room, monkeypatch):
    monkeypatch.setattr(prepared, "PAIRS_AT_A_TIME", 2)
    before = content(room.prepare())
    files = room.files()
    with room.target.open("ab") as file:
        file.write(b"\xff\n")
    with room.source.open("ab") as file:
        file.write(b"x\n")
    with pytest.raises(UserError, match=r"train\.de, line 10"):
        room.prepare()
    assert room.files() == files
    assert content(room.load()) == before


# ---- bad input -----------------------------------------------------------------------------------


def test_nothing_left_to_train_on(room):
    with pytest.raises(UserError, match=r"no pair is left .*: 4 have an empty side and 5 have more than max_length=2"):
        room.prepare(max_length=2)
    assert room.files() == []


def test_a_file_in_place_of_the_folder(room):
    room.folder.write_text("a file")
    with pytest.raises(UserError, match=r"cannot prepare a corpus in .*prepared: File exists"):
        room.prepare()
    room.target.unlink()
    with pytest.raises(UserError, match=r"cannot read .*train\.de: No such file"):
        room.prepare()
    room.target.mkdir()
    with pytest.raises(UserError, match=r"cannot read .*train\.de: Is a directory"):
        room.prepare()
    room.target.rmdir()
    os.mkfifo(room.target)
    with pytest.raises(UserError, match=r"train\.de is not a regular file"):
        room.prepare()


# ---- forged ----


def forge(room, name, array):
    """Replace an array, with a description that knows its digest."""
    path = next(room.folder.glob(f"{name}-*.{'ids' if array.dtype == np.uint16 else 'offsets'}"))
    path.write_bytes(array.tobytes())
    about = json.loads((room.folder / "prepared.json").read_text())
    about["sha256"][path.name] = hashlib.sha256(array.tobytes()).hexdigest()
    (room.folder / "prepared.json").write_text(json.dumps(about))


@pytest.mark.parametrize("side", ["source", "target"])
def test_forged_ids_and_offsets_are_not_used(room, side):
    corpus = room.prepare()
    expected, offsets = content(corpus), np.array(getattr(corpus, side).offsets)
    for wrong in (
        np.full(offsets[-1], 60_000, np.uint16),  # outside of the vocabulary
        np.concatenate([offsets[:1], offsets[-1:].repeat(len(offsets) - 1)]),  # one long sentence, and empty ones
        offsets[::-1].copy(),
    ):
        forge(room, side, wrong)
        assert content(room.prepare()) == expected
