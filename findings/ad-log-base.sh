#!/bin/sh
# ad 1.5.1: the derivative of log(x, base) by the base is 0, and so are the Hessian's elements with it.
#
# Seen on 2026-11-28 with ad 1.5.1, Python 3.11.
# Expected before running: the first and second derivatives of log(x, b) = ln(x) / ln(b) by both arguments, as those of pow, atan2 and hypot of the
#   same module are; ln(x) / ln(b), written out with the same library, gives them.
# Why: by b it is -ln(x) / (b ln(b)**2); the README promises "transparent calculations with derivative information".
# Seen: the value is right, and so is the derivative by x; that by b is 0.0, silently, as if b were a plain number.  So a base that is fitted to
#   data stays where it is.  Where x is a plain number, the result is one, too.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q ad==1.5.1
"$dir/venv/bin/python" -W ignore - <<'PY'
import math

from ad import ADF, adnumber
from ad.admath import atan2, hypot, log

changed = False
h = 1e-4
for f, plain in ((atan2, math.atan2), (hypot, math.hypot), (pow, math.pow), (log, math.log)):
    for x, y in ((0.3, 1.7), (2.3, 0.7)):
        a, b = adnumber(x), adnumber(y)
        result = f(a, b)
        found = [result.d(a), result.d(b), result.d2(b), result.d2c(a, b)]
        expected = [
            (plain(x + h, y) - plain(x - h, y)) / (2 * h),
            (plain(x, y + h) - plain(x, y - h)) / (2 * h),
            (plain(x, y + h) - 2 * plain(x, y) + plain(x, y - h)) / h**2,
            (plain(x + h, y + h) - plain(x + h, y - h) - plain(x - h, y + h) + plain(x - h, y - h)) / (4 * h**2),
        ]
        print(f"{f.__name__}({x}, {y}) by x, y, yy, xy: found {[round(v, 3) for v in found]}, differences {[round(v, 3) for v in expected]}")
        right = [abs(v - w) < 1e-3 * (1 + abs(w)) for v, w in zip(found, expected)]
        changed |= right != ([True, False, False, False] if f is log else [True] * 4)
        changed |= f is log and any(found[1:])

points = [(2.0, 0.5), (4.0, 1.0), (8.0, 1.5)]  # base 4
for name, f in (("log(x, b)", log), ("log(x) / log(b)", lambda x, b: log(x) / log(b))):
    base = 3.0
    for _ in range(200):
        b = adnumber(base)
        base -= 0.5 * sum((f(adnumber(x), b) - y) ** 2 for x, y in points).d(b)
    print(f"200 steps of descent by the base, {name}: {base:.4f}; right 4")
    changed |= abs(base - (3 if f is log else 4)) > 1e-3
changed |= isinstance(log(2.0, adnumber(3.0)), ADF)
raise SystemExit("The behaviour has changed." if changed else 0)
PY
