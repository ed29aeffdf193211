// One layer, opened: what is computed in it for the piece in hand, in order, with formulas and the names in Python.

// The steps of a layer: [name, formula, function in Python, value, names of the rows or columns].
function layerSteps(side, layer, head, position) {
  const stack = side === "source" ? "encoder" : "decoder";
  const name = `${stack}.layers.${layer}`;
  const values = (part) => look.trace.get(part ? `${name}.${part}` : name)[position];
  const own = stack === "encoder" ? "source" : "given";
  const input = layer ? [`output of layer ${layer}`, stack === "encoder" ? "Encoder" : "Decoder"]
    : [embeddingFormula(own, position), `Transformer.embed_${stack === "encoder" ? "source" : "target"}`];
  // a sub-layer reads x, the residual stream, as it is, or normalised where the model is pre-norm
  const isPre = page.config.norm === "pre";
  const around = (part, x, steps, added) => {
    const { sum, norm } = values(`${part}_residual`);
    const normed = ["y", `(${isPre ? x : "sum"} − mean) / √(variance + ε) · weight + bias`, "LayerNorm: autograd.layer_norm", norm];
    const summed = [isPre ? "x" : "sum", `${x} + ${added}`, isPre ? "PreNormResidual" : "Residual", sum];
    return isPre ? [normed, ...steps, summed] : [...steps, summed, normed];
  };
  const stream = isPre ? "x" : "y"; // the name of what the layer's first part gives to the second
  const groups = [["Self-attention", [["x", ...input, values().x],
    ...around("self_attention", "x", attentionSteps(values("self_attention"), head, own, isPre ? "y" : "x"), "output")]]];
  if (stack === "decoder") {
    groups.push(["Attention to the sentence", around("cross_attention", stream,
      attentionSteps(values("cross_attention"), head, "source", "y", "memory"), "output")]);
  }
  const { up, activation, down } = values("feed_forward");
  const kind = page.config.activation;
  groups.push(["Feed-forward network", around("feed_forward", stream, [
    ["up", "y W₁ + b₁", "FeedForward.up: Linear", up],
    [kind, ACTIVATIONS[kind][1], `autograd.${kind}`, activation],
    ["down", `${kind} W₂ + b₂`, "FeedForward.down: Linear", down],
  ], "down")]);
  return groups;
}

function embeddingFormula(side, position) {
  const { scale_embeddings, decoder_start, positions } = page.config;
  const piece = visiblePiece(pieceOf(side, idsOf(side)[position]));
  const encoding = `${positions === "learned" ? "P" : "PE"}(${position})`;
  if (side === "given" && !position && decoder_start === "zero") return encoding;
  return `${scale_embeddings ? "√d_model · " : ""}E[${piece}] + ${encoding}`;
}

function attentionSteps({ q, k, v, scores, weights, heads, output }, head, side, x, seenIn = x) {
  const [K, d_v] = [q.length / page.config.heads, heads.length / page.config.heads];
  const seenKeys = scores[head].length; // the decoder's keys go on growing after this position
  const ofHead = (vector, width) => vector.subarray(head * width, (head + 1) * width);
  const pieces = idsOf(side).slice(0, seenKeys).map((id) => visiblePiece(pieceOf(side, id)));
  const all = side === "given" ? "of the pieces so far" : "of all pieces of the sentence";
  const bias = page.config.attention_bias ? " + b" : "";
  return [
    ["q", `${x} W^Q${bias}, the part of this head`, "MultiHeadAttention.query: Linear", ofHead(q, K)],
    ["k", `${seenIn} W^K${bias}, ${all}`, "MultiHeadAttention.key: Linear", k.slice(0, seenKeys).map((row) => ofHead(row, K)), pieces],
    ["v", `${seenIn} W^V${bias}, ${all}`, "MultiHeadAttention.value: Linear", v.slice(0, seenKeys).map((row) => ofHead(row, d_v)), pieces],
    ["scores", `q kᵀ / √d_k, d_k = ${K}`, "autograd.scaled_dot_product_attention", scores[head], pieces],
    ["weights", "exp(scores) / Σ exp(scores): softmax", "autograd.scaled_dot_product_attention", weights[head], pieces],
    ["head", "Σ weights · v", "autograd.scaled_dot_product_attention", ofHead(heads, d_v)],
    ["output", `Concat(all heads) W^O${bias}`, "MultiHeadAttention.output: Linear", output],
  ];
}

// ---- Drawing ------------------------------------------------------------------------------------------------------

function renderLayer() {
  $("layer-card").hidden = !look.trace;
  if (!look.trace) return;
  const { side, index } = state.hand;
  const layers = layersOf(side === "source" ? "encoder" : "cross");
  const [layer, head] = [Math.min(look.layer, layers.length - 1), Math.max(0, look.head)];
  fill($("layer"), layers.length, layer);
  fill($("head"), page.config.heads, head);
  const piece = visiblePiece(pieceOf(side, idsOf(side)[index]));
  const before = side === "target" ? visiblePiece(pieceOf("given", idsOf("given")[index])) : "";
  $("layer-text").textContent = side === "source" ? `Encoder, for “${piece}”, position ${index}.`
    : `Decoder, position ${index}: it reads “${before}”, and “${piece}” is produced.`;
  $("layer-steps").replaceChildren(...layerSteps(side, layer, head, index).flatMap(([title, steps]) => {
    const row = element("tr");
    const cell = element("th", "group", title);
    Object.assign(cell, { colSpan: 5, scope: "rowgroup" });
    row.append(cell);
    return [row, ...steps.map(stepRow)];
  }));
}

function fill(select, count, chosen) {
  if (select.length !== count) select.replaceChildren(...Array.from({ length: count }, (_, i) => new Option(i + 1, i)));
  select.value = chosen;
}

function stepRow([name, formula, python, value, pieces]) {
  const row = element("tr");
  const rows = Array.isArray(value) ? value : [value];
  const shape = Array.isArray(value) ? `[${value.length}, ${value[0].length}]` : `[${value.length}]`;
  const label = element("th", "", name);
  label.scope = "row";
  const picture = element("canvas");
  const flat = Float32Array.from(rows.flatMap((each) => [...each]));
  paintSigned(picture, flat, rows.length, rows[0].length);
  picture.style.height = `${Math.max(14, Math.min(5 * rows.length, 90))}px`;
  const [least, most] = [flat.reduce((a, b) => Math.min(a, b)), flat.reduce((a, b) => Math.max(a, b))];
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", `${name}, ${flat.length} numbers from ${fixed(least, 3)} to ${fixed(most, 3)}`);
  const names = (i) => (pieces ? `${pieces[rows.length > 1 ? Math.floor(i / rows[0].length) : i]}: ` : "");
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * rows[0].length);
    const line = Math.floor(((event.clientY - box.top) / box.height) * rows.length);
    const i = line * rows[0].length + column;
    if (i in flat) $("number").textContent = `${name}[${rows.length > 1 ? `${line}, ` : ""}${column}] ${names(i)}${fixed(flat[i], 6)}`;
  });
  const numbers = element("details");
  numbers.append(element("summary", "", `${fixed(least, 2)} … ${fixed(most, 2)}`));
  numbers.addEventListener("toggle", () => {
    if (numbers.open && numbers.children.length === 1) numbers.append(element("pre", "", written(rows, pieces)));
  });
  const [shown, listed] = [element("td", "picture"), element("td", "number", shape)];
  shown.append(picture);
  listed.append(numbers);
  row.append(label, shown, listed, element("td", "formula", formula), element("td", "python", python));
  return row;
}

// All numbers, a row in a line; those of a vector by piece, where each belongs to one.
function written(rows, pieces) {
  if (rows.length === 1 && pieces) return Array.from(rows[0], (each, i) => `${fixed(each, 4).padStart(8)}  ${pieces[i]}`).join("\n");
  return rows.map((row, i) => (pieces ? `${pieces[i]}\n` : "") + Array.from(row, (each) => fixed(each, 4)).join(" ")).join("\n");
}

// Numbers above 0 in one colour, below 0 in another, those of the page of a step; the largest is the darkest.
function paintSigned(canvas, values, rows, columns) {
  const [zero, above, below] = ["--sunk", "--warm", "--accent"].map((name) => cssColour(name).match(/[\d.]+/g).map(Number));
  const largest = values.reduce((a, b) => Math.max(a, Math.abs(b)), 1e-9);
  const image = new ImageData(columns, rows);
  values.forEach((value, i) => {
    const share = Math.min(1, Math.abs(value) / largest) ** 0.6;
    const end = value < 0 ? below : above;
    image.data.set([...zero.slice(0, 3).map((c, n) => c + (end[n] - c) * share), 255], 4 * i);
  });
  Object.assign(canvas, { width: columns, height: rows });
  canvas.getContext("2d").putImageData(image, 0, 0);
}

function startLayer() {
  for (const [id, name] of [["layer", "layer"], ["head", "head"]]) {
    $(id).addEventListener("change", () => {
      look[name] = +$(id).value;
      renderHeads();
      renderLayer();
    });
  }
  document.addEventListener("themechange", renderLayer);
}
