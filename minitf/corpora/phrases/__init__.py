"""The built-in corpus: English number words, dates, clock times, prices and sentences with them, and their German.

It needs no network, is the same on every machine, and is real translation: German puts the ones before the tens and the
verb last in a clause, and inflects nearly every word.

    lexicon        the words of both languages
    numerals       21 → "twenty-one", "einundzwanzig"
    german         cases, genders, endings
    expressions    dates, clock times, prices, … as phrases
    slots          random phrases of each sort
    templates      phrases and sentences with slots, by kind
    phrase_corpus  distinct pairs, split and written
"""

from minitf.corpora.phrases.phrase_corpus import SAMPLE_PAIRS, SAMPLES, Corpus, generate_corpus, write_corpus

__all__ = ["SAMPLES", "SAMPLE_PAIRS", "Corpus", "generate_corpus", "write_corpus"]
