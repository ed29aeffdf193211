"""Vocabularies of other programs' models: lists of pieces, their files, and what is refused."""

import base64
import json

import pytest

from additions.interchange.piece_vocabulary import PieceVocabulary, VocabularyPair
from minitf.config import TransformerConfig
from minitf.config.model import BOS, EOS, PAD, UNK
from minitf.data.vocabulary import Vocabulary, load_vocabulary, sized
from minitf.errors import UserError

SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]
SENTENCES = ["the cat sat on the mat", "ein Haus am See", "two houses, one cat"] * 5


@pytest.fixture(scope="module")
def spm(tmp_path_factory):
    """A sentencepiece model, and its pieces in another order than its own."""
    vocabulary = Vocabulary.train(SENTENCES, 60, tmp_path_factory.mktemp("spm") / "v.model", byte_fallback=False)
    return vocabulary.model, [vocabulary.pieces([i])[0] for i in range(len(vocabulary) - 1, 3, -1)]


def characters(text="abcé ▁"[:5]):
    return PieceVocabulary("characters", [*SPECIAL, *text])


# ---- Characters and words ----


def test_characters_are_pieces_and_what_has_none_is_unknown():
    vocabulary = characters("abc▁é")
    assert vocabulary.encode(["cab", " ab \t c ", "", "é?"]) == [[6, 4, 5], [4, 5, 7, 6], [], [8, UNK]]
    assert vocabulary.decode([[BOS, 6, 4, 5, EOS, PAD], [4, 7, 5], [4, UNK], []]) == ["cab", "a b", "a⁇", ""]
    assert vocabulary.pieces([4, 7, EOS]) == ["a", "▁", "</s>"]


def test_a_space_may_be_a_piece_of_its_own():
    vocabulary = PieceVocabulary("characters", [*SPECIAL, "a", " "])
    assert vocabulary.encode(["a a"]) == [[4, 5, 4]]
    assert vocabulary.decode([[4, 5, 4]]) == ["a a"]
    assert vocabulary.pieces([5]) == ["▁"]


def test_text_that_looks_like_a_special_token_is_not_one():
    vocabulary = PieceVocabulary("words", [*SPECIAL, "a"])
    assert vocabulary.encode(["a </s> <pad> <unk> a"]) == [[4, UNK, UNK, UNK, 4]]


def test_words_open_words_unless_a_joiner_says_otherwise():
    vocabulary = PieceVocabulary("words", [*SPECIAL, "to@@", "day", "is", "@@ly"], joiner="@@")
    ids = vocabulary.encode(["to@@ day is"])
    assert ids == [[4, 5, 6]]
    assert vocabulary.decode([*ids, [5, 7, 4]]) == ["today is", "dayly to"]
    assert vocabulary.pieces([4, 5, 6, UNK, EOS]) == ["▁to@@", "day", "▁is", "▁<unk>", "</s>"]
    plain = PieceVocabulary("words", [*SPECIAL, "to@@", "day"])
    assert plain.decode([[4, 5]]) == ["to@@ day"]


# ---- sentencepiece with a list of its own ----


def test_a_sentencepiece_model_cuts_and_the_list_numbers(spm):
    model, pieces = spm
    vocabulary = PieceVocabulary("sentencepiece", [*SPECIAL, *pieces], model)
    own = Vocabulary(model)
    for line in SENTENCES[:3]:
        (ids,) = vocabulary.encode([line])
        assert vocabulary.pieces(ids) == own.pieces(own.encode([line])[0])
        assert ids == [4 + pieces.index(piece) for piece in vocabulary.pieces(ids)]
        assert vocabulary.decode([ids, [BOS, *ids, EOS, PAD], []]) == [line, line, ""]
    assert vocabulary.decode([[], [4 + pieces.index("▁the"), UNK]]) == ["", "the ⁇"]


def test_pieces_that_only_the_list_has_are_found(spm):
    """Hugging Face's tokenizer looks every piece up, those that are unknown to the model, too."""
    model, pieces = spm
    vocabulary = PieceVocabulary("sentencepiece", [*SPECIAL, *pieces, "Ж", ">>fra<<"], model)
    cat = 4 + pieces.index("▁the")
    assert vocabulary.encode(["the Ж"])[0][0] == cat
    assert vocabulary.encode(["the Ж"])[0][-1] == 4 + len(pieces)
    assert vocabulary.decode([[cat, 4 + len(pieces)]]) == ["theЖ"]
    assert vocabulary.encode(["Щ"])[0][-1] == UNK


def test_a_language_code_at_the_beginning_is_one_piece(spm):
    model, pieces = spm
    vocabulary = PieceVocabulary("sentencepiece", [*SPECIAL, *pieces, ">>fra<<"], model)
    code, (the,) = 4 + len(pieces), vocabulary.encode(["the"])
    assert vocabulary.encode([">>fra<< the", " >>fra<<the", ">>deu<< the", "the >>fra<<"])[:2] == [[code, *the]] * 2
    assert code not in vocabulary.encode([">>deu<< the"])[0]
    assert vocabulary.encode([">>fra<<"]) == [[code]]


# ---- Files ----


def test_a_pair_comes_back_from_its_file(tmp_path, spm):
    model, pieces = spm
    source = PieceVocabulary("sentencepiece", [*SPECIAL, *pieces], model)
    target = PieceVocabulary("words", [*SPECIAL, "to@@", "day", "☃"], joiner="@@")
    pair = VocabularyPair(source, target)
    pair.save(tmp_path / "vocabulary.json")
    loaded = load_vocabulary(tmp_path / "vocabulary.json")
    assert isinstance(loaded, VocabularyPair)
    assert (len(loaded), len(loaded.source)) == (7, 4 + len(pieces))
    assert loaded.source.encode(SENTENCES[:2]) == source.encode(SENTENCES[:2])
    assert loaded.target.decode([[4, 5, 6]]) == ["today ☃"]
    assert loaded.fingerprint() == pair.fingerprint()
    assert loaded.target.fingerprint() == target.fingerprint() != source.fingerprint()
    assert VocabularyPair(source, source).fingerprint() != pair.fingerprint()


def test_one_vocabulary_for_both_sides_stays_one(tmp_path):
    side = characters()
    VocabularyPair(side, side).save(tmp_path / "v.json")
    loaded = load_vocabulary(tmp_path / "v.json")
    assert loaded.source is loaded.target


def test_a_sentencepiece_file_is_todays_vocabulary(tmp_path, spm):
    (tmp_path / "vocabulary.model").write_bytes(spm[0])
    loaded = load_vocabulary(tmp_path / "vocabulary.model")
    assert isinstance(loaded, Vocabulary)
    assert loaded.source is loaded.target is loaded


def _plain(**changes):
    side = {"kind": "characters", "pieces": [*SPECIAL, "a"]}
    return {"format": "minitf vocabulary", "version": 1, "source": side | changes, "target": None}


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({}, "is not a vocabulary of version 1; import the model again"),
        (_plain() | {"version": 2}, "is not a vocabulary of version 1"),
        (_plain() | {"more": 1}, "is not a vocabulary of version 1"),
        (_plain(kind="subwords"), r"v\.json \(source\) is of kind 'subwords'; choose one of sentencepiece, words"),
        (_plain(kind=3), "kind, model and joiner are texts"),
        (_plain(pieces=SPECIAL), "is not a list of the four special tokens and pieces, each a text"),
        (_plain(pieces=[*SPECIAL, 3]), "is not a list of the four special tokens and pieces"),
        (_plain(pieces=[*SPECIAL, ""]), "is not a list of the four special tokens and pieces"),
        (_plain(pieces=[*SPECIAL, "a", "b", "a"]), "has the piece 'a' twice; a piece has one id"),
        (_plain(pieces=[*SPECIAL, "\ud800"]), "half a surrogate pair"),
        (_plain(pieces="abcdefg"), "its keys are not those of version 1"),
        (_plain(size=3), "its keys are not those of version 1"),
        (_plain(joiner="@@"), "that its kind characters cannot have"),
        (_plain(model="AA=="), "that its kind characters cannot have"),
        (_plain(kind="sentencepiece"), "that its kind sentencepiece cannot have"),
        (_plain(kind="sentencepiece", model="AA=="), "holds no sentencepiece model; import it again"),
        (_plain(kind="sentencepiece", model="A"), "holds a model that is not base64"),
        (_plain() | {"target": []}, r"v\.json \(target\) does not describe a vocabulary"),
    ],
)
def test_files_that_cannot_be_are_refused(tmp_path, plain, message):
    (tmp_path / "v.json").write_text(json.dumps(plain))
    with pytest.raises(UserError, match=message):
        load_vocabulary(tmp_path / "v.json")


def test_files_cut_short_are_refused(tmp_path, spm):
    VocabularyPair(characters(), PieceVocabulary("sentencepiece", [*SPECIAL, *spm[1]], spm[0])).save(tmp_path / "v")
    whole = (tmp_path / "v").read_bytes()
    for size in range(1, len(whole) - 1, 97):
        (tmp_path / "v").write_bytes(whole[:size])
        with pytest.raises(UserError):
            load_vocabulary(tmp_path / "v")
    assert base64.b64encode(spm[0]) in whole


def test_ids_outside_are_refused():
    with pytest.raises(UserError, match="token id 9 is outside the vocabulary of 9 pieces"):
        characters().decode([[9]])


def test_a_model_gets_the_sizes_of_its_vocabularies():
    pair = VocabularyPair(characters("ab"), characters("abc"))
    assert sized(TransformerConfig(share_embeddings="none"), pair).source_vocab_size == 6
    assert sized(TransformerConfig(), VocabularyPair(pair.target, pair.target)) == TransformerConfig(vocab_size=7)
    with pytest.raises(UserError, match="source_vocab_size=6 and vocab_size=7 differ"):
        sized(TransformerConfig(), pair)
