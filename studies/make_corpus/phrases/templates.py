"""The grammar of the corpus: a table of (English, German) templates for each kind of phrase.

`{clock}` is a slot, filled with a random phrase (slots.py). The German side names the case that it needs unless that
is the nominative: `{price.accusative}`. The second slot of a sort is `{clock_2}`.

An English phrase has the same German translation whichever template it comes from. So there is no "you" (du, ihr,
Sie), "for three days" stands only with tenses that settle its meaning (seit, lang), hours and minutes in a row
("nineteen fifty") only after "at", where no year stands, and no word is ambiguous in its phrase.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import Formatter

from minitf.corpora.built_in import Pair
from studies.make_corpus.phrases.german import Phrase
from studies.make_corpus.phrases.slots import SLOTS
from studies.make_corpus.portable_random import PortableRandom

NUMBERS = (
    ("{number}", "{number}"),
    ("number {number}", "Nummer {number}"),
    ("room {label}", "Zimmer {label}"),
    ("on page {label}", "auf Seite {label}"),
    ("minus {label}", "minus {label}"),
    ("{decimal}", "{decimal}"),
    ("{sum}", "{sum}"),
    ("{percent}", "{percent}"),
    ("{approximately} {number}", "{approximately} {number}"),
)
ORDINALS = (
    ("{the_nth}", "{the_nth}"),
    ("for {the_nth}", "für {the_nth.accusative}"),
    ("without {the_nth}", "ohne {the_nth.accusative}"),
    ("with {the_nth}", "mit {the_nth.dative}"),
    ("after {the_nth}", "nach {the_nth.dative}"),
    ("before {the_nth}", "vor {the_nth.dative}"),
    ("on the {nth} floor", "im {nth}en Stock"),
    ("in the {nth} row", "in der {nth}en Reihe"),
    ("in the {century} century", "im {century}en Jahrhundert"),
    ("in {nth} place", "auf dem {nth}en Platz"),
    ("for the {nth} time", "zum {nth}en Mal"),
    ("{the_nth_most}", "{the_nth_most}"),
    ("{king}", "{king}"),
)
DATES = (
    ("{date}", "der {date}"),
    ("on {date}", "am {date.dative}"),
    ("since {date}", "seit dem {date.dative}"),
    ("until {date}", "bis zum {date.dative}"),
    ("before {date}", "vor dem {date.dative}"),
    ("after {date}", "nach dem {date.dative}"),
    ("on {date_of_year}", "am {date_of_year.dative}"),
    ("since {date_of_year}", "seit dem {date_of_year.dative}"),
    ("{weekday}, {date}", "{weekday}, der {date}"),
    ("on {weekday}, {date}", "am {weekday}, dem {date.dative}"),
    ("from {date_range}", "vom {date_range}"),
    ("from {days_of_month}", "vom {days_of_month}"),
    ("in {year}", "im Jahr {year}"),
    ("since {year}", "seit {year}"),
    ("in {month} {year}", "im {month} {year}"),
    ("{part_of_month} {month} {year}", "{part_of_month} {month} {year}"),
    ("in the {season} of {year}", "im {season} {year}"),
)
TIMES = (
    ("at {clock}", "um {clock}"),
    ("since {clock}", "seit {clock}"),
    ("until {clock}", "bis {clock}"),
    ("at about {clock}", "gegen {clock}"),
    ("shortly before {full_hour}", "kurz vor {full_hour}"),
    ("shortly after {full_hour}", "kurz nach {full_hour}"),
    ("at {exact_time}", "um {exact_time}"),
    ("at {time_of_day}", "um {time_of_day}"),
    ("{time_of_some_day}", "{time_of_some_day}"),
    ("{day} at {clock}", "{day} um {clock}"),
    ("on {weekday} at {clock}", "am {weekday} um {clock}"),
    ("every {weekday} at {clock}", "jeden {weekday} um {clock}"),
    ("on {weekday} at {exact_time}", "am {weekday} um {exact_time}"),
    ("on {weekday} {part_of_weekday}", "am {weekday}{part_of_weekday}"),
    ("from {clock_range}", "von {clock_range}"),
    ("on {weekday} from {clock_range}", "am {weekday} von {clock_range}"),
)
PRICES = (
    ("{price}", "{price}"),
    ("for {price}", "für {price.accusative}"),
    ("{price} per {priced_per}", "{price} pro {priced_per}"),
    ("{approximately} {whole_price}", "{approximately} {whole_price}"),
    ("a price of {price}", "ein Preis von {price.dative}"),
    ("{price} for {thing}", "{price} für {thing.accusative}"),
)
QUANTITIES = (
    ("{things}", "{things}"),
    ("{groceries}", "{groceries}"),
    ("with {things}", "mit {things.dative}"),
    ("without {things}", "ohne {things.accusative}"),
    ("{approximately} {several_things}", "{approximately} {several_things}"),
    ("{things} and {things_2}", "{things} und {things_2}"),
    ("{groceries} for {people}", "{groceries} für {people.accusative}"),
    ("a table for {people}", "ein Tisch für {people.accusative}"),
    ("together with {people}", "zusammen mit {people.dative}"),
)
DURATIONS = (
    ("{duration}", "{duration}"),
    ("{short_duration}", "{short_duration}"),
    ("in {duration}", "in {duration.dative}"),
    ("in {short_duration}", "in {short_duration.dative}"),
    ("{duration} ago", "vor {duration.dative}"),
    ("{short_duration} ago", "vor {short_duration.dative}"),
    ("after {short_duration}", "nach {short_duration.dative}"),
    ("within {duration}", "innerhalb von {duration.dative}"),
    ("every {several}", "alle {several}"),
    ("for the next {several}", "für die nächsten {several}"),
    ("in the last {several}", "in den letzten {several.dative}"),
    ("{frequency}", "{frequency}"),
)
AGES = (
    ("{aged}", "{aged}"),
    ("with {aged}", "mit {aged.dative}"),
    ("{years} old", "{years.accusative} alt"),
    ("at the age of {round_age}", "im Alter von {round_age} Jahren"),
    ("on {possessive} {nth} birthday", "an {possessive.dative} {nth}en Geburtstag"),
    ("{person} is {years} old.", "{person} ist {years.accusative} alt."),
    ("I am {years} old.", "ich bin {years.accusative} alt."),
    ("the baby is {baby_age} old.", "das Baby ist {baby_age.accusative} alt."),
    ("{person} turns {round_age} on {date}.", "{person} wird am {date.dative} {round_age}."),
    ("{relative} is {few_years} older than {name}.", "{relative} ist {few_years.accusative} älter als {name}."),
    ("today is {possessive} {nth} birthday.", "heute ist {possessive} {nth}er Geburtstag."),
)
# The German verb stands second; its separable prefix, participle or infinitive last.
SENTENCES = (
    ("it is {clock}.", "es ist {clock}."),
    ("today is {weekday}, {date}.", "heute ist {weekday}, der {date}."),
    ("{event} is on {date}.", "{event} ist am {date.dative}."),
    ("{event} is on {date} at {clock}.", "{event} ist am {date.dative} um {clock}."),
    ("{event} takes place on {date}.", "{event} findet am {date.dative} statt."),
    ("{event} takes place on {weekday}, {date}.", "{event} findet am {weekday}, dem {date.dative}, statt."),
    ("{event} starts at {clock}.", "{event} beginnt um {clock}."),
    ("{event} starts on {weekday} at {clock}.", "{event} beginnt am {weekday} um {clock}."),
    ("{event} ends at {time_of_day}.", "{event} endet um {time_of_day}."),
    ("tomorrow {event} starts at {clock}.", "morgen beginnt {event} um {clock}."),
    ("{event} lasts {short_duration}.", "{event} dauert {short_duration.accusative}."),
    ("{event} starts in {short_duration}.", "{event} beginnt in {short_duration.dative}."),
    ("{place} is open from {clock_range}.", "{place} ist von {clock_range} geöffnet."),
    ("{place} is closed on {date}.", "{place} ist am {date.dative} geschlossen."),
    ("is {place} open until {clock}?", "ist {place} bis {clock} geöffnet?"),
    ("{train} to {city} leaves at {exact_time}.", "{train} nach {city} fährt um {exact_time} ab."),
    ("{train} to {city} leaves at {clock}.", "{train} nach {city} fährt um {clock} ab."),
    ("{train} from {city} arrives at {clock}.", "{train} aus {city} kommt um {clock} an."),
    ("does {train} to {city} leave at {clock}?", "fährt {train} nach {city} um {clock} ab?"),
    ("{name} says that {vehicle} leaves at {clock}.", "{name} sagt, dass {vehicle} um {clock} abfährt."),
    ("the train to {city} leaves from platform {platform}.", "der Zug nach {city} fährt von Gleis {platform} ab."),
    ("we have to be in {city} by {clock}.", "wir müssen bis {clock} in {city} sein."),
    ("{person} gets up at {clock}.", "{person} steht um {clock} auf."),
    ("{person} is coming on {weekday} at {clock}.", "{person} kommt am {weekday} um {clock}."),
    ("{person} was born on {date_of_year}.", "{person} wurde am {date_of_year.dative} geboren."),
    ("{person} was born in {recent_year}.", "{person} wurde im Jahr {recent_year} geboren."),
    ("{building} was built in {year}.", "{building} wurde im Jahr {year} gebaut."),
    ("{thing} costs {price}.", "{thing} kostet {price.accusative}."),
    ("how much is {thing}?", "wie viel kostet {thing}?"),
    ("how much are {several_things}?", "wie viel kosten {several_things}?"),
    ("{person} paid {price} for {thing}.", "{person} hat {price.accusative} für {thing.accusative} bezahlt."),
    ("{person} earns {whole_price} per month.", "{person} verdient {whole_price.accusative} pro Monat."),
    ("{person} bought {things}.", "{person} hat {things.accusative} gekauft."),
    (
        "{person} sold {things} for {whole_price}.",
        "{person} hat {things.accusative} für {whole_price.accusative} verkauft.",
    ),
    ("I have {things}.", "ich habe {things.accusative}."),
    ("we need {groceries}.", "wir brauchen {groceries.accusative}."),
    ("we are expecting {many_guests}.", "wir erwarten {many_guests.accusative}."),
    ("we live on the {nth} floor.", "wir wohnen im {nth}en Stock."),
    ("this is {the_nth}.", "das ist {the_nth}."),
    ("{person} is reading {the_nth_readable}.", "{person} liest {the_nth_readable.accusative}."),
    ("{person} is here for the {nth} time.", "{person} ist zum {nth}en Mal hier."),
    ("{person} has been working here for {duration}.", "{person} arbeitet seit {duration.dative} hier."),
    ("{person} waited {short_duration}.", "{person} hat {short_duration.accusative} gewartet."),
    ("{person} comes {frequency}.", "{person} kommt {frequency}."),
)


@dataclass(frozen=True)
class Kind:
    """One kind of phrase."""

    name: str
    share: int  # of a hundred pairs
    templates: tuple[Pair, ...]


KINDS = (
    Kind("numbers", 10, NUMBERS),
    Kind("ordinals", 8, ORDINALS),
    Kind("dates", 11, DATES),
    Kind("times", 10, TIMES),
    Kind("prices", 7, PRICES),
    Kind("quantities", 7, QUANTITIES),
    Kind("durations", 7, DURATIONS),
    Kind("ages", 8, AGES),
    Kind("sentences", 32, SENTENCES),
)


def random_pair(kind: Kind, rng: PortableRandom) -> Pair:
    """A random phrase of `kind`: (English, German)."""
    template = rng.choice(kind.templates)
    return fill(template, {slot: SLOTS[slot.removesuffix("_2")](rng) for slot in slots_of(template)})


def slots_of(template: Pair) -> list[str]:
    """Names of the slots of a template, in the order of its English side."""
    return [slot for _, slot, _, _ in Formatter().parse(template[0]) if slot]


def fill(template: Pair, phrases: dict[str, Phrase]) -> Pair:
    """Insert the phrases into the slots of both sides; a sentence begins with a capital letter."""
    english = template[0].format(**{slot: phrase.english for slot, phrase in phrases.items()})
    german = template[1].format(**phrases)
    if english[-1] in ".?":
        return english[0].upper() + english[1:], german[0].upper() + german[1:]
    return english, german
