"""An exported sentencepiece model cuts any text as the run does, with sentencepiece alone."""

import unicodedata

import pytest
from sentencepiece import SentencePieceProcessor

from additions.interchange.normaliser import rules
from additions.interchange.vocabularies import write_sentencepiece
from minitf.data.text import normalise
from minitf.data.vocabulary import Vocabulary

LINE = "Ångström fährt über die Brücke, où l’été finit: Việt Nam, 한국어, ﬁn m² …"


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vocabulary")
    vocabulary = Vocabulary.train([LINE] * 3, 340, folder / "vocabulary.model")
    write_sentencepiece(vocabulary, folder)
    return vocabulary, SentencePieceProcessor(model_file=str(folder / "source.spm"))


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line.replace(" ", "\u00a0"),
        lambda line: f"\t{line}\u3000".replace(" ", " \t"),
        lambda line: line.replace(" ", "▁"),
        lambda line: f"\u0085{line}\r",
        lambda line: unicodedata.normalize("NFD", line),
        lambda line: line.replace("Å", "\u212b").replace("ệ", "ê\u0323").replace("ü", "u\u0308"),
        lambda line: line,
    ],
)
def test_text_is_cut_as_in_the_run(exported, change):
    vocabulary, alone = exported
    assert alone.encode(change(LINE)) == vocabulary.encode([change(LINE)])[0] == vocabulary.encode([LINE])[0]


@pytest.mark.heavy
def test_every_spelling_of_every_character_becomes_what_it_becomes_in_the_run():
    """Longest first: no rule spoils another."""
    found = rules()
    assert len(found) > 25_000
    assert all(" ".join(after.split()) == normalise(before) for before, after in found.items())
    everything = [chr(code) for code in range(1, 0x30000) if not 0xD800 <= code < 0xE000]
    assert not [each for each in everything if normalise(each) not in (each, found.get(each, each).strip())]
