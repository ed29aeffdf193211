"""BLEU against its definition, and exact matches against hand-made numbers."""

import math
from collections import Counter

import pytest

from minitf.errors import UserError
from minitf.evaluation.metrics import TOKENIZERS, bleu, chrf, exact_match

HYPOTHESES = ["the cat sat on the mat today", "a dog is in the garden", "it costs twenty euros and ten cents"]
REFERENCES = ["the cat sat on the mat", "a dog is sitting in the garden", "it costs twenty euros and ten cents"]


def bleu_by_definition(hypotheses, references):
    """Papineni et al. 2002 on words separated by spaces, for corpora in which every order has a match."""
    log_precision = 0.0
    for order in 1, 2, 3, 4:
        matches = total = 0
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            found, expected = (
                Counter(tuple(words[i : i + order]) for i in range(len(words) - order + 1))
                for words in (hypothesis.split(), reference.split())
            )
            matches += (found & expected).total()
            total += found.total()
        log_precision += math.log(matches / total) / 4
    ours, theirs = (sum(len(line.split()) for line in lines) for lines in (hypotheses, references))
    return 100 * min(1.0, math.exp(1 - theirs / ours)) * math.exp(log_precision)


@pytest.mark.parametrize("shorter", [False, True])
def test_bleu_is_the_corpus_bleu_of_its_definition(shorter):
    hypotheses = [HYPOTHESES[0][:-10], *HYPOTHESES[1:]] if shorter else HYPOTHESES
    result = bleu(hypotheses, REFERENCES)
    assert result.score == pytest.approx(bleu_by_definition(hypotheses, REFERENCES), rel=1e-12)
    assert (result.result.bp < 1) == shorter


def test_signature_names_what_makes_scores_comparable():
    result = bleu(HYPOTHESES, REFERENCES)
    for part in "nrefs:1", "case:mixed", "tok:13a", "smooth:exp", "version:":
        assert part in result.signature
    assert "case:lc" in bleu(HYPOTHESES, REFERENCES, lowercase=True).signature
    assert "tok:none" in bleu(HYPOTHESES, REFERENCES, tokenize="none").signature
    assert result.signature in str(result)
    assert f"{result.score:.2f}" in str(result)


def test_tokenized_text_is_suspicious_unless_it_is_declared(caplog):
    lines = ["one two three four , five ."] * 150
    bleu(lines, lines, tokenize="none")
    assert caplog.records == []
    bleu(lines, lines)
    assert "tokenized period" in caplog.text


def test_every_offered_tokenizer_works_here():
    for tokenize in TOKENIZERS:
        assert bleu(["one two three four , five ."] * 3, ["one two three four , five ."] * 3, tokenize=tokenize).score
    with pytest.raises(UserError, match="tokenize='14a' is unknown; choose one of 13a"):
        bleu(HYPOTHESES, REFERENCES, tokenize="14a")


def test_chrf_ranks_a_near_miss_above_another_sentence():
    near = chrf(["it costs twenty euro"], ["it costs twenty euros"])
    far = chrf(["a dog is in the garden"], ["it costs twenty euros"])
    assert chrf(REFERENCES, REFERENCES).score == pytest.approx(100)
    assert 80 < near.score < 100
    assert far.score < 30
    assert "chrF2" in str(near) or "nc:6" in near.signature


def test_exact_match_is_the_share_of_equal_lines():
    assert exact_match(["a", "b", "c", "d"], ["a", "x", "c", "d"]) == 0.75
    assert exact_match(["Straße"], ["straße"]) == 0
    assert exact_match(["a "], ["a"]) == 0


@pytest.mark.parametrize("score", [bleu, chrf, exact_match])
def test_lines_must_belong_together(score):
    with pytest.raises(UserError, match="3 translations but 2 reference lines"):
        score(HYPOTHESES, REFERENCES[:2])
    with pytest.raises(UserError, match="no line to score"):
        score([], [])
    with pytest.raises(TypeError, match="not single strings"):
        score("abc", "abc")
