"use strict";

// Heat maps of arrays, with the numbers under the pointer or the cursor of the keyboard.
const GAMMA = 0.6;
const slices = new Map(); // index shown of each leading axis, by its name, or place where it has none
let palette = null; // 513 colours from -1 to 1
let cardWidth = 200; // of a heat map, so that a row of the panel has four; on a phone two

function makePalette() {
  const ends = isDark() ? [[104, 176, 255], [33, 37, 44], [255, 160, 82]] : [[22, 86, 168], [250, 249, 246], [184, 72, 8]];
  palette = Array.from({ length: 513 }, (_, i) => {
    const x = (i - 256) / 256;
    const share = Math.abs(x) ** GAMMA;
    return ends[1].map((middle, c) => Math.round(middle + (ends[x < 0 ? 0 : 2][c] - middle) * share));
  });
}
function largest(value) {
  return value.stats ? Math.max(Math.abs(value.stats[0]), Math.abs(value.stats[1])) || 1 : 1;
}
function shade(x, scale) {
  if (!Number.isFinite(x)) return [214, 40, 170];
  return palette[Math.max(0, Math.min(512, Math.round(256 + 256 * (x / scale))))];
}

// The last two axes of a value at the chosen indices of the others, as a matrix.
function matrixOf(value) {
  const lead = Math.max(0, value.shape.length - 2);
  const axes = axesOf(value.shape);
  let offset = 0;
  let sentence = null;
  const chosen = [];
  for (let axis = 0; axis < lead; axis++) {
    const key = axes[axis]?.name ?? `axis ${axis} of ${value.sizes[axis]}`;
    const index = Math.min(slices.get(key) ?? 0, value.sizes[axis] - 1);
    chosen.push({ axis, key, index });
    offset = offset * value.sizes[axis] + index;
    if (axes[axis]?.name === "B") sentence = trueIndex(value, axis, index);
  }
  const rows = value.shape.length > 1 ? value.sizes[lead] : 1;
  const columns = value.shape.length ? value.sizes.at(-1) : 1;
  const at = (row, column) => value.elements[(offset * rows + row) * columns + column];
  const rowAxis = value.shape.length > 1 ? axes[lead] : null;
  const columnAxis = value.shape.length ? axes.at(-1) : null;
  if (sentence === null && rowAxis?.name === "B" && columnAxis?.batched) sentence = "row";
  return { value, lead, chosen, sentence, rows, columns, at, rowAxis, columnAxis };
}
function rowLabel(matrix, row) {
  if (matrix.sentence === "row") return null;
  return labelOf(matrix.rowAxis, trueIndex(matrix.value, matrix.lead, row), matrix.sentence);
}
function columnLabel(matrix, column, row = 0) {
  const sentence = matrix.sentence === "row" ? trueIndex(matrix.value, matrix.lead, row) : matrix.sentence;
  return labelOf(matrix.columnAxis, trueIndex(matrix.value, matrix.value.shape.length - 1, column), sentence);
}
function reading(matrix, row, column) {
  const { value, chosen } = matrix;
  const parts = chosen.map(({ axis, index }) => trueIndex(value, axis, index));
  if (value.shape.length > 1) parts.push(withLabel(trueIndex(value, matrix.lead, row), rowLabel(matrix, row)));
  if (value.shape.length) {
    parts.push(withLabel(trueIndex(value, value.shape.length - 1, column), columnLabel(matrix, column, row)));
  }
  return `${value.shape.length ? `[${parts.join(", ")}]` : "value"} = ${format(matrix.at(row, column))}`;
}
function withLabel(index, label) { return label === null ? `${index}` : `${index} “${label}”`; }

// ---- The figure -------------------------------------------------------------------------------------------------

// options: name, note (elements), faded, width, wide
function arrayFigure(index, options = {}) {
  const figure = h("figure", { class: `array${options.faded ? " faded" : ""}` });
  const caption = h("figcaption", {}, h("b", {}, options.name ?? ""), options.note ?? null);
  if (index === undefined || index === null) {
    figure.append(caption, h("p", { class: "soft none" }, options.absent ?? "none"));
    return figure;
  }
  const value = valueOf(index);
  figure.dataset.value = index;
  figure.append(caption, h("p", { class: "shape" }, `${shapeText(value.shape)} ${value.dtype.replace("float", "f").replace("int", "i")}`));
  if (!value.elements.length) {
    figure.append(h("p", { class: "soft none" }, "no numbers"));
  } else if (value.elements.length === 1) {
    figure.append(h("p", { class: "single" }, format(value.elements[0])));
  } else {
    figure.append(heatMap(value, options), ...[sliceControls(value)].filter(Boolean), statistics(value));
  }
  return figure;
}
function statistics(value) {
  if (!value.stats) return h("p", { class: "stats soft" }, `${value.other} values, none finite`);
  const [low, high, mean, rms] = value.stats;
  const sampled = value.kept ? ` · ${value.elements.length.toLocaleString("en")} of ${value.shape.reduce((a, b) => a * b, 1).toLocaleString("en")} shown` : "";
  const other = value.other ? ` · ${value.other} not finite` : "";
  return h("p", { class: "stats soft", title: "smallest and largest element, mean, root mean square, of all elements" },
    `${brief(low)} … ${brief(high)} · mean ${brief(mean)} · rms ${brief(rms)}${sampled}${other}`);
}
function sliceControls(value) {
  const lead = value.shape.length - 2;
  if (lead < 1) return null;
  const axes = axesOf(value.shape);
  return h("div", { class: "slices" }, matrixOf(value).chosen.filter(({ axis }) => value.sizes[axis] > 1).map(({ axis, key, index }) =>
    h("label", {}, `${axes[axis]?.name ?? `axis ${axis}`} `, h("select", {
      "aria-label": `index of axis ${axes[axis]?.name ?? axis}`,
      onchange: (event) => { slices.set(key, +event.target.value); showAgain(event.target); },
    }, Array.from({ length: value.sizes[axis] }, (_, i) =>
      h("option", { value: i, selected: i === index }, `${trueIndex(value, axis, i)}`))))));
}

function heatMap(value, options) {
  const matrix = matrixOf(value);
  const width = options.width ?? cardWidth;
  const { rows, columns } = matrix;
  const labels = Array.from({ length: rows }, (_, i) => rowLabel(matrix, i));
  const tops = columns <= 40 && matrix.columnAxis?.labels && matrix.sentence !== "row"
    ? Array.from({ length: columns }, (_, i) => columnLabel(matrix, i)) : [];
  const limit = options.height ?? 190;
  const cellH = Math.min(rows <= 24 ? 13 : limit / rows, rows === 1 ? 18 : 16);
  const gutter = labels.some(Boolean) && cellH >= 9 ? 46 : 0;
  const cellW = Math.min((width - gutter) / columns, 28);
  const head = tops.some(Boolean) && cellW >= 9 ? 40 : 0;
  const [w, hgt] = [Math.round(gutter + cellW * columns), Math.round(head + cellH * rows)];
  const ratio = Math.min(devicePixelRatio || 1, 2);
  const canvas = h("canvas", { width: w * ratio, height: hgt * ratio, tabindex: 0, role: "img",
    "aria-label": `${options.name ?? "array"}, ${shapeText(value.shape)}: heat map; arrow keys read its numbers` });
  canvas.style.width = `${w}px`;
  canvas.style.height = `${hgt}px`;
  const place = { matrix, gutter, head, cellW, cellH };
  paint(canvas, place, labels, tops, ratio);
  listen(canvas, place);
  return h("div", { class: "heat" }, canvas);
}

function paint(canvas, { matrix, gutter, head, cellW, cellH }, labels, tops, ratio) {
  const { rows, columns, value } = matrix;
  const scale = largest(value);
  const image = new ImageData(columns, rows);
  for (let row = 0, k = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++, k += 4) {
      const [r, g, b] = shade(matrix.at(row, column), scale);
      image.data[k] = r; image.data[k + 1] = g; image.data[k + 2] = b; image.data[k + 3] = 255;
    }
  }
  const small = paint.canvas ??= document.createElement("canvas");
  small.width = columns;
  small.height = rows;
  small.getContext("2d").putImageData(image, 0, 0);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.imageSmoothingEnabled = columns > cellW * columns * ratio;
  context.drawImage(small, gutter, head, cellW * columns, cellH * rows);
  context.font = `${Math.min(11, cellH)}px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace`;
  context.fillStyle = inkColour;
  context.textBaseline = "middle";
  if (gutter) labels.forEach((label, i) => label && context.fillText(label.slice(0, 7), 0, head + (i + 0.5) * cellH));
  if (head) {
    tops.forEach((label, i) => {
      if (!label) return;
      context.save();
      context.translate(gutter + (i + 0.5) * cellW, head - 3);
      context.rotate(-Math.PI / 2);
      context.fillText(label.slice(0, 6), 0, 0);
      context.restore();
    });
  }
  const whole = value.dtype.includes("int");
  if (cellW >= (whole ? 17 : 27) && cellH >= 12) paintNumbers(context, matrix, gutter, head, cellW, cellH, scale);
}
function paintNumbers(context, matrix, gutter, head, cellW, cellH, scale) {
  context.font = "9px ui-monospace, Menlo, Consolas, monospace";
  context.textAlign = "center";
  for (let row = 0; row < matrix.rows; row++) {
    for (let column = 0; column < matrix.columns; column++) {
      const x = matrix.at(row, column);
      const text = Number.isInteger(x) ? format(x) : x.toFixed(1).replace("-", "−");
      if (text.length > 4) continue;
      const [r, g, b] = shade(x, scale);
      context.fillStyle = r * 0.3 + g * 0.6 + b * 0.1 > 140 ? "#111" : "#fff";
      context.fillText(text, gutter + (column + 0.5) * cellW, head + (row + 0.5) * cellH);
    }
  }
  context.textAlign = "start";
}

// ---- Reading numbers --------------------------------------------------------------------------------------------

function listen(canvas, { matrix, gutter, head, cellW, cellH }) {
  let [row, column] = [0, 0];
  const read = (spoken) => {
    const box = canvas.getBoundingClientRect();
    const text = reading(matrix, row, column);
    showTooltip(text, box.left + gutter + (column + 1) * cellW, box.top + head + (row + 1) * cellH);
    if (spoken) $("status").textContent = text;
  };
  const point = (event) => {
    const box = canvas.getBoundingClientRect();
    const [r, c] = [Math.floor((event.clientY - box.top - head) / cellH), Math.floor((event.clientX - box.left - gutter) / cellW)];
    if (r < 0 || c < 0 || r >= matrix.rows || c >= matrix.columns) return hideTooltip();
    [row, column] = [r, c];
    read(false);
  };
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("pointerdown", point);
  canvas.addEventListener("pointerleave", hideTooltip);
  canvas.addEventListener("blur", hideTooltip);
  canvas.addEventListener("focus", () => canvas.matches(":focus-visible") && read(true));
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (event.key === "Escape") { canvas.blur(); event.stopPropagation(); return; }
    if (!move || event.shiftKey) return;
    event.preventDefault();
    event.stopPropagation();
    row = Math.min(matrix.rows - 1, Math.max(0, row + move[0]));
    column = Math.min(matrix.columns - 1, Math.max(0, column + move[1]));
    read(true);
  });
}
function showTooltip(text, x, y) {
  const tip = $("tooltip");
  tip.textContent = text;
  tip.hidden = false;
  tip.style.left = `${Math.max(4, Math.min(x + 6, innerWidth - tip.offsetWidth - 6))}px`;
  tip.style.top = `${Math.min(y + 6, innerHeight - tip.offsetHeight - 6)}px`;
}
function hideTooltip() { $("tooltip").hidden = true; }
