"""Every template once or more, against German written down by hand."""

import pytest

from minitf.corpora.built_in import SAMPLE_PAIRS
from studies.make_corpus.phrases import expressions as say
from studies.make_corpus.phrases import lexicon
from studies.make_corpus.phrases.german import Noun, Phrase, counted, the, unchanging
from studies.make_corpus.phrases.phrase_corpus import careless
from studies.make_corpus.phrases.templates import KINDS, fill, slots_of

pytestmark = pytest.mark.slow  # the texts that the grammar wrote are pinned by their hashes

NOUNS = {
    each.english: each
    for table in vars(lexicon).values()
    if isinstance(table, tuple)
    for row in table
    for each in (row if isinstance(row, tuple) else (row,))
    if isinstance(each, Noun)
}
WORDS = {
    row[0]: row[1]
    for table in vars(lexicon).values()
    if isinstance(table, tuple)
    for row in table
    if isinstance(row, tuple) and isinstance(row[0], str) and isinstance(row[1], str)
}
EURO, DOLLAR, POUND = lexicon.CURRENCIES
MY, HIS, HER = (Phrase(*row) for row in lexicon.POSSESSIVES)


def n(value):
    return say.number(value)


def w(english):
    return unchanging(english, WORDS.get(english, english))


def some(count, english, adjective=None):
    return counted(count, NOUNS[english], (adjective, WORDS[adjective]) if adjective else None)


def def_(english):
    return the(NOUNS[english])


def rank(value, english):
    return say.the_nth(value, NOUNS[english])


def most(value, superlative, english):
    return say.the_nth_most(value, (superlative, WORDS[superlative]), NOUNS[english])


def of(count, unit, substance):
    substances = {row: german for _, table in lexicon.MEASURED for row, german in table}
    return say.measured(count, NOUNS[unit], (substance, substances[substance]))


def old(years, english):
    return say.aged(years, NOUNS[english])


def king(name, value):
    return say.king((name, WORDS[name]), value)


def often(count, period):
    return say.frequency(count, (period, WORDS[period]))


def at(hour, minute=0):
    return say.clock_time(hour, minute)


def daytime(hour, minute, part):
    return say.time_of_day(at(hour, minute), (part, WORDS[part]))


def on_day(part, hour, minute):
    return say.time_of_some_day((part, WORDS[part]), at(hour, minute))


def span(*times):
    (first, last) = times
    return say.clock_range(at(*first), at(*last))


# A case in one to three lines can be read as a table.
# fmt: off
NUMBERS = [
    ({"number": n(0)}, "zero", "null"),
    ({"number": n(1)}, "one", "eins"),
    ({"number": n(17)}, "seventeen", "siebzehn"),
    ({"number": n(7_621)}, "seven thousand six hundred and twenty-one", "siebentausendsechshunderteinundzwanzig"),
    ({"number": n(16)}, "number sixteen", "Nummer sechzehn"),
    ({"label": n(101)}, "room one hundred and one", "Zimmer einhunderteins"),
    ({"label": n(1)}, "on page one", "auf Seite eins"),
    ({"label": n(30)}, "minus thirty", "minus dreißig"),
    ({"decimal": say.decimal(3, [1, 4])}, "three point one four", "drei Komma eins vier"),
    ({"decimal": say.decimal(1, [5])}, "one point five", "eins Komma fünf"),
    ({"sum": say.addition(0, 7)}, "zero plus seven is seven", "null plus sieben ist sieben"),
    ({"percent": say.percent(1)}, "one percent", "ein Prozent"),
    ({"percent": say.percent(66)}, "sixty-six percent", "sechsundsechzig Prozent"),
    ({"approximately": w("more than"), "number": n(2_000)}, "more than two thousand", "mehr als zweitausend"),
    ({"approximately": w("about"), "number": n(11)}, "about eleven", "ungefähr elf"),
]
ORDINALS = [
    ({"the_nth": rank(1, "door")}, "the first door", "die erste Tür"),
    ({"the_nth": rank(3, "letter")}, "the third letter", "der dritte Brief"),
    ({"the_nth": rank(8, "child")}, "the eighth child", "das achte Kind"),
    ({"the_nth": rank(7, "guest")}, "for the seventh guest", "für den siebten Gast"),
    ({"the_nth": rank(16, "picture")}, "without the sixteenth picture", "ohne das sechzehnte Bild"),
    ({"the_nth": rank(20, "attempt")}, "with the twentieth attempt", "mit dem zwanzigsten Versuch"),
    ({"the_nth": rank(21, "lesson")}, "after the twenty-first lesson", "nach der einundzwanzigsten Lektion"),
    ({"the_nth": rank(101, "game")}, "before the one hundred and first game", "vor dem einhundertersten Spiel"),
    ({"nth": say.nth(3)}, "on the third floor", "im dritten Stock"),
    ({"nth": say.nth(1)}, "in the first row", "in der ersten Reihe"),
    ({"century": say.nth(21)}, "in the twenty-first century", "im einundzwanzigsten Jahrhundert"),
    ({"nth": say.nth(12)}, "in twelfth place", "auf dem zwölften Platz"),
    ({"nth": say.nth(7)}, "for the seventh time", "zum siebten Mal"),
    ({"the_nth_most": most(3, "largest", "castle")}, "the third largest castle", "das drittgrößte Schloss"),
    ({"the_nth_most": most(2, "oldest", "river")}, "the second oldest river", "der zweitälteste Fluss"),
    ({"king": king("Louis", 14)}, "Louis the Fourteenth", "Ludwig der Vierzehnte"),
    ({"king": king("Henry", 8)}, "Henry the Eighth", "Heinrich der Achte"),
]
MARCH_21, MAY_3, OCTOBER_31 = say.date(21, 3), say.date(3, 5), say.date(31, 10)
DATES = [
    ({"date": MARCH_21}, "the twenty-first of March", "der einundzwanzigste März"),
    ({"date": MARCH_21}, "on the twenty-first of March", "am einundzwanzigsten März"),
    ({"date": MAY_3}, "since the third of May", "seit dem dritten Mai"),
    ({"date": MAY_3}, "until the third of May", "bis zum dritten Mai"),
    ({"date": say.date(1, 1)}, "before the first of January", "vor dem ersten Januar"),
    ({"date": OCTOBER_31}, "after the thirty-first of October", "nach dem einunddreißigsten Oktober"),
    ({"date_of_year": say.date(7, 12, 1999)},
     "on the seventh of December nineteen ninety-nine", "am siebten Dezember neunzehnhundertneunundneunzig"),
    ({"date_of_year": say.date(8, 2, 2026)},
     "since the eighth of February twenty twenty-six", "seit dem achten Februar zweitausendsechsundzwanzig"),
    ({"weekday": w("Tuesday"), "date": say.date(16, 6)},
     "Tuesday, the sixteenth of June", "Dienstag, der sechzehnte Juni"),
    ({"weekday": w("Wednesday"), "date": say.date(20, 7)},
     "on Wednesday, the twentieth of July", "am Mittwoch, dem zwanzigsten Juli"),
    ({"date_range": say.date_range(MAY_3, OCTOBER_31)},
     "from the third of May to the thirty-first of October", "vom dritten Mai bis zum einunddreißigsten Oktober"),
    ({"days_of_month": say.days_of_month(3, 9, 5)},
     "from the third to the ninth of May", "vom dritten bis zum neunten Mai"),
    ({"year": say.calendar_year(1900)}, "in nineteen hundred", "im Jahr neunzehnhundert"),
    ({"year": say.calendar_year(2000)}, "since two thousand", "seit zweitausend"),
    ({"month": unchanging("August", "August"), "year": say.calendar_year(1805)},
     "in August eighteen oh five", "im August achtzehnhundertfünf"),
    ({"part_of_month": w("at the end of"), "month": unchanging("July", "Juli"), "year": say.calendar_year(2010)},
     "at the end of July twenty ten", "Ende Juli zweitausendzehn"),
    ({"part_of_month": w("at the beginning of"), "month": unchanging("May", "Mai"), "year": say.calendar_year(1966)},
     "at the beginning of May nineteen sixty-six", "Anfang Mai neunzehnhundertsechsundsechzig"),
    ({"season": w("autumn"), "year": say.calendar_year(1989)},
     "in the autumn of nineteen eighty-nine", "im Herbst neunzehnhundertneunundachtzig"),
]
TIMES = [
    ({"clock": at(7)}, "at seven o'clock", "um sieben Uhr"),
    ({"clock": at(1)}, "at one o'clock", "um ein Uhr"),
    ({"clock": at(7, 5)}, "at five past seven", "um fünf nach sieben"),
    ({"clock": at(3, 10)}, "at ten past three", "um zehn nach drei"),
    ({"clock": at(7, 15)}, "at a quarter past seven", "um Viertel nach sieben"),
    ({"clock": at(1, 15)}, "at a quarter past one", "um Viertel nach eins"),
    ({"clock": at(11, 20)}, "at twenty past eleven", "um zwanzig nach elf"),
    ({"clock": at(8, 25)}, "at twenty-five past eight", "um fünf vor halb neun"),
    ({"clock": at(7, 30)}, "at half past seven", "um halb acht"),
    ({"clock": at(12, 30)}, "at half past twelve", "um halb eins"),
    ({"clock": at(8, 35)}, "at twenty-five to nine", "um fünf nach halb neun"),
    ({"clock": at(8, 40)}, "at twenty to nine", "um zwanzig vor neun"),
    ({"clock": at(7, 45)}, "at a quarter to eight", "um Viertel vor acht"),
    ({"clock": at(12, 50)}, "at ten to one", "um zehn vor eins"),
    ({"clock": at(11, 55)}, "at five to twelve", "um fünf vor zwölf"),
    ({"clock": say.NOON}, "at noon", "um zwölf Uhr mittags"),
    ({"clock": say.MIDNIGHT}, "at midnight", "um Mitternacht"),
    ({"clock": at(7, 30)}, "since half past seven", "seit halb acht"),
    ({"clock": say.MIDNIGHT}, "until midnight", "bis Mitternacht"),
    ({"clock": at(4)}, "at about four o'clock", "gegen vier Uhr"),
    ({"full_hour": at(1)}, "shortly before one o'clock", "kurz vor ein Uhr"),
    ({"full_hour": at(12)}, "shortly after twelve o'clock", "kurz nach zwölf Uhr"),
    ({"exact_time": say.exact_time(15, 5)}, "at fifteen oh five", "um fünfzehn Uhr fünf"),
    ({"exact_time": say.exact_time(1, 1)}, "at one oh one", "um ein Uhr eins"),
    ({"exact_time": say.exact_time(21, 17)}, "at twenty-one seventeen", "um einundzwanzig Uhr siebzehn"),
    ({"time_of_day": daytime(7, 30, "in the evening")}, "at half past seven in the evening", "um halb acht abends"),
    ({"time_of_day": daytime(6, 0, "in the morning")}, "at six o'clock in the morning", "um sechs Uhr morgens"),
    ({"time_of_some_day": on_day("tomorrow evening", 7, 30)},
     "tomorrow evening at half past seven", "morgen Abend um halb acht"),
    ({"time_of_some_day": on_day("tomorrow morning", 9, 45)},
     "tomorrow morning at a quarter to ten", "morgen früh um Viertel vor zehn"),
    ({"day": w("today"), "clock": at(10)}, "today at ten o'clock", "heute um zehn Uhr"),
    ({"weekday": w("Thursday"), "clock": at(2, 30)}, "on Thursday at half past two", "am Donnerstag um halb drei"),
    ({"weekday": w("Sunday"), "clock": at(9, 15)},
     "every Sunday at a quarter past nine", "jeden Sonntag um Viertel nach neun"),
    ({"weekday": w("Friday"), "exact_time": say.exact_time(13, 40)},
     "on Friday at thirteen forty", "am Freitag um dreizehn Uhr vierzig"),
    ({"weekday": w("Saturday"), "part_of_weekday": w("evening")}, "on Saturday evening", "am Samstagabend"),
    ({"clock_range": span((7, 30), (9,))}, "from half past seven to nine o'clock", "von halb acht bis neun Uhr"),
    ({"weekday": w("Monday"), "clock_range": span((12, 45), (1, 15))},
     "on Monday from a quarter to one to a quarter past one", "am Montag von Viertel vor eins bis Viertel nach eins"),
]
PRICES = [
    ({"price": say.price(1, 0, EURO)}, "one euro", "ein Euro"),
    ({"price": say.price(0, 1, EURO)}, "one cent", "ein Cent"),
    ({"price": say.price(2, 0, POUND)}, "two pounds", "zwei Pfund"),
    ({"price": say.price(3, 50, EURO)}, "three euros and fifty cents", "drei Euro und fünfzig Cent"),
    ({"price": say.price(21, 1, POUND)}, "twenty-one pounds and one penny", "einundzwanzig Pfund und ein Penny"),
    ({"price": say.short_price(3, 50, EURO)}, "three euros fifty", "drei Euro fünfzig"),
    ({"price": say.price(1, 99, DOLLAR)},
     "for one dollar and ninety-nine cents", "für einen Dollar und neunundneunzig Cent"),
    ({"price": say.price(1, 1, POUND)}, "for one pound and one penny", "für ein Pfund und einen Penny"),
    ({"price": say.price(1, 0, EURO), "priced_per": w("person")}, "one euro per person", "ein Euro pro Person"),
    ({"approximately": w("at least"), "whole_price": say.price(1_000, 0, EURO)},
     "at least one thousand euros", "mindestens eintausend Euro"),
    ({"price": say.price(1, 1, EURO)}, "a price of one euro and one cent", "ein Preis von einem Euro und einem Cent"),
    ({"price": say.short_price(1, 20, EURO), "thing": def_("hat")},
     "one euro twenty for the hat", "ein Euro zwanzig für den Hut"),
]
QUANTITIES = [
    ({"things": some(1, "apple")}, "one apple", "ein Apfel"),
    ({"things": some(1, "flower", "blue")}, "one blue flower", "eine blaue Blume"),
    ({"things": some(1, "car", "red")}, "one red car", "ein rotes Auto"),
    ({"things": some(21, "shirt", "white")}, "twenty-one white shirts", "einundzwanzig weiße Hemden"),
    ({"groceries": of(2, "litre", "milk")}, "two litres of milk", "zwei Liter Milch"),
    ({"groceries": of(1, "cup", "tea")}, "one cup of tea", "eine Tasse Tee"),
    ({"groceries": of(7, "bottle", "wine")}, "seven bottles of wine", "sieben Flaschen Wein"),
    ({"things": some(3, "coat", "old")}, "with three old coats", "mit drei alten Mänteln"),
    ({"things": some(2, "car")}, "with two cars", "mit zwei Autos"),
    ({"things": some(1, "bag", "big")}, "with one big bag", "mit einer großen Tasche"),
    ({"things": some(1, "hat", "green")}, "without one green hat", "ohne einen grünen Hut"),
    ({"approximately": w("almost"), "several_things": some(30, "chair")},
     "almost thirty chairs", "fast dreißig Stühle"),
    ({"things": some(1, "bicycle", "small"), "things_2": some(2, "lamp", "new")},
     "one small bicycle and two new lamps", "ein kleines Fahrrad und zwei neue Lampen"),
    ({"groceries": of(1, "piece", "cake"), "people": some(1, "guest")},
     "one piece of cake for one guest", "ein Stück Kuchen für einen Gast"),
    ({"people": counted(4, lexicon.PEOPLE[0])}, "a table for four people", "ein Tisch für vier Personen"),
    ({"people": some(12, "friend")}, "together with twelve friends", "zusammen mit zwölf Freunden"),
]
DURATIONS = [
    ({"duration": some(1, "year")}, "one year", "ein Jahr"),
    ({"short_duration": some(1, "hour")}, "one hour", "eine Stunde"),
    ({"short_duration": say.and_a_half(2, NOUNS["hour"])}, "two and a half hours", "zweieinhalb Stunden"),
    ({"short_duration": say.hours_and_minutes(1, 20)},
     "one hour and twenty minutes", "eine Stunde und zwanzig Minuten"),
    ({"duration": some(3, "day")}, "in three days", "in drei Tagen"),
    ({"duration": some(1, "month")}, "in one month", "in einem Monat"),
    ({"short_duration": say.HALF_AN_HOUR}, "in half an hour", "in einer halben Stunde"),
    ({"short_duration": say.hours_and_minutes(1, 1)}, "in one hour and one minute", "in einer Stunde und einer Minute"),
    ({"duration": some(1, "week")}, "one week ago", "vor einer Woche"),
    ({"duration": some(17, "year")}, "seventeen years ago", "vor siebzehn Jahren"),
    ({"short_duration": say.A_QUARTER_OF_AN_HOUR}, "a quarter of an hour ago", "vor einer Viertelstunde"),
    ({"short_duration": say.AN_HOUR_AND_A_HALF}, "after an hour and a half", "nach anderthalb Stunden"),
    ({"duration": some(6, "month")}, "within six months", "innerhalb von sechs Monaten"),
    ({"several": some(3, "day")}, "every three days", "alle drei Tage"),
    ({"several": some(11, "day")}, "for the next eleven days", "für die nächsten elf Tage"),
    ({"several": some(11, "day")}, "in the last eleven days", "in den letzten elf Tagen"),
    ({"frequency": often(1, "a day")}, "once a day", "einmal am Tag"),
    ({"frequency": often(2, "a week")}, "twice a week", "zweimal in der Woche"),
    ({"frequency": often(3, "a year")}, "three times a year", "dreimal im Jahr"),
]
AGES = [
    ({"aged": old(7, "girl")}, "a seven-year-old girl", "ein siebenjähriges Mädchen"),
    ({"aged": old(17, "girl")}, "a seventeen-year-old girl", "ein siebzehnjähriges Mädchen"),
    ({"aged": old(8, "boy")}, "an eight-year-old boy", "ein achtjähriger Junge"),
    ({"aged": old(1, "cat")}, "a one-year-old cat", "eine einjährige Katze"),
    ({"aged": old(18, "woman")}, "an eighteen-year-old woman", "eine achtzehnjährige Frau"),
    ({"aged": old(11, "boy")}, "with an eleven-year-old boy", "mit einem elfjährigen Jungen"),
    ({"aged": old(21, "woman")}, "with a twenty-one-year-old woman", "mit einer einundzwanzigjährigen Frau"),
    ({"years": some(1, "year")}, "one year old", "ein Jahr alt"),
    ({"round_age": n(66)}, "at the age of sixty-six", "im Alter von sechsundsechzig Jahren"),
    ({"possessive": HER, "nth": say.nth(30)}, "on her thirtieth birthday", "an ihrem dreißigsten Geburtstag"),
    ({"person": w("he"), "years": some(21, "year")}, "He is twenty-one years old.", "Er ist einundzwanzig Jahre alt."),
    ({"years": some(30, "year")}, "I am thirty years old.", "Ich bin dreißig Jahre alt."),
    ({"baby_age": some(1, "month")}, "The baby is one month old.", "Das Baby ist einen Monat alt."),
    ({"person": w("Anna"), "round_age": n(30), "date": MAY_3},
     "Anna turns thirty on the third of May.", "Anna wird am dritten Mai dreißig."),
    ({"relative": w("my sister"), "few_years": some(1, "year"), "name": w("Paul")},
     "My sister is one year older than Paul.", "Meine Schwester ist ein Jahr älter als Paul."),
    ({"possessive": MY, "nth": say.nth(3)}, "Today is my third birthday.", "Heute ist mein dritter Geburtstag."),
    ({"possessive": HIS, "nth": say.nth(77)},
     "Today is his seventy-seventh birthday.", "Heute ist sein siebenundsiebzigster Geburtstag."),
]
MEETING, EXAM, CONCERT, TRAIN = def_("meeting"), def_("exam"), def_("concert"), def_("train")
BERLIN, VIENNA, COLOGNE, ZURICH = w("Berlin"), w("Vienna"), w("Cologne"), w("Zurich")
SENTENCES = [
    ({"clock": at(2, 25)}, "It is twenty-five past two.", "Es ist fünf vor halb drei."),
    ({"weekday": w("Monday"), "date": MARCH_21},
     "Today is Monday, the twenty-first of March.", "Heute ist Montag, der einundzwanzigste März."),
    ({"event": def_("wedding"), "date": MAY_3},
     "The wedding is on the third of May.", "Die Hochzeit ist am dritten Mai."),
    ({"event": MEETING, "date": MARCH_21, "clock": at(7, 30)},
     "The meeting is on the twenty-first of March at half past seven.",
     "Die Sitzung ist am einundzwanzigsten März um halb acht."),
    ({"event": CONCERT, "date": OCTOBER_31},
     "The concert takes place on the thirty-first of October.",
     "Das Konzert findet am einunddreißigsten Oktober statt."),
    ({"event": EXAM, "weekday": w("Friday"), "date": MAY_3},
     "The exam takes place on Friday, the third of May.", "Die Prüfung findet am Freitag, dem dritten Mai, statt."),
    ({"event": def_("lecture"), "clock": at(9, 45)},
     "The lecture starts at a quarter to ten.", "Der Vortrag beginnt um Viertel vor zehn."),
    ({"event": def_("course"), "weekday": w("Wednesday"), "clock": at(6)},
     "The course starts on Wednesday at six o'clock.", "Der Kurs beginnt am Mittwoch um sechs Uhr."),
    ({"event": def_("game"), "time_of_day": daytime(4, 10, "in the afternoon")},
     "The game ends at ten past four in the afternoon.", "Das Spiel endet um zehn nach vier nachmittags."),
    ({"event": EXAM, "clock": at(8)},
     "Tomorrow the exam starts at eight o'clock.", "Morgen beginnt die Prüfung um acht Uhr."),
    ({"event": CONCERT, "short_duration": say.hours_and_minutes(1, 30)},
     "The concert lasts one hour and thirty minutes.", "Das Konzert dauert eine Stunde und dreißig Minuten."),
    ({"event": MEETING, "short_duration": some(1, "minute")},
     "The meeting starts in one minute.", "Die Sitzung beginnt in einer Minute."),
    ({"place": def_("library"), "clock_range": span((9,), (1, 30))},
     "The library is open from nine o'clock to half past one.",
     "Die Bibliothek ist von neun Uhr bis halb zwei geöffnet."),
    ({"place": def_("office"), "date": say.date(24, 12)},
     "The office is closed on the twenty-fourth of December.",
     "Das Büro ist am vierundzwanzigsten Dezember geschlossen."),
    ({"place": def_("market"), "clock": say.NOON},
     "Is the market open until noon?", "Ist der Markt bis zwölf Uhr mittags geöffnet?"),
    ({"train": def_("night train"), "city": ZURICH, "exact_time": say.exact_time(23, 7)},
     "The night train to Zurich leaves at twenty-three oh seven.",
     "Der Nachtzug nach Zürich fährt um dreiundzwanzig Uhr sieben ab."),
    ({"train": TRAIN, "city": VIENNA, "clock": at(8, 35)},
     "The train to Vienna leaves at twenty-five to nine.", "Der Zug nach Wien fährt um fünf nach halb neun ab."),
    ({"train": def_("bus"), "city": COLOGNE, "clock": at(5, 20)},
     "The bus from Cologne arrives at twenty past five.", "Der Bus aus Köln kommt um zwanzig nach fünf an."),
    ({"train": TRAIN, "city": BERLIN, "clock": at(1)},
     "Does the train to Berlin leave at one o'clock?", "Fährt der Zug nach Berlin um ein Uhr ab?"),
    ({"name": w("Maria"), "vehicle": def_("ferry"), "clock": at(3, 30)},
     "Maria says that the ferry leaves at half past three.", "Maria sagt, dass die Fähre um halb vier abfährt."),
    ({"city": w("Munich"), "platform": n(1)},
     "The train to Munich leaves from platform one.", "Der Zug nach München fährt von Gleis eins ab."),
    ({"city": w("Hamburg"), "clock": at(7, 30)},
     "We have to be in Hamburg by half past seven.", "Wir müssen bis halb acht in Hamburg sein."),
    ({"person": w("my father"), "clock": at(6, 15)},
     "My father gets up at a quarter past six.", "Mein Vater steht um Viertel nach sechs auf."),
    ({"person": w("she"), "weekday": w("Saturday"), "clock": at(11)},
     "She is coming on Saturday at eleven o'clock.", "Sie kommt am Samstag um elf Uhr."),
    ({"person": w("our grandmother"), "date_of_year": say.date(3, 10, 1936)},
     "Our grandmother was born on the third of October nineteen thirty-six.",
     "Unsere Großmutter wurde am dritten Oktober neunzehnhundertsechsunddreißig geboren."),
    ({"person": w("her son"), "recent_year": say.calendar_year(2001)},
     "Her son was born in two thousand and one.", "Ihr Sohn wurde im Jahr zweitausendeins geboren."),
    ({"building": def_("tower"), "year": say.calendar_year(1600)},
     "The tower was built in sixteen hundred.", "Der Turm wurde im Jahr sechzehnhundert gebaut."),
    ({"thing": def_("shirt"), "price": say.price(1, 0, EURO)},
     "The shirt costs one euro.", "Das Hemd kostet einen Euro."),
    ({"thing": def_("coat")}, "How much is the coat?", "Wie viel kostet der Mantel?"),
    ({"several_things": some(3, "apple", "red")}, "How much are three red apples?", "Wie viel kosten drei rote Äpfel?"),
    ({"person": w("Anna"), "price": say.price(1, 80, EURO), "thing": def_("apple")},
     "Anna paid one euro and eighty cents for the apple.",
     "Anna hat einen Euro und achtzig Cent für den Apfel bezahlt."),
    ({"person": w("my brother"), "whole_price": say.price(2_345, 0, DOLLAR)},
     "My brother earns two thousand three hundred and forty-five dollars per month.",
     "Mein Bruder verdient zweitausenddreihundertfünfundvierzig Dollar pro Monat."),
    ({"person": w("his daughter"), "things": some(1, "table", "white")},
     "His daughter bought one white table.", "Seine Tochter hat einen weißen Tisch gekauft."),
    ({"person": w("Peter"), "things": some(3, "book", "old"), "whole_price": say.price(12, 0, POUND)},
     "Peter sold three old books for twelve pounds.", "Peter hat drei alte Bücher für zwölf Pfund verkauft."),
    ({"things": some(1, "coat", "blue")}, "I have one blue coat.", "Ich habe einen blauen Mantel."),
    ({"groceries": of(1, "litre", "oil")}, "We need one litre of oil.", "Wir brauchen einen Liter Öl."),
    ({"many_guests": some(1_016, "guest")},
     "We are expecting one thousand and sixteen guests.", "Wir erwarten eintausendsechzehn Gäste."),
    ({"nth": say.nth(1)}, "We live on the first floor.", "Wir wohnen im ersten Stock."),
    ({"the_nth": rank(70, "lesson")}, "This is the seventieth lesson.", "Das ist die siebzigste Lektion."),
    ({"person": w("Julia"), "the_nth_readable": rank(7, "letter")},
     "Julia is reading the seventh letter.", "Julia liest den siebten Brief."),
    ({"person": w("Thomas"), "nth": say.nth(100)},
     "Thomas is here for the one hundredth time.", "Thomas ist zum hundertsten Mal hier."),
    ({"person": w("Peter"), "duration": some(16, "month")},
     "Peter has been working here for sixteen months.", "Peter arbeitet seit sechzehn Monaten hier."),
    ({"person": w("my mother"), "short_duration": say.HALF_AN_HOUR},
     "My mother waited half an hour.", "Meine Mutter hat eine halbe Stunde gewartet."),
    ({"person": w("Paul"), "frequency": often(1, "a month")},
     "Paul comes once a month.", "Paul kommt einmal im Monat."),
]
# fmt: on
HAND_CHECKED = {
    "numbers": NUMBERS,
    "ordinals": ORDINALS,
    "dates": DATES,
    "times": TIMES,
    "prices": PRICES,
    "quantities": QUANTITIES,
    "durations": DURATIONS,
    "ages": AGES,
    "sentences": SENTENCES,
}
CASES = [(kind, *case) for kind in KINDS for case in HAND_CHECKED[kind.name]]


def template_of(kind, phrases, english):
    """The one template of the kind that makes this English of these phrases."""
    same_slots = [each for each in kind.templates if set(slots_of(each)) == phrases.keys()]
    (template,) = [each for each in same_slots if fill(each, phrases)[0] == english]
    return template


@pytest.mark.parametrize(("kind", "phrases", "english", "german"), CASES, ids=[case[2] for case in CASES])
def test_hand_checked(kind, phrases, english, german):
    assert fill(template_of(kind, phrases, english), phrases) == (english, german)


def test_every_template_is_hand_checked():
    for kind in KINDS:
        checked = {template_of(kind, phrases, english) for phrases, english, _ in HAND_CHECKED[kind.name]}
        assert checked == set(kind.templates)


def test_samples_are_hand_checked():
    checked = {careless(english): german for _, _, english, german in CASES}
    assert {careless(english): german for english, german in SAMPLE_PAIRS}.items() <= checked.items()
