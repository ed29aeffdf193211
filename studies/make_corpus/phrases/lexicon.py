"""The words of the corpus: tables of English and German that the phrases are drawn from."""

from __future__ import annotations

from minitf.corpora.built_in import Pair
from studies.make_corpus.phrases.german import Noun


def pairs(table: str) -> tuple[Pair, ...]:
    """Parse "English/German, …"."""
    return tuple((english, german) for english, german in (row.split("/") for row in table.split(", ")))


def nouns(table: str) -> tuple[Noun, ...]:
    """Parse "English/plural/German/plural/gender, …"."""
    return tuple(Noun(*row.split("/")) for row in table.split(", "))  # type: ignore[arg-type]


MONTHS = pairs(
    "January/Januar, February/Februar, March/März, April/April, May/Mai, June/Juni, July/Juli, August/August, "
    "September/September, October/Oktober, November/November, December/Dezember"
)
DAYS_IN_MONTH = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)  # without leap days
WEEKDAYS = pairs(
    "Monday/Montag, Tuesday/Dienstag, Wednesday/Mittwoch, Thursday/Donnerstag, Friday/Freitag, Saturday/Samstag, "
    "Sunday/Sonntag"
)
SEASONS = pairs("spring/Frühling, summer/Sommer, autumn/Herbst, winter/Winter")
PARTS_OF_WEEKDAY = pairs("morning/morgen, afternoon/nachmittag, evening/abend")  # "am Montagabend"
PARTS_OF_MONTH = pairs("at the beginning of/Anfang, in the middle of/Mitte, at the end of/Ende")
DAYS = pairs("today/heute, tomorrow/morgen, yesterday/gestern")
MORNING, AFTERNOON, EVENING = range(5, 10), range(2, 5), range(6, 11)  # hours that clearly belong to it
PARTS_OF_TODAY = (
    ("this morning", "heute Morgen", MORNING),
    ("this afternoon", "heute Nachmittag", AFTERNOON),
    ("this evening", "heute Abend", EVENING),
    ("tomorrow morning", "morgen früh", MORNING),  # "morgen Morgen" cannot be said
    ("tomorrow afternoon", "morgen Nachmittag", AFTERNOON),
    ("tomorrow evening", "morgen Abend", EVENING),
    ("yesterday morning", "gestern Morgen", MORNING),
    ("yesterday afternoon", "gestern Nachmittag", AFTERNOON),
    ("yesterday evening", "gestern Abend", EVENING),
)
PARTS_OF_DAY = (
    ("in the morning", "morgens", MORNING),
    ("in the afternoon", "nachmittags", AFTERNOON),
    ("in the evening", "abends", EVENING),
)

# Minutes past the hour. German counts towards the next hour: half past seven is half of the eighth hour, "halb acht".
CLOCK = {
    0: ("{hour} o'clock", "{hour} Uhr"),
    5: ("five past {hour}", "fünf nach {hour}"),
    10: ("ten past {hour}", "zehn nach {hour}"),
    15: ("a quarter past {hour}", "Viertel nach {hour}"),
    20: ("twenty past {hour}", "zwanzig nach {hour}"),
    25: ("twenty-five past {hour}", "fünf vor halb {next_hour}"),
    30: ("half past {hour}", "halb {next_hour}"),
    35: ("twenty-five to {next_hour}", "fünf nach halb {next_hour}"),
    40: ("twenty to {next_hour}", "zwanzig vor {next_hour}"),
    45: ("a quarter to {next_hour}", "Viertel vor {next_hour}"),
    50: ("ten to {next_hour}", "zehn vor {next_hour}"),
    55: ("five to {next_hour}", "fünf vor {next_hour}"),
}

# Adverbs that stand before any number and do not change its case.
APPROXIMATELY = pairs(
    "about/ungefähr, almost/fast, exactly/genau, at least/mindestens, at most/höchstens, more than/mehr als, "
    "less than/weniger als"
)

CURRENCIES = (
    # unit, its hundredth part
    (Noun("euro", "euros", "Euro", "Euro", "m", unit=True), Noun("cent", "cents", "Cent", "Cent", "m", unit=True)),
    (
        Noun("dollar", "dollars", "Dollar", "Dollar", "m", unit=True),
        Noun("cent", "cents", "Cent", "Cent", "m", unit=True),
    ),
    (
        Noun("pound", "pounds", "Pfund", "Pfund", "n", unit=True),
        Noun("penny", "pence", "Penny", "Pence", "m", unit=True),
    ),
)
PERCENT = Noun("percent", "percent", "Prozent", "Prozent", "n", unit=True)
PRICED_PER = pairs("hour/Stunde, day/Tag, night/Nacht, month/Monat, person/Person, kilo/Kilo, litre/Liter")

# Units of time, with the largest number of each.
SHORT_UNITS = (
    (Noun("second", "seconds", "Sekunde", "Sekunden", "f"), 99),
    (Noun("minute", "minutes", "Minute", "Minuten", "f"), 99),
    (Noun("hour", "hours", "Stunde", "Stunden", "f"), 48),
)
LONG_UNITS = (
    (Noun("day", "days", "Tag", "Tage", "m"), 99),
    (Noun("week", "weeks", "Woche", "Wochen", "f"), 52),
    (Noun("month", "months", "Monat", "Monate", "m"), 24),
    (Noun("year", "years", "Jahr", "Jahre", "n"), 50),
)
MINUTE, HOUR = SHORT_UNITS[1][0], SHORT_UNITS[2][0]
WEEK, MONTH, YEAR = LONG_UNITS[1][0], LONG_UNITS[2][0], LONG_UNITS[3][0]
# "three times a day": in German, the preposition depends on the noun.
PERIODS = pairs("a day/am Tag, a week/in der Woche, a month/im Monat, a year/im Jahr")

THINGS = nouns(
    "book/books/Buch/Bücher/n, car/cars/Auto/Autos/n, table/tables/Tisch/Tische/m, chair/chairs/Stuhl/Stühle/m, "
    "lamp/lamps/Lampe/Lampen/f, bag/bags/Tasche/Taschen/f, hat/hats/Hut/Hüte/m, coat/coats/Mantel/Mäntel/m, "
    "shirt/shirts/Hemd/Hemden/n, bicycle/bicycles/Fahrrad/Fahrräder/n, flower/flowers/Blume/Blumen/f, "
    "apple/apples/Apfel/Äpfel/m"
)
# Adjectives with regular endings (not "hoch, hohe" or "teuer, teure").
ADJECTIVES = pairs("red/rot, blue/blau, green/grün, white/weiß, small/klein, big/groß, new/neu, old/alt")
# Units of measure and substances: "zwei Liter Milch", without a word for the English "of".
MEASURED = (
    (Noun("kilo", "kilos", "Kilo", "Kilo", "n", unit=True), pairs("flour/Mehl, sugar/Zucker, rice/Reis")),
    (Noun("litre", "litres", "Liter", "Liter", "m", unit=True), pairs("milk/Milch, water/Wasser, oil/Öl")),
    (Noun("bottle", "bottles", "Flasche", "Flaschen", "f"), pairs("wine/Wein, water/Wasser, beer/Bier")),
    (Noun("cup", "cups", "Tasse", "Tassen", "f"), pairs("coffee/Kaffee, tea/Tee")),
    (Noun("piece", "pieces", "Stück", "Stück", "n", unit=True), pairs("cake/Kuchen, cheese/Käse")),
)
GUEST = Noun("guest", "guests", "Gast", "Gäste", "m")
PEOPLE = nouns(
    "person/people/Person/Personen/f, child/children/Kind/Kinder/n, guest/guests/Gast/Gäste/m, "
    "friend/friends/Freund/Freunde/m"
)
# Nouns that are ranked or read.
RANKED = nouns(
    "door/doors/Tür/Türen/f, lesson/lessons/Lektion/Lektionen/f, picture/pictures/Bild/Bilder/n, "
    "letter/letters/Brief/Briefe/m, guest/guests/Gast/Gäste/m, child/children/Kind/Kinder/n, "
    "game/games/Spiel/Spiele/n, attempt/attempts/Versuch/Versuche/m"
)
READABLE = nouns(
    "letter/letters/Brief/Briefe/m, page/pages/Seite/Seiten/f, chapter/chapters/Kapitel/Kapitel/n, "
    "question/questions/Frage/Fragen/f, sentence/sentences/Satz/Sätze/m"
)
# The German ordinal and superlative are one word: "die drittgrößte Stadt".
SUPERLATIVES = pairs("largest/größt, oldest/ältest, longest/längst, smallest/kleinst")
COMPARED = nouns("river/rivers/Fluss/Flüsse/m, bridge/bridges/Brücke/Brücken/f, castle/castles/Schloss/Schlösser/n")
KINGS = pairs("Henry/Heinrich, Charles/Karl, Louis/Ludwig, Frederick/Friedrich, William/Wilhelm")

NAMES = ("Anna", "Paul", "Maria", "Peter", "Julia", "Thomas")
RELATIVES = pairs(
    "my sister/meine Schwester, my brother/mein Bruder, my mother/meine Mutter, my father/mein Vater, "
    "her son/ihr Sohn, his daughter/seine Tochter, our grandmother/unsere Großmutter, she/sie, he/er"
)
POSSESSIVES = (
    # before a masculine noun: English, nominative, accusative, dative
    ("my", "mein", "meinen", "meinem"),
    ("his", "sein", "seinen", "seinem"),
    ("her", "ihr", "ihren", "ihrem"),
)
AGED = (
    # noun, youngest, oldest
    (Noun("boy", "boys", "Junge", "Jungen", "m", weak=True), 1, 17),
    (Noun("girl", "girls", "Mädchen", "Mädchen", "n"), 1, 17),
    (Noun("woman", "women", "Frau", "Frauen", "f"), 18, 99),
    (Noun("man", "men", "Mann", "Männer", "m"), 18, 99),
    (Noun("dog", "dogs", "Hund", "Hunde", "m"), 1, 15),
    (Noun("cat", "cats", "Katze", "Katzen", "f"), 1, 20),
    (Noun("horse", "horses", "Pferd", "Pferde", "n"), 1, 30),
)

EVENTS = nouns(
    "meeting/meetings/Sitzung/Sitzungen/f, concert/concerts/Konzert/Konzerte/n, exam/exams/Prüfung/Prüfungen/f, "
    "course/courses/Kurs/Kurse/m, lecture/lectures/Vortrag/Vorträge/m, wedding/weddings/Hochzeit/Hochzeiten/f, "
    "game/games/Spiel/Spiele/n"
)
PLACES = nouns(
    "shop/shops/Geschäft/Geschäfte/n, museum/museums/Museum/Museen/n, bakery/bakeries/Bäckerei/Bäckereien/f, "
    "library/libraries/Bibliothek/Bibliotheken/f, market/markets/Markt/Märkte/m, office/offices/Büro/Büros/n"
)
BUILDINGS = nouns(
    "house/houses/Haus/Häuser/n, church/churches/Kirche/Kirchen/f, bridge/bridges/Brücke/Brücken/f, "
    "tower/towers/Turm/Türme/m, castle/castles/Schloss/Schlösser/n, school/schools/Schule/Schulen/f"
)
TRAINS = nouns("train/trains/Zug/Züge/m, night train/night trains/Nachtzug/Nachtzüge/m, bus/buses/Bus/Busse/m")
VEHICLES = TRAINS + nouns("ferry/ferries/Fähre/Fähren/f, ship/ships/Schiff/Schiffe/n")
CITIES = pairs("Berlin/Berlin, Hamburg/Hamburg, Munich/München, Cologne/Köln, Vienna/Wien, Zurich/Zürich")
