#!/bin/sh
# NLTK 3.10.4: sentence_chrf gives "cat" for "cat" 0.5 and "a" for "a" 0.1667; sacreBLEU 2.6.0 gives both 100.
#
# Seen on 2026-11-27 with nltk 3.10.4, sacrebleu 2.6.0, Python 3.11.
# Expected before running: a translation that is the reference scores 1 (100), the highest chrF there is, in both programs.
# Why: chrF is an F-score of character n-grams; of identical texts precision and recall are 1 for every n that exists.
# Seen: NLTK averages over n = 1 to 6 and counts an n that is longer than the text as (almost) 0: 3/6 and 1/6.  sacreBLEU averages over the
#   n that exist, unless eps_smoothing=True, which repeats NLTK's number.  From six characters without spaces the programs agree.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q nltk==3.10.4 sacrebleu==2.6.0
"$dir/venv/bin/python" -W ignore - <<'PY'
from nltk.translate.chrf_score import sentence_chrf
from sacrebleu.metrics import CHRF

changed = False
for text, expected in (("a", 1 / 6), ("cat", 0.5), ("house", 5 / 6), ("houses", 1.0)):
    nltk = sentence_chrf(text, text, beta=2)
    sacre = CHRF().sentence_score(text, [text]).score
    smoothed = CHRF(eps_smoothing=True).sentence_score(text, [text]).score
    print(f"{text!r} for {text!r}: NLTK {nltk:.4f}, sacreBLEU {sacre:.2f}, with eps_smoothing {smoothed:.2f}")
    changed |= abs(nltk - expected) > 1e-6 or abs(sacre - 100) > 1e-6 or abs(smoothed - 100 * expected) > 1e-6
raise SystemExit("The behaviour has changed." if changed else 0)
PY
