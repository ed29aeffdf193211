"""Any text goes to ids and back; training is exact and repeatable; sizes that cannot be are explained."""

import hashlib
import io
import itertools
import signal
import subprocess
import sys
import unicodedata
from collections import Counter

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from minitf.config.model import BOS, EOS, PAD, UNK
from minitf.data import vocabulary as vocabulary_module
from minitf.data.text import normalise, read_lines
from minitf.data.vocabulary import Vocabulary, count_words
from minitf.errors import UserError

ENGLISH = [
    "The cat sleeps.",
    "A dog barks at the moon.",
    "Two cats and a dog play in the garden.",
    "The moon is bright.",
]
GERMAN = ["Die Katze schläft.", "Ein Hund bellt den Mond an.", "Zwei Katzen und ein Hund spielen.", "Größe, Übung, Öl!"]
CORPUS = (ENGLISH + GERMAN) * 5
FIRST_LEARNED = 4 + 256  # after the special tokens and the bytes

TEXTS = st.text(
    st.one_of(st.sampled_from("\n\r\t\0\x85\u2028 ▁▅⁇\u00a0\u0301e\ufeff😀א"), st.characters(exclude_categories=["Cs"]))
)


def train(tmp_path, lines=CORPUS, vocab_size=330, name="model", **options) -> Vocabulary:
    return Vocabulary.train(lines, vocab_size, tmp_path / name, **options)


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory) -> Vocabulary:
    return train(tmp_path_factory.mktemp("vocabulary"))


# ---- text to ids and back ------------------------------------------------------------------------


def test_special_tokens_have_their_ids(vocabulary):
    assert (PAD, UNK, BOS, EOS) == (0, 1, 2, 3)
    assert vocabulary.pieces([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", "<s>", "</s>"]
    assert len(vocabulary) == 330


@settings(deadline=None)  # the machine may be busy
@given(TEXTS)
def test_any_text_round_trips(vocabulary, line):
    (ids,) = vocabulary.encode([line])
    assert vocabulary.decode([ids]) == [normalise(line)]
    assert min(ids, default=4) > EOS  # neither UNK nor a special token ever stands for text


@settings(deadline=None)  # the machine may be busy
@given(TEXTS)
def test_normalising_changes_nothing_but_composition_and_white_space(line):
    line = line.replace("▁", " ")
    assert normalise(line).split(" ") == (unicodedata.normalize("NFC", line).split() or [""])
    assert normalise(normalise(line)) == normalise(line)


def test_what_a_reference_can_hold_is_kept():
    for line in ("Größe … m² ½ ﬁ ＡＢ ‘x’ „y“ İı ß ẞ", "a\u200bb\u00adc", "🏳️‍🌈 👩‍👩‍👧"):
        assert normalise(line) == line
    assert normalise("e\u0301\t10\u00a0000\u2028\r\n") == "é 10 000"


@pytest.mark.heavy
@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.lists(st.integers(0, 329))))
def test_any_ids_decode_to_one_line_each(vocabulary, sentences):
    lines = vocabulary.decode(sentences)
    assert len(lines) == len(sentences)
    assert all(len(line.splitlines()) <= 1 for line in lines)


def test_bytes_that_spell_a_line_end_do_not_end_the_line(vocabulary):
    ids = [4 + ord(character) for character in "a\nb\rc"]
    assert vocabulary.pieces(ids)[1] == "<0x0A>"
    assert vocabulary.decode([ids]) == ["a b c"]


def test_what_cannot_be_spelled_is_seen_not_dropped(vocabulary):
    assert vocabulary.decode([[4 + 0xFF]]) == ["\ufffd"]
    assert vocabulary.decode([[UNK]]) == ["⁇"]
    (ids,) = vocabulary.encode(["The cat"])
    assert vocabulary.decode([[BOS, *ids, EOS, PAD, PAD]]) == ["The cat"]


def test_empty_lines_have_no_ids(vocabulary):
    assert vocabulary.encode(["", " \t\u00a0\u2028", "x"])[:2] == [[], []]
    assert vocabulary.encode([]) == vocabulary.decode([]) == vocabulary.pieces([]) == []
    assert vocabulary.decode([[], []]) == ["", ""]
    for use in (vocabulary.encode, lambda line: vocabulary.train(line, 300, "none")):
        with pytest.raises(TypeError, match="a single string"):
            use("a line")


@pytest.mark.parametrize("wrong", [-1, 330, 10**12])
def test_ids_of_another_vocabulary_are_refused(vocabulary, wrong):
    for use in (vocabulary.pieces, lambda ids: vocabulary.decode([ids])):
        with pytest.raises(UserError, match=f"token id {wrong} is outside the vocabulary of 330 pieces"):
            use([5, wrong])


# ---- training ------------------------------------------------------------------------------------


def test_the_same_lines_give_the_same_file(tmp_path):
    first, second = train(tmp_path, name="a"), train(tmp_path, iter(CORPUS), name="b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == first.model
    assert first.fingerprint() == second.fingerprint() == hashlib.sha256(first.model).hexdigest()
    assert train(tmp_path, vocab_size=331, name="c").fingerprint() != first.fingerprint()


def test_both_languages_share_pieces(vocabulary):
    learned = vocabulary.pieces(range(FIRST_LEARNED, len(vocabulary)))
    assert len(set(learned)) == len(learned)
    assert "ö" in learned  # German alone
    assert "▁b" in learned  # "barks", "bellt"


def test_words_are_counted_over_all_lines_in_bounded_memory(monkeypatch):
    lines = ["der Hund", "der\u00a0Mond\n", "", "de\u0301r"]
    assert count_words(lines) == Counter({"der": 2, "Hund": 1, "Mond": 1, "dér": 1})
    many = (f"often {i} seldom{i % 50}" + " late" * (i >= 60_000) for i in range(100_000))
    monkeypatch.setattr(vocabulary_module, "MAX_DISTINCT_WORDS", 12_000)
    counts = count_words(many)
    assert len(counts) <= 12_000
    assert (counts["often"], counts["late"]) == (100_000, 40_000)
    assert all(counts[f"seldom{i}"] == 2000 for i in range(50))


def test_rare_characters_are_spelled_in_bytes(tmp_path):
    assert "ж" not in train(tmp_path, [*CORPUS * 500, "ж"]).pieces(range(330))


def test_without_byte_pieces_the_unknown_shows(tmp_path):
    vocabulary = train(tmp_path, vocab_size=80, byte_fallback=False)
    assert not any(piece.startswith("<0x") for piece in vocabulary.pieces(range(80)))
    (ids,) = vocabulary.encode(["cat 😀"])
    assert UNK in ids
    assert vocabulary.decode([ids]) == ["cat ⁇"]


@pytest.mark.parametrize(
    "awkward",
    ["</s> <s> <unk> <pad>", "<0x41>", "▅", "▁", "\0\x01", "⁇", "ab" * 70_000, "😀" * 5000],
    ids=["special", "byte", "block", "mark", "control", "unknown", "long", "wide"],
)
def test_awkward_lines_neither_stop_nor_bend_training(tmp_path, awkward):
    vocabulary = train(tmp_path, [*CORPUS, awkward, "wörd"], 330)
    assert vocabulary.decode(vocabulary.encode(CORPUS)) == CORPUS
    assert vocabulary.decode(vocabulary.encode([awkward])) == [normalise(awkward)]
    assert vocabulary.pieces([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", "<s>", "</s>"]


def test_no_part_of_a_long_word_is_passed_over(tmp_path):
    assert "zyx" in train(tmp_path, [*CORPUS, "a" * 1500 + "zyx" * 100]).pieces(range(330))


def test_training_prints_nothing(tmp_path, capfd):
    train(tmp_path)
    with pytest.raises(UserError):
        train(tmp_path, vocab_size=5)
    assert capfd.readouterr() == ("", "")


def test_sizes_that_cannot_be_are_explained_with_the_nearest_that_can(tmp_path):
    characters = len(set("".join(CORPUS)) - {" "}) + 1  # the space is the piece "▁"
    least = FIRST_LEARNED + characters
    with pytest.raises(UserError, match=rf"vocab_size=261 is too small: .* alone need {least}; choose at least that"):
        train(tmp_path, vocab_size=261)
    assert len(train(tmp_path, vocab_size=least)) == least
    most = len(train(tmp_path, vocab_size=8000))  # as many as the words allow
    assert FIRST_LEARNED + characters < most < 8000
    assert len(train(tmp_path, vocab_size=most - 1)) == most - 1


@pytest.mark.parametrize("lines", [[], ["", " \u2028"]])
def test_no_text(tmp_path, lines):
    with pytest.raises(UserError, match="the corpus has no words"):
        train(tmp_path, lines)


def test_a_failed_training_leaves_no_file(tmp_path):
    (tmp_path / "bad").write_bytes(b"good\n\xff\n")
    with pytest.raises(UserError, match="bad, line 2"):
        train(tmp_path, itertools.chain(CORPUS, read_lines(tmp_path / "bad")))
    assert [path.name for path in tmp_path.iterdir()] == ["bad"]


# ---- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("symbols", "by_words"), [((), True), ((" (S", ")"), True), (("(S (NP",), False)])
def test_a_loaded_vocabulary_is_the_trained_one(tmp_path, monkeypatch, symbols, by_words):
    """Which cuts a line at once, where the trained one puts it together from its words."""
    monkeypatch.setattr(vocabulary_module, "MOST_WORDS", 40)
    vocabulary = train(tmp_path, symbols=symbols)
    loaded = Vocabulary.load(tmp_path / "model")
    assert loaded.fingerprint() == vocabulary.fingerprint()
    assert (vocabulary._words is not None) == by_words

    @settings(deadline=None, max_examples=60)  # the machine may be busy
    @given(st.lists(st.one_of(TEXTS, st.sampled_from([*CORPUS, "(S (NP a ) )", "x(S )y", "(S(S))"]))))
    def equal(lines):
        assert loaded.encode(lines) == vocabulary.encode(lines)

    equal()


def test_files_that_cannot_be_used(tmp_path, capfd):
    with pytest.raises(UserError, match=r"cannot read .*missing: No such file"):
        Vocabulary.load(tmp_path / "missing")
    with pytest.raises(UserError, match=r"cannot read .*: Is a directory"):
        Vocabulary.load(tmp_path)
    for data in (b"", b"just some text\n" * 10, bytes(1000)):
        (tmp_path / "other").write_bytes(data)
        with pytest.raises(UserError, match="other is not a sentencepiece model"):
            Vocabulary.load(tmp_path / "other")
    assert capfd.readouterr() == ("", "")


def test_a_model_with_other_special_ids_is_refused(tmp_path):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_writer=model, vocab_size=60, model_type="bpe", minloglevel=2
    )
    (tmp_path / "other").write_bytes(model.getvalue())
    with pytest.raises(UserError, match=r"other has .* PAD, UNK, BOS, EOS = -1, 0, 1, 2 where 0, 1, 2, 3 are needed"):
        Vocabulary.load(tmp_path / "other")


# ---- interrupts ----------------------------------------------------------------------------------

INTERRUPTED = """
import itertools, os, random, sys
from minitf.system.process import run_command
from minitf.data import vocabulary
from minitf.data.vocabulary import Vocabulary

path, when, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
draw = random.Random(0)
words = ["".join(draw.choice("abcdefghijkl") for _ in range(9)) for _ in range(300)]
training_lines = vocabulary._training_lines

def reading(counts):
    yield from training_lines(counts)
    os.kill(os.getpid(), number)
    if when == "reading":
        yield from itertools.repeat("word\\t1", 5_000_000)
        os._exit(99)  # it was not answered

vocabulary._training_lines = reading
sys.exit(run_command(lambda argv: Vocabulary.train(words, 400, argv[0]), [path]))
"""


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("when", "number", "status"),
    [("reading", signal.SIGINT, 130), ("reading", signal.SIGTERM, 143), ("all has been read", signal.SIGINT, 130)],
)
def test_an_interrupt_ends_training(tmp_path, when, number, status):
    """Sentencepiece, which takes it for a fault of the text, has not the last word."""
    command = [sys.executable, "-W", "error", "-c", INTERRUPTED, tmp_path / "v.model", when, str(int(number))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (status, "interrupted\n" if number == signal.SIGINT else "terminated\n")
    assert list(tmp_path.iterdir()) == []


def test_a_fault_of_the_text_is_still_told(tmp_path):
    def broken():
        yield "a b c"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Vocabulary.train(broken(), 300, tmp_path / "v.model")
    assert list(tmp_path.iterdir()) == []
