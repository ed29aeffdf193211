"""The slots of the templates: `{clock}` in a template is filled by `SLOTS["clock"]`, a random phrase.

What is drawn makes sense as far as a table can know: there is no thirty-first of June, nobody meets at "three
o'clock in the evening", and nothing lasts from nine to seven.
"""

from __future__ import annotations

from collections.abc import Callable

from minitf.corpora.draw import Draw
from minitf.corpora.phrases import expressions as say
from minitf.corpora.phrases import lexicon
from minitf.corpora.phrases.german import Noun, Phrase, counted, the, unchanging

Slot = Callable[[Draw], Phrase]
RECENT_YEARS = (1920, 2029)


def how_many(draw: Draw, low: int, high: int) -> int:
    """How many of a thing: not 101, 201, …, over which German wavers (see german.py)."""
    value = draw.of_any_length(low, high)
    return value + 1 if value > 1 and value % 100 == 1 else value


def word(table: tuple[tuple[str, str], ...]) -> Slot:
    """The slot of a table of (English, German)."""
    return lambda draw: unchanging(*draw.one_of(table))


def definite(table: tuple[Noun, ...]) -> Slot:
    """As in "the train", "der Zug"."""
    return lambda draw: the(draw.one_of(table))


# Numbers and ordinals


def number(draw: Draw) -> Phrase:
    """Mostly up to 9,999; one in eight up to 999,999."""
    return say.number(draw.between(10_000, 999_999) if draw.chance(1 / 8) else draw.of_any_length(0, 9_999))


def label(draw: Draw) -> Phrase:
    """The number of a room or a page."""
    return say.number(draw.of_any_length(1, 999))


def platform(draw: Draw) -> Phrase:
    return say.number(draw.between(1, 30))


def decimal(draw: Draw) -> Phrase:
    tenths = [draw.between(0, 9)] if draw.chance(1 / 2) else []
    return say.decimal(draw.of_any_length(0, 99), [*tenths, draw.between(1, 9)])  # The last digit is not zero


def addition(draw: Draw) -> Phrase:
    return say.addition(draw.of_any_length(0, 99), draw.of_any_length(1, 99))


def nth(draw: Draw) -> Phrase:
    return say.nth(draw.of_any_length(1, 99))


def century(draw: Draw) -> Phrase:
    return say.nth(draw.between(1, 21))


def the_nth(draw: Draw) -> Phrase:
    return say.the_nth(
        draw.between(100, 999) if draw.chance(1 / 8) else draw.of_any_length(1, 99), draw.one_of(lexicon.RANKED)
    )


def the_nth_readable(draw: Draw) -> Phrase:
    return say.the_nth(draw.of_any_length(1, 99), draw.one_of(lexicon.READABLE))


def the_nth_most(draw: Draw) -> Phrase:
    return say.the_nth_most(draw.between(2, 20), draw.one_of(lexicon.SUPERLATIVES), draw.one_of(lexicon.COMPARED))


def king(draw: Draw) -> Phrase:
    return say.king(draw.one_of(lexicon.KINGS), draw.between(1, 20))


# Dates and times


def day_of(draw: Draw, month: int) -> int:
    return draw.between(1, lexicon.MONTHS[month - 1][2])


def date(draw: Draw) -> Phrase:
    month = draw.between(1, 12)
    return say.date(day_of(draw, month), month)


def date_of_year(draw: Draw) -> Phrase:
    month = draw.between(1, 12)
    return say.date(day_of(draw, month), month, draw.between(*RECENT_YEARS))


def date_range(draw: Draw) -> Phrase:
    first_month = draw.between(1, 11)
    last_month = draw.between(first_month + 1, 12)
    first = say.date(day_of(draw, first_month), first_month)
    return say.date_range(first, say.date(day_of(draw, last_month), last_month))


def days_of_month(draw: Draw) -> Phrase:
    month = draw.between(1, 12)
    days = lexicon.MONTHS[month - 1][2]
    first = draw.between(1, days - 1)
    return say.days_of_month(first, draw.between(first + 1, days), month)


def year(draw: Draw) -> Phrase:
    return say.calendar_year(draw.between(1500, 2039))


def recent_year(draw: Draw) -> Phrase:
    return say.calendar_year(draw.between(*RECENT_YEARS))


def clock(draw: Draw) -> Phrase:
    if draw.chance(1 / 25):
        return draw.one_of((say.NOON, say.MIDNIGHT))
    return say.clock_time(draw.between(1, 12), 5 * draw.between(0, 11))


def full_hour(draw: Draw) -> Phrase:
    return say.clock_time(draw.between(1, 12), 0)


def exact_time(draw: Draw) -> Phrase:
    return say.exact_time(draw.between(1, 23), draw.between(1, 59))


def time_of_day(draw: Draw) -> Phrase:
    english, german, hours = draw.one_of(lexicon.PARTS_OF_DAY)
    return say.time_of_day(say.clock_time(draw.one_of(hours), 5 * draw.between(0, 11)), (english, german))


def time_of_some_day(draw: Draw) -> Phrase:
    english, german, hours = draw.one_of(lexicon.PARTS_OF_TODAY)
    return say.time_of_some_day((english, german), say.clock_time(draw.one_of(hours), 5 * draw.between(0, 11)))


def clock_range(draw: Draw) -> Phrase:
    """From half an hour to six hours, in steps of a quarter."""
    start = draw.between(0, 47)
    (hour, quarter), (last_hour, last_quarter) = divmod(start, 4), divmod(start + draw.between(2, 24), 4)
    first = say.clock_time(hour % 12 + 1, 15 * quarter)
    return say.clock_range(first, say.clock_time(last_hour % 12 + 1, 15 * last_quarter))


# Prices and quantities


def price(draw: Draw) -> Phrase:
    currency = draw.one_of(lexicon.CURRENCIES)
    if draw.chance(1 / 2):
        return say.price(how_many(draw, 1, 999), 0, currency)
    if draw.chance(1 / 4):
        return say.short_price(draw.between(1, 99), draw.between(10, 99), currency)
    whole = 0 if draw.chance(1 / 8) else draw.between(1, 99)
    return say.price(whole, draw.between(1, 99), currency)


def whole_price(draw: Draw) -> Phrase:
    return say.price(how_many(draw, 2, 9_999), 0, draw.one_of(lexicon.CURRENCIES))


def things(draw: Draw, low: int = 1) -> Phrase:
    adjective = draw.one_of(lexicon.ADJECTIVES) if draw.chance(1 / 2) else None
    return counted(how_many(draw, low, 99), draw.one_of(lexicon.THINGS), adjective)


def several_things(draw: Draw) -> Phrase:
    return things(draw, low=2)


def groceries(draw: Draw) -> Phrase:
    unit, substances = draw.one_of(lexicon.MEASURED)
    return say.measured(how_many(draw, 1, 99), unit, draw.one_of(substances))


def people(draw: Draw) -> Phrase:
    return counted(how_many(draw, 1, 99), draw.one_of(lexicon.PEOPLE))


def many_guests(draw: Draw) -> Phrase:
    return counted(how_many(draw, 2, 9_999), lexicon.GUEST)


# Durations and ages


def duration(draw: Draw) -> Phrase:
    """From days to years."""
    unit, most = draw.one_of(lexicon.LONG_UNITS)
    return counted(how_many(draw, 1, most), unit)


def short_duration(draw: Draw) -> Phrase:
    """From minutes to hours."""
    form = draw.between(1, 6)
    if form == 1:
        return draw.one_of((say.A_QUARTER_OF_AN_HOUR, say.HALF_AN_HOUR, say.AN_HOUR_AND_A_HALF))
    if form == 2:
        return say.and_a_half(draw.between(2, 9), lexicon.HOUR)
    if form == 3:
        return say.hours_and_minutes(draw.between(1, 5), draw.between(1, 59))
    unit, most = draw.one_of(lexicon.SHORT_UNITS)
    return counted(how_many(draw, 1, most), unit)


def several(draw: Draw) -> Phrase:
    """At least two of a unit of time."""
    unit, most = draw.one_of(lexicon.SHORT_UNITS + lexicon.LONG_UNITS)
    return counted(how_many(draw, 2, most), unit)


def years(draw: Draw) -> Phrase:
    return counted(draw.between(1, 100), lexicon.YEAR)


def few_years(draw: Draw) -> Phrase:
    return counted(draw.between(1, 40), lexicon.YEAR)


def baby_age(draw: Draw) -> Phrase:
    return counted(draw.between(1, 24), draw.one_of((lexicon.WEEK, lexicon.MONTH)))


def round_age(draw: Draw) -> Phrase:
    return say.number(draw.between(2, 100))


def aged(draw: Draw) -> Phrase:
    noun, youngest, oldest = draw.one_of(lexicon.AGED)
    return say.aged(draw.between(youngest, oldest), noun)


def frequency(draw: Draw) -> Phrase:
    return say.frequency(draw.between(1, 20), draw.one_of(lexicon.PERIODS))


# People


def name(draw: Draw) -> Phrase:
    same = draw.one_of(lexicon.NAMES)
    return unchanging(same, same)


def person(draw: Draw) -> Phrase:
    return name(draw) if draw.chance(1 / 2) else unchanging(*draw.one_of(lexicon.RELATIVES))


def possessive(draw: Draw) -> Phrase:
    return Phrase(*draw.one_of(lexicon.POSSESSIVES))


SLOTS: dict[str, Slot] = {
    "number": number,
    "label": label,
    "platform": platform,
    "decimal": decimal,
    "sum": addition,
    "percent": lambda draw: say.percent(how_many(draw, 1, 100)),
    "approximately": word(lexicon.APPROXIMATELY),
    "nth": nth,
    "century": century,
    "the_nth": the_nth,
    "the_nth_readable": the_nth_readable,
    "the_nth_most": the_nth_most,
    "king": king,
    "weekday": word(lexicon.WEEKDAYS),
    "part_of_weekday": word(lexicon.PARTS_OF_WEEKDAY),
    "day": word(lexicon.DAYS),
    "month": lambda draw: unchanging(*draw.one_of(lexicon.MONTHS)[:2]),
    "season": word(lexicon.SEASONS),
    "part_of_month": word(lexicon.PARTS_OF_MONTH),
    "date": date,
    "date_of_year": date_of_year,
    "date_range": date_range,
    "days_of_month": days_of_month,
    "year": year,
    "recent_year": recent_year,
    "clock": clock,
    "full_hour": full_hour,
    "exact_time": exact_time,
    "time_of_day": time_of_day,
    "time_of_some_day": time_of_some_day,
    "clock_range": clock_range,
    "price": price,
    "whole_price": whole_price,
    "priced_per": word(lexicon.PRICED_PER),
    "things": things,
    "several_things": several_things,
    "groceries": groceries,
    "people": people,
    "many_guests": many_guests,
    "duration": duration,
    "short_duration": short_duration,
    "several": several,
    "frequency": frequency,
    "years": years,
    "few_years": few_years,
    "baby_age": baby_age,
    "round_age": round_age,
    "aged": aged,
    "name": name,
    "person": person,
    "relative": word(lexicon.RELATIVES),
    "possessive": possessive,
    "thing": definite(lexicon.THINGS),
    "event": definite(lexicon.EVENTS),
    "place": definite(lexicon.PLACES),
    "building": definite(lexicon.BUILDINGS),
    "train": definite(lexicon.TRAINS),
    "vehicle": definite(lexicon.VEHICLES),
    "city": word(lexicon.CITIES),
}
