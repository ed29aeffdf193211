import pytest

from studies.make_corpus.phrases import lexicon
from studies.make_corpus.phrases.german import Noun, a, both, counted, the

pytestmark = pytest.mark.slow  # the texts that the grammar wrote are pinned by their hashes

TISCH = Noun("table", "tables", "Tisch", "Tische", "m")
LAMPE = Noun("lamp", "lamps", "Lampe", "Lampen", "f")
HAUS = Noun("house", "houses", "Haus", "Häuser", "n")
AUTO = Noun("car", "cars", "Auto", "Autos", "n")
EURO = Noun("euro", "euros", "Euro", "Euro", "m", unit=True)
JUNGE = Noun("boy", "boys", "Junge", "Jungen", "m", weak=True)
OLD, THIRD = ("old", "alt"), ("third", "dritt")


def forms(phrase):
    return phrase.nominative, phrase.accusative, phrase.dative


@pytest.mark.parametrize(
    ("phrase", "english", "german"),
    [
        (the(TISCH), "the table", ("der Tisch", "den Tisch", "dem Tisch")),
        (the(LAMPE), "the lamp", ("die Lampe", "die Lampe", "der Lampe")),
        (the(HAUS), "the house", ("das Haus", "das Haus", "dem Haus")),
        (the(JUNGE), "the boy", ("der Junge", "den Jungen", "dem Jungen")),
        (the(TISCH, THIRD), "the third table", ("der dritte Tisch", "den dritten Tisch", "dem dritten Tisch")),
        (the(LAMPE, THIRD), "the third lamp", ("die dritte Lampe", "die dritte Lampe", "der dritten Lampe")),
        (the(HAUS, THIRD), "the third house", ("das dritte Haus", "das dritte Haus", "dem dritten Haus")),
        (a(TISCH, OLD), "an old table", ("ein alter Tisch", "einen alten Tisch", "einem alten Tisch")),
        (a(LAMPE, OLD), "an old lamp", ("eine alte Lampe", "eine alte Lampe", "einer alten Lampe")),
        (a(HAUS, OLD), "an old house", ("ein altes Haus", "ein altes Haus", "einem alten Haus")),
        (counted(1, TISCH), "one table", ("ein Tisch", "einen Tisch", "einem Tisch")),
        (counted(1, LAMPE, OLD), "one old lamp", ("eine alte Lampe", "eine alte Lampe", "einer alten Lampe")),
        (counted(2, TISCH), "two tables", ("zwei Tische", "zwei Tische", "zwei Tischen")),
        (counted(2, LAMPE), "two lamps", ("zwei Lampen", "zwei Lampen", "zwei Lampen")),
        (counted(2, AUTO), "two cars", ("zwei Autos", "zwei Autos", "zwei Autos")),
        (counted(2, HAUS, OLD), "two old houses", ("zwei alte Häuser", "zwei alte Häuser", "zwei alten Häusern")),
        (counted(0, EURO), "zero euros", ("null Euro", "null Euro", "null Euro")),
        (counted(7, EURO), "seven euros", ("sieben Euro", "sieben Euro", "sieben Euro")),
        (
            both(counted(1, EURO), counted(1, TISCH)),
            "one euro and one table",
            ("ein Euro und ein Tisch", "einen Euro und einen Tisch", "einem Euro und einem Tisch"),
        ),
        (
            counted(1, TISCH).then("of wood", "aus Holz"),
            "one table of wood",
            ("ein Tisch aus Holz", "einen Tisch aus Holz", "einem Tisch aus Holz"),
        ),
    ],
)
def test_cases(phrase, english, german):
    assert (phrase.english, forms(phrase)) == (english, german)


@pytest.mark.parametrize(
    ("age", "article"),
    [("one", "a"), ("two", "a"), ("eight", "an"), ("eleven", "an"), ("eighteen", "an"), ("eighty-one", "an")],
)
def test_an_before_a_vowel_that_is_heard(age, article):
    assert a(AUTO, (f"{age}-year-old", "alt")).english == f"{article} {age}-year-old car"


def nouns():
    rows = [row for table in vars(lexicon).values() if isinstance(table, tuple) for row in table]
    return [each for row in rows for each in (row if isinstance(row, tuple) else (row,)) if isinstance(each, Noun)]


def test_nouns_of_the_lexicon():
    assert len(nouns()) > 60
    for noun in nouns():
        assert noun.german[0].isupper(), noun
        assert noun.german_plural[0] in (noun.german[0], *"ÄÖÜ"), noun
        assert not (noun.weak and noun.gender != "m"), noun
        assert noun.german.endswith("e") <= (noun.gender == "f" or noun.weak), noun  # die Lampe, der Junge


def test_a_noun_is_the_same_in_every_table():
    of_english = {}
    for noun in nouns():
        assert of_english.setdefault(noun.english, noun) == noun
