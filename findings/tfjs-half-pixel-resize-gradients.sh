#!/bin/sh
# TensorFlow.js 4.22.0: with halfPixelCenters, the gradients of resizeBilinear and resizeNearestNeighbor are those of another resizing.
#
# Seen on 2026-11-28 with @tensorflow/tfjs 4.22.0 on its CPU backend, Node.js 20.20.
# Expected before running: both are linear in the image (each output is a mean, or a copy, of inputs), so the gradient of sum(w * f(x)) is exact in
#   differences, as it is without options and with alignCorners, for larger and for smaller sizes.
# Why: halfPixelCenters is what tf.image.resize of TensorFlow 2, OpenCV and Pillow do, so a model that shall meet them needs it.
# Seen: values follow the option, gradients do not: they are, to the bit, those without it.  By copies, 8 pixels become 4: the values are pixels
#   1, 3, 5 and 7, the gradient goes to 0, 2, 4 and 6, whose values do not matter; by means of pairs, it goes to one of each pair.  Descent on
#   |f(x) - target|^2 + |x|^2 / 10 makes the loss 30 from 6; with the same resizing as a matrix, 0.55.
set -eu
command -v npm > /dev/null || { echo "This script needs Node.js and npm."; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --prefix "$dir" @tensorflow/tfjs@4.22.0
cat > resize.cjs <<'JS'
console.warn = () => {}; // a greeting that recommends another package
const tf = require("@tensorflow/tfjs");

const show = (values) => `[${Array.from(values).map((v) => v.toFixed(2)).join(", ")}]`;
const row = (values) => tf.tensor4d(values, [1, 1, values.length, 1]);
let changed = tf.version.tfjs !== "4.22.0";
for (const name of ["resizeBilinear", "resizeNearestNeighbor"]) {
  for (const [from, to] of [[3, 5], [8, 4]]) {
    const gradients = {};
    for (const [option, align, half] of [["no option", false, false], ["alignCorners", true, false], ["halfPixelCenters", false, true]]) {
      // a square image with equal rows, resized, and one row of the result
      const f = (x) => tf.mean(tf.image[name](tf.tile(x, [1, from, 1, 1]), [to, to], align, half), 1, true);
      const weights = row(Array.from({ length: to }, (_, k) => k + 1));
      const loss = (x) => tf.sum(tf.mul(f(x), weights));
      const x = row(Array.from({ length: from }, (_, k) => Math.sin(3 * k)));
      const found = Array.from(tf.grad(loss)(x).dataSync());
      // linear: the value at each unit image
      const expected = found.map((_, k) => loss(row(found.map((_, j) => (j === k ? 1 : 0)))).dataSync()[0]);
      const same = found.every((v, k) => Math.abs(v - expected[k]) < 1e-4);
      gradients[option] = found;
      console.log(`${name} ${from} -> ${to}, ${option}: gradient ${show(found)}${same ? "" : `, values at unit images ${show(expected)}`}`);
      changed = changed || same !== (option !== "halfPixelCenters");
    }
    changed = changed || String(gradients["halfPixelCenters"]) !== String(gradients["no option"]);
  }
}

// Find the image of 8 pixels whose half is [1, 0, 2, 1]: |f(x) - target|^2 + |x|^2 / 10 has one minimum.
const target = row([1, 0, 2, 1]);
const half = (x) => tf.mean(tf.image.resizeNearestNeighbor(tf.tile(x, [1, 8, 1, 1]), [4, 4], false, true), 1, true);
const columns = [0, 1, 2, 3, 4, 5, 6, 7].map((k) => Array.from(half(row([0, 1, 2, 3, 4, 5, 6, 7].map((j) => (j === k ? 1 : 0)))).dataSync()));
const matrix = tf.transpose(tf.tensor2d(columns));
const ends = [];
for (const [what, f] of [["resizeNearestNeighbor", half], ["the same as a matrix", (x) => tf.reshape(tf.matMul(matrix, tf.reshape(x, [8, 1])), [1, 1, 4, 1])]]) {
  const x = tf.variable(tf.zeros([1, 1, 8, 1]));
  const optimizer = tf.train.sgd(0.05);
  const loss = () => tf.add(tf.sum(tf.square(tf.sub(f(x), target))), tf.mul(0.1, tf.sum(tf.square(x))));
  const start = loss().dataSync()[0];
  for (let step = 0; step < 100; step++) optimizer.minimize(loss);
  ends.push(loss().dataSync()[0]);
  console.log(`100 steps of descent, ${what}: loss ${start.toFixed(2)} to ${ends[ends.length - 1].toFixed(2)}`);
}
changed = changed || tf.getBackend() !== "cpu" || !(ends[0] > 6 && ends[1] < 1);
if (changed) {
  console.log("The behaviour has changed.");
  process.exit(1);
}
JS
node resize.cjs
