"""Encoding by words gives the ids of encoding by lines, whatever the text and the model."""

import io

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from minitf.data import words
from minitf.data.vocabulary import Vocabulary
from minitf.data.words import WordTable, encodes_words_apart, line_encoder

CORPUS = 5 * [
    *("The cat sleeps.", "A dog barks at the moon.", "Two cats and a dog play in the garden.", "The moon is bright."),
    *("Die Katze schläft.", "Ein Hund bellt den Mond an.", "Zwei Katzen und ein Hund spielen.", "Größe, Übung, Öl!"),
]
AWKWARD = st.sampled_from("\n\r\t\0\x85\u2028 ▁▅⁇\u00a0\u0301e\ufeff😀א")
TEXTS = st.text(st.one_of(AWKWARD, st.characters(codec="utf-8")))
SYMBOLS = (" (NP", " )", "</x>", "ab")


def foreign(**options) -> Vocabulary:
    """A model by sentencepiece's trainer, with our special tokens."""
    model = io.BytesIO()
    settings = {"vocab_size": 340, "model_type": "bpe", "normalization_rule_name": "identity", **options}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_writer=model, minloglevel=2, byte_fallback=True,
        hard_vocab_limit=False, pad_id=0, unk_id=1, bos_id=2, eos_id=3, **settings,
    )  # fmt: skip
    return Vocabulary(model.getvalue())


@pytest.fixture(scope="module", params=[(), SYMBOLS], ids=["plain", "symbols"])
def vocabulary(tmp_path_factory, request) -> Vocabulary:
    return Vocabulary.train(CORPUS, 330, tmp_path_factory.mktemp("words") / "model", symbols=request.param)


def rows(sentences) -> list[list[int]]:
    return [sentences[i].tolist() for i in range(len(sentences))]


@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.lists(st.one_of(TEXTS, st.sampled_from([*CORPUS, "(NP ab ) </x>ab(NP", "</s> <s>"])))))
def test_the_ids_are_those_of_lines(vocabulary, chunks):
    assert encodes_words_apart(vocabulary)
    encode = line_encoder(vocabulary)
    for lines in chunks:
        assert rows(encode(lines)) == vocabulary.encode(lines)


def test_each_word_is_encoded_once(vocabulary, monkeypatch):
    table, asked = WordTable(vocabulary), []
    monkeypatch.setattr(vocabulary, "encode", lambda lines: asked.extend(lines) or Vocabulary.encode(vocabulary, lines))
    table.encode(["a cat", "the cat and a cat"])
    table.encode(["the dog"])
    assert asked == ["a", "cat", "the", "and", "dog"]


@pytest.mark.parametrize("limit", ["MAX_WORDS", "MAX_IDS"])
def test_a_full_table_is_begun_again(vocabulary, monkeypatch, limit):
    monkeypatch.setattr(words, limit, 0)
    table = WordTable(vocabulary)
    for line in CORPUS:
        assert rows(table.encode([line])) == vocabulary.encode([line])
        assert len(table.words) == len(table.numbers) == len(set(line.split()))


@pytest.mark.parametrize(
    ("options", "apart"),
    [
        ({}, True),
        ({"model_type": "unigram", "vocab_size": 320}, False),
        ({"normalization_rule_name": "nmt_nfkc"}, False),
        ({"split_by_whitespace": False}, False),
        ({"user_defined_symbols": ["cat▁sleeps"]}, False),
        ({"add_dummy_prefix": False}, False),
        ({"treat_whitespace_as_suffix": True}, False),
    ],
    ids=lambda value: "-".join(map(str, value)) or "bpe" if isinstance(value, dict) else "",
)
def test_models_of_other_kinds(options, apart):
    other = foreign(**options)
    lines = [*CORPUS[:8], "", "The cat sleeps, the cat sleeps: ½ m²\u3000ﬁ", "  a  b "]
    assert encodes_words_apart(other) == apart
    assert rows(line_encoder(other)(lines)) == other.encode(lines)
