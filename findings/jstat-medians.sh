#!/bin/sh
# jStat 1.9.6: the median of a uniform distribution is NaN, and mean and median of a Pareto distribution are not its own.
#
# Seen on 2026-11-28 with jstat 1.9.6, Node.js 20.20.
# Expected before running: median() is where cdf() is 1/2, that is inv(1/2), and mean() is the mean of pdf(), all of the same object, as they are
#   for the exponential, normal, lognormal, Weibull and Laplace distributions.
# Why: a Pareto distribution has the mean scale shape / (shape - 1) and the median scale 2^(1/shape); a uniform one has (a + b) / 2 for both.
# Seen: uniform.median(0, 1) is NaN: the mean of a list is called, with two numbers.  pareto.mean raises scale to the power of shape, so it is
#   40 at (2, 5) in place of 2.5, and grows 32-fold where the unit is halved; pareto.median multiplies by shape and the root of 2: 14.14 in
#   place of 2.2974, above 99.99 % of the distribution.  With scale 1 the mean is right.
set -eu
command -v npm > /dev/null || { echo "This script needs Node.js and npm."; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --prefix "$dir" jstat@1.9.6
cat > medians.cjs <<'JS'
const { jStat } = require("jstat");

let changed = require("jstat/package.json").version !== "1.9.6";
for (const [name, parameters, meanRight, medianRight] of [
  ["exponential", [2], true, true],
  ["normal", [0.3, 1.7], true, true],
  ["lognormal", [0.2, 0.4], true, true],
  ["weibull", [2, 1.5], true, true],
  ["uniform", [-1, 3], true, false],
  ["pareto", [1, 5], true, false],
  ["pareto", [2, 5], false, false],
  ["pareto", [0.5, 3], false, false],
]) {
  const d = jStat[name];
  // the mean of the quantiles: midpoints of 200,000 equal parts of probability
  let sum = 0;
  for (let k = 0; k < 200000; k++) sum += d.inv((k + 0.5) / 200000, ...parameters) / 200000;
  const [mean, median] = [d.mean(...parameters), d.median(...parameters)];
  const half = d.inv(0.5, ...parameters);
  console.log(
    `${name}(${parameters}): mean ${mean.toFixed(4)}, of its quantiles ${sum.toFixed(4)}; ` +
      `median ${median.toFixed(4)}, inv(1/2) ${half.toFixed(4)}, cdf at the median ${d.cdf(median, ...parameters).toFixed(4)}`,
  );
  changed = changed || Math.abs(mean / sum - 1) < 2e-3 !== meanRight || Math.abs(median / half - 1) < 1e-6 !== medianRight;
}
if (changed) {
  console.log("The behaviour has changed.");
  process.exit(1);
}
JS
node medians.cjs
