"use strict";

// The state of the page: the moment, and the parameter that is looked at instead of the op of the moment.
const state = { at: 0, leaf: null, playing: false };
let inkColour = "#000";
let timer = 0;

function render() {
  const panel = $("op");
  hideTooltip();
  panel.replaceChildren(...[state.leaf !== null ? leafPanel(state.leaf, state.at)
    : events[state.at].kind === "update" ? updatePanel(state.at) : opPanel(state.at)].flat(3).filter(Boolean));
  markGraph();
  markMemory();
  $("position").value = state.at;
  const { phase } = events[state.at];
  const text = `${PHASES[phase]}: ${eventName(state.at)}, moment ${state.at + 1} of ${events.length}`;
  $("where").textContent = text;
  $("position").setAttribute("aria-valuetext", text);
  $("back").disabled = $("first").disabled = state.at === 0;
  $("forward").disabled = $("last").disabled = state.at === events.length - 1;
  document.body.dataset.at = state.at;
  document.body.dataset.subject = state.leaf === null ? "" : leaves[state.leaf].name;
}
function showAgain(control) {
  const label = control.getAttribute("aria-label");
  const index = [...document.querySelectorAll(`#op select[aria-label="${CSS.escape(label)}"]`)].indexOf(control);
  const top = $("op").scrollTop;
  render();
  $("op").scrollTop = top;
  document.querySelectorAll(`#op select[aria-label="${CSS.escape(label)}"]`)[index]?.focus({ preventScroll: true });
}
function go(moment) {
  const before = state.at;
  state.at = Math.max(0, Math.min(events.length - 1, moment));
  state.leaf = null;
  const top = $("op").scrollTop;
  render();
  if (top) $("op").scrollTop = before === state.at ? 0 : top;
  bringIntoView(nodeOfEvent(state.at));
  if (!state.playing) $("status").textContent = $("where").textContent;
}
function showLeaf(number) {
  pause();
  state.leaf = number;
  render();
  $("op").scrollTop = 0;
  $("status").textContent = `parameter ${leaves[number].name}`;
}
// A click on an op shows its pass of the phase that the step is in.
function showOp(number) {
  pause();
  const op = ops[number];
  const backward = ["backward", "update"].includes(events[state.at].phase) && op.backward !== null;
  const moment = backward ? op.backward : op.forward ?? op.backward;
  if (moment !== null) go(moment);
}

// ---- Playing ----------------------------------------------------------------------------------------------------

function play() {
  if (state.at === events.length - 1) go(0);
  state.playing = true;
  showPlaying();
  let last = performance.now();
  const tick = (now) => {
    if (!state.playing) return;
    const due = (now - last) * +$("speed").value / 1000;
    if (due >= 1) {
      last = due > 2 ? now : last + 1000 / +$("speed").value;
      go(state.at + 1);
      if (state.at === events.length - 1) return pause();
    }
    timer = requestAnimationFrame(tick);
  };
  timer = requestAnimationFrame(tick);
}
function pause() {
  if (!state.playing) return;
  state.playing = false;
  cancelAnimationFrame(timer);
  showPlaying();
}
function showPlaying() {
  $("play").textContent = state.playing ? "⏸ Pause" : "▶ Play";
  $("play").setAttribute("aria-label", state.playing ? "Pause (space)" : "Play (space)");
  document.body.dataset.playing = state.playing;
}
function goPhase(direction) {
  const now = spans.findIndex(({ first, last }) => first <= state.at && state.at <= last);
  if (direction < 0 && state.at > spans[now].first) go(spans[now].first);
  else go(spans[Math.min(spans.length - 1, Math.max(0, now + direction))].first);
}

// ---- Search -----------------------------------------------------------------------------------------------------

let results = [];
let chosen = 0;
function everything() {
  everything.all ??= [
    ...leaves.map((leaf, i) => ({ kind: "parameter", text: leaf.name, about: shapeText(step.values[leaf.value].shape), action: () => { showLeaf(i); reveal(homeOfLeaf[i]); } })),
    ...[...groups.values()].filter(({ path }) => path && !path.includes("#")).map((group) => ({ kind: "layer", text: group.path, about: plural(group.ops.length, "op"), action: () => showGroup(group) })),
    ...ops.map((op, i) => ({ kind: "op", text: `${opName(i)}`, about: op.scope ?? "", more: classOf(op).formula, action: () => { showOp(i); reveal(homeOfOp[i]); } })),
  ].map((each) => ({ ...each, key: `${each.text} ${each.about} ${each.more ?? ""} ${each.kind}`.toLowerCase() }));
  return everything.all;
}
function showGroup(group) {
  const moment = group.forwards[0] ?? group.backwards[0];
  reveal(group);
  if (!open.has(group.path) && drawn(group) === group) toggle(group.path);
  if (moment !== undefined) go(moment);
}
function search() {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const rank = ({ text, kind }) => (text.toLowerCase().startsWith(words[0]) ? 0 : text.toLowerCase().includes(words[0]) ? 1 : 2) + (kind === "op" ? 0.5 : 0);
  results = words.length ? everything().filter(({ key }) => words.every((word) => key.includes(word))).sort((a, b) => rank(a) - rank(b)).slice(0, 40) : [];
  chosen = 0;
  showResults();
}
function showResults() {
  const list = $("found");
  const has = $("search").value.trim() !== "";
  list.hidden = !has;
  $("search").setAttribute("aria-expanded", String(has));
  list.replaceChildren(...(results.length ? results.map(({ kind, text, about, more }, i) => h("li", { role: "option", id: `found-${i}`, "aria-selected": String(i === chosen),
    onpointerdown: (event) => { event.preventDefault(); take(i); } }, h("span", { class: `tag tag-${kind}` }, kind), h("b", {}, text), h("span", { class: "soft" }, ` ${about}`), more ? h("small", { class: "soft" }, more.split("\n")[0]) : null))
    : has ? [h("li", { class: "soft" }, "nothing found")] : []));
  if (results.length) $("search").setAttribute("aria-activedescendant", `found-${chosen}`);
  else $("search").removeAttribute("aria-activedescendant");
  list.children[chosen]?.scrollIntoView({ block: "nearest" });
}
function take(i) {
  const action = results[i]?.action;
  closeSearch();
  $("search").blur();
  action?.();
}
function closeSearch() {
  $("search").value = "";
  results = [];
  showResults();
}
function searchKey(event) {
  const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (move && results.length) {
    chosen = (chosen + move + results.length) % results.length;
    showResults();
    event.preventDefault();
  } else if (event.key === "Enter") take(chosen);
  else if (event.key === "Escape") { closeSearch(); $("search").blur(); }
  event.stopPropagation();
}

// ---- Places of interest -----------------------------------------------------------------------------------------

function startJumps() {
  const loss = step.roots.map((root) => ops[root].forward).find((each) => each !== null);
  const sums = [...arrivals].filter(([, all]) => all.length > 1).sort((a, b) => rankOfSum(b) - rankOfSum(a));
  const jump = (text, action, extra) => h("button", { type: "button", onclick: () => { pause(); action(); }, ...extra }, text);
  const chips = [jump("Start", () => go(0))];
  const [count, thing] = step.loss_is_of; // the loss of the graph is the sum of so many
  const one = `Loss ${format(+(step.loss / count).toPrecision(5))}${thing ? ` a ${thing}` : ""}`;
  const sum = thing ? { title: `The graph ends in the sum over ${plural(count, thing)}: ${format(step.loss)}` } : {};
  if (loss !== undefined) chips.push(jump(step.loss === null ? "Result" : one, () => { go(loss); reveal(homeOfOp[events[loss].of]); }, step.loss === null ? {} : sum));
  const backward = spans.find(({ phase }) => phase === "backward");
  if (backward) chips.push(jump("Backward pass", () => go(backward.first)));
  if (memory.bytes.length) chips.push(jump("Peak of memory", goPeak, { id: "jump-peak" }));
  if (sums.length) chips.push(sumMenu(sums));
  const update = spans.find(({ phase }) => phase === "update");
  if (update) chips.push(jump(PHASES.update, () => go(update.first)));
  $("jumps").replaceChildren(...chips);
}
function rankOfSum([key, all]) { return (key.startsWith("leaf") ? 1000 : 0) + all.length; }
function sumMenu(sums) {
  const items = sums.slice(0, 60).map(([key, all]) => {
    const [kind, number, output] = key.split(" ");
    const name = kind === "leaf" ? leaves[number].name : `${opName(number)}${ops[number].scope ? ` in ${ops[number].scope}` : ""}`;
    const action = () => {
      menu.open = false;
      if (kind === "leaf") { showLeaf(+number); reveal(homeOfLeaf[number]); } else { pause(); go(ops[number].backward); reveal(homeOfOp[number]); }
    };
    return h("li", {}, h("button", { type: "button", class: "link", onclick: action }, `${name}: `, h("b", {}, `${all.length} gradients`), +output ? ` (output ${output})` : ""));
  });
  const menu = h("details", { class: "menu", id: "jump-sums" }, h("summary", {}, `Where gradients meet (${sums.length})`), h("ul", {}, items));
  return menu;
}
function goPeak() {
  go(peak);
  reveal(homeOfOp[events[peak].of] ?? root);
  const part = [...document.querySelectorAll("#op details")].at(-1);
  part.open = true;
  part.scrollIntoView({ block: "start" });
  requestAnimationFrame(() => part.scrollIntoView({ block: "start" })); // what is above it has been laid out now
}

// ---- Keys -------------------------------------------------------------------------------------------------------

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
  const inField = event.target.matches("input:not([type=range]), select, textarea");
  const onControl = event.target.closest("button, summary, [data-key]");
  if (event.key === "Escape") return escape();
  if (inField) return;
  if (event.key === " " && onControl) return;
  const actions = {
    " ": () => (state.playing ? pause() : play()),
    ArrowRight: () => { pause(); if (event.shiftKey) goPhase(1); else go(state.at + 1); },
    ArrowLeft: () => { pause(); if (event.shiftKey) goPhase(-1); else go(state.at - 1); },
    Home: () => { pause(); go(0); },
    End: () => { pause(); go(events.length - 1); },
    "/": () => $("search").focus(),
    "?": () => $("help").showModal(),
    p: goPeak,
    l: () => go(ops[step.roots[0]]?.forward ?? 0),
    f: otherPass,
    o: openHere,
  };
  const action = actions[event.key];
  if (!action) return;
  event.preventDefault();
  action();
}
function otherPass() {
  const { kind, of } = events[state.at];
  const other = kind === "update" ? null : ops[of][kind === "forward" ? "backward" : "forward"];
  if (other !== null) go(other);
}
function escape() {
  const menu = document.querySelector("details.menu[open]");
  hideTooltip();
  if (menu) menu.open = false;
  else if (state.leaf !== null) go(state.at);
  else { pause(); $("op").focus({ preventScroll: true }); }
}

// ---- Start ------------------------------------------------------------------------------------------------------

function restyle() {
  inkColour = getComputedStyle(document.body).color;
  makePalette();
  drawMemory();
  render();
}
function measure() {
  const width = $("op").clientWidth - 28;
  const columns = width < 480 ? 2 : Math.max(3, Math.min(5, Math.round(width / 205)));
  const wanted = Math.floor(width < 480 ? (width - 10) / 2 - 18 : (width - 45) / columns - 26);
  view.screen = $("graph").getBoundingClientRect();
  drawMemory();
  if (!view.moved) fit();
  if (wanted === cardWidth) return;
  cardWidth = wanted;
  $("op").style.setProperty("--card-width", `${cardWidth}px`);
  render();
}
async function start() {
  $("title").textContent = step.title;
  $("about").textContent = $("about").title = step.about;
  $("help-open").addEventListener("click", () => $("help").showModal());
  numbers = await unpacked("numbers");
  if (!events.length) throw new Error("no op ran: there is no step to show");
  startTheme();
  makePalette();
  startGraph();
  startMemory();
  startJumps();
  document.addEventListener("themechange", restyle);
  restyle();
  $("play").addEventListener("click", () => (state.playing ? pause() : play()));
  const buttons = { first: () => go(0), back: () => go(state.at - 1), forward: () => go(state.at + 1), last: () => go(events.length - 1) };
  for (const [id, action] of Object.entries(buttons)) $(id).addEventListener("click", () => { pause(); action(); });
  $("search").addEventListener("input", search);
  $("search").addEventListener("keydown", searchKey);
  $("search").addEventListener("blur", () => { $("found").hidden = true; });
  document.addEventListener("keydown", key);
  document.addEventListener("click", (event) => {
    const menu = document.querySelector("details.menu[open]");
    if (menu && !menu.contains(event.target)) menu.open = false;
  });
  let waiting = 0;
  const resized = new ResizeObserver(() => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(measure); });
  for (const id of ["chart", "map"]) resized.observe($(id));
  $("op").addEventListener("scroll", hideTooltip, { passive: true });
  go(0);
  measure();
  document.body.dataset.ready = "true";
}
start().catch((error) => {
  $("problem").hidden = false;
  $("problem").textContent = `This page cannot be shown: ${error.message}`;
  throw error;
});
