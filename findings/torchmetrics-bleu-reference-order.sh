#!/bin/sh
# TorchMetrics 1.9.0: BLEU depends on the order of the references; where two are equally near in length, sacreBLEU takes the shorter one.
#
# Seen on 2026-11-28 with torchmetrics 1.9.0, sacrebleu 2.6.0, PyTorch 2.13.0, NumPy 2.4.6, Python 3.11.
# Expected before running: sacre_bleu_score gives the number of sacreBLEU, which its documents name as what it follows, whatever the order
#   of the references, which are a set.
# Why: the brevity penalty needs one reference length, the nearest to that of the translation; of two as near, sacreBLEU takes
#   the shorter.
# Seen: TorchMetrics takes the one that comes first.  A translation of 6 words that is part of a reference of 8, beside one of 4, scores 71.65 if
#   the long reference comes first and 100 if the short one does; sacreBLEU says 100 for both.  With one reference both agree.
#   Reported to the library by someone else in September 2026 (its issue 3504); still so in its newest release.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q torchmetrics==1.9.0 sacrebleu==2.6.0 torch==2.13.0 numpy==2.4.6 regex
"$dir/venv/bin/python" -W ignore - <<'PY'
import sacrebleu
from torchmetrics.functional.text import sacre_bleu_score

translation = "the old man went home early"
long, short = "the old man went home early last night", "the man went home"
changed = False
for references in ([long, short], [short, long], [long]):
    found = 100 * sacre_bleu_score([translation], [references]).item()
    expected = sacrebleu.corpus_bleu([translation], [[reference] for reference in references]).score
    print(f"references of {[len(r.split()) for r in references]} words: TorchMetrics {found:.2f}, sacreBLEU {expected:.2f}")
    if references[0] == long and len(references) == 2:
        changed |= abs(found - 71.65) > 0.01 or abs(expected - 100) > 0.01
    else:
        changed |= abs(found - expected) > 0.01
raise SystemExit("The behaviour has changed." if changed else 0)
PY
