"""The little German grammar that the phrases need: cases, genders, endings.

Left out on purpose, because German itself wavers there: nothing is counted with 101, 201, … (101 Euro are
"einhunderteins" to some and "einhundertein" to others).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from minitf.corpora.phrases.numerals import Pair, cardinal

Gender = Literal["m", "f", "n"]
Case = Literal["nominative", "accusative", "dative"]

DEFINITE = {
    "m": {"nominative": "der", "accusative": "den", "dative": "dem"},
    "f": {"nominative": "die", "accusative": "die", "dative": "der"},
    "n": {"nominative": "das", "accusative": "das", "dative": "dem"},
}
INDEFINITE = {
    "m": {"nominative": "ein", "accusative": "einen", "dative": "einem"},
    "f": {"nominative": "eine", "accusative": "eine", "dative": "einer"},
    "n": {"nominative": "ein", "accusative": "ein", "dative": "einem"},
}
# After der, die, das: "der dritte Tag", "den dritten Tag", "am dritten Tag".
ENDING_AFTER_DEFINITE = {
    "m": {"nominative": "e", "accusative": "en", "dative": "en"},
    "f": {"nominative": "e", "accusative": "e", "dative": "en"},
    "n": {"nominative": "e", "accusative": "e", "dative": "en"},
}
# After ein, mein, ihr, where the adjective has to show the gender: "ein roter Ball", "ein rotes Auto".
ENDING_AFTER_INDEFINITE = {
    "m": {"nominative": "er", "accusative": "en", "dative": "en"},
    "f": {"nominative": "e", "accusative": "e", "dative": "en"},
    "n": {"nominative": "es", "accusative": "es", "dative": "en"},
}
# After a number from two on: "drei rote Bälle", "mit drei roten Bällen".
ENDING_IN_PLURAL = {"nominative": "e", "accusative": "e", "dative": "en"}


@dataclass(frozen=True)
class Phrase:
    """A piece of English and its German in three cases; where no case is asked for, the nominative."""

    english: str
    nominative: str
    accusative: str
    dative: str

    def __str__(self) -> str:
        return self.nominative

    def then(self, english: str, german: str) -> Phrase:
        """This phrase with words after it that are the same in every case."""
        return Phrase(
            f"{self.english} {english}",
            f"{self.nominative} {german}",
            f"{self.accusative} {german}",
            f"{self.dative} {german}",
        )


@dataclass(frozen=True)
class Noun:
    """A noun of both languages.

    `unit` marks units of measure, which keep one form ("mit zwei Euro"); `weak` the few masculine nouns that have
    their plural form already in the accusative and the dative ("der Junge", "mit dem Jungen").
    """

    english: str
    english_plural: str
    german: str
    german_plural: str
    gender: Gender
    unit: bool = False
    weak: bool = False

    def singular(self, case: Case) -> str:
        return self.german_plural if self.weak and case != "nominative" else self.german

    def plural(self, case: Case) -> str:
        # The dative plural ends in -n wherever that can be spoken: Tage → Tagen, but Autos → Autos.
        if case == "dative" and not self.unit and self.german_plural[-1] not in "ns":
            return self.german_plural + "n"
        return self.german_plural


def unchanging(english: str, german: str) -> Phrase:
    """A phrase without case: numbers, clock times, names."""
    return Phrase(english, german, german, german)


def the(noun: Noun, adjective: Pair | None = None) -> Phrase:
    """As in "the third door", "die dritte Tür"; the adjective's German is its stem: ("third", "dritt")."""
    return _one(noun, adjective, "the", DEFINITE, ENDING_AFTER_DEFINITE)


def a(noun: Noun, adjective: Pair | None = None) -> Phrase:
    """As in "a small house", "ein kleines Haus"."""
    next_word = adjective[0] if adjective else noun.english
    # Before a vowel that is heard: "an eight-year-old dog", but "a one-year-old dog" (said "wun").
    article = "an" if next_word[0] in "aeiou" and not next_word.startswith("one") else "a"
    return _one(noun, adjective, article, INDEFINITE, ENDING_AFTER_INDEFINITE)


def counted(number: int, noun: Noun, adjective: Pair | None = None) -> Phrase:
    """As in "one red car", "ein rotes Auto"; "two red cars", "zwei rote Autos"."""
    if number == 1:
        return _one(noun, adjective, "one", INDEFINITE, ENDING_AFTER_INDEFINITE)
    number_english, number_german = cardinal(number)

    def german(case: Case) -> str:
        inflected = f"{adjective[1]}{ENDING_IN_PLURAL[case]} " if adjective else ""
        return f"{number_german} {inflected}{noun.plural(case)}"

    english_adjective = f"{adjective[0]} " if adjective else ""
    english = f"{number_english} {english_adjective}{noun.english_plural}"
    return Phrase(english, german("nominative"), german("accusative"), german("dative"))


def both(first: Phrase, second: Phrase) -> Phrase:
    """As in "one hour and ten minutes", "eine Stunde und zehn Minuten"."""
    return Phrase(
        f"{first.english} and {second.english}",
        f"{first.nominative} und {second.nominative}",
        f"{first.accusative} und {second.accusative}",
        f"{first.dative} und {second.dative}",
    )


def _one(
    noun: Noun,
    adjective: Pair | None,
    english_article: str,
    articles: dict[str, dict[str, str]],
    endings: dict[str, dict[str, str]],
) -> Phrase:
    """One of `noun`: the article and the adjective's ending follow its gender and the case."""

    def german(case: Case) -> str:
        inflected = f"{adjective[1]}{endings[noun.gender][case]} " if adjective else ""
        return f"{articles[noun.gender][case]} {inflected}{noun.singular(case)}"

    english_adjective = f"{adjective[0]} " if adjective else ""
    english = f"{english_article} {english_adjective}{noun.english}"
    return Phrase(english, german("nominative"), german("accusative"), german("dative"))
