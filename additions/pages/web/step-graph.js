"use strict";

// The graph: layers as a tree that folds, laid out by dagre; which nodes and edges are active at a moment.
const LEGIBLE = 0.9; // scale at which names have 10 pixels; a graph that is larger than its window shows a part
const CHUNK_FROM = 60; // children of one layer from which they are gathered in groups
const root = { path: "", label: "", children: [], parent: null };
const groups = new Map([["", root]]);
const homeOfOp = [];
const homeOfLeaf = [];
const open = new Set([""]);
const view = { x: 0, y: 0, scale: 1, width: 1, height: 1, screen: { width: 1, height: 1 } };
let shown = { nodes: [], edges: [], byKey: new Map() };
let focused = null; // key of the node that the keyboard is at

// ---- The tree ---------------------------------------------------------------------------------------------------

function groupOf(path) {
  if (groups.has(path)) return groups.get(path);
  const parts = path.split(/\.(?!\d)/); // "layers.0" is one part
  const parent = groupOf(parts.slice(0, -1).join("."));
  const made = { path, label: parts.at(-1), children: [], parent, key: `group ${path}` };
  groups.set(path, made);
  parent.children.push(made);
  return made;
}
function makeTree() {
  ops.forEach((op, number) => {
    const home = groupOf(op.scope ?? "");
    homeOfOp.push({ key: `op ${number}`, op: number, label: opName(number), parent: home });
    home.children.push(homeOfOp[number]);
  });
  for (const group of [...groups.values()]) if (group.children.length > CHUNK_FROM) chunk(group);
  leaves.forEach((leaf, number) => {
    const uses = (users.get(`leaf ${number}`) ?? []).map(({ op }) => ancestors(homeOfOp[op]));
    const home = uses.length ? uses.reduce((a, b) => a.filter((each) => b.includes(each)))[0] : root;
    homeOfLeaf.push({ key: `leaf ${number}`, leaf: number, label: leaf.name, parent: home });
    home.children.unshift(homeOfLeaf[number]);
  });
  for (const group of groups.values()) summarise(group);
  for (const child of root.children) if (child.children && root.children.filter((each) => each.children).length <= 4) open.add(child.path);
  if (ops.length <= 30) for (const path of groups.keys()) open.add(path);
}
function chunk(group) {
  const own = group.children.filter((child) => child.op !== undefined);
  if (own.length <= CHUNK_FROM) return;
  const size = Math.ceil(Math.sqrt(own.length));
  group.children = group.children.filter((child) => child.op === undefined);
  for (let start = 0; start < own.length; start += size) {
    const some = own.slice(start, start + size);
    const path = `${group.path}#${start}`;
    const made = { path, label: `ops ${some[0].op} – ${some.at(-1).op}`, children: some, parent: group, key: `group ${path}` };
    for (const child of some) child.parent = made;
    groups.set(path, made);
    group.children.push(made);
  }
}
function ancestors(node) {
  const found = [];
  for (let each = node.parent; each; each = each.parent) found.push(each);
  return found;
}
function summarise(group) {
  if (group.ops) return group.ops;
  group.ops = group.children.flatMap((child) => (child.children ? summarise(child) : child.op === undefined ? [] : [child.op]));
  const times = (kind) => group.ops.map((op) => ops[op][kind]).filter((each) => each !== null).sort((a, b) => a - b);
  group.forwards = times("forward");
  group.backwards = times("backward");
  group.parameters = group.children.reduce((sum, child) => sum + (child.children ? (summarise(child), child.parameters) : child.leaf === undefined ? 0 : 1), 0);
  return group.ops;
}
// A group of one op or leaf is drawn as that.
function drawn(node) {
  while (node.children?.length === 1) [node] = node.children;
  return node;
}
function visible(node) {
  let result = node;
  for (const each of ancestors(node)) if (!open.has(each.path) && each.children.length > 1) result = each;
  return drawn(result);
}

// ---- Layout -----------------------------------------------------------------------------------------------------

const CHARACTER = 6.7;
const TITLE_ROOM = 13; // above the nodes of an open layer
function describe(node) {
  if (node.children) {
    const parts = [plural(node.ops.length, "op")];
    if (node.parameters) parts.push(plural(node.parameters, "parameter"));
    return { title: node.label.replace(/^layers\.(\d+)$/, "layer $1"), line: parts.join(", "), kind: "group" };
  }
  if (node.leaf !== undefined) {
    const parent = node.parent.path;
    const name = leaves[node.leaf].name;
    const short = parent && name.startsWith(`${parent}.`) ? name.slice(parent.length + 1) : name;
    return { title: short, line: shapeText(step.values[leaves[node.leaf].value].shape), kind: "leaf" };
  }
  const op = ops[node.op];
  const output = op.outputs[0];
  const last = op.scope ? op.scope.split(".").at(-1) : "";
  const alone = node.parent.children?.length === 1 && last ? ` ${last}` : "";
  return { title: classOf(op).name + alone, line: output === undefined ? "" : shapeText(step.values[output].shape), kind: classOf(op).kind };
}

function layOut() {
  const graph = new dagre.graphlib.Graph({ compound: true });
  graph.setGraph({ rankdir: "TB", nodesep: 14, ranksep: 26, edgesep: 8, marginx: 12, marginy: 12 });
  graph.setDefaultEdgeLabel(() => ({}));
  const nodes = new Map();
  const add = (node, parent) => {
    const text = describe(node);
    const wide = Math.max((text.title.length + (text.kind === "group" ? 3 : 0)) * CHARACTER * 1.06, text.line.length * 5.7) + 22;
    nodes.set(node.key, { node, ...text });
    graph.setNode(node.key, { width: Math.max(64, wide), height: text.line ? 38 : 24 });
    if (parent) graph.setParent(node.key, parent);
  };
  const walk = (group, parent) => {
    for (const each of group.children) {
      const child = drawn(each);
      if (child.children && open.has(child.path)) {
        graph.setNode(child.key, {});
        nodes.set(child.key, { node: child, title: describe(child).title, cluster: true });
        if (parent) graph.setParent(child.key, parent);
        walk(child, child.key);
      } else add(child, parent);
    }
  };
  walk(root, null);
  const edges = new Map();
  ops.forEach((op, number) => {
    const to = visible(homeOfOp[number]).key;
    for (const input of op.inputs) {
      if (input.op === undefined && input.leaf === undefined) continue;
      const from = visible(input.leaf === undefined ? homeOfOp[input.op] : homeOfLeaf[input.leaf]).key;
      if (from === to) continue;
      const key = `${from} → ${to}`;
      if (!edges.has(key)) edges.set(key, { from, to, count: 0, leaf: input.leaf !== undefined });
      edges.get(key).count++;
      graph.setEdge(from, to, { weight: input.leaf === undefined ? 3 : 1, minlen: 1 });
    }
  });
  dagre.layout(graph);
  for (const [key, each] of nodes) Object.assign(each, { key, box: graph.node(key) });
  for (const each of edges.values()) each.points = graph.edge(each.from, each.to).points;
  const lifted = makeRoomForTitles([...nodes.values()], [...edges.values()]);
  Object.assign(view, { width: graph.graph().width, height: graph.graph().height + lifted });
  return { nodes: [...nodes.values()], edges: [...edges.values()], byKey: nodes };
}

// dagre leaves no room for the title of an open layer: what is below its upper edge moves down by a line.
function makeRoomForTitles(nodes, edges) {
  const tops = [];
  const edgesOf = (box) => [box.y - box.height / 2, box.y + box.height / 2];
  for (const { cluster, box } of nodes) if (cluster) tops.push(edgesOf(box)[0]);
  tops.sort((a, b) => a - b);
  const apart = tops.filter((top, i) => i === 0 || top - tops[i - 1] > 3);
  const down = (y) => TITLE_ROOM * countUpTo(apart, y - 0.5);
  for (const { cluster, box } of nodes) {
    const [top, bottom] = edgesOf(box);
    const [newTop, newBottom] = cluster ? [top + down(top), bottom + down(bottom)] : [top + down(top), bottom + down(top)];
    box.y = (newTop + newBottom) / 2;
    box.height = newBottom - newTop;
  }
  for (const { points } of edges) for (const point of points) point.y += down(point.y);
  return TITLE_ROOM * apart.length;
}

// ---- Drawing ----------------------------------------------------------------------------------------------------

function drawGraph() {
  shown = layOut();
  const world = $("world");
  world.replaceChildren();
  const clusters = shown.nodes.filter((each) => each.cluster).sort((a, b) => a.node.path.length - b.node.path.length);
  for (const each of clusters) world.append(drawCluster(each));
  for (const each of shown.edges) {
    each.element = svg("path", { d: curve(each.points), class: `edge${each.leaf ? " of-leaf" : ""}` });
    world.append(each.element);
  }
  for (const each of shown.nodes) if (!each.cluster) world.append(drawNode(each));
  markGraph(true);
  placeView();
}
function drawCluster(each) {
  const { x, y, width, height } = each.box;
  each.element = svg("g", { class: "cluster", "data-key": each.key, tabindex: -1, role: "button", "aria-expanded": "true",
    "aria-label": `${each.node.path}, open: fold` },
    svg("rect", { x: x - width / 2, y: y - height / 2, width, height, rx: 9 }),
    svg("text", { x: x - width / 2 + 9, y: y - height / 2 + 15 }, `${each.title}  −`));
  return each.element;
}
function drawNode(each) {
  const { x, y, width, height } = each.box;
  const [left, top] = [x - width / 2, y - height / 2];
  const isLeaf = each.kind === "leaf";
  each.element = svg("g", { class: `node kind-${each.kind}`, "data-key": each.key, tabindex: -1, role: "button",
    "aria-label": `${each.title}, ${each.line}${each.kind === "group" ? ", folded: open" : ""}` },
    svg("title", {}, each.node.path ?? (isLeaf ? leaves[each.node.leaf].name : `${each.title} ${ops[each.node.op].scope ?? ""}`)),
    svg("rect", { class: "box", x: left, y: top, width, height, rx: isLeaf ? height / 2 : 6 }),
    svg("rect", { class: "stripe", x: left, y: top, width: isLeaf ? 0 : 4, height, rx: 2 }),
    svg("text", { class: "name", x, y: each.line ? y - 4 : y + 4 }, each.kind === "group" ? `${each.title}  +` : each.title),
    svg("text", { class: "line", x, y: y + 11 }, each.line));
  if (each.kind === "group") {
    each.bars = ["fill", "fill-back"].map((name) => svg("rect", { class: name, x: left + 5, y: top + height - 4, width: 0, height: 2.5, rx: 1 }));
    each.element.append(...each.bars);
  }
  return each.element;
}

// ---- What is active ---------------------------------------------------------------------------------------------

function countUpTo(times, moment) {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= moment) low = middle + 1; else high = middle;
  }
  return low;
}
function nodeOfEvent(number) {
  const { kind, of } = events[number];
  return visible(kind === "update" ? homeOfLeaf[of] : homeOfOp[of]).key;
}
function markGraph(everything = false) {
  const now = state.at;
  const current = nodeOfEvent(now);
  const subject = state.leaf === null ? current : visible(homeOfLeaf[state.leaf]).key;
  const inBackward = events[now].phase === "backward" || events[now].phase === "update";
  const tabStop = shown.byKey.has(focused) ? focused : current;
  for (const each of shown.nodes) {
    each.element.setAttribute("tabindex", each.key === tabStop ? 0 : -1);
    if (each.cluster) continue;
    const status = statusOf(each.node, now);
    const marks = `${status}${each.key === current ? " now" : ""}${each.key === subject ? " chosen" : ""}`;
    if (everything || each.marks !== marks) {
      each.marks = marks;
      each.element.setAttribute("class", `node kind-${each.kind} ${marks}`);
    }
    if (each.bars) {
      const { forwards, backwards } = each.node;
      const full = each.box.width - 10;
      each.bars[0].setAttribute("width", forwards.length ? full * countUpTo(forwards, now) / forwards.length : 0);
      each.bars[1].setAttribute("width", backwards.length ? full * countUpTo(backwards, now) / backwards.length : 0);
    }
  }
  for (const each of shown.edges) {
    const flows = inBackward ? each.to === current && events[now].kind === "backward" : each.to === current;
    const back = inBackward && events[now].kind === "backward" && each.from === current;
    const marks = `edge${each.leaf ? " of-leaf" : ""}${flows ? (inBackward ? " gradient" : " flow") : ""}${back ? " arriving" : ""}`;
    if (everything || each.marks !== marks) each.element.setAttribute("class", each.marks = marks);
  }
}
function statusOf(node, now) {
  if (node.children) {
    if (node.backwards.length && countUpTo(node.backwards, now) === node.backwards.length) return "back";
    return node.forwards.length && countUpTo(node.forwards, now) === node.forwards.length ? "done" : "waiting";
  }
  if (node.leaf !== undefined) {
    const leaf = leaves[node.leaf];
    return leaf.update !== null && leaf.update <= now ? "updated" : leaf.complete !== null && leaf.complete <= now ? "back" : "done";
  }
  const op = ops[node.op];
  if (op.backward !== null && op.backward <= now) return "back";
  return op.forward === null || op.forward <= now ? "done" : "waiting";
}

// ---- Moving -----------------------------------------------------------------------------------------------------

function placeView() {
  $("world").setAttribute("transform", `translate(${view.x.toFixed(1)},${view.y.toFixed(1)}) scale(${view.scale.toFixed(4)})`);
}
// Show the whole graph: the innermost open layers are folded until it can be read.
function fit() {
  const { width, height } = view.screen;
  const [top, bottom] = [30, 24]; // for the buttons and the legend
  const whole = () => Math.min(1.15, (width - 12) / view.width, (height - top - bottom) / view.height);
  const depth = (path) => path.split(".").length;
  while (whole() < LEGIBLE && open.size > 1) {
    const deepest = Math.max(...[...open].filter(Boolean).map(depth));
    for (const path of open) if (path && depth(path) === deepest) open.delete(path);
    drawGraph();
  }
  view.scale = Math.max(LEGIBLE, whole());
  view.x = Math.max((width - view.width * view.scale) / 2, 6);
  view.y = top + Math.max((height - top - bottom - view.height * view.scale) / 2, 0);
  placeView();
  bringIntoView(nodeOfEvent(state.at));
}
function zoom(factor, x, y) {
  view.moved = true;
  const box = $("graph").getBoundingClientRect();
  [x, y] = [(x ?? box.left + box.width / 2) - box.left, (y ?? box.top + box.height / 2) - box.top];
  const scale = Math.min(3, Math.max(0.08, view.scale * factor));
  view.x = x - (x - view.x) * scale / view.scale;
  view.y = y - (y - view.y) * scale / view.scale;
  view.scale = scale;
  placeView();
}
function bringIntoView(key) {
  const each = shown.byKey.get(key);
  if (!each) return;
  const { width, height } = view.screen;
  const [x, y] = [each.box.x * view.scale + view.x, each.box.y * view.scale + view.y];
  const margin = (size, all) => Math.min(all / 2, size * view.scale / 2 + 36); // the whole node, and room for the buttons
  const [marginX, marginY] = [margin(each.box.width, width), margin(each.box.height, height)];
  const move = (at, size, edge) => (at < edge ? edge - at : at > size - edge ? size - edge - at : 0);
  const [dx, dy] = [move(x, width, marginX), move(y, height, marginY)];
  if (!dx && !dy) return;
  view.x += dx;
  view.y += dy;
  placeView();
}
// Open or fold, and keep the node where it was.
function toggle(path) {
  view.moved = true;
  const key = `group ${path}`;
  const before = shown.byKey.get(key)?.box;
  if (open.has(path)) open.delete(path); else open.add(path);
  const [x, y] = before ? [before.x * view.scale + view.x, (before.y - before.height / 2) * view.scale + view.y] : [0, 0];
  focused = key;
  drawGraph();
  const after = shown.byKey.get(key)?.box;
  if (before && after) {
    view.x = x - after.x * view.scale;
    view.y = y - (after.y - after.height / 2) * view.scale;
    placeView();
  }
}
function reveal(node) {
  const closed = ancestors(node).filter((each) => !open.has(each.path));
  if (closed.length) {
    view.moved = true;
    for (const each of closed) open.add(each.path);
    drawGraph();
  }
  bringIntoView(visible(node).key);
}
function activate(key) {
  const { node } = shown.byKey.get(key);
  if (node.children) toggle(node.path);
  else if (node.leaf !== undefined) showLeaf(node.leaf);
  else showOp(node.op);
  document.querySelector(`#world [data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

function startGraph() {
  makeTree();
  view.screen = $("graph").getBoundingClientRect();
  drawGraph();
  fit();
  const graph = $("graph");
  const pointers = new Map();
  let moved = 0;
  graph.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), event.clientX, event.clientY);
  }, { passive: false });
  graph.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, event);
    moved = 0;
  });
  graph.addEventListener("pointermove", (event) => {
    const last = pointers.get(event.pointerId);
    if (!last) return;
    const others = [...pointers.values()].filter((each) => each.pointerId !== event.pointerId);
    if (others.length) {
      const far = (a) => Math.hypot(a.clientX - others[0].clientX, a.clientY - others[0].clientY) || 1;
      zoom(far(event) / far(last), (event.clientX + others[0].clientX) / 2, (event.clientY + others[0].clientY) / 2);
    } else {
      view.x += event.clientX - last.clientX;
      view.y += event.clientY - last.clientY;
      placeView();
    }
    moved += Math.abs(event.clientX - last.clientX) + Math.abs(event.clientY - last.clientY);
    if (moved > 5 && !graph.hasPointerCapture(event.pointerId)) graph.setPointerCapture(event.pointerId);
    view.moved = true;
    pointers.set(event.pointerId, event);
  });
  for (const name of ["pointerup", "pointercancel"]) graph.addEventListener(name, (event) => pointers.delete(event.pointerId));
  graph.addEventListener("click", (event) => {
    const element = event.target.closest("[data-key]");
    if (element && moved <= 5) activate(element.dataset.key);
  });
  graph.addEventListener("keydown", graphKey);
  $("zoom-in").addEventListener("click", () => zoom(1.3));
  $("zoom-out").addEventListener("click", () => zoom(1 / 1.3));
  $("zoom-fit").addEventListener("click", fit);
  $("open-here").addEventListener("click", openHere);
  $("fold-all").addEventListener("click", () => {
    open.clear();
    open.add("");
    for (const child of root.children) if (child.children && !child.path.includes("#")) open.add(child.path);
    drawGraph();
    fit();
  });
}
function openHere() {
  const { kind, of } = events[state.at];
  reveal(kind === "update" ? homeOfLeaf[of] : homeOfOp[of]);
}
function graphKey(event) {
  const element = event.target.closest("[data-key]");
  if (!element) return;
  const all = shown.nodes.filter((each) => each.element).map((each) => each.key);
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) {
    focused = all[Math.min(all.length - 1, Math.max(0, all.indexOf(element.dataset.key) + step))];
    for (const each of shown.nodes) each.element?.setAttribute("tabindex", each.key === focused ? 0 : -1);
    shown.byKey.get(focused).element.focus({ preventScroll: true });
    bringIntoView(focused);
  } else if (event.key === "Enter" || event.key === " ") activate(element.dataset.key);
  else if (event.key === "+" || event.key === "=") zoom(1.3);
  else if (event.key === "-") zoom(1 / 1.3);
  else if (event.key === "0") fit();
  else return;
  event.preventDefault();
  event.stopPropagation();
}
