"""The slots of the templates: `SLOTS["clock"]` returns a random phrase for `{clock}`.

The values make sense as far as tables can ensure: there is no thirty-first of June, nobody meets at "three o'clock in
the evening", and nothing lasts from nine to seven.
"""

from __future__ import annotations

from collections.abc import Callable

from minitf.corpora.built_in import Pair
from studies.make_corpus.phrases import expressions as say
from studies.make_corpus.phrases import lexicon
from studies.make_corpus.phrases.german import Noun, Phrase, counted, the, unchanging
from studies.make_corpus.portable_random import PortableRandom

Slot = Callable[[PortableRandom], Phrase]
RECENT_YEARS = (1920, 2029)


def word(table: tuple[Pair, ...]) -> Slot:
    """The slot of a table of (English, German)."""
    return lambda rng: unchanging(*rng.choice(table))


def definite(table: tuple[Noun, ...]) -> Slot:
    """A phrase such as "the train", "der Zug"."""
    return lambda rng: the(rng.choice(table))


def quantity(rng: PortableRandom, low: int, high: int) -> int:
    """A number of things: not 101, 201, …, for which German has two forms (german.py)."""
    value = rng.randint_of_any_length(low, high)
    return value + 1 if value > 1 and value % 100 == 1 else value


# Numbers and ordinals


def number(rng: PortableRandom) -> Phrase:
    """Up to 9,999; one in eight up to 999,999."""
    return say.number(rng.randint(10_000, 999_999) if rng.chance(1 / 8) else rng.randint_of_any_length(0, 9_999))


def decimal(rng: PortableRandom) -> Phrase:
    """One or two decimal places, the last of them not zero."""
    tenths = [rng.randint(0, 9)] if rng.chance(1 / 2) else []
    return say.decimal(rng.randint_of_any_length(0, 99), [*tenths, rng.randint(1, 9)])


def the_nth(rng: PortableRandom) -> Phrase:
    """Up to ninety-ninth; one in eight up to 999th."""
    rank = rng.randint(100, 999) if rng.chance(1 / 8) else rng.randint_of_any_length(1, 99)
    return say.the_nth(rank, rng.choice(lexicon.RANKED))


# Dates and times


def day_of(month: int, rng: PortableRandom) -> int:
    return rng.randint(1, lexicon.DAYS_IN_MONTH[month - 1])


def date(rng: PortableRandom) -> Phrase:
    month = rng.randint(1, 12)
    return say.date(day_of(month, rng), month)


def date_of_year(rng: PortableRandom) -> Phrase:
    month = rng.randint(1, 12)
    return say.date(day_of(month, rng), month, rng.randint(*RECENT_YEARS))


def date_range(rng: PortableRandom) -> Phrase:
    first_month = rng.randint(1, 11)
    last_month = rng.randint(first_month + 1, 12)
    first = say.date(day_of(first_month, rng), first_month)
    return say.date_range(first, say.date(day_of(last_month, rng), last_month))


def days_of_month(rng: PortableRandom) -> Phrase:
    month = rng.randint(1, 12)
    days = lexicon.DAYS_IN_MONTH[month - 1]
    first = rng.randint(1, days - 1)
    return say.days_of_month(first, rng.randint(first + 1, days), month)


def clock(rng: PortableRandom) -> Phrase:
    if rng.chance(1 / 25):
        return rng.choice((say.NOON, say.MIDNIGHT))
    return time_in(range(1, 13), rng)


def time_in(hours: range, rng: PortableRandom) -> Phrase:
    """A clock time in one of `hours`, in steps of five minutes."""
    return say.clock_time(rng.choice(hours), 5 * rng.randint(0, 11))


def time_of_day(rng: PortableRandom) -> Phrase:
    english, german, hours = rng.choice(lexicon.PARTS_OF_DAY)
    return say.time_of_day(time_in(hours, rng), (english, german))


def time_of_some_day(rng: PortableRandom) -> Phrase:
    english, german, hours = rng.choice(lexicon.PARTS_OF_TODAY)
    return say.time_of_some_day((english, german), time_in(hours, rng))


def clock_range(rng: PortableRandom) -> Phrase:
    """From half an hour to six hours, in steps of a quarter of an hour."""
    start = rng.randint(0, 47)
    (hour, quarter), (last_hour, last_quarter) = divmod(start, 4), divmod(start + rng.randint(2, 24), 4)
    first = say.clock_time(hour % 12 + 1, 15 * quarter)
    return say.clock_range(first, say.clock_time(last_hour % 12 + 1, 15 * last_quarter))


# Prices and quantities


def price(rng: PortableRandom) -> Phrase:
    currency = rng.choice(lexicon.CURRENCIES)
    if rng.chance(1 / 2):
        return say.price(quantity(rng, 1, 999), 0, currency)
    if rng.chance(1 / 4):
        return say.short_price(rng.randint(1, 99), rng.randint(10, 99), currency)
    whole = 0 if rng.chance(1 / 8) else rng.randint(1, 99)
    return say.price(whole, rng.randint(1, 99), currency)


def things(rng: PortableRandom, low: int = 1) -> Phrase:
    adjective = rng.choice(lexicon.ADJECTIVES) if rng.chance(1 / 2) else None
    return counted(quantity(rng, low, 99), rng.choice(lexicon.THINGS), adjective)


def groceries(rng: PortableRandom) -> Phrase:
    unit, substances = rng.choice(lexicon.MEASURED)
    return say.measured(quantity(rng, 1, 99), unit, rng.choice(substances))


# Durations, ages and people


def of_units(units: tuple[tuple[Noun, int], ...], rng: PortableRandom, low: int = 1) -> Phrase:
    """A number of one of the units of time."""
    unit, most = rng.choice(units)
    return counted(quantity(rng, low, most), unit)


def short_duration(rng: PortableRandom) -> Phrase:
    """From seconds to hours."""
    form = rng.randint(1, 6)
    if form == 1:
        return rng.choice((say.A_QUARTER_OF_AN_HOUR, say.HALF_AN_HOUR, say.AN_HOUR_AND_A_HALF))
    if form == 2:
        return say.and_a_half(rng.randint(2, 9), lexicon.HOUR)
    if form == 3:
        return say.hours_and_minutes(rng.randint(1, 5), rng.randint(1, 59))
    return of_units(lexicon.SHORT_UNITS, rng)


def aged(rng: PortableRandom) -> Phrase:
    noun, youngest, oldest = rng.choice(lexicon.AGED)
    return say.aged(rng.randint(youngest, oldest), noun)


def name(rng: PortableRandom) -> Phrase:
    same = rng.choice(lexicon.NAMES)
    return unchanging(same, same)


def person(rng: PortableRandom) -> Phrase:
    return name(rng) if rng.chance(1 / 2) else unchanging(*rng.choice(lexicon.RELATIVES))


SLOTS: dict[str, Slot] = {
    "number": number,
    "label": lambda rng: say.number(rng.randint_of_any_length(1, 999)),  # of a room or a page
    "platform": lambda rng: say.number(rng.randint(1, 30)),
    "decimal": decimal,
    "sum": lambda rng: say.addition(rng.randint_of_any_length(0, 99), rng.randint_of_any_length(1, 99)),
    "percent": lambda rng: say.percent(quantity(rng, 1, 100)),
    "approximately": word(lexicon.APPROXIMATELY),
    "nth": lambda rng: say.nth(rng.randint_of_any_length(1, 99)),
    "century": lambda rng: say.nth(rng.randint(1, 21)),
    "the_nth": the_nth,
    "the_nth_readable": lambda rng: say.the_nth(rng.randint_of_any_length(1, 99), rng.choice(lexicon.READABLE)),
    "the_nth_most": lambda rng: say.the_nth_most(
        rng.randint(2, 20), rng.choice(lexicon.SUPERLATIVES), rng.choice(lexicon.COMPARED)
    ),
    "king": lambda rng: say.king(rng.choice(lexicon.KINGS), rng.randint(1, 20)),
    "weekday": word(lexicon.WEEKDAYS),
    "part_of_weekday": word(lexicon.PARTS_OF_WEEKDAY),
    "day": word(lexicon.DAYS),
    "month": word(lexicon.MONTHS),
    "season": word(lexicon.SEASONS),
    "part_of_month": word(lexicon.PARTS_OF_MONTH),
    "date": date,
    "date_of_year": date_of_year,
    "date_range": date_range,
    "days_of_month": days_of_month,
    "year": lambda rng: say.calendar_year(rng.randint(1500, 2039)),
    "recent_year": lambda rng: say.calendar_year(rng.randint(*RECENT_YEARS)),
    "clock": clock,
    "full_hour": lambda rng: say.clock_time(rng.randint(1, 12), 0),
    "exact_time": lambda rng: say.exact_time(rng.randint(1, 23), rng.randint(1, 59)),
    "time_of_day": time_of_day,
    "time_of_some_day": time_of_some_day,
    "clock_range": clock_range,
    "price": price,
    "whole_price": lambda rng: say.price(quantity(rng, 2, 9_999), 0, rng.choice(lexicon.CURRENCIES)),
    "priced_per": word(lexicon.PRICED_PER),
    "things": things,
    "several_things": lambda rng: things(rng, low=2),
    "groceries": groceries,
    "people": lambda rng: counted(quantity(rng, 1, 99), rng.choice(lexicon.PEOPLE)),
    "many_guests": lambda rng: counted(quantity(rng, 2, 9_999), lexicon.GUEST),
    "duration": lambda rng: of_units(lexicon.LONG_UNITS, rng),
    "short_duration": short_duration,
    "several": lambda rng: of_units(lexicon.SHORT_UNITS + lexicon.LONG_UNITS, rng, low=2),
    "frequency": lambda rng: say.frequency(rng.randint(1, 20), rng.choice(lexicon.PERIODS)),
    "years": lambda rng: counted(rng.randint(1, 100), lexicon.YEAR),
    "few_years": lambda rng: counted(rng.randint(1, 40), lexicon.YEAR),
    "baby_age": lambda rng: counted(rng.randint(1, 24), rng.choice((lexicon.WEEK, lexicon.MONTH))),
    "round_age": lambda rng: say.number(rng.randint(2, 100)),
    "aged": aged,
    "name": name,
    "person": person,
    "relative": word(lexicon.RELATIVES),
    "possessive": lambda rng: Phrase(*rng.choice(lexicon.POSSESSIVES)),
    "thing": definite(lexicon.THINGS),
    "event": definite(lexicon.EVENTS),
    "place": definite(lexicon.PLACES),
    "building": definite(lexicon.BUILDINGS),
    "train": definite(lexicon.TRAINS),
    "vehicle": definite(lexicon.VEHICLES),
    "city": word(lexicon.CITIES),
}
