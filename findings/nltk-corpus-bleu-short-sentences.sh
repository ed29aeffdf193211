#!/bin/sh
# NLTK 3.10.4: a sentence of fewer than four words lowers the BLEU of its corpus; a perfect translation scores 90 or 54, in sacreBLEU 100.
#
# Seen on 2026-11-28 with nltk 3.10.4, sacrebleu 2.6.0, NumPy 2.4.6, Python 3.11.
# Expected before running: corpus_bleu sums matches and n-grams over the corpus, as the paper and its own documentation say, and so gives the score
#   of sacreBLEU without tokenization; translations that are their references score 100.
# Why: a sentence of two words has no 4-gram, so it adds nothing to either sum.
# Seen: it adds 1 to the number of n-grams that it has none of: max(1, ...), there to keep one sentence's division from failing, is applied before
#   the corpus is summed.  Four sentences that are their references, two of them short, score 90.5, and with ten times as many short ones 54.5.
#   Without short sentences the two libraries agree.
# Reported: BLEU of one short sentence, many times (issues 2217 and 2669 of its repository, closed); no report of the sum over a corpus was found.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q nltk==3.10.4 sacrebleu==2.6.0 numpy==2.4.6
"$dir/venv/bin/python" -W ignore - <<'PY'
from nltk.translate.bleu_score import corpus_bleu
from sacrebleu.metrics import BLEU


def scores(hypotheses, references):
    nltk = corpus_bleu([[r.split()] for r in references], [h.split() for h in hypotheses])
    return 100 * nltk, BLEU(tokenize="none").corpus_score(hypotheses, [references]).score


long = ["it is raining in the harbour town today", "the old ship left the harbour this morning"]
short = ["yes", "no thanks"]
close = ["it is raining in the harbour town now", "the old ship left the harbour this morning"]
cases = {
    "long sentences, equal to the references": (long, long, True),
    "long sentences, one word wrong": (close, long, True),
    "with two short ones, equal to the references": (long + short, long + short, False),
    "with two short ones, one word wrong": (close + short, long + short, False),
    "with 20 short ones, equal to the references": (long + 10 * short, long + 10 * short, False),
}
changed = False
for name, (hypotheses, references, agree) in cases.items():
    found, peer = scores(hypotheses, references)
    print(f"{name}: NLTK {found:.2f}, sacreBLEU {peer:.2f}")
    changed |= abs(found - peer) > 1e-6 if agree else not found < peer - 5
raise SystemExit("The behaviour has changed." if changed else 0)
PY
