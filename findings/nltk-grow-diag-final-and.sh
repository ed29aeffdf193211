#!/bin/sh
# NLTK 3.10.4: grow_diag_final_and is the union of both word alignments, whatever they are; the algorithm it is named after is not computed.
#
# Seen on 2026-11-28 with nltk 3.10.4, Python 3.11.
# Expected before running: the alignment of Koehn and others (2005), whom its documentation cites: the intersection grows by neighbours in the union
#   one of whose words has no link yet, then by points of either alignment both of whose words have none.
# Why: the comments in its code are the lines of that algorithm; grow-diag-final-and is the step between aligning words and extracting phrases.
# Seen: 1,000 random pairs of alignments give their union 1,000 times, as does the example in the documentation; the algorithm gives it 215 times.
#   Whether a word has a link is asked of a dictionary whose keys are "e" and "f", and no number is among these, so the answer is always no.
#   A wrong link of one direction, which the other does not confirm, stays, and phrases across it are not extracted: 4 in place of 10.
# Reported: issue 1829 of its repository (2017, closed) was about an endless loop in this function; no report of its result was found.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q nltk==3.10.4
"$dir/venv/bin/python" -W ignore - <<'PY'
import random

from nltk.translate import grow_diag_final_and
from nltk.translate.phrase_based import phrase_extraction

neighbours = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]


def by_definition(forward, backward):
    points, union = forward & backward, forward | backward

    def linked(e, f):
        return any(i == e for i, _ in points), any(j == f for _, j in points)

    grown = True
    while grown:
        grown = False
        for i, j in sorted(points):
            for e, f in ((i + di, j + dj) for di, dj in neighbours):
                if (e, f) in union - points and not all(linked(e, f)):
                    points.add((e, f))
                    grown = True
    for alignment in (forward, backward):
        for e, f in sorted(alignment):
            if not any(linked(e, f)):
                points.add((e, f))
    return points


def found(length_e, length_f, forward, backward):
    texts = (" ".join(f"{e}-{f}" for e, f in sorted(points)) for points in (forward, backward))
    return set(grow_diag_final_and(length_e, length_f, *texts))


changed = False
source, target = "the old ship left", "das alte Schiff fuhr"
forward, backward = {(0, 0), (1, 1), (2, 2), (3, 3)}, {(0, 0), (1, 1), (2, 2), (3, 3), (0, 3)}
for name, points in (("NLTK", found(4, 4, forward, backward)), ("definition", by_definition(forward, backward))):
    phrases = phrase_extraction(source, target, sorted(points))
    print(f"{source} | {target}: {name} {sorted(points)}, {len(phrases)} phrases")
    changed |= ((0, 3) in points) != (name == "NLTK")

rng = random.Random(0)
unions = {"NLTK": 0, "definition": 0}
for _ in range(1000):
    m, n = rng.randint(2, 8), rng.randint(2, 8)
    forward = {(rng.randrange(m), f) for f in range(n)}
    backward = {(e, rng.randrange(n)) for e in range(m)}
    unions["NLTK"] += found(m, n, forward, backward) == forward | backward
    unions["definition"] += by_definition(forward, backward) == forward | backward
print(f"of 1,000 random pairs, equal to the union: NLTK {unions['NLTK']}, definition {unions['definition']}")
changed |= unions["NLTK"] != 1000 or unions["definition"] > 500
raise SystemExit("The behaviour has changed." if changed else 0)
PY
