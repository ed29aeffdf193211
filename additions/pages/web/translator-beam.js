// The beam as a tree: all candidates of every position, what became of them, and why the search stopped.

const [COLUMN, LINE] = [118, 30]; // pixels from one position to the next, and from one candidate to the next
const DRAWN_WHILE_SEARCHING = 400; // nodes

function renderBeam() {
  const { tree, config } = state;
  $("beam-card").hidden = !tree;
  if (!tree) return;
  $("reason").textContent = tree.reason;
  if (!state.result && tree.nodes.length > DRAWN_WHILE_SEARCHING) return;
  const [rows, places] = [[], new Map()];
  for (const node of tree.nodes) {
    const row = rows[node.position] = (rows[node.position] ?? -1) + 1; // the best of a position on top
    places.set(node, { x: node.position * COLUMN, y: row * LINE });
  }
  const kept = state.kept = keptNodes(tree);
  const best = new Set(pathTo(tree.finished[0]?.node ?? (state.result && bestLeft(tree))));
  const size = { width: rows.length * COLUMN, height: Math.max(...rows, 0) * LINE + LINE };
  const links = svg("svg", { ...size, "aria-hidden": "true" });
  for (const node of tree.nodes) if (node.parent) links.append(linkTo(node, places, kept, best));
  const tabStop = tree.finished[0]?.node ?? tree.nodes.at(-1);
  const buttons = tree.nodes.map((node) => nodeButton(node, places.get(node), kept, best, node === tabStop));
  $("tree").replaceChildren(links, ...buttons);
  $("tree").style.width = `${size.width}px`;
  $("tree").style.height = `${size.height}px`;
  renderFinished();
  describeNode(null);
}

function svg(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// Nodes from which a finished hypothesis, or one that was alive in the end, comes.
function keptNodes({ nodes }) {
  const newest = nodes.at(-1).position;
  const ends = nodes.filter(({ fate, position }) => ["finished", "left"].includes(fate) ||
    (fate === "alive" && position === newest));
  return new Set(ends.flatMap(pathTo));
}

function pathTo(node) {
  const path = [];
  for (let each = node; each; each = each.parent) path.push(each);
  return path;
}
function bestLeft({ nodes }) { return nodes.find(({ fate }) => fate === "left"); }

function linkTo(node, places, kept, best) {
  const [from, to] = [places.get(node.parent), places.get(node)];
  const [x, y, z, w] = [from.x + COLUMN - 22, from.y + LINE / 2, to.x, to.y + LINE / 2];
  return svg("path", { d: `M${x} ${y}C${x + 11} ${y} ${z - 11} ${w} ${z} ${w}`, class: classOf(node, kept, best) });
}

function classOf(node, kept, best) {
  if (best.has(node)) return "best";
  return node.fate === "finished" ? "finished" : kept.has(node) ? "alive" : "pruned";
}

function nodeButton(node, { x, y }, kept, best, tabStop) {
  const button = element("button", classOf(node, kept, best));
  button.type = "button";
  button.dataset.node = node.id;
  button.style.left = `${x}px`;
  button.style.top = `${y}px`;
  button.tabIndex = tabStop ? 0 : -1;
  const number = node.score ?? node.log_probability;
  button.append(pieceElement(vocabulary.by_id[node.token]), element("span", "share", fixed(number, 2)));
  return button;
}

// The fate of a hypothesis as a sentence.
function fateOf(node) {
  const { beam, alpha, beta } = state.config;
  const log_probability = `log P = ${fixed(node.log_probability, 4)}`;
  if (node.fate === "finished") {
    const divisor = length_penalty(node.position, alpha, beta);
    return `finished: ${log_probability}, score ${fixed(node.score, 4)} = log P / penalty(${node.position}) = ` +
      `log P / ${fixed(divisor, 4)}`;
  }
  if (node.fate === "pruned") return `${log_probability}: pruned, not among the ${beam} best that are extended`;
  if (node.fate === "left") return `${log_probability}: still alive when the search stopped`;
  return state.kept.has(node) ? `${log_probability}: extended` : `${log_probability}: extended, and pruned later`;
}

function describeNode(node) {
  const described = $("node");
  if (!node) {
    described.textContent = "Point at a piece to read its hypothesis; click it to continue from there.";
    return;
  }
  const text = vocabulary.decode(tokens_of(node));
  described.replaceChildren(text ? quoted(text) : "the start", " ", fateOf(node));
}

function renderFinished() {
  const finished = state.tree.nodes.filter(({ fate }) => fate === "finished").sort((a, b) => b.score - a.score);
  $("finished").hidden = !finished.length;
  $("finished").tBodies[0].replaceChildren(...finished.map((node) => {
    const row = element("tr");
    row.append(element("td", "number", fixed(node.score, 4)), element("td", "number", fixed(node.log_probability, 4)),
      element("td", "number", node.position), element("td", "", visible(vocabulary.decode(tokens_of(node)))));
    return row;
  }));
}

function nodeAt(target) {
  const button = target.closest?.("#tree button");
  return button ? state.tree.nodes[+button.dataset.node] : null;
}

function moveInTree(event) {
  const node = nodeAt(event.target);
  if (!node) return;
  const { nodes } = state.tree;
  const beside = nodes.filter(({ position }) => position === node.position);
  const next = {
    ArrowLeft: node.parent,
    ArrowRight: nodes.find(({ parent }) => parent === node),
    ArrowUp: beside[beside.indexOf(node) - 1],
    ArrowDown: beside[beside.indexOf(node) + 1],
  }[event.key];
  if (!next) return;
  event.preventDefault();
  $("tree").querySelector(`[data-node="${next.id}"]`).focus();
}

function startBeam() {
  const tree = $("tree");
  tree.addEventListener("pointerover", (event) => describeNode(nodeAt(event.target)));
  tree.addEventListener("focusin", (event) => describeNode(nodeAt(event.target)));
  tree.addEventListener("keydown", moveInTree);
  tree.addEventListener("click", (event) => {
    const node = nodeAt(event.target);
    if (node) translate(tokens_of(node));
  });
}
