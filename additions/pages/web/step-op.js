"use strict";

// The panel of the current op or parameter: formula, arrays, what is saved, gradients, source lines, memory.
const folded = new Map(); // which <details> the reader opened or closed, by name
const sourceBlocks = new Map();

function link(text, action, title) { return h("button", { type: "button", class: "link", onclick: action, title }, text); }
function toEvent(number, text) {
  if (number === null || number === undefined) return h("span", { class: "soft" }, "never");
  return link(text ?? `moment ${number + 1}`, () => go(number), `${eventName(number)} ${events[number].kind}`);
}
// A link to an op; of its place, what is not that of the op `here`.
function opLink(number, kind = "forward", here = null) {
  const op = ops[number];
  const event = op[kind] ?? op.backward ?? op.forward;
  const [mine, its] = [here?.scope?.split(".") ?? [], op.scope?.split(".") ?? []];
  const shared = mine.findIndex((part, i) => its[i] !== part);
  const rest = its.slice(shared < 0 ? mine.length : shared);
  const short = rest.length ? rest.join(".") : "";
  return link(`${opName(number)}${short ? ` in ${short}` : ""}`, () => { if (event !== null) go(event); reveal(homeOfOp[number]); }, op.scope ?? "");
}
function leafLink(number) { return link(leaves[number].name, () => { showLeaf(number); reveal(homeOfLeaf[number]); }); }
function details(name, summary, isOpen, ...content) {
  const made = h("details", { open: folded.get(name) ?? isOpen }, h("summary", {}, summary), ...content);
  made.addEventListener("toggle", () => folded.set(name, made.open));
  return made;
}
function section(name, title, ...content) { return h("section", { class: `part ${name}` }, h("h3", {}, title), ...content); }

// ---- An op ------------------------------------------------------------------------------------------------------

function opPanel(eventNumber) {
  const event = events[eventNumber];
  const number = event.of;
  const op = ops[number];
  const cls = classOf(op);
  const pass = event.kind === "backward" ? "backward" : "forward";
  return [
    heading(eventNumber, cls.name, op.scope, cls.formula),
    h("p", { class: "place" }, "called at ", h("code", {}, `${places[op.where].file}:${places[op.where].line}`), " ", h("code", { class: "quote" }, places[op.where].text)),
    settingsLine(op),
    passSwitch(op, pass),
    pass === "forward" ? forwardArrays(op, number, eventNumber) : null,
    pass === "backward" ? backwardArrays(op, number, eventNumber) : null,
    savedPart(op, number, eventNumber),
    pass === "forward" ? details("other", "Gradients of this op, later", true, backwardArrays(op, number, eventNumber))
      : details("other", "Arrays of its forward pass", true, forwardArrays(op, number, eventNumber)),
    sourcePart(cls, pass),
    memoryPart(eventNumber),
  ];
}
function heading(eventNumber, name, scope, formula) {
  const { phase, again } = events[eventNumber];
  return h("header", { class: "subject" },
    h("p", { class: "crumbs" }, h("span", { class: `pill phase-${phase}` }, PHASES[phase], again ? ", computed again" : ""),
      h("span", { class: "soft" }, `moment ${eventNumber + 1} of ${events.length}`), scope ? h("span", { class: "scope" }, scope) : null),
    h("h2", {}, name),
    formula ? h("p", { class: "formula" }, formula) : null);
}
function settingsLine(op) {
  const all = Object.entries(op.settings);
  return all.length ? h("p", { class: "settings soft" }, all.map(([name, value]) => `${name} = ${value}`).join(" · ")) : null;
}
function passSwitch(op, pass) {
  const button = (kind, text) => h("button", { type: "button", class: "pass", "aria-pressed": String(pass === kind), disabled: op[kind] === null,
    onclick: () => go(op[kind]) }, text, h("small", {}, op[kind] === null ? " never" : ` moment ${op[kind] + 1}`));
  return h("div", { class: "passes" }, button("forward", "forward"), button("backward", "backward"));
}
function cards(...figures) { return h("div", { class: "cards" }, figures); }

function forwardArrays(op, number, now) {
  const inputs = op.inputs.map((input) => arrayFigure(input.value, { name: input.name, absent: "not given",
    note: input.leaf !== undefined ? h("span", {}, " = ", leafLink(input.leaf))
      : input.op !== undefined ? h("span", {}, " from ", opLink(input.op, "forward", op)) : h("span", { class: "soft" }, " constant") }));
  const outputs = op.outputs.map((value, i) => arrayFigure(value, { name: op.outputs.length > 1 ? `output ${i}` : "output", note: usesNote(number, i) }));
  return section("arrays", "Forward: inputs → output", cards(inputs, h("span", { class: "arrow", "aria-hidden": "true" }, "→"), outputs));
}
function usesNote(number, output) {
  const used = users.get(`op ${number} ${output}`) ?? [];
  if (!used.length) return step.roots.includes(number) ? h("span", { class: "soft" }, " the result of the step") : null;
  if (used.length === 1) return h("span", {}, " to ", opLink(used[0].op, "forward", ops[number]));
  return h("span", { class: "soft" }, ` to ${used.length} ops`);
}

function backwardArrays(op, number, now) {
  if (op.backward === null) {
    return section("arrays", "Backward", h("p", { class: "soft" }, "This op has no backward pass: nothing that depends on it needs a gradient."));
  }
  const later = now < op.backward;
  const into = op.g_outputs.map((value, i) => arrayFigure(value, { faded: later, name: `gradient of ${op.outputs.length > 1 ? `output ${i}` : "the output"}`, note: sumNote(`op ${number} ${i}`, number) }));
  const out = op.inputs.filter((input) => input.gradient !== undefined).map((input) =>
    arrayFigure(input.gradient, { faded: later, name: `gradient of ${input.name}`, note: flowNote(number, op, input) }));
  const sums = op.g_outputs.flatMap((_, i) => meeting(`op ${number} ${i}`));
  return section("arrays", "Backward: gradient of the output → gradients of the inputs",
    cards(into, h("span", { class: "arrow", "aria-hidden": "true" }, "→"), out), sums);
}
function sumNote(key, number) {
  const from = arrivalsAt(key);
  if (!from.length) return h("span", { class: "soft" }, step.roots.includes(number) ? " the start: ones" : "");
  return from.length === 1 ? h("span", {}, " from ", opLink(from[0].op, "backward", ops[number])) : h("b", { class: "sum" }, ` sum of ${from.length}`);
}
function flowNote(number, op, input) {
  const key = input.leaf === undefined && input.op === undefined ? null : targetKey(input);
  if (!key) return h("span", { class: "soft" }, " goes nowhere: constant");
  const all = arrivalsAt(key);
  const place = all.findIndex((each) => each.op === number && ops[each.op].inputs[each.input] === input);
  const target = input.leaf === undefined ? opLink(input.op, "backward", op) : leafLink(input.leaf);
  return h("span", {}, " to ", target, all.length > 1 ? h("b", { class: "sum" }, ` ${place + 1} of ${all.length} added there`) : null);
}
// The gradients that are added up at an output or a leaf.
function meeting(key) {
  const all = arrivalsAt(key);
  if (all.length < 2) return [];
  return [h("div", { class: "meeting" }, h("h4", {}, `${all.length} gradients meet here and are added`),
    h("div", { class: "cards" }, all.map(({ event, op, input }, i) => [i ? h("span", { class: "arrow", "aria-hidden": "true" }, "+") : null,
      arrayFigure(ops[op].inputs[input].gradient, { height: 130, name: `${i + 1}.`, faded: event > state.at,
        note: h("span", {}, " from ", opLink(op, "backward"), ` as ${ops[op].inputs[input].name}, `, toEvent(event)) })])))];
}

// ---- What is saved ----------------------------------------------------------------------------------------------

function savedPart(op, number, now) {
  const about = classOf(op).about.split("\n").filter((line) => line.startsWith("Saves:")).join(" ").replace(/^Saves:\s*/, "");
  const kept = op.saved.filter(({ value }) => value !== undefined);
  const total = kept.reduce((sum, { nbytes }) => sum + nbytes, 0);
  const state = op.backward === null ? "no backward pass will use it" : now < op.backward
    ? h("span", {}, "freed after its backward pass, at ", toEvent(op.backward)) : now === op.backward ? "freed when this pass ends" : h("span", {}, "freed since ", toEvent(op.backward));
  if (!kept.length) {
    const others = op.saved.map(({ name, text }) => `${name}: ${text}`).join(" · ");
    return section("saved", "Keeps for its backward pass", h("p", { class: "settings soft" }, others ? `no array; ${others}` : "no array"));
  }
  return section("saved", h("span", {}, "Keeps for its backward pass ", h("small", { class: "soft" }, bytesText(total), ", ", state)),
    about ? h("p", { class: "doc" }, about) : null,
    cards(kept.map((each) => savedFigure(each, number, now))),
    h("p", { class: "settings soft" }, op.saved.filter(({ value }) => value === undefined).map(({ name, text }) => `${name}: ${text}`).join(" · ")));
}
function savedFigure(each, number, now) {
  return arrayFigure(each.value, { name: each.name, height: 150, note: h("span", {}, ` ${bytesText(each.nbytes)} `, memoryOf(each, number)),
    faded: ops[number].backward !== null && now > ops[number].backward });
}
// The ops that save an array of each buffer.
function savers() {
  if (!savers.known) {
    savers.known = new Map();
    ops.forEach((op, i) => op.saved.forEach(({ buffer }) => {
      if (buffer === undefined) return;
      if (!savers.known.has(buffer)) savers.known.set(buffer, []);
      if (savers.known.get(buffer).at(-1) !== i) savers.known.get(buffer).push(i);
    }));
  }
  return savers.known;
}
// Whose memory a saved array is: that of a leaf or a constant, shared with other ops, or its own.
function memoryOf(each, number) {
  if (each.buffer === undefined) return h("span", { class: "soft" }, "memory of a parameter or constant: none of its own");
  const sharing = savers().get(each.buffer).filter((i) => i !== number);
  const buffer = memory.buffers[each.buffer];
  const end = buffer.died < events.length ? h("span", {}, "memory freed at ", toEvent(buffer.died)) : "memory kept to the end";
  return h("span", { class: "soft" }, sharing.length ? ["shared with ", sharing.slice(0, 3).map((i, k) => [k ? ", " : "", opLink(i, "forward", ops[number])]), sharing.length > 3 ? ` and ${sharing.length - 3} more` : "", "; "] : "", end);
}

// ---- Source -----------------------------------------------------------------------------------------------------

const WORDS = /(#.*$)|("""[\s\S]*?"""|f?"[^"]*"|f?'[^']*')|\b(def|return|if|else|for|in|not|is|None|True|False|and|or|with|while|raise|lambda|yield|import|from|as|assert|del)\b|(self\.saved?\b)/gm;
function sourceBlock(source) {
  const key = `${source.file}:${source.line} ${source.name}`;
  if (!sourceBlocks.has(key)) {
    const code = h("code", {});
    let at = 0;
    for (const found of source.text.matchAll(WORDS)) {
      const kind = ["comment", "string", "word", "keeps"][found.slice(1).findIndex((each) => each !== undefined)];
      code.append(source.text.slice(at, found.index), h("span", { class: `t-${kind}` }, found[0]));
      at = found.index + found[0].length;
    }
    code.append(source.text.slice(at));
    sourceBlocks.set(key, h("div", { class: "source" }, h("p", { class: "soft" }, h("code", {}, `${source.file}:${source.line}`), source.role ? ` ${source.role}` : ""),
      h("pre", { tabindex: 0, "aria-label": `source of ${source.name}` }, code)));
  }
  return sourceBlocks.get(key);
}
function sourcePart(cls, pass) {
  const column = (kind) => h("div", { class: `column${pass === kind ? " running" : ""}` }, h("h4", {}, kind, pass === kind ? h("small", {}, " running now") : null),
    cls[kind].length ? cls[kind].map(sourceBlock) : h("p", { class: "soft" }, "no source: the op was not defined in a file"));
  return details("source", "Source, forward and backward", true, h("div", { class: "columns" }, column("forward"), column("backward")),
    cls.about ? h("pre", { class: "about", tabindex: 0 }, cls.about) : null);
}

// ---- Memory -----------------------------------------------------------------------------------------------------

const SHORT_REASONS = ["saved", "leaf gradient", "gradient", "result"];
function memoryPart(now) {
  const all = holders(now);
  const rows = all.slice(0, 12).map(({ buffer, reason }) => h("tr", {}, h("td", { title: memory.reasons[reason] }, h("i", { class: `swatch reason-${reason}` }), SHORT_REASONS[reason]),
    h("td", {}, buffer.what, buffer.layer ? h("span", { class: "soft" }, ` ${buffer.layer}`) : null), h("td", {}, shapeText(buffer.shape)),
    h("td", { class: "number" }, bytesText(buffer.bytes)), h("td", {}, toEvent(buffer.born, `${buffer.born + 1}`), " – ", buffer.died < events.length ? toEvent(buffer.died, `${buffer.died + 1}`) : "end")));
  const byReason = memory.reasons.map((reason, i) => ({ reason, i, bytes: stacked[i][now] })).filter(({ bytes }) => bytes);
  return details("memory", h("span", {}, "Memory at this moment: ", h("b", {}, bytesText(memory.bytes[now])), now === peak ? " — the peak" : [", peak ", toEvent(peak, bytesText(memory.bytes[peak])), " in ", eventName(peak), ` (${events[peak].kind})`]), true,
    h("div", { class: "bar", role: "img", "aria-label": byReason.map(({ reason, bytes }) => `${reason}: ${bytesText(bytes)}`).join("; ") },
      byReason.map(({ i, bytes }) => { const part = h("i", { class: `reason-${i}` }); part.style.flexGrow = bytes; return part; })),
    h("p", {}, byReason.map(({ reason, i, bytes }) => h("span", { class: "share" }, h("i", { class: `swatch reason-${i}` }), `${reason} `, h("b", {}, bytesText(bytes)), ` ${Math.round(bytes / memory.bytes[now] * 100)} %`))),
    h("div", { class: "scroll" }, h("table", { class: "held" }, h("thead", {}, h("tr", {}, ["held as", "array", "shape", "bytes", "alive"].map((each) => h("th", {}, each)))), h("tbody", {}, rows))),
    all.length > rows.length ? h("p", { class: "soft" }, `and ${plural(all.length - rows.length, "smaller array")}`) : null);
}

// ---- A leaf, and its update -------------------------------------------------------------------------------------

function leafPanel(number, eventNumber) {
  const leaf = leaves[number];
  const all = arrivalsAt(`leaf ${number}`);
  const used = users.get(`leaf ${number}`) ?? [];
  return [
    h("header", { class: "subject" }, h("p", { class: "crumbs" }, h("span", { class: "pill" }, "parameter"), h("span", { class: "soft" }, used.length > 1 ? `used ${used.length} times: its gradients are added` : "used once")),
      h("h2", {}, leaf.name), h("p", { class: "settings" }, "used by ", used.map(({ op, input }, i) => [i ? ", " : "", opLink(op), h("span", { class: "soft" }, ` as ${ops[op].inputs[input].name}`)]))),
    section("arrays", "Value and gradient", cards(arrayFigure(leaf.value, { name: "value" }),
      arrayFigure(leaf.gradient, { name: "gradient", faded: leaf.complete !== null && eventNumber < leaf.complete, absent: "no gradient",
        note: leaf.complete === null ? null : h("span", {}, all.length > 1 ? h("b", { class: "sum" }, ` sum of ${all.length}, `) : " ", "complete at ", toEvent(leaf.complete)) })),
      meeting(`leaf ${number}`)),
    leaf.update === null ? null : h("p", {}, "Updated at ", toEvent(leaf.update), "."),
    memoryPart(eventNumber),
  ];
}
function updatePanel(eventNumber) {
  const number = events[eventNumber].of;
  const leaf = leaves[number];
  const { update } = step;
  const formula = [...update.about.split("\n\n"), update.formula].find((each) => each.includes("=")) ?? update.formula;
  const states = Object.entries(leaf.states).flatMap(([name, [before, after]]) => [arrayFigure(before, { name: `${name} before` }), arrayFigure(after, { name: `${name} after` })]);
  return [
    heading(eventNumber, leaf.name, null, formula),
    Object.keys(update.arguments).length ? h("p", { class: "settings soft" }, Object.entries(update.arguments).map(([name, value]) => `${name} = ${brief(+value)}`).join(" · ")) : null,
    section("arrays", `${update.name}: what happens to ${leaf.name}`, cards(arrayFigure(leaf.value, { name: "before" }), arrayFigure(leaf.gradient, { name: "gradient", note: h("span", {}, " ", link("where it comes from", () => showLeaf(number))) }), h("span", { class: "arrow", "aria-hidden": "true" }, "→"), changeFigure(leaf), arrayFigure(leaf.after, { name: "after" }))),
    states.length ? section("arrays", "State of the optimizer", cards(states)) : null,
    update.source.length ? details("source", "Source", true, update.source.map(sourceBlock)) : null,
    memoryPart(eventNumber),
  ];
}
// The change as a value of its own, made of the two that are recorded.
function changeFigure(leaf) {
  const [before, after] = [valueOf(leaf.value), valueOf(leaf.after)];
  const index = step.values.length;
  if (String(before.kept) !== String(after.kept)) return null; // sampled at other places
  const known = changeFigure.known ??= new Map();
  if (!known.has(leaf)) {
    const elements = Float64Array.from(after.elements, (x, i) => x - before.elements[i]);
    const [low, high] = elements.reduce(([a, b], x) => [Math.min(a, x), Math.max(b, x)], [Infinity, -Infinity]);
    const rms = Math.sqrt(elements.reduce((sum, x) => sum + x * x, 0) / elements.length);
    step.values.push({ shape: after.shape });
    values.set(index, { ...after, elements, stats: [low, high, elements.reduce((a, b) => a + b, 0) / elements.length, rms] });
    known.set(leaf, index);
  }
  return arrayFigure(known.get(leaf), { name: "change" });
}
