"""The words of the corpus: every table of English and German that the phrases draw from."""

from __future__ import annotations

from minitf.corpora.phrases.german import Noun

MONTHS = (
    # English, German, days (no leap day)
    ("January", "Januar", 31),
    ("February", "Februar", 28),
    ("March", "März", 31),
    ("April", "April", 30),
    ("May", "Mai", 31),
    ("June", "Juni", 30),
    ("July", "Juli", 31),
    ("August", "August", 31),
    ("September", "September", 30),
    ("October", "Oktober", 31),
    ("November", "November", 30),
    ("December", "Dezember", 31),
)
WEEKDAYS = (
    ("Monday", "Montag"),
    ("Tuesday", "Dienstag"),
    ("Wednesday", "Mittwoch"),
    ("Thursday", "Donnerstag"),
    ("Friday", "Freitag"),
    ("Saturday", "Samstag"),
    ("Sunday", "Sonntag"),
)
SEASONS = (("spring", "Frühling"), ("summer", "Sommer"), ("autumn", "Herbst"), ("winter", "Winter"))
PARTS_OF_WEEKDAY = (("morning", "morgen"), ("afternoon", "nachmittag"), ("evening", "abend"))  # "am Montagabend"
PARTS_OF_MONTH = (("at the beginning of", "Anfang"), ("in the middle of", "Mitte"), ("at the end of", "Ende"))
DAYS = (("today", "heute"), ("tomorrow", "morgen"), ("yesterday", "gestern"))
MORNING, AFTERNOON, EVENING = range(5, 10), range(2, 5), range(6, 11)  # hours that are surely part of it
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

# Minutes past the hour. German looks ahead: half past seven is half of the eighth hour, "halb acht".
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

# Adverbs that stand before any number and leave its case alone.
APPROXIMATELY = (
    ("about", "ungefähr"),
    ("almost", "fast"),
    ("exactly", "genau"),
    ("at least", "mindestens"),
    ("at most", "höchstens"),
    ("more than", "mehr als"),
    ("less than", "weniger als"),
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
PRICED_PER = (
    ("hour", "Stunde"),
    ("day", "Tag"),
    ("night", "Nacht"),
    ("month", "Monat"),
    ("person", "Person"),
    ("kilo", "Kilo"),
    ("litre", "Liter"),
)

# Units of time, with the most of each that is counted.
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
# "three times a day": German chooses the preposition by the noun.
PERIODS = (("a day", "am Tag"), ("a week", "in der Woche"), ("a month", "im Monat"), ("a year", "im Jahr"))

THINGS = (
    Noun("book", "books", "Buch", "Bücher", "n"),
    Noun("car", "cars", "Auto", "Autos", "n"),
    Noun("table", "tables", "Tisch", "Tische", "m"),
    Noun("chair", "chairs", "Stuhl", "Stühle", "m"),
    Noun("lamp", "lamps", "Lampe", "Lampen", "f"),
    Noun("bag", "bags", "Tasche", "Taschen", "f"),
    Noun("hat", "hats", "Hut", "Hüte", "m"),
    Noun("coat", "coats", "Mantel", "Mäntel", "m"),
    Noun("shirt", "shirts", "Hemd", "Hemden", "n"),
    Noun("bicycle", "bicycles", "Fahrrad", "Fahrräder", "n"),
    Noun("flower", "flowers", "Blume", "Blumen", "f"),
    Noun("apple", "apples", "Apfel", "Äpfel", "m"),
)
# All of these take plain endings (no "hoch, hohe", no "teuer, teure").
ADJECTIVES = (
    ("red", "rot"),
    ("blue", "blau"),
    ("green", "grün"),
    ("white", "weiß"),
    ("small", "klein"),
    ("big", "groß"),
    ("new", "neu"),
    ("old", "alt"),
)
# What is counted in what: "zwei Liter Milch", with nothing for the English "of".
MEASURED = (
    (Noun("kilo", "kilos", "Kilo", "Kilo", "n", unit=True), (("flour", "Mehl"), ("sugar", "Zucker"), ("rice", "Reis"))),
    (
        Noun("litre", "litres", "Liter", "Liter", "m", unit=True),
        (("milk", "Milch"), ("water", "Wasser"), ("oil", "Öl")),
    ),
    (Noun("bottle", "bottles", "Flasche", "Flaschen", "f"), (("wine", "Wein"), ("water", "Wasser"), ("beer", "Bier"))),
    (Noun("cup", "cups", "Tasse", "Tassen", "f"), (("coffee", "Kaffee"), ("tea", "Tee"))),
    (Noun("piece", "pieces", "Stück", "Stück", "n", unit=True), (("cake", "Kuchen"), ("cheese", "Käse"))),
)
GUEST = Noun("guest", "guests", "Gast", "Gäste", "m")
PEOPLE = (
    Noun("person", "people", "Person", "Personen", "f"),
    Noun("child", "children", "Kind", "Kinder", "n"),
    GUEST,
    Noun("friend", "friends", "Freund", "Freunde", "m"),
)
# Nouns whose place in an order matters.
RANKED = (
    Noun("door", "doors", "Tür", "Türen", "f"),
    Noun("lesson", "lessons", "Lektion", "Lektionen", "f"),
    Noun("picture", "pictures", "Bild", "Bilder", "n"),
    Noun("letter", "letters", "Brief", "Briefe", "m"),
    GUEST,
    Noun("child", "children", "Kind", "Kinder", "n"),
    Noun("game", "games", "Spiel", "Spiele", "n"),
    Noun("attempt", "attempts", "Versuch", "Versuche", "m"),
)
READABLE = (
    Noun("letter", "letters", "Brief", "Briefe", "m"),
    Noun("page", "pages", "Seite", "Seiten", "f"),
    Noun("chapter", "chapters", "Kapitel", "Kapitel", "n"),
    Noun("question", "questions", "Frage", "Fragen", "f"),
    Noun("sentence", "sentences", "Satz", "Sätze", "m"),
)
# The German ordinal grows into the superlative: "die drittgrößte Stadt".
SUPERLATIVES = (("largest", "größt"), ("oldest", "ältest"), ("longest", "längst"), ("smallest", "kleinst"))
COMPARED = (
    Noun("river", "rivers", "Fluss", "Flüsse", "m"),
    Noun("bridge", "bridges", "Brücke", "Brücken", "f"),
    Noun("castle", "castles", "Schloss", "Schlösser", "n"),
)
KINGS = (
    ("Henry", "Heinrich"),
    ("Charles", "Karl"),
    ("Louis", "Ludwig"),
    ("Frederick", "Friedrich"),
    ("William", "Wilhelm"),
)

NAMES = ("Anna", "Paul", "Maria", "Peter", "Julia", "Thomas")
RELATIVES = (
    ("my sister", "meine Schwester"),
    ("my brother", "mein Bruder"),
    ("my mother", "meine Mutter"),
    ("my father", "mein Vater"),
    ("her son", "ihr Sohn"),
    ("his daughter", "seine Tochter"),
    ("our grandmother", "unsere Großmutter"),
    ("she", "sie"),
    ("he", "er"),
)
POSSESSIVES = (
    # Before a masculine noun: English, nominative, accusative, dative
    ("my", "mein", "meinen", "meinem"),
    ("his", "sein", "seinen", "seinem"),
    ("her", "ihr", "ihren", "ihrem"),
)
AGED = (
    # Who, and from which age to which
    (Noun("boy", "boys", "Junge", "Jungen", "m", weak=True), 1, 17),
    (Noun("girl", "girls", "Mädchen", "Mädchen", "n"), 1, 17),
    (Noun("woman", "women", "Frau", "Frauen", "f"), 18, 99),
    (Noun("man", "men", "Mann", "Männer", "m"), 18, 99),
    (Noun("dog", "dogs", "Hund", "Hunde", "m"), 1, 15),
    (Noun("cat", "cats", "Katze", "Katzen", "f"), 1, 20),
    (Noun("horse", "horses", "Pferd", "Pferde", "n"), 1, 30),
)

EVENTS = (
    Noun("meeting", "meetings", "Sitzung", "Sitzungen", "f"),
    Noun("concert", "concerts", "Konzert", "Konzerte", "n"),
    Noun("exam", "exams", "Prüfung", "Prüfungen", "f"),
    Noun("course", "courses", "Kurs", "Kurse", "m"),
    Noun("lecture", "lectures", "Vortrag", "Vorträge", "m"),
    Noun("wedding", "weddings", "Hochzeit", "Hochzeiten", "f"),
    Noun("game", "games", "Spiel", "Spiele", "n"),
)
PLACES = (
    Noun("shop", "shops", "Geschäft", "Geschäfte", "n"),
    Noun("museum", "museums", "Museum", "Museen", "n"),
    Noun("bakery", "bakeries", "Bäckerei", "Bäckereien", "f"),
    Noun("library", "libraries", "Bibliothek", "Bibliotheken", "f"),
    Noun("market", "markets", "Markt", "Märkte", "m"),
    Noun("office", "offices", "Büro", "Büros", "n"),
)
BUILDINGS = (
    Noun("house", "houses", "Haus", "Häuser", "n"),
    Noun("church", "churches", "Kirche", "Kirchen", "f"),
    Noun("bridge", "bridges", "Brücke", "Brücken", "f"),
    Noun("tower", "towers", "Turm", "Türme", "m"),
    Noun("castle", "castles", "Schloss", "Schlösser", "n"),
    Noun("school", "schools", "Schule", "Schulen", "f"),
)
TRAINS = (
    Noun("train", "trains", "Zug", "Züge", "m"),
    Noun("night train", "night trains", "Nachtzug", "Nachtzüge", "m"),
    Noun("bus", "buses", "Bus", "Busse", "m"),
)
VEHICLES = (
    *TRAINS,
    Noun("ferry", "ferries", "Fähre", "Fähren", "f"),
    Noun("ship", "ships", "Schiff", "Schiffe", "n"),
)
CITIES = (
    ("Berlin", "Berlin"),
    ("Hamburg", "Hamburg"),
    ("Munich", "München"),
    ("Cologne", "Köln"),
    ("Vienna", "Wien"),
    ("Zurich", "Zürich"),
)
