// The Transformer of minitf/model/transformer.py and variants.py for one sentence, without dropout. A function has the name
// of the Python function or class whose formula it is; a part of the model has the name that its parameters have in
// checkpoints.
//
// Dimension letters: T target and S source positions, D d_model, H heads, K d_k, V vocabulary. A vector is a Float32Array,
// a matrix of activations is a list of its rows.

// ---- Parameters ---------------------------------------------------------------------------------------------------

const BYTES = { int8: 1, float16: 2, float32: 4 };

// The model as a tree of parts: names such as "encoder.layers.0.norm.weight" are paths to { data, shape }.
function transformer(config, parameters, buffer) {
  const model = { config };
  let at = 0;
  for (const { name, shape, type } of parameters) {
    const size = shape.reduce((a, b) => a * b, 1);
    const rows = type === "int8" ? shape[0] : 0;
    const path = name.split(".");
    const last = path.pop();
    let part = model;
    path.forEach((each, i) => {
      part[each] ??= {};
      part = part[each];
      Object.defineProperty(part, "name", { value: path.slice(0, i + 1).join("."), configurable: true });
    });
    part[last] = { data: numbers(buffer, at, size, rows, type), shape };
    at += size * BYTES[type] + 4 * rows;
  }
  if (at !== buffer.byteLength) throw new Error(`${buffer.byteLength} bytes instead of ${at}`);
  for (const side of [model.encoder, model.decoder]) {
    side.layers = Object.values(side.layers);
    for (const layer of side.layers) {
      for (const each of [layer.self_attention, layer.cross_attention]) if (each) each.off = new Set(); // heads
    }
  }
  model.target_embedding ??= model.source_embedding;
  model.output_matrix = model.projection ?? model.target_embedding.weight;
  return model;
}

// The numbers as Float32Array; those of int8 are multiples of the factor of their row, which come after them.
function numbers(buffer, at, size, rows, type) {
  const view = new DataView(buffer, at);
  const made = new Float32Array(size);
  if (type === "float32") for (let i = 0; i < size; i++) made[i] = view.getFloat32(4 * i, true);
  else if (type === "float16") for (let i = 0; i < size; i++) made[i] = half(view.getUint16(2 * i, true));
  else {
    const width = size / rows;
    for (let row = 0; row < rows; row++) {
      const factor = view.getFloat32(size + 4 * row, true);
      for (let i = row * width; i < (row + 1) * width; i++) made[i] = view.getInt8(i) * factor;
    }
  }
  return made;
}

function half(bits) {
  const [sign, exponent, fraction] = [bits & 0x8000 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -24 * fraction);
}

// ---- What is seen of the computation ------------------------------------------------------------------------------

let observer = null; // (name of a part, name of a value, value, head) => …, while a computation is looked at

function seen(part, name, value, head) {
  if (observer) observer(part.name, name, value, head);
  return value;
}

// ---- Formulas -----------------------------------------------------------------------------------------------------

// W x + b.  Shapes: x [n_in], weight [n_out, n_in], bias [n_out] -> [n_out]
function linear(x, { weight, bias }) {
  const { data, shape: [n_out, n_in] } = weight;
  const y = new Float32Array(n_out);
  let row = 0;
  for (; row + 4 <= n_out; row += 4) { // four rows at a time: each number of x is read once for all of them
    const w0 = row * n_in, w1 = w0 + n_in, w2 = w1 + n_in, w3 = w2 + n_in;
    let y0 = 0, y1 = 0, y2 = 0, y3 = 0;
    for (let j = 0; j < n_in; j++) {
      const each = x[j];
      y0 += data[w0 + j] * each;
      y1 += data[w1 + j] * each;
      y2 += data[w2 + j] * each;
      y3 += data[w3 + j] * each;
    }
    y[row] = y0;
    y[row + 1] = y1;
    y[row + 2] = y2;
    y[row + 3] = y3;
  }
  for (; row < n_out; row++) {
    let sum = 0;
    for (let j = 0; j < n_in; j++) sum += data[row * n_in + j] * x[j];
    y[row] = sum;
  }
  if (bias) for (row = 0; row < n_out; row++) y[row] += bias.data[row];
  return y;
}

// (x - mean) / √(variance + ε) · weight + bias.  Shapes: x [D] -> [D]
function layer_norm(x, { weight, bias }, eps) {
  const [D, y] = [x.length, new Float32Array(x.length)];
  let [mean, variance] = [0, 0];
  for (let i = 0; i < D; i++) mean += x[i] / D;
  for (let i = 0; i < D; i++) variance += (x[i] - mean) ** 2 / D;
  const scale = 1 / Math.sqrt(variance + eps);
  for (let i = 0; i < D; i++) y[i] = (x[i] - mean) * scale * weight.data[i] + bias.data[i];
  return y;
}

// exp(x) / Σ exp(x).  Shapes: x [S] -> [S]
function softmax(x) {
  const y = new Float32Array(x.length);
  let [top, total] = [-Infinity, 0];
  for (let i = 0; i < x.length; i++) top = Math.max(top, x[i]);
  for (let i = 0; i < x.length; i++) total += y[i] = Math.exp(x[i] - top);
  for (let i = 0; i < x.length; i++) y[i] /= total;
  return y;
}

function add(x, y) {
  const sum = new Float32Array(x.length);
  for (let i = 0; i < x.length; i++) sum[i] = x[i] + y[i];
  return sum;
}

// The fixed positions: PE(pos, 2i) = sin(pos / 10000^(2i / D)), PE(pos, 2i + 1) = cos(the same angle); or all sines before
// all cosines.  Shapes: -> [D]
function sinusoids(position, d_model, kind) {
  return sinusoids.rows[position] ??= Float32Array.from({ length: d_model }, (_, i) => {
    const half = d_model / 2;
    const [pair, is_cos] = kind === "sinusoidal" ? [Math.floor(i / 2), i % 2] : [i % half, i >= half];
    const exponent = kind === "sinusoidal-concatenated" ? pair / Math.max(half - 1, 1) : (2 * pair) / d_model;
    const angle = position / 10000 ** exponent;
    return is_cos ? Math.cos(angle) : Math.sin(angle);
  });
}
sinusoids.rows = []; // computed so far

// √D · E[id] + the row of the position, normalised where the model does.  Shapes: -> [D]
function embed(model, side, id, position) {
  const { d_model, scale_embeddings, positions, first_position, max_positions, decoder_start } = model.config;
  const row = first_position + position;
  if (positions === "learned" && row >= max_positions) {
    throw new Error(`The model has learned ${max_positions - first_position} positions; this is one more.`);
  }
  let x = positions === "learned" ? row_of(model[`${side}_positions`].weight, row) : sinusoids(row, d_model, positions);
  if (id !== BOS || decoder_start !== "zero") {
    const first = id === BOS && decoder_start === "eos" ? EOS : id;
    const scale = scale_embeddings ? Math.sqrt(d_model) : 1;
    x = add(row_of(model[`${side}_embedding`].weight, first).map((each) => each * scale), x);
  }
  const norm = model[`${side}_embedding_norm`];
  return norm ? layer_norm(x, norm, model.config.norm_epsilon) : x;
}

function row_of({ data, shape: [, D] }, row) { return data.subarray(row * D, (row + 1) * D); }

// Concat(head_1 … head_H) W^O, head_i = softmax(q_i k_iᵀ / √K) v_i: one query, and keys and values that are projected.
// Shapes: query [D], keys S × [H · K], values S × [H · d_v] -> [D]
function multi_head_attention(part, heads, query, keys, values) {
  const q = seen(part, "q", linear(query, part.query));
  const [K, d_v] = [q.length / heads, values[0].length / heads];
  const joined = new Float32Array(heads * d_v);
  const [scale, S] = [1 / Math.sqrt(K), keys.length];
  for (let head = 0; head < heads; head++) {
    const scores = new Float32Array(S);
    for (let s = 0; s < S; s++) {
      const k = keys[s];
      let sum = 0;
      for (let i = head * K; i < (head + 1) * K; i++) sum += q[i] * k[i];
      scores[s] = sum * scale;
    }
    const weights = softmax(scores); // [S]
    seen(part, "scores", scores, head);
    seen(part, "weights", weights, head);
    if (part.off.has(head)) continue; // as if its values were zeros
    for (let s = 0; s < S; s++) {
      const v = values[s], weight = weights[s];
      for (let i = head * d_v; i < (head + 1) * d_v; i++) joined[i] += weight * v[i];
    }
  }
  seen(part, "heads", joined);
  return seen(part, "output", linear(joined, part.output));
}

const ACTIVATIONS = { // a function, and its formula
  relu: [(x) => Math.max(0, x), "max(0, up)"],
  gelu: [(x) => x * normal_distribution(x), "up · Φ(up)"],
  silu: [(x) => x / (1 + Math.exp(-x)), "up / (1 + exp(−up))"],
};

// Φ(x) = 1/2 + φ(x) (x + x³/3 + x⁵/(3 · 5) + …).  Source: Marsaglia 2004, "Evaluating the normal distribution"
function normal_distribution(x) {
  if (Math.abs(x) > 7) return x > 0 ? 1 : 0;
  let [sum, term] = [x, x];
  for (let i = 3; Math.abs(term) > 1e-17; i += 2) sum += term *= (x * x) / i;
  return 0.5 + (sum * Math.exp((-x * x) / 2)) / Math.sqrt(2 * Math.PI);
}

// activation(x W₁ + b₁) W₂ + b₂.  Shapes: [D] -> [D]
function feed_forward(model, part, x) {
  const up = seen(part, "up", linear(x, part.up));
  return seen(part, "down", linear(seen(part, "activation", up.map(ACTIVATIONS[model.config.activation][0])), part.down));
}

// The input of a sub-layer: x, or LayerNorm(x) in a pre-norm model.  Shapes: [D] -> [D]
function before(model, { norm }, x) {
  return model.config.norm === "pre" ? layer_norm(x, norm, model.config.norm_epsilon) : x;
}

// LayerNorm(x + sublayer(x)); pre-norm: x + sublayer(LayerNorm(x)).  Shapes: [D] -> [D]
function residual(model, part, x, sublayer) {
  const y = before(model, part, x);
  const sum = seen(part, "sum", add(x, sublayer(y)));
  const is_pre = model.config.norm === "pre";
  const norm = seen(part, "norm", is_pre ? y : layer_norm(sum, part.norm, model.config.norm_epsilon));
  return is_pre ? sum : norm;
}

// The output of a stack of pre-norm layers is normalised; post-norm layers end in a norm by themselves.
function end_of_stack({ norm }, x, eps) { return norm ? layer_norm(x, norm, eps) : x; }

// ---- Encoder and decoder ------------------------------------------------------------------------------------------

// The memory of a source sentence.  Shapes: ids [S] -> S × [D]
function encode(model, ids) {
  const { heads, norm_epsilon } = model.config;
  let x = ids.map((id, position) => embed(model, "source", id, position)); // S × [D]
  for (const layer of model.encoder.layers) {
    const inputs = x.map((row) => before(model, layer.self_attention_residual, row));
    const keys = inputs.map((row) => linear(row, layer.self_attention.key)); // S × [H · K]
    const values = inputs.map((row) => linear(row, layer.self_attention.value));
    x = x.map((row, s) => {
      seen(layer, "position", s);
      seen(layer, "x", row);
      seen(layer.self_attention, "k", keys);
      seen(layer.self_attention, "v", values);
      const z = residual(model, layer.self_attention_residual, row, (y) =>
        multi_head_attention(layer.self_attention, heads, y, keys, values));
      return residual(model, layer.feed_forward_residual, z, (y) => feed_forward(model, layer.feed_forward, y));
    });
  }
  return x.map((row) => end_of_stack(model.encoder, row, norm_epsilon));
}

// A decoder's state before the first position: keys and values of the source, once for all steps, and none of the target.
function start_decoding(model, ids) {
  const memory = encode(model, ids);
  const caches = model.decoder.layers.map(({ cross_attention }) => ({
    source: { keys: memory.map((row) => linear(row, cross_attention.key)),
      values: memory.map((row) => linear(row, cross_attention.value)) },
    target: { keys: [], values: [] },
  }));
  return { length: 0, caches };
}

// A state that goes on by itself; rows of keys and values are never changed, and shared.
function fork(state) {
  const caches = state.caches.map(({ source, target }) =>
    ({ source, target: { keys: [...target.keys], values: [...target.values] } }));
  return { ...state, caches };
}

// Logits of the token that follows `token`, the newest of the target; the state grows by its position.  Shapes: -> [V]
function decode_step(model, token, state) {
  const { heads, norm_epsilon, masked_tokens } = model.config;
  let x = embed(model, "target", token, state.length); // [D]
  model.decoder.layers.forEach((layer, i) => {
    const { source, target } = state.caches[i];
    seen(layer, "position", state.length);
    seen(layer, "x", x);
    x = residual(model, layer.self_attention_residual, x, (y) => {
      target.keys.push(linear(y, layer.self_attention.key));
      target.values.push(linear(y, layer.self_attention.value));
      seen(layer.self_attention, "k", target.keys);
      seen(layer.self_attention, "v", target.values);
      return multi_head_attention(layer.self_attention, heads, y, target.keys, target.values);
    });
    seen(layer.cross_attention, "k", source.keys);
    seen(layer.cross_attention, "v", source.values);
    x = residual(model, layer.cross_attention_residual, x, (y) =>
      multi_head_attention(layer.cross_attention, heads, y, source.keys, source.values));
    x = residual(model, layer.feed_forward_residual, x, (y) => feed_forward(model, layer.feed_forward, y));
  });
  state.length += 1;
  const hidden = end_of_stack(model.decoder, x, norm_epsilon);
  const logits = linear(hidden, { weight: model.output_matrix, bias: model.output_bias });
  for (const each of masked_tokens) logits[each] = -Infinity;
  return logits;
}
