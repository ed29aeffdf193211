#!/bin/sh
# nerdamer 1.1.13: calculus takes a logarithm to any base for the natural one, and atan2 for a function of its first argument alone.
#
# Seen on 2026-11-28 with nerdamer 1.1.13, Node.js 20.20.
# Expected before running: derivatives and integrals agree with differences and sums of the same library's values, as those of 40 more functions do.
# Why: log(8, 2) is 3 here, so log(x, 2) has the derivative 1 / (x log(2)); log10(x), written so, has 1 / (x log(10)).  d atan2(y, x) / dx is
#   -y / (x**2 + y**2).
# Seen: diff(log(x, 2), x) is 1 / x, as for every base; defint(log(x, 2), 1, 2) is 1 in place of 2 - 1 / log(2) = 0.5573;
#   solve(log(x, 2) - 3, x) is exp(3) = 20.09 in place of 8, and is no root of what was asked.  diff(atan2(2, x), x) is 0, and atan2(sin(x), cos(x)),
#   which is x, has the derivative cos(x)**2: rules of one argument, met by functions of two.
set -eu
command -v npm > /dev/null || { echo "This script needs Node.js and npm."; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --prefix "$dir" nerdamer@1.1.13
cat > calculus.cjs <<'JS'
const nerdamer = require("nerdamer/all.min");

const number = (text, x) => Number(nerdamer(text, { x }).evaluate().text());
let changed = nerdamer.version() !== "1.1.13";
for (const [text, right] of [
  ["log(x)", true],
  ["log10(x)", true],
  ["log(x)/log(2)", true],
  ["log(x, 2)", false],
  ["log(x^2 + 1, 10)", false],
  ["atan2(x, 2)", true],
  ["atan(2/x)", true],
  ["atan2(2, x)", false],
  ["atan2(sin(x), cos(x))", false],
]) {
  const x = 0.7;
  const h = 1e-4;
  const derivative = nerdamer(`diff(${text}, x)`).toString();
  const found = number(derivative, x);
  const expected = (number(text, x + h) - number(text, x - h)) / (2 * h);
  const same = Math.abs(found - expected) < 1e-6;
  console.log(`diff(${text}, x) = ${derivative}: ${found.toFixed(4)} at ${x}${same ? "" : `, differences ${expected.toFixed(4)}`}`);
  changed = changed || same !== right;
}
for (const [text, answer, right] of [["log(x)", Math.exp(3), true], ["log(x, 2)", 8, false]]) {
  let sum = 0;
  for (let k = 0; k < 1000; k++) sum += number(text, 1 + (k + 0.5) / 1000) / 1000;
  const integral = Number(nerdamer(`defint(${text}, 1, 2)`).evaluate().text());
  console.log(`defint(${text}, 1, 2) = ${integral.toFixed(4)}, sum ${sum.toFixed(4)}`);
  changed = changed || Math.abs(integral - sum) < 1e-4 !== right;
  const root = Number(nerdamer(`solve(${text} - 3, x)`).text().replace("[", "").split(/[\],]/)[0]);
  console.log(`solve(${text} - 3, x): ${root.toFixed(4)}, where ${text} is ${number(text, root).toFixed(4)}`);
  changed = changed || Math.abs(root - answer) < 1e-3 !== right;
}
if (changed) {
  console.log("The behaviour has changed.");
  process.exit(1);
}
JS
node calculus.cjs
