"""Numbers in English and German words: num2words, with its mistakes corrected.

German says the ones before the tens (21 is "einundzwanzig", one-and-twenty) and writes a number below a million as one
word: a translation model has to learn more than a dictionary.
"""

from __future__ import annotations

from functools import cache

from num2words import num2words

from minitf.corpora.built_in import Pair


@cache
def cardinal(number: int) -> Pair:
    """21 → ("twenty-one", "einundzwanzig"); 1 → ("one", "eins"), as in counting."""
    return _in_both_languages(number, "cardinal")


@cache
def ordinal(number: int) -> Pair:
    """21 → ("twenty-first", "einundzwanzigst"): the German stem, which takes the endings of an adjective."""
    english, german = _in_both_languages(number, "ordinal")
    return english, german.removesuffix("e")


@cache
def year(number: int) -> Pair:
    """1999 → ("nineteen ninety-nine", "neunzehnhundertneunundneunzig"), for the years 1100 to 2099."""
    english = _words(number, "en", "year").replace("oh-", "oh ")  # 1905: "nineteen oh five"
    if number >= 2000:
        return english, cardinal(number)[1]  # "zweitausendsechsundzwanzig", never "zwanzighundert…"
    centuries, rest = divmod(number, 100)  # before 2000 in hundreds: "neunzehnhundert"
    return english, cardinal(centuries)[1] + "hundert" + (cardinal(rest)[1] if rest else "")


@cache
def prefix(number: int) -> str:
    """The German number as the first part of a word, where one is "ein": "einmal", "dreijährig"."""
    return "ein" if number == 1 else cardinal(number)[1]


def _in_both_languages(number: int, form: str) -> Pair:
    english = _words(number, "en", form).replace(",", "")  # "one thousand(,) two hundred and ten"
    german = _words(number, "de", form).replace("einstausend", "eintausend")  # 101,000, 201,000, …
    return english, german


def _words(number: int, language: str, form: str) -> str:
    return num2words(number, lang=language, to=form)
