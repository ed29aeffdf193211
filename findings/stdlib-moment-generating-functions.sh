#!/bin/sh
# @stdlib (stats-base-dists 0.3.1): four moment-generating functions are not of the distribution whose density, mass and mean stand beside them.
#
# Seen on 2026-11-28 with @stdlib/stats-base-dists-{rayleigh,weibull,geometric}-mgf 0.3.1, -negative-binomial-mgf 0.2.3, Node.js 20.20.
# Expected before running: mgf(t) is the mean of exp(t X), as each package's README defines it, over the density or mass function of the same
#   family of packages; so it is 1 at 0, falls where t is negative (X is positive here), and its slope at 0 is the mean.  Those of the
#   exponential, normal, gamma, Laplace, logistic, Poisson, binomial and other distributions are.
# Seen: Rayleigh: the 1 is inside of a product in place of outside, so mgf(0) = sqrt(pi / 2) = 1.2533, and mgf(-1, 4) = -0.947, a negative
#   mean of an exponential, stands in the README as an example.  Weibull: the sum of a series ends with its first negative term, so
#   mgf(-0.5, 1, 1) is 0.5 in place of 2 / 3.  Geometric: that of X + 1, while pmf, cdf and mean count from 0.  Negative binomial: that of
#   X + r with p for 1 - p, so its slope at 0 is 5 where the package's mean is 4.5.
set -eu
command -v npm > /dev/null || { echo "This script needs Node.js and npm."; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
prefix=@stdlib/stats-base-dists
npm install --silent --no-audit --no-fund --prefix "$dir" $prefix-rayleigh-mgf@0.3.1 $prefix-rayleigh-pdf@0.3.1 $prefix-weibull-mgf@0.3.1 \
  $prefix-weibull-pdf@0.3.1 $prefix-geometric-mgf@0.3.1 $prefix-geometric-pmf@0.3.1 $prefix-negative-binomial-mgf@0.2.3 \
  $prefix-negative-binomial-pmf@0.1.3 $prefix-exponential-mgf@0.3.1 $prefix-exponential-pdf@0.3.1
cat > means.cjs <<'JS'
const get = (name) => require(`@stdlib/stats-base-dists-${name}`);

// the mean of g over a density on (0, 60) by the midpoint rule, or over a mass function on 0, 1, 2, ...
function mean(g, name, parameters) {
  const discrete = /geometric|binomial/.test(name);
  const weight = get(`${name}-${discrete ? "pmf" : "pdf"}`);
  const h = discrete ? 1 : 1e-4;
  let sum = 0;
  for (let k = 0; k * h < (discrete ? 1000 : 60); k++) {
    const x = discrete ? k : (k + 0.5) * h;
    sum += g(x) * weight(x, ...parameters) * h;
  }
  return sum;
}

let changed = false;
for (const [name, parameters, at, right] of [
  ["exponential", [1], [-0.7, -0.5, 0, 0.2], [true, true, true, true]],
  ["rayleigh", [4], [-1, -0.1, 0, 0.1], [false, false, false, false]],
  ["weibull", [1, 1], [-0.7, -0.5, 0, 0.2], [false, false, true, true]],
  ["weibull", [2, 1], [-0.7, -0.5, 0, 0.2], [false, false, true, true]],
  ["geometric", [0.3], [-1, -0.1, 0, 0.1], [false, false, true, false]],
  ["negative-binomial", [3, 0.4], [-1, -0.1, 0, 0.1], [false, false, true, false]],
]) {
  const mgf = get(`${name}-mgf`);
  const slope = (mgf(1e-6, ...parameters) - mgf(0, ...parameters)) / 1e-6;
  console.log(`${name}(${parameters}): total ${mean(() => 1, name, parameters).toFixed(4)}, mean ${mean((x) => x, name, parameters).toFixed(4)}, slope of mgf at 0 ${slope.toFixed(4)}`);
  at.forEach((t, k) => {
    const found = mgf(t, ...parameters);
    const expected = mean((x) => Math.exp(t * x), name, parameters);
    const same = Math.abs(found - expected) < 1e-4;
    console.log(`  mgf(${t}) = ${found.toFixed(4)}${same ? "" : `, but the mean of exp(${t} x) is ${expected.toFixed(4)}`}`);
    changed = changed || same !== right[k];
  });
}
if (changed) {
  console.log("The behaviour has changed.");
  process.exit(1);
}
JS
node means.cjs
