"""Moses' tokenization, rule by rule, and against a corpus that its authors tokenized with Moses."""

import os
from pathlib import Path

import pytest

from minitf.evaluation.moses import replace_unicode_punctuation, split_compounds, tokenizer


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
