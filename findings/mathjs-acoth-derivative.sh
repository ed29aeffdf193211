#!/bin/sh
# math.js 15.2.0: derivative("acoth(x)", "x") has the wrong sign at every x, so a root finder that follows it runs away from the root.
#
# Seen on 2026-11-27 with mathjs 15.2.0, Node.js 20.20.
# Expected before running: the derivative agrees with differences of the same function, evaluated by the same library.
# Why: acoth(x) = log((x + 1) / (x - 1)) / 2 falls wherever it is real; its derivative is 1 / (1 - x**2), the same formula as that of atanh.
#   The other 23 trigonometric and hyperbolic functions and their inverses agree.
# Seen: -1 / (1 - x**2), with or without simplification: +1/3 at x = 2 in place of -1/3, so acoth rises by its derivative while its values fall.
#   Products, quotients and inner functions inherit the sign.  Newton's method for acoth(x) = 0.5 from 2 finds 2.1640 with the
#   derivative of the same function written as logarithms, and is at -0.13 + 0.13i after 8 steps with this one.
set -eu
command -v npm > /dev/null || { echo "This script needs Node.js and npm."; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --prefix "$dir" mathjs@15.2.0
cat > acoth.cjs <<'JS'
const math = require("mathjs");

const h = 1e-6;
let changed = math.version !== "15.2.0";
const names = [];
for (const f of ["sin", "cos", "tan", "sec", "csc", "cot"]) names.push(f, `a${f}`, `${f}h`, `a${f}h`);
for (const name of [...names, "2 x * acoth", "1 / acoth"]) {
  // one point inside of each function's real domain
  const x = /acosh|acoth|acsc$|asec$/.test(name) ? 2 : 0.4;
  const text = `${name}(x)`;
  const value = (at) => math.evaluate(text, { x: at });
  const expected = (value(x + h) - value(x - h)) / (2 * h);
  for (const simplify of [true, false]) {
    const derivative = math.derivative(text, "x", { simplify });
    const found = derivative.evaluate({ x });
    const right = Math.abs(found - expected) < 1e-6 * Math.max(1, Math.abs(expected));
    if (!right) console.log(`${text} at ${x}: ${derivative} = ${found.toFixed(4)}, differences ${expected.toFixed(4)}`);
    changed = changed || right === name.includes("acoth");
    if (/acoth$/.test(name) && name.length === 5) changed = changed || Math.abs(found + expected) > 1e-6;
  }
}

function newton(text) {
  const slope = math.derivative(text, "x");
  let x = 2;
  for (let step = 0; step < 8; step++) x = math.subtract(x, math.divide(math.evaluate(text, { x }), slope.evaluate({ x })));
  return x;
}
for (const [text, right] of [["log((x + 1) / (x - 1)) / 2 - 0.5", true], ["acoth(x) - 0.5", false]]) {
  const end = newton(text);
  console.log(`Newton's method, 8 steps from 2: ${text} = 0 at ${math.format(end, 5)}`);
  changed = changed || (typeof end === "number" && Math.abs(end - 2.163953) < 1e-4) !== right;
}
if (changed) {
  console.log("The behaviour has changed.");
  process.exit(1);
}
JS
node acoth.cjs
