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

function headColour(head, alpha = 1) {
  const hue = 25 + (360 * head) / page.heads;
  return `oklch(${isDark() ? 76 : 56}% 0.17 ${hue.toFixed(1)} / ${alpha})`;
}
function lineColour(head, alpha) {
  if (state.head === ALL) return headColour(head, alpha);
  return isDark() ? `rgba(125, 180, 245, ${alpha})` : `rgba(31, 95, 174, ${alpha})`;
}

// ---- Texts ------------------------------------------------------------------------------------------------------

function isSpecial(side, index) {
  const name = KINDS[state.kind][side];
  return (sentence().special[name] ?? []).includes(index);
}
