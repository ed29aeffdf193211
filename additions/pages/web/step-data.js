"use strict";

// The recording: what the page is drawn from, with names, links and phases worked out once.
const step = data("step");
const { ops, leaves, events, classes, places } = step;
let numbers = null; // the bytes of all arrays

// Elements with text and children; text is never markup.
function h(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

// ---- Numbers ----------------------------------------------------------------------------------------------------

const TYPES = { f8: Float64Array, f4: Float32Array, i4: Int32Array, u1: Uint8Array };
const values = new Map(); // by index, as far as they were asked for

// An array of the recording: shape, kept indices of each axis, and the kept elements.
function valueOf(index) {
  if (!values.has(index)) {
    const { shape, dtype, code, at, stats, other, kept } = step.values[index];
    const sizes = shape.map((n, axis) => kept?.[axis]?.length ?? n);
    const count = dtype === "object" ? 0 : sizes.reduce((a, b) => a * b, 1);
    values.set(index, { shape, dtype, stats, other: other ?? 0, kept, sizes, elements: new TYPES[code](numbers, at, count) });
  }
  return values.get(index);
}
function trueIndex(value, axis, i) { return value.kept?.[axis]?.[i] ?? i; }

function format(x) {
  if (Number.isInteger(x) && Math.abs(x) < 1e9) return String(x).replace("-", "−");
  if (!Number.isFinite(x)) return Number.isNaN(x) ? "NaN" : x > 0 ? "∞" : "−∞";
  const size = Math.abs(x);
  const text = size < 1e-4 || size >= 1e6 ? x.toExponential(4) : String(+x.toPrecision(6));
  return text.replaceAll("-", "−");
}
function brief(x) {
  return Number.isInteger(x) || (Math.abs(x) >= 1e-4 && Math.abs(x) < 1e6) ? format(+x.toPrecision(3)) : x.toExponential(1).replaceAll("-", "−");
}
function bytesText(count) {
  const [size, unit] = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]].find(([each]) => count >= each) ?? [1, "B"];
  return size === 1 ? `${count} B` : `${(count / size).toFixed(1)} ${unit}`;
}
function plural(count, one, many = `${one}s`) { return `${count.toLocaleString("en")} ${count === 1 ? one : many}`; }

// ---- Axes -------------------------------------------------------------------------------------------------------

// Names and labels of axes by length, where one length has one name; "B·T" is batch and target positions in one axis.
const axisOfSize = new Map();
for (const [name, { size, labels }] of Object.entries(step.axes)) {
  const batched = labels && Array.isArray(labels[0]);
  addAxis(size, { name, labels, batched });
  if (batched && step.axes.B) {
    const flat = labels.flatMap((row, b) => Array.from({ length: size }, (_, i) => `${row[i] ?? ""} ·${b}`));
    addAxis(size * labels.length, { name: `B·${name}`, labels: flat, batched: false });
  }
}
function addAxis(size, axis) { axisOfSize.set(size, axisOfSize.has(size) ? null : axis); }
function axesOf(shape) {
  const seen = new Set();
  return shape.map((n) => {
    const axis = n > 1 ? axisOfSize.get(n) : null;
    if (!axis || (seen.has(axis.name) && axis.name === "B")) return null;
    seen.add(axis.name);
    return axis;
  });
}
// The label of an index of an axis, given which sentence of the batch the array shows.
function labelOf(axis, index, sentence) {
  if (!axis?.labels) return null;
  return axis.batched ? (sentence === null ? null : axis.labels[sentence]?.[index] ?? null) : axis.labels[index] ?? null;
}
function shapeText(shape) {
  if (!shape.length) return "scalar";
  const axes = axesOf(shape);
  return `[${shape.map((n, i) => (axes[i] ? `${axes[i].name} ${n}` : n)).join(", ")}]`;
}

// ---- Names ------------------------------------------------------------------------------------------------------

function classOf(op) { return classes[op.class]; }
function opName(number) { return classOf(ops[number]).name; }
function eventName(number) {
  const { kind, of } = events[number];
  return kind === "update" ? leaves[of].name : opName(of);
}

// ---- Gradients: where those of each op's output and each leaf come from, in order ---------------------------------

const arrivals = new Map(); // "op 3 0" or "leaf 4" -> [{ event, op, input }]
function targetKey(input) { return input.leaf === undefined ? `op ${input.op} ${input.output}` : `leaf ${input.leaf}`; }
for (const [event, op, input] of step.arrivals) {
  const key = targetKey(ops[op].inputs[input]);
  if (!arrivals.has(key)) arrivals.set(key, []);
  arrivals.get(key).push({ event, op, input });
}
function arrivalsAt(key) { return arrivals.get(key) ?? []; }

// Ops that use an output of an op, or a leaf.
const users = new Map();
ops.forEach((op, number) => op.inputs.forEach((input, i) => {
  if (input.op === undefined && input.leaf === undefined) return;
  const key = targetKey(input);
  if (!users.has(key)) users.set(key, []);
  users.get(key).push({ op: number, input: i });
}));

// ---- Phases -----------------------------------------------------------------------------------------------------

const PHASES = { forward: "forward", loss: "loss", backward: "backward", update: step.update?.name ?? "update" };
const spans = []; // { phase, first, last }
events.forEach(({ phase }, i) => {
  if (spans.at(-1)?.phase === phase) spans.at(-1).last = i;
  else spans.push({ phase, first: i, last: i });
});
const memory = step.memory;
const peak = memory.bytes.reduce((best, bytes, i) => (bytes > memory.bytes[best] ? i : best), 0);
