// Colours of weights from 0 to 1, and pictures of matrices of them.

const RAMPS = {
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
