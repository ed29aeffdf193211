"""The default corpus: English number words, dates, clock times, prices and sentences around them, with their German.

It needs no network, is the same on every machine, and is real translation: German puts the ones before the tens,
the verb last in a clause, and an ending on nearly every word.

    lexicon      the words of both languages
    numerals     21 → "twenty-one", "einundzwanzig"
    german       cases, genders, endings
    expressions  dates, clock times, prices, … as phrases
    slots        a random one of each
    templates    the phrases and sentences around them, sorted by kind
    corpus       distinct pairs, split and written
"""

from minitf.corpora.phrases.corpus import SAMPLE_PAIRS, SAMPLES, Corpus, generate_corpus, write_corpus

__all__ = ["SAMPLES", "SAMPLE_PAIRS", "Corpus", "generate_corpus", "write_corpus"]
