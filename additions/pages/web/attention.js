// Drawing and event handlers.

// ---- Overview of all heads --------------------------------------------------------------------------------------

function buildHeads() {
  const table = $("heads");
  table.style.setProperty("--heads", page.heads);
  $("lines").style.setProperty("--heads", page.heads);
  const top = table.insertRow();
  top.append(element("th"));
  for (let head = 0; head < page.heads; head++) {
    const cell = element("th", "", page.heads > 8 ? `${head + 1}` : `Head ${head + 1}`);
    cell.scope = "col";
    top.append(cell);
  }
  for (let layer = 0; layer < Math.max(page.layers, page.encoder_layers); layer++) {
    const row = table.insertRow();
    const name = element("th");
    name.scope = "row";
    name.append(headButton(layer, ALL));
    row.append(name);
    for (let head = 0; head < page.heads; head++) row.insertCell().append(headButton(layer, head));
  }
  table.addEventListener("keydown", moveAmongHeads);
}

function headButton(layer, head) {
  const button = element("button", "", head === ALL ? `Layer ${layer + 1}` : undefined);
  button.type = "button";
  button.dataset.layer = layer;
  button.dataset.head = head;
  if (head === ALL) button.setAttribute("aria-label", `layer ${layer + 1}, all heads`);
  else button.append(element("canvas"));
  button.addEventListener("click", () => { Object.assign(state, { layer, head }); render(); });
  return button;
}
function buttonOf(layer, head) { return $("heads").querySelector(`[data-layer="${layer}"][data-head="${head}"]`); }

function moveAmongHeads(event) {
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  if (!step || !event.target.dataset.layer) return;
  event.preventDefault();
  buttonOf(+event.target.dataset.layer + step[0], +event.target.dataset.head + step[1])?.focus();
}

function renderHeads() {
  for (const button of $("heads").querySelectorAll("button")) {
    const [layer, head] = [+button.dataset.layer, +button.dataset.head];
    button.closest("tr").hidden = layer >= layersOf(state.kind);
    if (layer >= layersOf(state.kind)) continue;
    const pressed = layer === state.layer && head === state.head;
    button.setAttribute("aria-pressed", pressed);
    button.tabIndex = pressed ? 0 : -1;
    if (head === ALL) continue;
    const weights = weightsIn(layer, head);
    paint(button.firstChild, weights, queries().length, keys().length);
    const name = `layer ${layer + 1}, head ${head + 1}: ${pattern(weights)}`;
    button.title = name;
    button.setAttribute("aria-label", name);
  }
  const columns = $("heads").rows[0].cells;
  for (let head = 0; head < page.heads; head++) {
    const name = columns[head + 1];
    name.replaceChildren(name.textContent);
    if (state.head !== ALL) continue;
    const swatch = element("span", "swatch");
    swatch.style.background = headColour(head);
    name.prepend(swatch);
  }
  const scale = Float32Array.from({ length: 256 }, (_, i) => (i / 255) ** (1 / GAMMA));
  paint($("scale"), scale, 1, 256);
  for (const tick of document.querySelectorAll(".ticks i")) {
    tick.style.left = `${100 * (parseFloat(tick.textContent) / 100) ** GAMMA}%`;
  }
}

// A description of where the weight of a head goes on average: to the previous token, to the token itself, …
function pattern(weights) {
  const [t, s] = [queries().length, keys().length];
  const shares = new Map();
  const add = (name, row, column) => {
    if (column >= 0 && column < s) shares.set(name, (shares.get(name) ?? 0) + weights[row * s + column] / t);
  };
  let spread = 0;
  for (let row = 0; row < t; row++) {
    let entropy = 0;
    for (let column = 0; column < s; column++) {
      const w = weights[row * s + column];
      if (w > 0) entropy -= w * Math.log(w);
    }
    spread += Math.exp(entropy) / t;
    if (state.kind === "encoder") {
      add("the previous token", row, row - 1);
      add("the token itself", row, row);
      add("the next token", row, row + 1);
    } else if (state.kind === "decoder") {
      add("the previous token", row, row);
      add("the token before the previous one", row, row - 1);
      add("the start token", row, 0);
    }
    if (state.kind !== "decoder" && sentence().special.source.length) add("the end token", row, s - 1);
  }
  const [best, share] = [...shares].reduce((a, b) => (b[1] > a[1] ? b : a), ["", 0]);
  const wide = `spread over ${spread.toFixed(1)} of ${s} tokens`;
  return share > 0.4 ? `${percent(share)} to ${best}, ${wide}` : wide;
}

// ---- Lines ------------------------------------------------------------------------------------------------------

function renderTokens() {
  for (const side of ["queries", "keys"]) {
    const list = $(side);
    list.setAttribute("aria-label", $(side === "queries" ? "query-title" : "key-title").textContent);
    list.replaceChildren(...(side === "queries" ? queries() : keys()).map((piece, index) => {
      const item = element("li", isSpecial(side, index) ? "special" : "");
      item.setAttribute("role", "option");
      item.dataset.side = side;
      item.dataset.index = index;
      item.title = visiblePiece(piece);
      item.append(pieceElement(piece), element("span", "share"), element("span", "stripes"));
      return item;
    }));
    list.classList.toggle("striped", state.head === ALL);
  }
}

function renderChoice() {
  const { weights } = shown;
  const s = keys().length;
  for (const item of document.querySelectorAll(".tokens li")) {
    const { side } = item.dataset;
    const index = +item.dataset.index;
    const chosen = state.token?.side === side && state.token.index === index;
    item.classList.toggle("chosen", chosen);
    item.setAttribute("aria-selected", chosen && state.kept);
    item.tabIndex = chosen || (!state.token && index === 0) ? 0 : -1;
    const opposite = state.token && state.token.side !== side;
    const at = (w) => (side === "keys" ? w[state.token.index * s + index] : w[index * s + state.token.index]);
    const weight = opposite ? at(weights) : 0;
    const [, share, stripes] = item.children;
    share.textContent = opposite && weight >= 0.005 ? percent(weight) : "";
    item.style.background = opposite && state.head !== ALL ? lineColour(state.head, 0.55 * weight) : "";
    stripes.style.background = opposite && state.head === ALL
      ? striped(headsShown().map((head) => at(weightsIn(state.layer, head)))) : "";
  }
  drawLines();
  drawCells();
  renderStatus(weights);
}

// A stripe per head, as opaque as its weight.
function striped(weights) {
  const stops = weights.flatMap((weight, head) => {
    const tint = headColour(head, weight);
    return [`${tint} ${(100 * head) / weights.length}%`, `${tint} ${(100 * (head + 1)) / weights.length}%`];
  });
  return `linear-gradient(90deg, ${stops.join(", ")})`;
}

function drawLines() {
  const [strip, canvas] = [$("strip"), $("threads")];
  const ratio = devicePixelRatio || 1;
  const width = canvas.parentElement.clientWidth;
  const height = Math.min(strip.clientHeight, ROW * Math.max(queries().length, keys().length));
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.lineCap = "round";
  const middle = (index) => (index + 0.5) * ROW - strip.scrollTop;
  const heads = headsShown();
  const apart = Math.min(3, (ROW - 6) / heads.length); // lines of several heads are side by side
  for (const [place, head] of heads.entries()) {
    const weights = weightsIn(state.layer, head);
    const shift = (place - (heads.length - 1) / 2) * apart;
    for (let row = 0; row < queries().length; row++) {
      for (let column = 0; column < keys().length; column++) {
        const weight = weights[row * keys().length + column];
        const touched = isTouched(row, column);
        if (weight < (touched ? 0.001 : FAINT) || (state.token && !touched)) continue;
        const [from, to] = [middle(row) + shift, middle(column) + shift];
        if (Math.max(from, to) < 0 || Math.min(from, to) > height) continue;
        pen.strokeStyle = lineColour(head, Math.min(1, touched ? 0.12 + 0.88 * weight : 0.9 * weight));
        pen.lineWidth = Math.min(heads.length === 1 ? 5 : apart, touched ? 0.8 + 4.2 * weight : 0.5 + 2 * weight);
        pen.beginPath();
        pen.moveTo(3, from);
        pen.bezierCurveTo(width * 0.4, from, width * 0.6, to, width - 3, to);
        pen.stroke();
      }
    }
  }
}

function isTouched(row, column) {
  const token = state.token;
  if (!token) return false;
  return (token.side === "queries" ? row : column) === token.index;
}

function choose(token, kept) {
  if (state.kept && !kept) return;
  Object.assign(state, { token, kept: kept && token !== null });
  renderChoice();
}

function tokenAt(target) {
  const item = target.closest?.(".tokens li");
  return item ? { side: item.dataset.side, index: +item.dataset.index } : null;
}

function moveAmongTokens(event) {
  const token = tokenAt(event.target);
  if (!token) return;
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    toggle(token);
    return;
  }
  const lists = { queries: queries(), keys: keys() };
  const moved = {
    ArrowUp: { ...token, index: token.index - 1 },
    ArrowDown: { ...token, index: token.index + 1 },
    Home: { ...token, index: 0 },
    End: { ...token, index: lists[token.side].length - 1 },
    ArrowLeft: { side: "queries", index: Math.min(token.index, lists.queries.length - 1) },
    ArrowRight: { side: "keys", index: Math.min(token.index, lists.keys.length - 1) },
  }[event.key];
  if (!moved || moved.index < 0 || moved.index >= lists[moved.side].length) return;
  event.preventDefault();
  state.kept = false;
  $(moved.side).children[moved.index].focus();
}

function toggle(token) {
  const off = state.kept && state.token.side === token.side && state.token.index === token.index;
  state.kept = false;
  choose(token, !off);
}

// ---- All weights -----------------------------------------------------------------------------------------------

const SMALLEST_NAMED = 11; // size of a cell in pixels beside which a name can be read
const MOST_NAMED = 80; // tokens
let grid = { size: 1, left: 0, top: 0 };

function shortened(piece) {
  const characters = [...visiblePiece(piece)];
  return characters.length > 14 ? `${characters.slice(0, 13).join("")}…` : characters.join("");
}

function drawCells() {
  const [t, s] = [queries().length, keys().length];
  const canvas = $("cells");
  const pen = canvas.getContext("2d");
  const widest = (pieces, font) => {
    pen.font = `${font}px ${family}`;
    return Math.ceil(Math.max(...pieces.map((piece) => pen.measureText(shortened(piece)).width)));
  };
  const family = getComputedStyle(document.body).fontFamily;
  const slanted = (length) => Math.ceil(length * Math.SQRT1_2); // column labels are rotated
  const room = canvas.parentElement.clientWidth - 2;
  const roomForCells = room - widest(queries(), 13) - slanted(widest(keys(), 13)) - 14;
  const named = s <= MOST_NAMED;
  const size = named ? Math.max(SMALLEST_NAMED, Math.min(30, Math.floor(roomForCells / s)))
    : Math.max(3, Math.floor(room / s)); // scrolls if it does not fit
  const font = Math.min(13, size);
  const left = named ? widest(queries(), font) + 8 : 2;
  const slant = named ? slanted(widest(keys(), font)) : 0;
  const top = named ? slant + 16 : 2;
  grid = { size, left, top };
  const ratio = devicePixelRatio || 1;
  const [width, height] = [left + s * size + slant + 4, top + t * size + 2];
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  pen.scale(ratio, ratio);
  pen.font = `${font}px ${family}`;
  pen.imageSmoothingEnabled = false;
  pen.drawImage(shown.picture, left, top, s * size, t * size);
  pen.lineWidth = 1;
  if (size >= 12) {
    pen.strokeStyle = cssColour("--card");
    pen.beginPath();
    for (let row = 1; row < t; row++) {
      pen.moveTo(left, top + row * size - 0.5);
      pen.lineTo(left + s * size, top + row * size - 0.5);
    }
    for (let column = 1; column < s; column++) {
      pen.moveTo(left + column * size - 0.5, top);
      pen.lineTo(left + column * size - 0.5, top + t * size);
    }
    pen.stroke();
  }
  pen.strokeStyle = cssColour("--rule");
  pen.strokeRect(left - 0.5, top - 0.5, s * size + 1, t * size + 1);
  if (named) drawNames(pen);
  outline(pen);
  canvas.setAttribute("aria-label", `${t} by ${s} weights of ${$("lines-title").textContent}`);
}

function drawNames(pen) {
  const { size, left, top } = grid;
  const [ink, accent] = [cssColour("--ink"), cssColour("--accent")];
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  queries().forEach((piece, row) => {
    pen.fillStyle = state.token && rowOfChoice() === row ? accent : ink;
    pen.fillText(shortened(piece), left - 5, top + (row + 0.5) * size);
  });
  pen.textAlign = "left";
  keys().forEach((piece, column) => {
    pen.fillStyle = state.token && columnOfChoice() === column ? accent : ink;
    pen.save();
    pen.translate(left + (column + 0.5) * size, top - 6);
    pen.rotate(-Math.PI / 4);
    pen.fillText(shortened(piece), 0, 0);
    pen.restore();
  });
}

function rowOfChoice() { return state.token.side === "queries" ? state.token.index : state.token.other; }
function columnOfChoice() { return state.token.side === "keys" ? state.token.index : state.token.other; }

function outline(pen) {
  if (!state.token) return;
  const { size, left, top } = grid;
  pen.strokeStyle = cssColour("--accent");
  pen.lineWidth = 1.5;
  const [row, column] = [rowOfChoice(), columnOfChoice()];
  const [t, s] = [queries().length, keys().length];
  if (state.token.side === "queries") pen.strokeRect(left - 1, top + row * size - 1, s * size + 1, size + 1);
  else pen.strokeRect(left + column * size - 1, top - 1, size + 1, t * size + 1);
  if (row !== undefined && column !== undefined) {
    pen.strokeStyle = cssColour("--warm");
    pen.lineWidth = 2;
    pen.strokeRect(left + column * size - 1, top + row * size - 1, size + 1, size + 1);
  }
}

function cellAt(event) {
  const box = $("cells").getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left - grid.left) / grid.size);
  const row = Math.floor((event.clientY - box.top - grid.top) / grid.size);
  if (row < 0 || column < 0 || row >= queries().length || column >= keys().length) return null;
  return { side: "queries", index: row, other: column };
}

// ---- Descriptions ------------------------------------------------------------------------------------

function quoted(side, index) {
  const made = element("b");
  made.append("“", pieceElement((side === "queries" ? queries() : keys())[index]), "”");
  return made;
}

function renderStatus(weights) {
  const status = $("status");
  const [t, s] = [queries().length, keys().length];
  if (!state.token) {
    status.textContent = `${t} tokens attend to ${s}. Point at one, or tap it, to see its weights.`;
    return;
  }
  const { side, index, other } = state.token;
  const opposite = side === "queries" ? "keys" : "queries";
  const at = (i) => (side === "queries" ? weights[index * s + i] : weights[i * s + index]);
  const ranked = [...Array(side === "queries" ? s : t).keys()].sort((a, b) => at(b) - at(a)).slice(0, 5);
  const parts = ranked.filter((i) => at(i) >= 0.005).flatMap((i, n) =>
    [n ? ", " : "", quoted(opposite, i), ` ${percent(at(i))}`]);
  const verb = side === "queries" ? ` ${KINDS[state.kind].key}: ` : " is attended to by: ";
  const cell = other === undefined ? [] : [" — the cell: ", quoted("keys", other), ` ${percent(at(other))}`];
  const sure = side === "queries" && state.kind !== "encoder"
    ? [` (generated with probability ${percent(Math.exp(sentence().log_probabilities[index]))})`] : [];
  const mean = state.head === ALL ? [" — mean of heads"] : [];
  status.replaceChildren(quoted(side, index), ...sure, verb, ...(parts.length ? parts : ["nothing above 0.5 %"]),
    ...cell, ...mean);
}

function renderNames() {
  const kind = KINDS[state.kind];
  $("meaning").textContent = kind.meaning;
  $("query-title").textContent = kind.query;
  $("key-title").textContent = kind.key;
  $("source-text").textContent = visible(sentence().source_text);
  $("target-text").textContent = visible(sentence().target_text);
  const head = state.head === ALL ? "all heads" : `head ${state.head + 1}`;
  $("lines-title").textContent = `Layer ${state.layer + 1}, ${head}`;
  $("pattern").textContent = state.head === ALL ? "each head has a colour" : pattern(weightsIn(state.layer, state.head));
  $("map-title").textContent = state.head === ALL ? "All weights, mean of the heads" : "All weights";
  $("previous").disabled = state.sentence === 0;
  $("next").disabled = state.sentence === page.sentences.length - 1;
  $("sentence").value = state.sentence;
  document.querySelector(`input[name="kind"][value="${state.kind}"]`).checked = true;
}

// ---- Start and update -----------------------------------------------------------------------------------------------

async function render() {
  const wanted = state.sentence;
  try {
    if (!weightsOf.has(wanted)) weightsOf.set(wanted, await readWeights(wanted));
  } catch (error) {
    $("problem").hidden = false;
    $("problem").textContent = `The weights cannot be read (${error.message}): the page needs a browser of 2023 or ` +
      "later, and a complete file.";
    return;
  }
  if (wanted !== state.sentence) return; // another sentence was chosen meanwhile
  state.layer = Math.min(state.layer, layersOf(state.kind) - 1);
  const tokens = state.token?.side === "queries" ? queries() : keys();
  if (state.token && state.token.index >= tokens.length) state.token = null;
  if (state.token) delete state.token.other;
  state.kept &&= state.token !== null;
  mixPalette();
  shown = { weights: meanWeights(), picture: element("canvas") };
  paint(shown.picture, shown.weights, queries().length, keys().length);
  renderNames();
  renderTokens();
  renderHeads();
  renderChoice();
  document.body.dataset.ready = JSON.stringify([state.sentence, state.kind, state.layer, state.head]);
}

function show(change) {
  Object.assign(state, { token: null, kept: false }, change);
  $("strip").scrollTop = 0;
  return render();
}

function start() {
  $("model").textContent = page.model;
  page.sentences.forEach(({ label }, i) => $("sentence").add(new Option(visible(label), i)));
  buildHeads();
  $("sentence").addEventListener("change", () => show({ sentence: +$("sentence").value }));
  $("previous").addEventListener("click", () => show({ sentence: state.sentence - 1 }));
  $("next").addEventListener("click", () => show({ sentence: state.sentence + 1 }));
  $("kind").addEventListener("change", (event) => show({ kind: event.target.value }));
  const strip = $("strip");
  strip.addEventListener("pointerover", (event) => choose(tokenAt(event.target), false));
  strip.addEventListener("pointerleave", () => choose(null, false));
  strip.addEventListener("focusin", (event) => { if (tokenAt(event.target)) choose(tokenAt(event.target), false); });
  strip.addEventListener("click", (event) => { if (tokenAt(event.target)) toggle(tokenAt(event.target)); });
  strip.addEventListener("keydown", moveAmongTokens);
  strip.addEventListener("scroll", () => requestAnimationFrame(drawLines));
  const cells = $("cells");
  cells.addEventListener("pointermove", (event) => choose(cellAt(event), false));
  cells.addEventListener("pointerleave", () => choose(null, false));
  cells.addEventListener("click", (event) => { if (cellAt(event)) toggle(cellAt(event)); });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { state.kept = false; choose(null, false); }
  });
  document.addEventListener("themechange", () => { if (shown) render(); });
  addEventListener("resize", () => { if (shown) renderChoice(); });
  startTheme();
  return render();
}

start();
