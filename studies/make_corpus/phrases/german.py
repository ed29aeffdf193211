"""The part of German grammar that the phrases need: cases, genders, endings.

Nothing is counted with 101, 201, …, where German has two forms ("einhunderteins Euro" and "einhundertein Euro").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from minitf.corpora.built_in import Pair
from studies.make_corpus.phrases.numerals import cardinal

Gender = Literal["m", "f", "n"]
Case = Literal["nominative", "accusative", "dative"]
Forms = dict[Gender, dict[Case, str]]
CASES: tuple[Case, ...] = ("nominative", "accusative", "dative")

DEFINITE: Forms = {
    "m": {"nominative": "der", "accusative": "den", "dative": "dem"},
    "f": {"nominative": "die", "accusative": "die", "dative": "der"},
    "n": {"nominative": "das", "accusative": "das", "dative": "dem"},
}
INDEFINITE: Forms = {
    "m": {"nominative": "ein", "accusative": "einen", "dative": "einem"},
    "f": {"nominative": "eine", "accusative": "eine", "dative": "einer"},
    "n": {"nominative": "ein", "accusative": "ein", "dative": "einem"},
}
# Endings of adjectives: after der, die, das ("der dritte Tag", "den dritten Tag", "am dritten Tag"),
ENDING_AFTER_DEFINITE: Forms = {
    "m": {"nominative": "e", "accusative": "en", "dative": "en"},
    "f": {"nominative": "e", "accusative": "e", "dative": "en"},
    "n": {"nominative": "e", "accusative": "e", "dative": "en"},
}
# after ein, mein, ihr, where the adjective shows the gender ("ein roter Ball", "ein rotes Auto"),
ENDING_AFTER_INDEFINITE: Forms = {
    "m": {"nominative": "er", "accusative": "en", "dative": "en"},
    "f": {"nominative": "e", "accusative": "e", "dative": "en"},
    "n": {"nominative": "es", "accusative": "es", "dative": "en"},
}
# and after a number from two on ("drei rote Bälle", "mit drei roten Bällen")
ENDING_IN_PLURAL: dict[Case, str] = {"nominative": "e", "accusative": "e", "dative": "en"}


@dataclass(frozen=True)
class Phrase:
    """An English phrase and its German translation in three cases; in a format string, the nominative by default."""

    english: str
    nominative: str
    accusative: str
    dative: str

    def __str__(self) -> str:
        return self.nominative

    def then(self, english: str, german: str) -> Phrase:
        """This phrase followed by words that are the same in every case."""
        return in_every_case(f"{self.english} {english}", lambda case: f"{getattr(self, case)} {german}")


@dataclass(frozen=True)
class Noun:
    """A noun in both languages.

    unit: a unit of measure, the same in every case ("mit zwei Euro")
    weak: a masculine noun whose accusative and dative singular are its plural form ("der Junge", "mit dem Jungen")
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
        # The dative plural ends in -n where that can be pronounced: Tage → Tagen, but Autos → Autos.
        if case == "dative" and not self.unit and self.german_plural[-1] not in "ns":
            return self.german_plural + "n"
        return self.german_plural


def in_every_case(english: str, german: Callable[[Case], str]) -> Phrase:
    """A phrase whose German is a function of the case."""
    return Phrase(english, *map(german, CASES))


def unchanging(english: str, german: str) -> Phrase:
    """A phrase that is the same in every case: numbers, clock times, names."""
    return Phrase(english, german, german, german)


def the(noun: Noun, adjective: Pair | None = None) -> Phrase:
    """A phrase such as "the third door", "die dritte Tür"; the adjective's German is its stem: ("third", "dritt")."""
    return _one(noun, adjective, "the", DEFINITE, ENDING_AFTER_DEFINITE)


def a(noun: Noun, adjective: Pair | None = None) -> Phrase:
    """A phrase such as "a small house", "ein kleines Haus"."""
    next_word = adjective[0] if adjective else noun.english
    # "an" before the sound of a vowel: "an eight-year-old dog", but "a one-year-old dog"
    article = "an" if next_word[0] in "aeiou" and not next_word.startswith("one") else "a"
    return _one(noun, adjective, article, INDEFINITE, ENDING_AFTER_INDEFINITE)


def counted(number: int, noun: Noun, adjective: Pair | None = None) -> Phrase:
    """A phrase such as "one red car", "ein rotes Auto"; "two red cars", "zwei rote Autos"."""
    if number == 1:
        return _one(noun, adjective, "one", INDEFINITE, ENDING_AFTER_INDEFINITE)
    english, german = cardinal(number)
    return _noun_phrase(
        (english, noun.english_plural), adjective, lambda case: (german, ENDING_IN_PLURAL[case], noun.plural(case))
    )


def both(first: Phrase, second: Phrase) -> Phrase:
    """A phrase such as "one hour and ten minutes", "eine Stunde und zehn Minuten"."""
    return in_every_case(
        f"{first.english} and {second.english}", lambda case: f"{getattr(first, case)} und {getattr(second, case)}"
    )


def _one(noun: Noun, adjective: Pair | None, english_article: str, articles: Forms, endings: Forms) -> Phrase:
    """A singular noun: the article and the adjective's ending agree with its gender and case."""
    article, ending = articles[noun.gender], endings[noun.gender]
    return _noun_phrase(
        (english_article, noun.english), adjective, lambda case: (article[case], ending[case], noun.singular(case))
    )


def _noun_phrase(english: Pair, adjective: Pair | None, german: Callable[[Case], tuple[str, str, str]]) -> Phrase:
    """Determiner, adjective if there is one, and noun; `german` gives determiner, ending of the adjective and noun."""
    if adjective is None:
        return in_every_case(" ".join(english), lambda case: " ".join(german(case)[::2]))

    def inflected(case: Case) -> str:
        determiner, ending, noun = german(case)
        return f"{determiner} {adjective[1]}{ending} {noun}"

    return in_every_case(f"{english[0]} {adjective[0]} {english[1]}", inflected)
