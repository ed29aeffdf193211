"""Phrases for numbers, dates, clock times, prices, durations and ages, in both languages."""

from __future__ import annotations

from collections.abc import Sequence

from minitf.corpora.built_in import Pair
from studies.make_corpus.phrases.german import (
    DEFINITE,
    ENDING_AFTER_DEFINITE,
    Noun,
    Phrase,
    a,
    both,
    counted,
    in_every_case,
    the,
    unchanging,
)
from studies.make_corpus.phrases.lexicon import CLOCK, HOUR, MINUTE, MONTHS, PERCENT
from studies.make_corpus.phrases.numerals import cardinal, ordinal, prefix, year

Currency = tuple[Noun, Noun]  # the unit and its hundredth part

NOON = unchanging("noon", "zwölf Uhr mittags")
MIDNIGHT = unchanging("midnight", "Mitternacht")
HALF_AN_HOUR = Phrase("half an hour", "eine halbe Stunde", "eine halbe Stunde", "einer halben Stunde")
A_QUARTER_OF_AN_HOUR = Phrase("a quarter of an hour", "eine Viertelstunde", "eine Viertelstunde", "einer Viertelstunde")
AN_HOUR_AND_A_HALF = unchanging("an hour and a half", "anderthalb Stunden")


# Numbers


def number(value: int) -> Phrase:
    """A phrase such as "twenty-one", "einundzwanzig"."""
    return unchanging(*cardinal(value))


def decimal(whole: int, digits: Sequence[int]) -> Phrase:
    """A phrase such as "three point one four", "drei Komma eins vier"."""
    english, german = zip(*(cardinal(value) for value in (whole, *digits)), strict=True)
    return unchanging(" ".join((english[0], "point", *english[1:])), " ".join((german[0], "Komma", *german[1:])))


def percent(value: int) -> Phrase:
    """A phrase such as "one percent", "ein Prozent"."""
    return counted(value, PERCENT)


def addition(left: int, right: int) -> Phrase:
    """A phrase such as "seven plus eight is fifteen", "sieben plus acht ist fünfzehn"."""
    (one, eins), (two, zwei), (total, summe) = map(cardinal, (left, right, left + right))
    return unchanging(f"{one} plus {two} is {total}", f"{eins} plus {zwei} ist {summe}")


# Ordinals


def nth(rank: int) -> Phrase:
    """A stem such as "third", "dritt", to which a template adds the ending: "im {nth}en Stock"."""
    return unchanging(*ordinal(rank))


def the_nth(rank: int, noun: Noun) -> Phrase:
    """A phrase such as "the third door", "die dritte Tür"."""
    return the(noun, ordinal(rank))


def the_nth_most(rank: int, superlative: Pair, noun: Noun) -> Phrase:
    """A phrase such as "the third largest castle", "das drittgrößte Schloss"."""
    (english_rank, german_rank), (english, german) = ordinal(rank), superlative
    return the(noun, (f"{english_rank} {english}", german_rank + german))  # one word in German


def king(name: Pair, rank: int) -> Phrase:
    """A phrase such as "Henry the Eighth", "Heinrich der Achte": the number is part of the name, so a capital."""
    english, german = map(str.capitalize, ordinal(rank))
    article, ending = DEFINITE["m"], ENDING_AFTER_DEFINITE["m"]
    return in_every_case(f"{name[0]} the {english}", lambda case: f"{name[1]} {article[case]} {german}{ending[case]}")


# Dates


def calendar_year(value: int) -> Phrase:
    """A phrase such as "nineteen ninety-nine", "neunzehnhundertneunundneunzig"."""
    return unchanging(*year(value))


def date(day: int, month: int, of_year: int | None = None) -> Phrase:
    """A phrase such as "the third of May", "dritte Mai": without the article, which contracts to "am", "zum", "vom"."""
    (english_day, german_day), (english_month, german_month) = ordinal(day), MONTHS[month - 1]
    english_year, german_year = (" " + words for words in year(of_year)) if of_year else ("", "")
    english = f"the {english_day} of {english_month}{english_year}"
    ending = ENDING_AFTER_DEFINITE["m"]
    return in_every_case(english, lambda case: f"{german_day}{ending[case]} {german_month}{german_year}")


def date_range(first: Phrase, last: Phrase) -> Phrase:
    """A phrase such as "the third of May to the ninth of June", "dritten Mai bis zum neunten Juni", to follow "vom"."""
    return unchanging(f"{first.english} to {last.english}", f"{first.dative} bis zum {last.dative}")


def days_of_month(first: int, last: int, month: int) -> Phrase:
    """A phrase such as "the third to the ninth of May", "dritten bis zum neunten Mai", to follow "from", "vom"."""
    (english, german), until = ordinal(first), date(last, month)
    return unchanging(f"the {english} to {until.english}", f"{german}en bis zum {until.dative}")


# Clock times


def clock_time(hour: int, minute: int) -> Phrase:
    """A phrase such as "half past seven", "halb acht", on a clock of twelve hours and in steps of five minutes."""
    english, german = CLOCK[minute]
    english_hour, german_hour = cardinal(hour)
    english_next, german_next = cardinal(hour % 12 + 1)
    if minute == 0:
        german_hour = prefix(hour)  # "ein Uhr", but "Viertel nach eins"
    return unchanging(
        english.format(hour=english_hour, next_hour=english_next),
        german.format(hour=german_hour, next_hour=german_next),
    )


def exact_time(hour: int, minute: int) -> Phrase:
    """A phrase such as "fifteen oh five", "fünfzehn Uhr fünf", on a clock of 24 hours, the minute not zero."""
    (english_hour, _), (english_minute, german_minute) = cardinal(hour), cardinal(minute)
    zero = "oh " if minute < 10 else ""
    return unchanging(f"{english_hour} {zero}{english_minute}", f"{prefix(hour)} Uhr {german_minute}")


def time_of_day(clock: Phrase, part_of_day: Pair) -> Phrase:
    """A phrase such as "half past seven in the evening", "halb acht abends"."""
    return unchanging(f"{clock.english} {part_of_day[0]}", f"{clock} {part_of_day[1]}")


def time_of_some_day(day: Pair, clock: Phrase) -> Phrase:
    """A phrase such as "tomorrow evening at half past seven", "morgen Abend um halb acht"."""
    return unchanging(f"{day[0]} at {clock.english}", f"{day[1]} um {clock}")


def clock_range(first: Phrase, last: Phrase) -> Phrase:
    """A phrase such as "half past seven to nine o'clock", "halb acht bis neun Uhr", to follow "from", "von"."""
    return unchanging(f"{first.english} to {last.english}", f"{first} bis {last}")


# Prices, quantities, durations, ages


def price(whole: int, parts: int, currency: Currency) -> Phrase:
    """A phrase such as "one euro and fifty cents", "ein Euro und fünfzig Cent"; a number that is zero is omitted."""
    unit, part = currency
    if whole and parts:
        return both(counted(whole, unit), counted(parts, part))
    return counted(whole, unit) if whole else counted(parts, part)


def short_price(whole: int, parts: int, currency: Currency) -> Phrase:
    """A phrase such as "one euro fifty", "ein Euro fünfzig"."""
    return counted(whole, currency[0]).then(*cardinal(parts))


def measured(amount: int, unit: Noun, substance: Pair) -> Phrase:
    """A phrase such as "two litres of milk", "zwei Liter Milch"."""
    english, german = substance
    return counted(amount, unit).then(f"of {english}", german)


def hours_and_minutes(hours: int, minutes: int) -> Phrase:
    """A phrase such as "one hour and ten minutes", "eine Stunde und zehn Minuten"."""
    return both(counted(hours, HOUR), counted(minutes, MINUTE))


def and_a_half(amount: int, unit: Noun) -> Phrase:
    """A phrase such as "two and a half hours", "zweieinhalb Stunden"."""
    english, german = cardinal(amount)[0] + " and a half", prefix(amount) + "einhalb"
    return in_every_case(f"{english} {unit.english_plural}", lambda case: f"{german} {unit.plural(case)}")


def frequency(amount: int, period: Pair) -> Phrase:
    """A phrase such as "once a day", "einmal am Tag"; "three times a week", "dreimal in der Woche"."""
    english = {1: "once", 2: "twice"}.get(amount, f"{cardinal(amount)[0]} times")
    return unchanging(f"{english} {period[0]}", f"{prefix(amount)}mal {period[1]}")


def aged(years: int, noun: Noun) -> Phrase:
    """A phrase such as "a seven-year-old girl", "ein siebenjähriges Mädchen"."""
    return a(noun, (f"{cardinal(years)[0]}-year-old", f"{prefix(years)}jährig"))
