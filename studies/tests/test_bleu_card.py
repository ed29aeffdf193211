"""The BLEU card: each figure against its definition, the intervals against another bootstrap."""

import math
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from minitf.errors import UserError
from minitf.evaluation.metrics import bleu
from studies.bleu_card import (
    bleu_card,
    bootstrap_interval,
    line_statistics,
    looks_tokenized,
    render,
    replace_unicode_punctuation,
    split_compounds,
    tokenizer,
)
from studies.tests.cards import HYPOTHESES, REFERENCES, card


def multi_bleu(hypotheses, references):
    """BLEU of tokens between spaces, as multi-bleu.perl computes it: no smoothing."""
    right, total = [0] * 4, [0] * 4
    lengths = [0, 0]
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        h, r = hypothesis.split(), reference.split()
        lengths[0] += len(h)
        lengths[1] += len(r)
        for n in range(4):
            grams = [Counter(zip(*(words[i:] for i in range(n + 1)), strict=False)) for words in (h, r)]
            right[n] += sum((grams[0] & grams[1]).values())
            total[n] += sum(grams[0].values())
    brevity = min(1.0, math.exp(1 - lengths[1] / lengths[0]))
    return 100 * brevity * math.exp(sum(math.log(a / b) for a, b in zip(right, total, strict=True)) / 4)


@pytest.mark.heavy
def test_sacrebleus_figures():
    found = card()
    for name, options in {
        "sacreBLEU 13a, cased": {},
        "sacreBLEU 13a, lower case": {"lowercase": True},
        "sacreBLEU intl, cased": {"tokenize": "intl"},
        "sacreBLEU intl, lower case": {"tokenize": "intl", "lowercase": True},
        "tokenized, cased": {"tokenize": "none"},
        "tokenized, lower case": {"tokenize": "none", "lowercase": True},
    }.items():
        expected = bleu(HYPOTHESES, REFERENCES, **options)
        assert (found[name].score, found[name].signature) == (expected.score, expected.signature)
    assert len({round(figure.score, 3) for figure in found.values()}) == 7  # so that none can stand for another


def test_the_tokenized_figure_is_multi_bleus():
    assert card()["tokenized, cased"].score == pytest.approx(multi_bleu(HYPOTHESES, REFERENCES), rel=1e-12)


def test_the_papers_figure():
    """Tokens and compounds by hand, then multi-bleu."""
    references = [
        "Ein Mann in der U ##AT##-##AT## Bahn ##AT##-##AT## Station liest , was er mag .",
        "Zwei Hunde spielen im Schnee vor dem Haus .",
        "Die Frau sagt : „ Komm her ! &quot; und lacht laut .",
        "Das kostet 3,50 Euro und nicht mehr .",
    ] * 5
    hypotheses = [
        "Ein Mann in der U ##AT##-##AT## Bahn ##AT##-##AT## Haltestelle liest , was er will .",
        "zwei Hunde spielen im Schnee .",
        "Die Frau sagt : &quot; Komm her ! &quot; und lacht sehr laut .",
        "Das kostet 3,50 Euro und nicht mehr .",
    ] * 5
    figure = card()["the paper's, cased"]
    assert figure.score == pytest.approx(multi_bleu(hypotheses, references), rel=1e-12)
    assert "tok:moses-de+compounds" in figure.signature


# ---- Intervals ---------------------------------------------------------------------------------------------------


def test_line_statistics_add_up_to_the_corpus():
    total = line_statistics(HYPOTHESES, REFERENCES, False, "13a").sum(axis=0)
    whole = bleu(HYPOTHESES, REFERENCES)
    assert total[8:].tolist() == [whole.result.sys_len, whole.result.ref_len]
    assert [100 * a / b for a, b in zip(total[:4], total[4:8], strict=True)] == pytest.approx(whole.result.precisions)


def varied(count):
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(30)]
    references = [" ".join(rng.choice(words, 12)) for _ in range(count)]
    hypotheses = [
        " ".join(word if rng.random() < 0.8 else "x" for word in line.split()[: int(rng.integers(8, 13))])
        for line in references
    ]
    return hypotheses, references


@pytest.mark.heavy
def test_the_interval_is_that_of_another_bootstrap():
    """sacrebleu's own, which draws other samples. One of 90 % would be 16 % narrower."""
    from sacrebleu.metrics.bleu import BLEU

    hypotheses, references = varied(200)
    low, high = bootstrap_interval(hypotheses, references, False, "13a", resamples=4000)
    result = BLEU().corpus_score(hypotheses, [references], n_bootstrap=4000)
    expected = (result._mean - result._ci, result._mean + result._ci)
    assert (low, high) == pytest.approx(expected, abs=0.1 * (high - low))
    assert high - low == pytest.approx(2 * result._ci, rel=0.07)
    assert low < result.score < high


def test_more_lines_narrow_the_interval():
    widths = []
    for count in (50, 800):
        low, high = bootstrap_interval(*varied(count), False, "none", 300)
        widths.append(high - low)
    assert widths[1] == pytest.approx(widths[0] / 4, rel=0.35)


def test_the_same_card_each_time_and_no_interval_where_there_is_no_doubt():
    assert card() == card()
    figures = bleu_card(REFERENCES, REFERENCES, resamples=20)
    assert {(round(f.score, 9), round(f.low, 9), round(f.high, 9)) for f in figures} == {(100.0, 100.0, 100.0)}


# ---- The text ----------------------------------------------------------------------------------------------------


def test_text_that_has_been_tokenized_is_seen():
    assert looks_tokenized(["ein mann .", "zwei hunde . ", "wer ?", "so."])
    assert not looks_tokenized(REFERENCES)
    lines = render(bleu_card(["a b c d ."], ["a b c d ."], resamples=2), tokenized=True).splitlines()
    assert ["*" in line for line in lines[1:8]] == [True] * 4 + [False] * 2 + [True]


def test_that_text_is_tokenized_is_told_by_the_card_alone(caplog):
    bleu_card(["a b c d ."] * 200, ["a b c d ."] * 200, resamples=2)
    assert caplog.records == []


def test_no_lines_cannot_be_scored():
    with pytest.raises(UserError, match="no line to score"):
        bleu_card([], [])


# ---- The tokenization of the paper -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "line", "expected"),
    [
        ("de", "Ein Mann, der schläft.", "Ein Mann , der schläft ."),
        ("de", "  Zwei   Wörter ", "Zwei Wörter"),
        ("de", "Das kostet 1.234,50 Euro (oder mehr)!", "Das kostet 1.234,50 Euro ( oder mehr ) !"),
        ("de", "5, 6 und 7", "5 , 6 und 7"),
        ("de", "Am 3. Mai kam Dr. Müller, z.B. heute.", "Am 3. Mai kam Dr. Müller , z.B. heute ."),
        ("de", "Er kam. dann ging er", "Er kam. dann ging er"),  # lower case follows: no end of a sentence
        ("de", "Er kam. Dann ging er", "Er kam . Dann ging er"),
        ("de", "Und dann ... weiter..", "Und dann ... weiter .."),
        ("de", "das geht's so", "das geht &apos; s so"),
        ("de", 'A & B | <x> [y] "z"', "A &amp; B &#124; &lt; x &gt; &#91; y &#93; &quot; z &quot;"),
        ("de", "U-Bahn-Station", "U-Bahn-Station"),
        ("de", "a_b", "a _ b"),
        ("de", "", ""),
        ("de", "a\x00b\x1f", "ab"),
        (
            "en",
            "it's the dog's 1990's 'so' dogs'",
            "it &apos;s the dog &apos;s 1990 &apos;s &apos; so &apos; dogs&apos;",
        ),
        ("en", "No. 5 is Mr. Smith. No. It is", "No. 5 is Mr. Smith . No . It is"),
        ("fr", "l'eau d'un lac 'si'", "l&apos; eau d&apos; un lac &apos; si&apos;"),
        ("en", "sitting in an adult'", "sitting in an adult&apos;"),  # a line of Multi30k, as Moses tokenized it
    ],
)
def test_tokenization(language, line, expected):
    assert tokenizer(language)(line) == expected


def test_a_language_that_is_not_known():
    with pytest.raises(ValueError, match="language='xx' is unknown; choose one of de, en, fr"):
        tokenizer("xx")


def test_punctuation():
    assert replace_unicode_punctuation("“Ja”，sagt…er。 Nein（５％）") == '"Ja",sagt...er. Nein(5%)'
    assert replace_unicode_punctuation("„so“ – ‚nicht‘") == '„so" – ‚nicht‘'


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Nord-Süd-Fahrt", "Nord ##AT##-##AT## Süd ##AT##-##AT## Fahrt"),
        ("a-b-c", "a ##AT##-##AT## b-c"),  # the letter between is used up, as in Perl
        ("ein - Strich", "ein - Strich"),
        ("-Wort und Wort-", "-Wort und Wort-"),
        ("a--b", "a ##AT##-##AT## -b"),
    ],
)
def test_compounds(line, expected):
    assert split_compounds(line) == expected


DATA = Path(os.environ.get("MINITF_DATA", "-"), "multi30k")


@pytest.mark.skipif(not DATA.is_dir(), reason="MINITF_DATA names no folder of corpora")
@pytest.mark.parametrize("language", ["de", "en", "fr"])
def test_multi30k_as_its_authors_tokenized_it(language):
    """Lines without quotation marks and dashes, which its authors normalised first."""
    tokenize = tokenizer(language)
    lines = [
        (tokenize(raw.lower()), tokenized)
        for split in ("train", "val", "test_2016_flickr")
        for raw, tokenized in zip(
            (DATA / "raw" / f"{split}.{language}").read_text().split("\n"),
            (DATA / "tok" / f"{split}.{language}").read_text().split("\n"),
            strict=True,
        )
        if not set(raw) & set("„“”\"'‘’«»´`–")
    ]
    assert len(lines) > 18_000
    assert [pair for pair in lines if pair[0] != pair[1]] == []
