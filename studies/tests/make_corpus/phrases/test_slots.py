"""What is drawn at random, looked at in bulk."""

import re

import pytest

from studies.make_corpus.phrases.phrase_corpus import careless
from studies.make_corpus.phrases.slots import SLOTS
from studies.make_corpus.phrases.templates import KINDS, random_pair, slots_of
from studies.make_corpus.portable_random import PortableRandom

pytestmark = pytest.mark.slow  # the texts that the grammar wrote are pinned by their hashes

TEMPLATES = [template for kind in KINDS for template in kind.templates]


def test_both_sides_of_a_template_have_the_same_slots():
    for english, german in TEMPLATES:
        german_slots = {name.partition(".")[0] for name in slots_of((german, english))}
        assert set(slots_of((english, german))) == german_slots, english


def test_every_slot_is_used():
    used = {name.removesuffix("_2") for template in TEMPLATES for name in slots_of(template)}
    assert used == SLOTS.keys()


@pytest.fixture(scope="module")
def drawn():
    """Some thousands of random pairs of each kind."""
    rng = PortableRandom(1)
    return {kind.name: [random_pair(kind, rng) for _ in range(6_000)] for kind in KINDS}


def test_one_english_has_one_german(drawn):
    german_of: dict[str, str] = {}
    for pairs in drawn.values():
        for english, german in pairs:
            assert german_of.setdefault(careless(english), german) == german, english


def test_orthography(drawn):
    for pairs in drawn.values():
        for english, german in pairs:
            assert re.fullmatch(r"[A-Za-z',.?\- ]+", english), english
            assert re.fullmatch(r"[A-Za-zÄÖÜäöüß,.? ]+", german), german
            assert "  " not in english + german
            assert (english.strip(), german.strip()) == (english, german)
            assert (english[-1] in ".?") == (german[-1] in ".?"), english
            if german[-1] in ".?":
                assert english[0].isupper(), english
                assert german[0].isupper(), german


def test_nothing_is_counted_by_a_hundred_and_one(drawn):
    for kind in ("prices", "quantities", "durations", "ages"):
        for english, _ in drawn[kind]:
            assert not re.search(r"(hundred|thousand) and one\b", english), english


def test_sentences_are_short(drawn):
    lengths = [max(len(english.split()), len(german.split())) for pairs in drawn.values() for english, german in pairs]
    assert sum(length <= 15 for length in lengths) >= 0.99 * len(lengths)
    assert max(lengths) <= 20
