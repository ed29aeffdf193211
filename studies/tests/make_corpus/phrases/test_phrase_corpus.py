import os
import subprocess
import sys
from collections import Counter

import pytest

from minitf.corpora.built_in import SAMPLE_PAIRS, Corpus
from minitf.errors import UserError
from studies.make_corpus.phrases import phrase_corpus
from studies.make_corpus.phrases.phrase_corpus import careless, distinct_pairs, generate_corpus
from studies.make_corpus.phrases.templates import KINDS, Kind, random_pair
from studies.make_corpus.portable_random import PortableRandom

pytestmark = pytest.mark.slow  # the texts that the grammar wrote are pinned by their hashes

SMALL = {"train_pairs": 300, "valid_pairs": 20, "test_pairs": 30}


@pytest.fixture(scope="module")
def default():
    return generate_corpus()


@pytest.fixture(scope="module")
def kind_of():
    """The kind of each German line of the default corpus, noted while drawing it again."""
    kinds: dict[str, str] = {}

    def noting(kind, rng):
        english, german = random_pair(kind, rng)
        kinds[german] = kind.name
        return english, german

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(phrase_corpus, "random_pair", noting)
        generate_corpus()
    return kinds


def test_sizes(default):
    assert (len(default.train), len(default.valid), len(default.test)) == (30_000, 1_000, 1_000)
    small = generate_corpus(**SMALL)
    assert (len(small.train), len(small.valid), len(small.test)) == (300, 20, 30)
    assert generate_corpus(train_pairs=0, valid_pairs=0, test_pairs=0) == Corpus([], [], [])


def test_no_line_occurs_twice_on_either_side(default):
    for side in (0, 1):
        lines = [pair[side] for pairs in (default.train, default.valid, default.test) for pair in pairs]
        assert len(set(lines)) == len(lines)


def test_no_held_out_line_is_in_training_even_in_other_spelling(default):
    trained = {careless(english) for english, _ in default.train}
    assert not [english for english, _ in default.valid + default.test if careless(english) in trained]


def test_no_sample_is_in_the_corpus(default):
    assert 5 <= len(SAMPLE_PAIRS) <= 8
    samples = {careless(english) for english, _ in SAMPLE_PAIRS}
    answers = {german for _, german in SAMPLE_PAIRS}
    for english, german in default.train + default.valid + default.test:
        assert careless(english) not in samples
        assert german not in answers


def test_samples_would_be_drawn_if_nothing_forbade_it(monkeypatch):
    """Else the test above proves nothing."""
    kind = Kind("hours", 1, (("at {clock}", "um {clock}"),))
    assert SAMPLE_PAIRS[0] not in distinct_pairs(PortableRandom(0), 140, (kind,))
    monkeypatch.setattr(phrase_corpus, "SAMPLE_PAIRS", ())
    drawn = [(careless(english), german) for english, german in distinct_pairs(PortableRandom(0), 140, (kind,))]
    assert SAMPLE_PAIRS[0] in drawn


def test_held_out_pairs_are_a_fair_sample(default, kind_of):
    """Every kind has about the same share in each of the three: within four standard deviations."""
    shares = {name: count / 30_000 for name, count in Counter(kind_of[german] for _, german in default.train).items()}
    assert shares.keys() == {kind.name for kind in KINDS}
    for pairs in (default.valid, default.test):
        counts = Counter(kind_of[german] for _, german in pairs)
        for name, share in shares.items():
            deviation = (len(pairs) * share * (1 - share)) ** 0.5
            assert abs(counts[name] - len(pairs) * share) < 4 * deviation, name


def test_held_out_pairs_are_not_simply_the_first_drawn():
    """What is drawn late is rarer, for the common phrases of a kind are drawn already."""
    small, drawn = generate_corpus(**SMALL), distinct_pairs(PortableRandom(2017), 350)
    assert sorted(small.train + small.valid + small.test) == sorted(drawn)
    assert len(set(small.valid + small.test) & set(drawn[:50])) < 20


def test_every_kind_has_about_the_share_it_is_given(default, kind_of):
    counts = Counter(kind_of[german] for _, german in default.train)
    assert sum(kind.share for kind in KINDS) == 100
    for kind in KINDS:
        assert counts[kind.name] / 30_000 == pytest.approx(kind.share / 100, rel=0.08), kind.name


def test_one_in_eight_is_careless(default):
    lowered = [english for english, german in default.train if german[-1] == "." and english[-1] != "."]
    sentences = [english for english, german in default.train if german[-1] == "."]
    assert len(lowered) / len(sentences) == pytest.approx(phrase_corpus.CARELESS, abs=0.02)
    assert careless("The exam is on Monday.") == "the exam is on monday"
    assert careless("Is the shop open?") == "is the shop open?"


def test_the_seed_decides(default):
    assert generate_corpus(1, **SMALL) == generate_corpus(1, **SMALL)
    assert generate_corpus(1, **SMALL) != generate_corpus(2, **SMALL)


@pytest.mark.parametrize("hash_seed", ["0", "1", "4242"])
def test_same_corpus_whatever_the_hash_seed(hash_seed):
    script = (
        f"from studies.make_corpus.phrases.phrase_corpus import generate_corpus; print(generate_corpus(**{SMALL!r}))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONIOENCODING": "utf-8"}
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True)
    assert run.stdout.decode().strip() == repr(generate_corpus(**SMALL))


@pytest.mark.parametrize("name", ["seed", "train_pairs", "valid_pairs", "test_pairs"])
def test_negative_numbers_are_refused(name):
    with pytest.raises(UserError, match=rf"{name}=-1 is negative"):
        generate_corpus(**{**SMALL, name: -1})


WEEKDAYS = Kind("weekdays", 3, (("on {weekday}", "am {weekday}"),))
SEASONS = Kind("seasons", 1, (("in {season}", "im {season}"),))


def test_a_kind_that_is_used_up_leaves_the_rest_to_the_others():
    pairs = distinct_pairs(PortableRandom(0), 11, (WEEKDAYS, SEASONS))
    assert Counter(english.split()[0] for english, _ in pairs) == {"on": 7, "in": 4}


def test_too_many_pairs_are_refused():
    with pytest.raises(UserError, match="all phrases are used up after 11 of 12 pairs; ask for fewer"):
        distinct_pairs(PortableRandom(0), 12, (WEEKDAYS, SEASONS))
