// Attention: the piece in hand, and the pieces that each head looks at for it. Heads are switched off here.

const ALL = -1; // all heads of a layer
const KINDS = {
  encoder: { part: "self_attention", queries: "source", keys: "source",
    meaning: "each piece of the sentence looks at all of them" },
  decoder: { part: "self_attention", queries: "target", keys: "given",
    meaning: "each piece of the translation was chosen by looking at those before it, <s> first" },
  cross: { part: "cross_attention", queries: "target", keys: "source",
    meaning: "each piece of the translation was chosen by looking at the pieces of the sentence" },
};
const look = { kind: "cross", layer: 0, head: ALL, trace: null, hover: null };

// ---- What is looked at --------------------------------------------------------------------------------------------

// The result of a computation, and all that it shows: a Map from part to the values of each position by name.
function traced(compute) {
  const trace = new Map();
  let position = 0;
  observer = (part, name, value, head) => {
    if (name === "position") position = value;
    if (!trace.has(part)) trace.set(part, []);
    const values = trace.get(part)[position] ??= {};
    if (head === undefined) values[name] = value;
    else (values[name] ??= [])[head] = value;
  };
  try {
    return [compute(), trace];
  } finally {
    observer = null;
  }
}

function layersOf(kind) { return model[kind === "encoder" ? "encoder" : "decoder"].layers; }
function partOf(kind, layer) { return layersOf(kind)[layer][KINDS[kind].part]; }

// The pieces on one side: source, target, or given, the target shifted by one.
function idsOf(side) {
  if (side === "source") return with_end(state.source);
  return side === "target" ? state.tokens : [BOS, ...state.tokens.slice(0, -1)];
}

function pieceOf(side, id) { return (side === "source" ? source_vocabulary : vocabulary).by_id[id]; }

// The weights of one query; those of all heads of a layer are averaged.  Shapes: -> [S], or [the positions so far]
function weightsOf(kind, layer, head, query) {
  const { weights } = look.trace.get(partOf(kind, layer).name)[query];
  if (head !== ALL) return weights[head];
  return weights[0].map((_, s) => weights.reduce((sum, each) => sum + each[s] / weights.length, 0));
}

// The weights between the piece in hand and each of the other side: [side of the others, weights]; null where none are.
function weightsInHand(kind, layer, head) {
  const { side, index } = look.hover ?? state.hand;
  const { queries, keys } = KINDS[kind];
  if (side === queries) return [keys, weightsOf(kind, layer, head, index)];
  if (side !== keys) return null;
  return [queries, Float32Array.from(state.tokens, (_, query) => weightsOf(kind, layer, head, query)[index])];
}

// ---- Drawing ------------------------------------------------------------------------------------------------------

function buildHeads() {
  const table = $("heads");
  const { heads } = page.config;
  const top = table.insertRow();
  top.append(element("th"));
  for (let head = 0; head < heads; head++) {
    const cell = element("th", "", heads > 8 ? `${head + 1}` : `Head ${head + 1}`);
    cell.scope = "col";
    top.append(cell);
  }
  for (let layer = 0; layer < Math.max(layersOf("encoder").length, layersOf("decoder").length); layer++) {
    const row = table.insertRow();
    for (let head = ALL; head < heads; head++) {
      const cell = head === ALL ? element("th") : element("td");
      if (head === ALL) cell.scope = "row";
      const button = element("button", "", head === ALL ? `Layer ${layer + 1}` : undefined);
      button.type = "button";
      Object.assign(button.dataset, { layer, head });
      if (head === ALL) button.setAttribute("aria-label", `layer ${layer + 1}, mean of all heads`);
      else button.append(element("canvas"), element("span", "most"));
      cell.append(button);
      row.append(cell);
    }
  }
}

function renderHeads() {
  $("attention-card").hidden = !look.trace;
  if (!look.trace) return;
  look.layer = Math.min(look.layer, layersOf(look.kind).length - 1);
  mixPalette();
  document.querySelector(`input[name="kind"][value="${look.kind}"]`).checked = true;
  $("meaning").textContent = KINDS[look.kind].meaning;
  const [queries, keys] = [idsOf(KINDS[look.kind].queries), idsOf(KINDS[look.kind].keys)];
  for (const button of $("heads").querySelectorAll("button")) {
    const [layer, head] = [+button.dataset.layer, +button.dataset.head];
    button.closest("tr").hidden = layer >= layersOf(look.kind).length;
    if (layer >= layersOf(look.kind).length) continue;
    const pressed = layer === look.layer && head === look.head;
    button.setAttribute("aria-pressed", pressed);
    button.tabIndex = pressed ? 0 : -1;
    if (head === ALL) continue;
    button.classList.toggle("off", partOf(look.kind, layer).off.has(head));
    const weights = new Float32Array(queries.length * keys.length);
    queries.forEach((_, query) => weights.set(weightsOf(look.kind, layer, head, query), query * keys.length));
    paint(button.firstChild, weights, queries.length, keys.length);
  }
  const chosen = look.head !== ALL;
  $("switch").hidden = !chosen;
  if (chosen) {
    const off = partOf(look.kind, look.layer).off.has(look.head);
    $("switch").textContent = `Switch ${nameOf(look.layer, look.head)} ${off ? "on" : "off"}`;
  }
  renderHand();
}

function nameOf(layer, head) { return `${look.kind} attention, layer ${layer + 1}, ${head === ALL ? "all heads" : `head ${head + 1}`}`; }

// Shade the pieces that the chosen head looks at, and name under each head what it looks at most.
function renderHand() {
  const hand = look.hover ?? state.hand;
  if (!look.trace || !hand) return;
  const shades = { source: [], target: [] };
  const found = weightsInHand(look.kind, look.layer, look.head);
  if (found) {
    const [side, weights] = found;
    weights.forEach((weight, i) => {
      if (side === "given") shades.target[i - 1] = weight; // the piece before stands one place to the left
      else shades[side][i] = weight;
    });
  }
  for (const side of ["source", "target"]) {
    [...$(side).children].forEach((item, i) => {
      const shade = shades[side][i] ?? 0;
      item.firstChild.style.background = shade ? `color-mix(in srgb, var(--accent) ${70 * shade ** GAMMA}%, var(--sunk))` : "";
      item.firstChild.classList.toggle("hand", hand.side === side && hand.index === i);
    });
  }
  for (const button of $("heads").querySelectorAll("td button")) {
    const [layer, head] = [+button.dataset.layer, +button.dataset.head];
    if (layer >= layersOf(look.kind).length) continue;
    const [most] = ranked(weightsInHand(look.kind, layer, head), 1);
    const label = button.classList.contains("off") ? "off" : most ? `${most.piece} ${percent(most.weight)}` : "–";
    button.lastChild.textContent = label;
    button.setAttribute("aria-label", `${nameOf(layer, head)}: ${label}`);
  }
  const own = visiblePiece(pieceOf(hand.side, idsOf(hand.side)[hand.index]));
  const list = ranked(found, 6).filter(({ weight }, i) => i === 0 || weight >= 0.005);
  const text = list.map(({ piece, weight }) => `${piece} ${percent(weight)}`).join(", ");
  const looks = found && found[0] === KINDS[look.kind].queries && hand.side !== found[0] ? "is looked at by" : "looks at";
  $("attends").textContent = found ? `${nameOf(look.layer, look.head)}: ${own} ${looks} ${text}`
    : `${own} is not part of this attention: ${KINDS[look.kind].meaning}`;
}

function ranked(found, count) {
  if (!found) return [];
  const ids = idsOf(found[0]);
  return Array.from(found[1], (weight, i) => ({ weight, piece: visiblePiece(pieceOf(found[0], ids[i])) }))
    .sort((a, b) => b.weight - a.weight).slice(0, count);
}

// ---- Heads that are off -------------------------------------------------------------------------------------------

// Names of heads: "decoder.layers.0.cross_attention.2" is the third of the first decoder layer's attention to the source.
function attention_parts() {
  return [...model.encoder.layers, ...model.decoder.layers].flatMap((layer) =>
    [layer.self_attention, layer.cross_attention].filter((part) => part));
}
function heads_off() { return attention_parts().flatMap((part) => [...part.off].map((head) => `${part.name}.${head}`)); }

function switch_off(names) {
  const known = new Map(attention_parts().flatMap((part) =>
    Array.from({ length: page.config.heads }, (_, head) => [`${part.name}.${head}`, [part, head]])));
  for (const name of names) if (!known.has(name)) {
    throw new Error(`${name} is not a head; the first one is ${known.keys().next().value}.`);
  }
  for (const part of attention_parts()) part.off.clear();
  for (const name of names) known.get(name)[0].off.add(known.get(name)[1]);
}

// Compute with these heads off, and those that were off before afterwards.
function with_heads_off(names, compute) {
  const before = heads_off();
  switch_off(names);
  try {
    return compute();
  } finally {
    switch_off(before);
  }
}

// ---- Choosing -----------------------------------------------------------------------------------------------------

function pieceAt(target) {
  const item = target.closest?.("#source li, #target li");
  return item ? { side: item.parentElement.id, index: [...item.parentElement.children].indexOf(item) } : null;
}

function hover(piece) {
  look.hover = piece;
  renderHand();
}

function moveAmongHeads(event) {
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  const { layer, head } = event.target.dataset;
  if (!step || layer === undefined) return;
  event.preventDefault();
  $("heads").querySelector(`[data-layer="${+layer + step[0]}"][data-head="${+head + step[1]}"]`)?.focus();
}

function startAttention() {
  look.layer = layersOf("cross").length - 1;
  buildHeads();
  for (const id of ["source", "target"]) {
    $(id).addEventListener("pointerover", (event) => hover(pieceAt(event.target)));
    $(id).addEventListener("pointerleave", () => hover(null));
    $(id).addEventListener("focusin", (event) => hover(pieceAt(event.target)));
    $(id).addEventListener("focusout", () => hover(null));
  }
  $("kind").addEventListener("change", (event) => { look.kind = event.target.value; renderHeads(); renderLayer(); });
  $("heads").addEventListener("keydown", moveAmongHeads);
  $("heads").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    Object.assign(look, { layer: +button.dataset.layer, head: +button.dataset.head });
    renderHeads();
    renderLayer();
  });
  $("switch").addEventListener("click", () => {
    const { off } = partOf(look.kind, look.layer);
    if (!off.delete(look.head)) off.add(look.head);
    translate(state.prefix);
  });
  document.addEventListener("themechange", renderHeads);
}
