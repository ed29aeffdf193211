#!/bin/sh
# TensorFlow.js 4.22.0: the gradient of softmaxCrossEntropy by the labels has nothing to do with it; that of an entropy is 0.
#
# Seen on 2026-11-28 with @tensorflow/tfjs 4.22.0 on its CPU backend, Node.js 20.20.
# Expected before running: -sum(p log softmax(z)) is linear in the labels p, so its derivative by p is -log softmax(z), always positive; with
#   p = softmax(z) it is the entropy of the prediction, whose derivative by z is -p (log p + entropy).  By z, labels that are given, it is right.
# Why: tf.losses.softmaxCrossEntropy(labels, logits) takes tensors for both and returns a gradient for both; the same written with
#   logSoftmax agrees with differences.
# Seen: by the labels it is p - softmax(z), the negative of the gradient by z.  So labels that are predictions themselves (entropy as a
#   penalty, distillation into a teacher that learns) pull in a wrong direction: for softmaxCrossEntropy(softmax(z), z) both parts cancel, and
#   200 steps that shall make a prediction certain leave it where it was, at an entropy of 0.8445; written with logSoftmax, 0.009.
set -eu
command -v npm > /dev/null || { echo "This script needs Node.js and npm."; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --prefix "$dir" @tensorflow/tfjs@4.22.0
cat > labels.cjs <<'JS'
console.warn = () => {}; // a greeting that recommends another package
const tf = require("@tensorflow/tfjs");

const library = (p, z) => tf.losses.softmaxCrossEntropy(p, z);
const written = (p, z) => tf.neg(tf.sum(tf.mul(p, tf.logSoftmax(z))));
const [p, z] = [tf.tensor2d([[0.2, 0.5, 0.3]]), tf.tensor2d([[0.4, -0.9, 1.2]])];
const show = (values) => `[${Array.from(values).map((v) => v.toFixed(4)).join(", ")}]`;

function differences(f, at) {
  const side = (k, h) => f(tf.tensor2d([Array.from(at.dataSync()).map((v, j) => v + (j === k ? h : 0))])).dataSync()[0];
  return [0, 1, 2].map((k) => (side(k, 0.02) - side(k, -0.02)) / 0.04);
}

let changed = tf.version.tfjs !== "4.22.0";
for (const [what, f, at, right] of [
  ["loss by the logits", (z) => library(p, z), z, true],
  ["loss by the labels", (p) => library(p, z), p, false],
  ["loss by the labels, written with logSoftmax", (p) => written(p, z), p, true],
  ["entropy by the logits", (z) => library(tf.softmax(z), z), z, false],
  ["entropy by the logits, written with logSoftmax", (z) => written(tf.softmax(z), z), z, true],
]) {
  const [found, expected] = [tf.grad(f)(at).dataSync(), differences(f, at)];
  const same = expected.every((v, k) => Math.abs(v - found[k]) < 2e-3);
  console.log(`${what}: ${f(at).dataSync()[0].toFixed(4)}, gradient ${show(found)}${same ? "" : `, differences ${show(expected)}`}`);
  changed = changed || same !== right;
}
const ends = [];
for (const [name, f] of [["softmaxCrossEntropy", library], ["logSoftmax", written]]) {
  const logits = tf.variable(z);
  const optimizer = tf.train.sgd(0.5);
  for (let step = 0; step < 200; step++) optimizer.minimize(() => f(tf.softmax(logits), logits).asScalar());
  ends.push(written(tf.softmax(logits), logits).dataSync()[0]);
  console.log(`200 steps that minimize the entropy by ${name}: prediction ${show(tf.softmax(logits).dataSync())}, entropy ${ends[ends.length - 1].toFixed(4)}`);
}
changed = changed || !(ends[0] > 0.8 && ends[1] < 0.1);
if (changed) {
  console.log("The behaviour has changed.");
  process.exit(1);
}
JS
node labels.cjs
