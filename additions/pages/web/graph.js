"use strict";

// Graphs drawn as SVG with the layout of dagre.
function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// A smooth path through points.
function curve(points) {
  let path = `M${points[0].x.toFixed(1)},${points[0].y.toFixed(1)}`;
  for (let i = 1; i < points.length - 1; i++) {
    const [a, b] = [points[i], points[i + 1]];
    const end = i === points.length - 2 ? b : { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
    path += `Q${a.x.toFixed(1)},${a.y.toFixed(1)} ${end.x.toFixed(1)},${end.y.toFixed(1)}`;
  }
  return points.length === 2 ? `${path}L${points[1].x.toFixed(1)},${points[1].y.toFixed(1)}` : path;
}

// Boxes and arrows below a legend of their colours, on the background of the page. Boxes are light, and their text dark, on every page.
// nodes: [{ title: [line], lines, tooltip, colour, isLeaf }]; edges: [[from, to, count]]; legend: { name: colour }
function drawBoxes(picture, { nodes, edges, legend }) {
  const [titlePx, textPx, linePx, character] = [13, 11, 15, 0.602]; // character: its width over the size of the font
  const textWidth = (lines, size) => Math.max(0, ...lines.map((line) => line.length)) * size * character;
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "TB", nodesep: 18, ranksep: 34, edgesep: 10, marginx: 20, marginy: 40 });
  nodes.forEach(({ title, lines }, i) => graph.setNode(i, {
    width: Math.max(textWidth(title, titlePx), textWidth(lines, textPx)) + 16,
    height: (title.length + lines.length) * linePx + 8 }));
  for (const [from, to] of edges) graph.setEdge(from, to, { weight: nodes[from].isLeaf ? 1 : 3 });
  dagre.layout(graph);

  const parts = [svg("marker", { id: `${picture.id}-tip`, viewBox: "0 0 8 8", refX: 7.5, refY: 4, markerWidth: 7,
    markerHeight: 7, orient: "auto" }, svg("path", { d: "M0,0.5 L8,4 L0,7.5 z", fill: "#777" }))];
  let x = 20;
  for (const [name, colour] of Object.entries(legend)) {
    parts.push(svg("rect", { x, y: 10, width: 12, height: 12, fill: colour, stroke: "#888" }), svg("text", { x: x + 17, y: 20, fill: "currentColor" }, name));
    x += 35 + textWidth([name], textPx);
  }
  for (const [from, to, count] of edges) {
    const { points } = graph.edge(from, to);
    parts.push(svg("path", { d: curve(points), fill: "none", stroke: "#777", "marker-end": `url("#${picture.id}-tip")` }));
    if (count > 1) parts.push(svg("text", { x: points.at(-1).x + 5, y: points.at(-1).y - 8, fill: "#777" }, `×${count}`));
  }
  nodes.forEach(({ title, lines, tooltip, colour, isLeaf }, i) => {
    const { x, y, width, height } = graph.node(i);
    const top = y - height / 2;
    const texts = [...title, ...lines].map((line, k) => svg("text", { x, y: top + 15 + k * linePx, "text-anchor": "middle",
      ...(k < title.length ? { fill: "#222", "font-weight": "bold", "font-size": titlePx } : { fill: "#444" }) }, line));
    parts.push(svg("g", { class: "node" }, svg("title", {}, tooltip),
      svg("rect", { x: x - width / 2, y: top, width, height, rx: isLeaf ? Math.min(height / 2, 12) : 5, fill: colour, stroke: "#888" }), ...texts));
  });
  const [width, height] = [Math.max(graph.graph().width, x), graph.graph().height].map(Math.ceil);
  for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}`, "font-size": textPx,
    "font-family": "'DejaVu Sans Mono', Menlo, Consolas, monospace" })) picture.setAttribute(name, value);
  picture.style.minWidth = `${Math.round(0.8 * width)}px`; // smaller, its text could not be read
  picture.replaceChildren(...parts);
}
