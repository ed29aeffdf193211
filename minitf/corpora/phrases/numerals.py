"""Numbers in English and German words, by num2words, with its slips mended.

German says the ones before the tens (21 = "einundzwanzig", one-and-twenty) and writes any number below a
million as one word: this is what makes the corpus more than a dictionary.
"""

from __future__ import annotations

from functools import cache

from minitf.system.signals import uninterrupted

Pair = tuple[str, str]  # (English, German)


@cache
def cardinal(number: int) -> Pair:
    """21 → ("twenty-one", "einundzwanzig"); 1 → ("one", "eins"), as in counting."""
    return _in_words(number, "cardinal")


@cache
def ordinal(number: int) -> Pair:
    """21 → ("twenty-first", "einundzwanzigst"): the German stem, which takes the endings of an adjective."""
    english, german = _in_words(number, "ordinal")
    return english, german.removesuffix("e")


@cache
def year(number: int) -> Pair:
    """1999 → ("nineteen ninety-nine", "neunzehnhundertneunundneunzig"), for the years 1100 to 2099."""
    with uninterrupted():
        from num2words import num2words

    english = num2words(number, to="year").replace("oh-", "oh ")  # 1905: "nineteen oh five"
    if number >= 2000:
        return english, cardinal(number)[1]  # "zweitausendsechsundzwanzig", never "zwanzighundert…"
    centuries, rest = divmod(number, 100)  # Before 2000 the hundreds are counted on: "neunzehnhundert"
    return english, cardinal(centuries)[1] + "hundert" + (cardinal(rest)[1] if rest else "")


@cache
def prefix(number: int) -> str:
    """The German number at the front of a longer word, where one is "ein": "einmal", "dreijährig"."""
    return "ein" if number == 1 else cardinal(number)[1]


def _in_words(number: int, form: str) -> Pair:
    with uninterrupted():
        from num2words import num2words

    english = num2words(number, lang="en", to=form).replace(",", "")  # "one thousand(,) two hundred and ten"
    german = num2words(number, lang="de", to=form).replace("einstausend", "eintausend")  # 101,000, 201,000, …
    return english, german
