// The page: what is typed is translated piece by piece, and a click on a piece shows what else was probable.

const page = data("page");
const vocabulary = new Vocabulary(page.vocabulary.target);
const source_vocabulary = page.vocabulary.source ? new Vocabulary(page.vocabulary.source) : vocabulary;
const MOST_CHARACTERS = 10000; // of a sentence, before it is cut into pieces
const SHOWN = 12; // alternatives of a piece
const OPTIONS = ["beam", "alpha", "beta", "temperature", "max_extra_length", "n_best", "prefix", "heads_off"];
let model = null; // that translates on the page: the run's, or an earlier one
const models = new Map(); // by step of training, as far as they were looked at; "" is the run's

// ---- Sentences ----------------------------------------------------------------------------------------------------

// The token ids of a sentence, without EOS.  Throws an Error whose message is a sentence, for the reader.
function source_of(text) {
  if (text.length > MOST_CHARACTERS) {
    throw new Error(`The sentence has ${count(text.length)} characters; this page takes at most ${count(MOST_CHARACTERS)}.`);
  }
  if (/\p{Surrogate}/u.test(text)) throw new Error("The sentence contains half a surrogate pair, which is not a character.");
  const ids = source_vocabulary.encode(text);
  if (ids.length > page.max_source_length) {
    throw new Error(`The sentence has ${count(ids.length)} pieces, but the model supports at most ` +
      `${count(page.max_source_length)}: translate it in parts.`);
  }
  return ids;
}

// The token ids as the encoder reads them.
function with_end(source) { return page.config.source_eos ? [...source, EOS] : source; }

function search_config(options) {
  for (const name of Object.keys(options)) {
    if (!OPTIONS.includes(name)) throw new Error(`${name} is not an option; the options are ${OPTIONS.join(", ")}.`);
  }
  const { prefix, heads_off, ...given } = options;
  const config = { ...page.search, temperature: 1, ...given };
  const whole = ["beam", "max_extra_length", "n_best"];
  for (const name of whole) if (!(Number.isInteger(config[name]) && config[name] >= 1)) {
    throw new Error(`${name} is ${config[name]}; give a whole number from 1.`);
  }
  if (config.n_best > config.beam) throw new Error(`n_best is ${config.n_best}; give at most beam, ${config.beam}.`);
  for (const name of ["alpha", "beta"]) if (!(config[name] >= 0 && config[name] < Infinity)) {
    throw new Error(`${name} is ${config[name]}; give a number from 0.`);
  }
  if (!(config.temperature > 0 && config.temperature < Infinity)) {
    throw new Error(`temperature is ${config.temperature}; give a number above 0.`);
  }
  return config;
}

function search_of(source, config, prefix = []) {
  const search = config.beam === 1 ? greedy_search : beam_search;
  return search(model, with_end(source), config, prefix);
}

function translation_of(source, hypotheses) {
  const found = hypotheses.map(({ tokens, log_probability, score, finished }) =>
    ({ text: vocabulary.decode(tokens), pieces: vocabulary.pieces(tokens), tokens, log_probability, score, finished }));
  return { ...found[0], source_pieces: source_vocabulary.pieces(source), hypotheses: found };
}

// minitf.translate(text, { beam, alpha, … }): see docs/page.md. Settings that are not given are those of the run.
window.minitf = {
  translate(text, options = {}) {
    if (!models.has("")) throw new Error("The model is not unpacked yet: await minitf.ready first.");
    const config = search_config(options);
    const source = source_of(String(text));
    if (!source.length) return translation_of(source, [hypothesis_of([EOS], 0, config)]);
    const search = () => finish(search_of(source, config, options.prefix));
    return translation_of(source, with_model(models.get(""), () => with_heads_off(options.heads_off ?? [], search)));
  },
  pieces(text) { return source_vocabulary.pieces(source_vocabulary.encode(String(text))); },
};

// ---- State --------------------------------------------------------------------------------------------------------

const state = { source: [], tokens: [], prefix: [], steps: [], chosen: -1, hand: null, result: null, tree: null,
  usual: null };
let runs = 0; // a translation that is not the newest stops

// For each position: its token, the log-probability of it, and the most probable tokens.
function steps_of(source, tokens, config) {
  const decoder = start_decoding(model, with_end(source));
  return tokens.map((token, i) => {
    const log_probabilities = log_softmax(decode_step(model, tokens[i - 1] ?? BOS, decoder), config.temperature);
    const alternatives = most_probable(log_probabilities, SHOWN);
    return { token, log_probability: log_probabilities[token], alternatives };
  });
}

function pause() { return new Promise((resolve) => setTimeout(resolve)); }

async function translate(prefix = []) {
  const run = ++runs;
  delete document.body.dataset.ready;
  const options = { beam: +$("beam").value, alpha: $("alpha").valueAsNumber, temperature: $("temperature").valueAsNumber };
  Object.assign(state, { source: [], tokens: [], prefix, steps: [], chosen: -1, hand: null, result: null, config: null,
    tree: null, usual: null });
  Object.assign(look, { trace: null, hover: null });
  $("problem").hidden = true;
  $("unknown").hidden = true;
  $("again").hidden = !prefix.length;
  try {
    state.config = search_config(options);
    state.source = source_of($("text").value);
    warnOfUnknown(source_vocabulary.unknown_words($("text").value));
    if (state.source.length) await produce(run);
  } catch (error) {
    if (run === runs) complain(error.message);
  }
  if (run !== runs) return;
  render();
  document.body.dataset.ready = JSON.stringify([$("output").textContent, state.config?.beam, prefix.length]);
}

async function produce(run) {
  const { source, config, prefix } = state;
  render();
  const search = search_of(source, config, prefix);
  for (;;) {
    const { done, value } = search.next();
    if (done) {
      state.result = value;
      break;
    }
    state.tree = config.beam === 1 ? null : value;
    state.tokens = config.beam === 1 ? [...state.tokens, value.token] : best_so_far(value);
    render();
    await pause();
    if (run !== runs) return;
  }
  state.tokens = all_tokens(state.result[0]);
  [state.steps, look.trace] = traced(() => steps_of(source, state.tokens, config));
  state.chosen = least_sure(prefix.length);
  state.hand = { side: "target", index: state.chosen };
  if (!is_changed(config)) return;
  [state.usual] = with_model(models.get(""), () =>
    with_heads_off([], () => finish(search_of(source, search_config({}), prefix))));
}

// The position from `first` on whose token was the least probable; the end only where it is all there is.
function least_sure(first) {
  const open = state.steps.map((_, i) => i).slice(Math.min(first, state.steps.length - 1));
  if (open.length > 1 && state.tokens.at(-1) === EOS) open.pop();
  return open.reduce((a, b) => (state.steps[b].log_probability < state.steps[a].log_probability ? b : a));
}

function all_tokens({ tokens, finished }) { return finished ? [...tokens, EOS] : tokens; }

// Whether the reader has chosen other settings than the run's.
function is_changed(config) {
  const usual = search_config({});
  return ["beam", "alpha", "temperature"].some((name) => config[name] !== usual[name]) || heads_off().length > 0 ||
    model !== models.get("");
}

function best_so_far({ nodes }) {
  const newest = nodes.at(-1).position;
  const best = nodes.find((node) => node.position === newest && node.fate !== "pruned") ?? nodes.at(-1);
  return tokens_of(best);
}

function complain(message) {
  $("problem").hidden = false;
  $("problem").textContent = message;
}

function warnOfUnknown(words) {
  $("unknown").hidden = !words.length;
  $("unknown").textContent = `No piece of the vocabulary has some characters of ${words.slice(0, 5).map((each) => `“${visible(each)}”`).join(", ")}` +
    `${words.length > 5 ? ` and ${words.length - 5} more words` : ""}: the model has not learned them, and may translate them wrongly.`;
}

// ---- Drawing ------------------------------------------------------------------------------------------------------

function count(number) { return number.toLocaleString("en"); }

function render() {
  $("output").textContent = visible(vocabulary.decode(state.tokens));
  $("source").replaceChildren(...(state.source.length ? idsOf("source") : []).map((id, i) => pieceItem(id, "", i)));
  const focused = document.activeElement?.closest?.("#target li") ? +document.activeElement.dataset.index : -1;
  $("target").replaceChildren(...state.tokens.map(tokenItem));
  if (focused >= 0) $("target").children[focused]?.firstChild.focus();
  renderStatus();
  renderUsual();
  renderChoice();
  renderBeam();
  renderHeads();
  renderLayer();
}

function tokenItem(token, index) {
  const item = element("li");
  const button = element("button", [token === EOS ? "special" : "", index < state.prefix.length ? "given" : ""].join(" "));
  button.type = "button";
  button.dataset.index = index;
  button.append(pieceElement(vocabulary.by_id[token]));
  const step = state.steps[index];
  if (step) {
    const bar = element("span", "sure");
    bar.style.width = `${100 * Math.exp(step.log_probability)}%`;
    button.append(bar);
    button.title = `probability ${percent(Math.exp(step.log_probability))}`;
  }
  button.setAttribute("aria-pressed", index === state.chosen);
  button.tabIndex = index === Math.max(0, state.chosen) ? 0 : -1;
  item.append(button);
  return item;
}

// What the run's settings give, beside what the reader's do; pieces that differ are marked in both.
function renderUsual() {
  const { usual, config, result, tokens } = state;
  $("compared").hidden = !usual;
  $("usual").hidden = !(config && is_changed(config));
  if (!usual) return;
  const before = all_tokens(usual);
  const [mine, theirs] = differing(tokens, before);
  [...$("target").children].forEach((item, i) => item.firstChild.classList.toggle("other", mine.has(i)));
  $("usual-output").textContent = visible(vocabulary.decode(before));
  $("usual-target").replaceChildren(...before.map((token, i) => pieceItem(token, theirs.has(i) ? "other" : "")));
  const same = mine.size + theirs.size ? "" : " The same pieces.";
  $("usual-status").textContent = `log P = ${fixed(usual.log_probability, 4)}, score ${fixed(usual.score, 4)}, where it ` +
    `is now ${fixed(result[0].log_probability, 4)}, ${fixed(result[0].score, 4)}.${same}`;
}

// The places in two lists that are not in their longest common subsequence.
function differing(one, other) {
  const lengths = one.map(() => new Uint16Array(other.length + 1)).concat(new Uint16Array(other.length + 1));
  for (let i = one.length - 1; i >= 0; i--) for (let j = other.length - 1; j >= 0; j--) {
    lengths[i][j] = one[i] === other[j] ? 1 + lengths[i + 1][j + 1] : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
  }
  const [mine, theirs] = [new Set(one.keys()), new Set(other.keys())];
  for (let i = 0, j = 0; i < one.length && j < other.length;) {
    if (one[i] === other[j]) {
      mine.delete(i++);
      theirs.delete(j++);
    } else if (lengths[i + 1][j] >= lengths[i][j + 1]) i++;
    else j++;
  }
  return [mine, theirs];
}

// A piece, with an index a button that takes it in hand.
function pieceItem(id, className, index) {
  const item = element("li");
  const piece = element(index === undefined ? "span" : "button", `piece ${id === EOS ? "special" : ""} ${className}`);
  if (index !== undefined) {
    Object.assign(piece, { type: "button", tabIndex: index ? -1 : 0 });
    piece.dataset.index = index;
    piece.setAttribute("aria-pressed", state.hand?.side === "source" && state.hand.index === index);
  }
  piece.append(pieceElement(pieceOf(index === undefined ? "target" : "source", id)));
  item.append(piece);
  return item;
}

function renderStatus() {
  const status = $("status");
  if (!state.result) {
    status.textContent = state.source.length ? "…" : "";
    return;
  }
  const off = heads_off().length;
  const [{ log_probability, score, finished, tokens }] = state.result;
  const { alpha, beta, beam } = state.config;
  const length = tokens.length + (finished ? 1 : 0);
  const divisor = length_penalty(length, alpha, beta);
  const how = beam === 1 ? "Greedy search" : `Beam search with ${beam} hypotheses`;
  status.textContent = `${how}: log P = ${fixed(log_probability, 4)}, score ${fixed(score, 4)} = log P / ` +
    `penalty(${length}) = log P / ${fixed(divisor, 4)} (α = ${alpha}).` +
    (off ? ` Heads that are off: ${off}.` : "") + (finished ? "" : " Cut at the length limit: no hypothesis had ended.");
}

function renderChoice() {
  const step = state.steps[state.chosen];
  $("choice").hidden = !step;
  if (!step) return;
  const before = vocabulary.decode(state.tokens.slice(0, state.chosen));
  $("choice-text").replaceChildren("after ", before ? quoted(before) : "the start",
    "; choose one to continue from there");
  const listed = step.alternatives.some(({ token }) => token === step.token)
    ? step.alternatives : [...step.alternatives, { token: step.token, log_probability: step.log_probability }];
  $("alternatives").replaceChildren(...listed.map(({ token, log_probability }) => {
    const item = element("li");
    const button = element("button");
    button.type = "button";
    button.dataset.token = token;
    const bar = element("span", "bar");
    bar.style.width = `${100 * Math.exp(log_probability)}%`;
    button.append(bar, pieceElement(vocabulary.by_id[token]), element("span", "share", percent(Math.exp(log_probability))));
    if (token === step.token) button.setAttribute("aria-current", "true");
    item.append(button);
    return item;
  }));
}

function quoted(text) {
  const made = element("b");
  made.append("“", element("bdi", "", visiblePiece(text)), "”");
  return made;
}

// ---- Choosing -----------------------------------------------------------------------------------------------------

function choose(index) {
  if (!state.steps[index]) return;
  state.chosen = index;
  state.hand = { side: "target", index };
  render();
  $("target").children[index].firstChild.focus();
}

function takeInHand(index) {
  state.hand = { side: "source", index };
  render();
  $("source").children[index].firstChild.focus();
}

function moveAmongSource(event) {
  const index = +event.target.dataset?.index;
  const moved = { ArrowLeft: index - 1, ArrowRight: index + 1, Home: 0, End: state.source.length }[event.key];
  if (moved === undefined || !(moved in $("source").children) || !state.hand) return;
  event.preventDefault();
  takeInHand(moved);
}

function moveAmongPieces(event) {
  const index = +event.target.dataset?.index;
  const moved = { ArrowLeft: index - 1, ArrowRight: index + 1, Home: 0, End: state.tokens.length - 1 }[event.key];
  if (moved === undefined || !(moved in state.steps)) return;
  event.preventDefault();
  choose(moved);
}

function moveAmongAlternatives(event) {
  const item = event.target.closest("li");
  const next = { ArrowUp: item?.previousSibling, ArrowDown: item?.nextSibling }[event.key];
  if (!next) return;
  event.preventDefault();
  next.firstChild.focus();
}

// ---- Checkpoints --------------------------------------------------------------------------------------------------

function with_model(other, compute) {
  const before = model;
  model = other;
  try {
    return compute();
  } finally {
    model = before;
  }
}

async function model_of(step) {
  if (!models.has(step)) {
    const weights = await unpacked(step === "" ? "weights" : `weights-${step}`);
    models.set(step, transformer(page.config, page.parameters, weights));
  }
  return models.get(step);
}

// Translate with the checkpoint that the slider is at; its right end is the run's own choice of weights.
async function goToStep() {
  const step = page.steps[+$("step").value] ?? "";
  $("step-text").textContent = step === "" ? "as trained" : `step ${count(step)}`;
  const off = heads_off();
  const other = await model_of(step);
  if (step !== (page.steps[+$("step").value] ?? "")) return; // the slider went on meanwhile
  model = other;
  switch_off(off);
  return translate(state.prefix);
}

// ---- Start --------------------------------------------------------------------------------------------------------

function buildControls() {
  const { config, name } = page;
  const [encoder, decoder] = [config.encoder_layers ?? config.layers, config.decoder_layers ?? config.layers];
  const depths = encoder === decoder ? encoder : `${encoder} + ${decoder}`;
  const total = page.parameters.reduce((sum, { shape }) => sum + shape.reduce((a, b) => a * b, 1), 0);
  $("model").textContent = `${name} · ${depths} layers, ${config.heads} heads, d_model ${config.d_model}, ` +
    `${count(total)} parameters as ${page.weights}`;
  const beams = [...new Set([1, 2, 4, 8, page.search.beam])].sort((a, b) => a - b);
  for (const beam of beams) $("beam").add(new Option(beam === 1 ? "greedy" : `beam of ${beam}`, beam));
  const names = new Intl.DisplayNames(["en"], { type: "language" });
  $("languages").textContent = page.languages.map((code) => names.of(code)).join(" → ");
  asTrained();
  $("examples-label").hidden = page.sentences.length < 2;
  for (const text of page.sentences) $("examples").add(new Option(visible(text), text));
  $("text").value = page.sentences[0] ?? "";
}

function asTrained() {
  const { beam, alpha, temperature } = search_config({});
  Object.assign($("beam"), { value: beam });
  Object.assign($("alpha"), { value: alpha });
  Object.assign($("temperature"), { value: temperature });
  Object.assign($("step"), { max: page.steps.length, value: page.steps.length });
  $("step-label").hidden = !page.steps.length;
  $("step-text").textContent = "as trained";
}

async function start() {
  startTheme();
  buildControls();
  try {
    model = await model_of("");
  } catch (error) {
    complain(`The weights cannot be read (${error.message}): the page needs a browser of 2023 or later, and a complete file.`);
    return;
  }
  $("form").addEventListener("submit", (event) => { event.preventDefault(); translate(); });
  $("text").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    translate();
  });
  $("examples").addEventListener("change", () => { $("text").value = $("examples").value; translate(); });
  for (const id of ["beam", "alpha", "temperature"]) $(id).addEventListener("change", () => translate(state.prefix));
  $("usual").addEventListener("click", () => {
    asTrained();
    model = models.get("");
    switch_off([]);
    translate(state.prefix);
  });
  $("step").addEventListener("input", goToStep);
  startBeam();
  startAttention();
  startLayer();
  $("again").addEventListener("click", () => translate());
  $("target").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) choose(+button.dataset.index);
  });
  $("target").addEventListener("keydown", moveAmongPieces);
  $("source").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button && state.hand) takeInHand(+button.dataset.index);
  });
  $("source").addEventListener("keydown", moveAmongSource);
  $("alternatives").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) translate([...state.tokens.slice(0, state.chosen), +button.dataset.token]);
  });
  $("alternatives").addEventListener("keydown", moveAmongAlternatives);
  return translate();
}

window.minitf.ready = start();
