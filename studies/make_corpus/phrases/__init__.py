"""The grammar of the built-in corpus: English phrases with numbers, dates and clock times, and their German.

lexicon        the words of both languages
numerals       21 → "twenty-one", "einundzwanzig"
german         cases, genders, endings
expressions    dates, clock times, prices, … as phrases
slots          random phrases of each sort
templates      phrases and sentences with slots, by kind
phrase_corpus  distinct pairs, split
"""
