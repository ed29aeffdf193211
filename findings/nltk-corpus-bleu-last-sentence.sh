#!/bin/sh
# NLTK 3.10.4: with smoothing methods 5, 6 and 7, corpus BLEU depends on which sentence is last, and method 6 gives more than 100.
#
# Seen on 2026-11-28 with nltk 3.10.4, NumPy 2.4.6, Python 3.11.
# Expected before running: corpus_bleu gives one number for one set of sentences in any order, whatever its smoothing_function is, and at most 100
#   with method 6, whose precisions are means of precisions.
# Why: methods 0 to 4 do; matches and n-grams are summed over the corpus before the smoothing function is called.
# Seen: the function gets the sums, the total length, and as "hypothesis" the variable that the loop over the corpus left behind: the last
#   sentence.  Method 6 divides the matches of the corpus by the n-grams of that sentence: three translations with mistakes score 76, 100 or 110
#   by their order, three perfect ones 142 or 191; each alone scores 100.  Methods 5 and 7 take the 5-grams from the last sentence: 57 or 62.
# Reported: a pull request of 2026-09-18, 3903, which describes it, is open; no release has it.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q nltk==3.10.4 numpy==2.4.6
"$dir/venv/bin/python" -W ignore - <<'PY'
from itertools import permutations

from nltk.translate.bleu_score import SmoothingFunction, corpus_bleu

references = [
    "it is raining in the harbour town today and the wind is strong",
    "the old ship left the harbour this morning",
    "she reads a long book about old ships",
]
translations = [
    "it is raining in the harbour town and the wind blows",
    "the old ship left this morning",
    "she reads a book about old ships",
]


def scores(hypotheses, method):
    function = getattr(SmoothingFunction(), f"method{method}")
    out = set()
    for order in permutations(range(len(hypotheses))):
        pairs = [[references[k].split()] for k in order], [hypotheses[k].split() for k in order]
        out.add(round(100 * corpus_bleu(*pairs, smoothing_function=function), 2))
    return sorted(out)


changed = False
for method in range(8):
    found, perfect = scores(translations, method), scores(references, method)
    print(f"method {method}: BLEU in the six orders {found}, of the references themselves {perfect}")
    changed |= len(found) != (2 if method in (5, 7) else 3 if method == 6 else 1)
    changed |= (method == 6) != (max(perfect) > 140) or (method < 5 and perfect != [100])
alone = [100 * corpus_bleu([[r.split()]], [r.split()], smoothing_function=SmoothingFunction().method6) for r in references]
print(f"method 6, each reference alone: {[round(score, 2) for score in alone]}")
changed |= any(abs(score - 100) > 1e-9 for score in alone)
raise SystemExit("The behaviour has changed." if changed else 0)
PY
