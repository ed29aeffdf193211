"use strict";

// The state of the page, from which everything is drawn. Tokens are written as text, never as markup.
const page = data("page");
const KINDS = {
  encoder: { queries: "source", keys: "source", query: "source token", key: "attends to source tokens",
    meaning: "each source token attends to all source tokens" },
  decoder: { queries: "target_out", keys: "target_in", query: "target token", key: "attends to previous target tokens",
    meaning: "each target token attends to the target tokens before it" },
  cross: { queries: "target_out", keys: "source", query: "target token", key: "attends to source tokens",
    meaning: "each target token attends to all source tokens" },
};
const ALL = -1; // all heads of a layer
const ROW = 24; // height of a token, as in the style sheet
const FAINT = 0.01; // lines of less weight are drawn only for a selected token
const state = { ...page.start, token: null, kept: false }; // token: { side: "queries" | "keys", index, other }
const weightsOf = new Map(); // by sentence, for those shown before
let shown = null; // weights of the selected head, or the mean of all heads, and an image of them

// ---- Weights ----------------------------------------------------------------------------------------------------

// Input: the high bytes of all weights, then the low bytes, compressed, in base64; each row sums to 65,535.
async function readWeights(sentence) {
  const bytes = new Uint8Array(await unpacked(`weights-${sentence}`));
  const count = bytes.length / 2;
  const all = new Float32Array(count);
  for (let i = 0; i < count; i++) all[i] = (bytes[i] * 256 + bytes[count + i]) / 65535;
  const { source, target_out } = page.sentences[sentence];
  const [s, t] = [source.length, target_out.length];
  const sizes = [layersOf("encoder") * s * s, layersOf("decoder") * t * t, layersOf("cross") * t * s];
  const ends = sizes.reduce((all, size) => [...all, all.at(-1) + size * page.heads], [0]);
  return { encoder: all.subarray(ends[0], ends[1]), decoder: all.subarray(ends[1], ends[2]),
    cross: all.subarray(ends[2], ends[3]) };
}

function layersOf(kind) { return kind === "encoder" ? page.encoder_layers : page.layers; }
function sentence() { return page.sentences[state.sentence]; }
function queries() { return sentence()[KINDS[state.kind].queries]; }
function keys() { return sentence()[KINDS[state.kind].keys]; }

// Weights of one head for the current sentence and kind, by query and key.
function weightsIn(layer, head) {
  const [t, s] = [queries().length, keys().length];
  const start = (layer * page.heads + head) * t * s;
  return weightsOf.get(state.sentence)[state.kind].subarray(start, start + t * s);
}
function headsShown() { return state.head === ALL ? [...Array(page.heads).keys()] : [state.head]; }

function meanWeights() {
  const heads = headsShown();
  const mean = new Float32Array(queries().length * keys().length);
  for (const head of heads) weightsIn(state.layer, head).forEach((w, i) => { mean[i] += w / heads.length; });
  return mean;
}

// ---- Colours ----------------------------------------------------------------------------------------------------

const RAMPS = { // colours of weights from 0 to 1
  light: [[255, 255, 255], [205, 226, 245], [107, 166, 217], [31, 95, 174], [8, 38, 92]],
  dark: [[29, 32, 38], [37, 66, 104], [56, 125, 186], [140, 205, 235], [252, 246, 200]],
};
const GAMMA = 0.55; // exponent of the colour scale, so that small weights can be seen; the legend has the same

function colour(weight) {
  const ramp = RAMPS[isDark() ? "dark" : "light"];
  const place = Math.min(weight, 1) ** GAMMA * (ramp.length - 1);
  const low = Math.min(Math.floor(place), ramp.length - 2);
  return ramp[low].map((c, i) => Math.round(c + (ramp[low + 1][i] - c) * (place - low)));
}
function headColour(head, alpha = 1) {
  const hue = 25 + (360 * head) / page.heads;
  return `oklch(${isDark() ? 76 : 56}% 0.17 ${hue.toFixed(1)} / ${alpha})`;
}
function lineColour(head, alpha) {
  if (state.head === ALL) return headColour(head, alpha);
  return isDark() ? `rgba(125, 180, 245, ${alpha})` : `rgba(31, 95, 174, ${alpha})`;
}
// A canvas cannot use the style sheet's variables, and the text of a variable may be light-dark(…): let CSS compute it.
function cssColour(name) {
  const probe = $("problem");
  probe.style.color = `var(${name})`;
  const found = getComputedStyle(probe).color;
  probe.style.color = "";
  return found;
}

// One pixel per weight. A long sentence has a million, so colours come from a table.
const SHADES = 4096;
let palette = null;

function mixPalette() {
  const bytes = new Uint8ClampedArray(4 * (SHADES + 1));
  for (let i = 0; i <= SHADES; i++) bytes.set([...colour(i / SHADES), 255], 4 * i);
  palette = new Uint32Array(bytes.buffer);
}
function paint(canvas, weights, rows, columns) {
  canvas.width = columns;
  canvas.height = rows;
  const image = new ImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < weights.length; i++) pixels[i] = palette[Math.round(weights[i] * SHADES)];
  canvas.getContext("2d").putImageData(image, 0, 0);
}

// ---- Texts ------------------------------------------------------------------------------------------------------

function isSpecial(side, index) {
  const name = KINDS[state.kind][side];
  return (sentence().special[name] ?? []).includes(index);
}
