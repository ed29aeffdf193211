#!/bin/sh
# TensorFlow.js 4.22.0: the gradients of avgPool with "same" padding and of mirrorPad are wrong at the border.
#
# Seen on 2026-11-27 with @tensorflow/tfjs 4.22.0 on its CPU backend, Node.js 20.20.
# Expected before running: the gradient of sum(w * f(x)) agrees with differences, as it does for avgPool with "valid" padding, maxPool, conv2d
#   with both, pad and 80 more; avgPool and mirrorPad are linear, so differences are exact up to rounding.
# Why: avgPool divides a window that reaches over the border by the number of elements inside, and mirrorPad copies elements.
# Seen: the gradient of avgPool divides by the full window, and that of mirrorPad is what came back for the middle part, without the copies.
#   For sum(avgPool([1, 2, 3], 3, stride 1, "same")) it is [2/3, 1, 2/3] in place of [5/6, 4/3, 5/6], for sum(mirrorPad([1, 2, 3], 2))
#   [1, 1, 1] in place of [2, 3, 2].  Values are right.  Descent on |avgPool(x) - target|^2 + |x|^2 / 10 comes to rest beside the minimum,
#   at a loss of 3.00; with the same average as a matrix it reaches 2.90.  avgPool3d is the same.
set -eu
command -v npm > /dev/null || { echo "This script needs Node.js and npm."; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --prefix "$dir" @tensorflow/tfjs@4.22.0
cat > borders.cjs <<'JS'
console.warn = () => {}; // a greeting that recommends another package
const tf = require("@tensorflow/tfjs");

const image = (n) => tf.tensor4d(Array.from({ length: n }, (_, k) => Math.sin(3 * k + 1)), [1, 1, n, 1]);
const weights = (shape) => tf.tensor(Array.from({ length: shape.reduce((a, b) => a * b) }, (_, k) => Math.cos(2 * k)), shape);
const pad = (mode) => (x) => tf.mirrorPad(x, [[0, 0], [0, 0], [2, 2], [0, 0]], mode);
const show = (values) => `[${Array.from(values).map((v) => v.toFixed(3)).join(", ")}]`;
let changed = tf.version.tfjs !== "4.22.0";
for (const [name, f, right] of [
  ["avgPool 3, stride 1, valid", (x) => tf.avgPool(x, [1, 3], 1, "valid"), true],
  ["avgPool 3, stride 1, same", (x) => tf.avgPool(x, [1, 3], 1, "same"), false],
  ["avgPool 2, stride 2, same", (x) => tf.avgPool(x, [1, 2], 2, "same"), false],
  ["maxPool 3, stride 1, same", (x) => tf.maxPool(x, [1, 3], 1, "same"), true],
  ["pad with zeros", (x) => tf.pad(x, [[0, 0], [0, 0], [2, 2], [0, 0]]), true],
  ["mirrorPad, reflect", pad("reflect"), false],
  ["mirrorPad, symmetric", pad("symmetric"), false],
]) {
  const x = image(5);
  const loss = (x) => tf.sum(tf.mul(f(x), weights(f(x).shape)));
  const found = tf.grad(loss)(x).dataSync();
  const unit = (k, h) => tf.tensor4d(Array.from({ length: 5 }, (_, j) => (j === k ? h : 0)), [1, 1, 5, 1]);
  const expected = found.map((_, k) => (loss(tf.add(x, unit(k, 0.05))).dataSync()[0] - loss(tf.sub(x, unit(k, 0.05))).dataSync()[0]) / 0.1);
  const same = found.every((v, k) => Math.abs(v - expected[k]) < 1e-4);
  console.log(`${name}: gradient ${show(found)}${same ? "" : `, differences ${show(expected)}`}`);
  changed = changed || same !== right;
}
const three = tf.tensor4d([1, 2, 3], [1, 1, 3, 1]);
console.log("sum of avgPool([1, 2, 3]):", show(tf.grad((x) => tf.sum(tf.avgPool(x, [1, 3], 1, "same")))(three).dataSync()));
console.log("sum of mirrorPad([1, 2, 3]):", show(tf.grad((x) => tf.sum(pad("reflect")(x)))(three).dataSync()));

// |avgPool(x) - target|^2 + |x|^2 / 10 has one minimum: descent ends there if the gradient is right.
const target = tf.tensor4d([3, 1, 0, 0, 2], [1, 1, 5, 1]);
const [a, b] = [1 / 2, 1 / 3];
const matrix = tf.tensor2d([[a, a, 0, 0, 0], [b, b, b, 0, 0], [0, b, b, b, 0], [0, 0, b, b, b], [0, 0, 0, a, a]]);
const ends = [];
for (const [name, f] of [
  ["avgPool", (x) => tf.avgPool(x, [1, 3], 1, "same")],
  ["the same as a matrix", (x) => tf.reshape(tf.matMul(matrix, tf.reshape(x, [5, 1])), [1, 1, 5, 1])],
]) {
  const x = tf.variable(tf.zeros([1, 1, 5, 1]));
  const loss = () => tf.add(tf.sum(tf.square(tf.sub(f(x), target))), tf.mul(0.1, tf.sum(tf.square(x))));
  const optimizer = tf.train.sgd(0.2);
  for (let step = 0; step < 300; step++) optimizer.minimize(loss);
  ends.push(loss().dataSync()[0]);
  console.log(`300 steps of descent, ${name}: x = ${show(x.dataSync())}, loss ${ends[ends.length - 1].toFixed(4)}`);
}
changed = changed || tf.getBackend() !== "cpu" || ends[0] - ends[1] < 0.01;
if (changed) {
  console.log("The behaviour has changed.");
  process.exit(1);
}
JS
node borders.cjs
