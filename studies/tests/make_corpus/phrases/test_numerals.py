import random

import pytest

from studies.make_corpus.phrases.numerals import cardinal, ordinal, prefix, year

pytestmark = pytest.mark.slow  # the texts that the grammar wrote are pinned by their hashes

CARDINALS = {
    0: ("zero", "null"),
    1: ("one", "eins"),
    6: ("six", "sechs"),
    7: ("seven", "sieben"),
    11: ("eleven", "elf"),
    12: ("twelve", "zwölf"),
    16: ("sixteen", "sechzehn"),
    17: ("seventeen", "siebzehn"),
    20: ("twenty", "zwanzig"),
    21: ("twenty-one", "einundzwanzig"),
    30: ("thirty", "dreißig"),
    66: ("sixty-six", "sechsundsechzig"),
    70: ("seventy", "siebzig"),
    77: ("seventy-seven", "siebenundsiebzig"),
    100: ("one hundred", "einhundert"),
    101: ("one hundred and one", "einhunderteins"),
    111: ("one hundred and eleven", "einhundertelf"),
    999: ("nine hundred and ninety-nine", "neunhundertneunundneunzig"),
    1_000: ("one thousand", "eintausend"),
    1_001: ("one thousand and one", "eintausendeins"),
    1_100: ("one thousand one hundred", "eintausendeinhundert"),
    1_999: ("one thousand nine hundred and ninety-nine", "eintausendneunhundertneunundneunzig"),
    2_000: ("two thousand", "zweitausend"),
    2_026: ("two thousand and twenty-six", "zweitausendsechsundzwanzig"),
    21_000: ("twenty-one thousand", "einundzwanzigtausend"),
    101_000: ("one hundred and one thousand", "einhunderteintausend"),
    201_301: ("two hundred and one thousand three hundred and one", "zweihunderteintausenddreihunderteins"),
}
ORDINALS = {
    1: ("first", "erst"),
    3: ("third", "dritt"),
    5: ("fifth", "fünft"),
    7: ("seventh", "siebt"),
    8: ("eighth", "acht"),
    12: ("twelfth", "zwölft"),
    16: ("sixteenth", "sechzehnt"),
    19: ("nineteenth", "neunzehnt"),
    20: ("twentieth", "zwanzigst"),
    21: ("twenty-first", "einundzwanzigst"),
    30: ("thirtieth", "dreißigst"),
    67: ("sixty-seventh", "siebenundsechzigst"),
    100: ("one hundredth", "hundertst"),
    101: ("one hundred and first", "einhunderterst"),
    112: ("one hundred and twelfth", "einhundertzwölft"),
    999: ("nine hundred and ninety-ninth", "neunhundertneunundneunzigst"),
}
YEARS = {
    1500: ("fifteen hundred", "fünfzehnhundert"),
    1505: ("fifteen oh five", "fünfzehnhundertfünf"),
    1717: ("seventeen seventeen", "siebzehnhundertsiebzehn"),
    1900: ("nineteen hundred", "neunzehnhundert"),
    1901: ("nineteen oh one", "neunzehnhunderteins"),
    1910: ("nineteen ten", "neunzehnhundertzehn"),
    1999: ("nineteen ninety-nine", "neunzehnhundertneunundneunzig"),
    2000: ("two thousand", "zweitausend"),
    2001: ("two thousand and one", "zweitausendeins"),
    2009: ("two thousand and nine", "zweitausendneun"),
    2010: ("twenty ten", "zweitausendzehn"),
    2026: ("twenty twenty-six", "zweitausendsechsundzwanzig"),
}


@pytest.mark.parametrize("number", CARDINALS)
def test_cardinal(number):
    assert cardinal(number) == CARDINALS[number]


@pytest.mark.parametrize("number", ORDINALS)
def test_ordinal(number):
    assert ordinal(number) == ORDINALS[number]


@pytest.mark.parametrize("number", YEARS)
def test_year(number):
    assert year(number) == YEARS[number]


def test_prefix_says_ein_for_one_only():
    assert [prefix(number) for number in (1, 2, 11, 21)] == ["ein", "zwei", "elf", "einundzwanzig"]


# The rules once more, written down independently of num2words, whose next release may have other slips.

# fmt: off
ENGLISH_SMALL = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]
ENGLISH_TENS = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
GERMAN_SMALL = [
    "null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf",
    "dreizehn", "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn",
]
GERMAN_TENS = ["", "", "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"]
# fmt: on


def english_by_rule(number):
    if number < 20:
        return ENGLISH_SMALL[number]
    if number < 100:
        return ENGLISH_TENS[number // 10] + (f"-{ENGLISH_SMALL[number % 10]}" if number % 10 else "")
    if number < 1_000:
        rest = f" and {english_by_rule(number % 100)}" if number % 100 else ""
        return f"{ENGLISH_SMALL[number // 100]} hundred{rest}"
    link = " and " if number % 1_000 < 100 else " "
    rest = link + english_by_rule(number % 1_000) if number % 1_000 else ""
    return f"{english_by_rule(number // 1_000)} thousand{rest}"


def german_by_rule(number, one="eins"):
    """`one` is what a one at the end is called: "eins" where the word ends, "ein" inside it."""
    if number < 20:
        return one if number == 1 else GERMAN_SMALL[number]
    if number < 100:
        ones = german_by_rule(number % 10, "ein") + "und" if number % 10 else ""
        return ones + GERMAN_TENS[number // 10]
    size, name = (100, "hundert") if number < 1_000 else (1_000, "tausend")
    rest = german_by_rule(number % size, one) if number % size else ""
    return german_by_rule(number // size, "ein") + name + rest


def german_ordinal_by_rule(number):
    # -t up to nineteen, -st above, where what counts are the last two digits
    if number % 100 in range(1, 20):
        last = {1: "erst", 3: "dritt", 7: "siebt", 8: "acht"}.get(number % 100, GERMAN_SMALL[number % 100] + "t")
        return (german_by_rule(number - number % 100) if number >= 100 else "") + last
    return german_by_rule(number).removeprefix("ein" if number == 100 else "") + "st"


def test_cardinals_follow_the_rules():
    numbers = [*range(10_000), *random.Random(0).sample(range(10_000, 1_000_000), 3_000)]
    wrong = {n: cardinal(n) for n in numbers if cardinal(n) != (english_by_rule(n), german_by_rule(n))}
    assert wrong == {}


def test_ordinals_follow_the_rules():
    wrong = {n: ordinal(n)[1] for n in range(1, 1_000) if ordinal(n)[1] != german_ordinal_by_rule(n)}
    assert wrong == {}


def test_years_follow_the_rules():
    def english(number):
        if 2000 <= number < 2010:
            return english_by_rule(number)
        century, rest = divmod(number, 100)
        words = "hundred" if rest == 0 else f"oh {english_by_rule(rest)}" if rest < 10 else english_by_rule(rest)
        return f"{english_by_rule(century)} {words}"

    def german(number):
        century, rest = divmod(number, 100)
        if number >= 2000:
            return german_by_rule(number)
        return f"{german_by_rule(century)}hundert" + (german_by_rule(rest) if rest else "")

    wrong = {n: year(n) for n in range(1100, 2100) if year(n) != (english(n), german(n))}
    assert wrong == {}
