"""The graph that a Tensor was computed by: as data, as DOT text and as a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autograd.engine import Op
from autograd.inspect.saved_memory import SavedMemory
from autograd.inspect.svg import Box, draw_boxes
from autograd.inspect.text import readable_array, readable_bytes, readable_place
from autograd.tensor import Tensor

LEAF = "leaf"
COLOURS = {  # by kind of node
    LEAF: "#fdf3d0",
    "products": "#cfe3f7",
    "attention": "#f9d5bb",
    "local": "#f9d5bb",
    "recurrent": "#f7e3bb",
    "nn": "#d5ecd0",
    "activations": "#e3f3c8",
    "loss": "#f5c6cb",
    "elementwise": "#e6dcf2",
    "choose": "#e6dcf2",
    "reduce": "#d3eeee",
    "index": "#eeeeee",
    "shape": "#eeeeee",
    "other": "#ffffff",
}


@dataclass(frozen=True)
class Node:
    """An op or a leaf Tensor."""

    title: str  # the class of the op, or the name of the leaf
    kind: str  # the file of autograd/ops that defines the op, "other", or "leaf"
    outputs: tuple[tuple[tuple[int, ...], str], ...]  # shape and dtype of each
    saved_bytes: int = 0  # memory that no older node and no leaf holds
    freed: bool = False
    where: tuple[str, int] | None = None  # file and line that made the op
    name: str | None = None  # of the op's result, if one was given

    @property
    def place(self) -> str:
        return f"{self.where[0]}:{self.where[1]}" if self.where else ""

    @property
    def lines(self) -> list[str]:
        """The text below the title."""
        shapes = [readable_array(shape, dtype) for shape, dtype in self.outputs]
        if self.where is None:
            return shapes
        saves = "freed" if self.freed else f"saves {readable_bytes(self.saved_bytes)}"
        named = [f"= {self.name}"] if self.name else []
        return [*named, *shapes, f"{saves} · {readable_place(self.where)}"]


@dataclass(frozen=True)
class Graph:
    """Nodes from the oldest to the newest, and edges (from, to) in the direction of the forward pass.

    An op that uses a value twice has two edges from it.
    """

    nodes: list[Node] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)

    @property
    def saved_bytes(self) -> int:
        """Memory that the graph keeps for its backward pass, without the leaves."""
        return sum(node.saved_bytes for node in self.nodes)

    def dot(self) -> str:
        """The graph as text for Graphviz."""
        lines = ["digraph {", '  node [shape=box, style="rounded,filled", fontname=monospace, fillcolor=white];']
        for i, node in enumerate(self.nodes):
            label = "\\n".join(_quote(text) for text in (node.title, *node.lines))
            place = f', tooltip="{_quote(node.place)}"' if node.where else ""
            shape = f', shape=ellipse, fillcolor="{COLOURS[LEAF]}"' if node.kind == LEAF else ""
            lines.append(f'  n{i} [label="{label}"{place}{shape}];')
        for (source, target), count in Counter(self.edges).items():
            times = f' [label="×{count}"]' if count > 1 else ""
            lines.append(f"  n{source} -> n{target}{times};")
        return "\n".join([*lines, "}", ""])

    def svg(self) -> str:
        """The graph as an SVG picture."""
        boxes = [
            Box(
                node.title,
                node.lines,
                tooltip=node.place or node.title,
                colour=COLOURS.get(node.kind, COLOURS["other"]),
                rounded=node.kind == LEAF,
            )
            for node in self.nodes
        ]
        kinds = {node.kind for node in self.nodes}
        return draw_boxes(boxes, self.edges, {kind: colour for kind, colour in COLOURS.items() if kind in kinds})


def _quote(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def graph(results: Tensor | Sequence[Tensor], names: Mapping[str, Tensor] | None = None) -> Graph:
    """The nodes and leaves that one or several Tensors depend on.

    `names` has names for leaves and results of ops, for example `model.named_parameters()`.

    Raises: ValueError for a Tensor without a graph
    """
    results = [results] if isinstance(results, Tensor) else list(results)
    for tensor in results:
        if not tensor.requires_grad:
            raise ValueError(
                "this Tensor has no graph: it was made under no_grad(), or does not depend on any Tensor with "
                "requires_grad=True"
            )
    names_of: dict[int, list[str]] = {}  # by id of leaf or op
    for name, tensor in (names or {}).items():
        names_of.setdefault(id(tensor if tensor.op is None else tensor.op), []).append(name)
    found = _oldest_first(results)
    index = {id(each): i for i, each in enumerate(found)}
    memory = SavedMemory()
    made = Graph()
    for each in found:
        given = names_of.get(id(each), [])
        if isinstance(each, Tensor):
            made.nodes.append(Node([*given, LEAF][0], LEAF, outputs=((each.shape, str(each.dtype)),)))
            continue
        made.nodes.append(_op_node(each, memory.added_by(each), ", ".join(given) or None))
        made.edges.extend([(index[id(edge[0])], index[id(each)]) for edge in each.edges if edge is not None])
    return made


def draw(results: Tensor | Sequence[Tensor], path: str | Path, names: Mapping[str, Tensor] | None = None) -> None:
    """Write the graph of `results` to `path`: a picture for .svg, text for Graphviz for .dot.

    Raises: ValueError for another suffix, and as `graph`
    """
    path = Path(path)
    if path.suffix not in (".svg", ".dot"):
        raise ValueError(f"{path.name!r} ends in neither .svg nor .dot; choose one of the two")
    made = graph(results, names)
    path.write_text(made.svg() if path.suffix == ".svg" else made.dot(), encoding="utf-8")


def _oldest_first(results: Sequence[Tensor]) -> list[Op | Tensor]:
    """All nodes and leaves that `results` depend on, inputs before the ops that use them; not recursive."""
    ops: dict[int, Op] = {}
    stack = [t.op for t in results if t.op is not None]
    while stack:
        op = stack.pop()
        if id(op) not in ops:
            ops[id(op)] = op
            stack.extend([edge[0] for edge in op.edges if edge is not None and isinstance(edge[0], Op)])
    found: dict[int, Op | Tensor] = {id(t): t for t in results if t.op is None}
    for op in sorted(ops.values(), key=lambda op: op.order):
        found.update({id(edge[0]): edge[0] for edge in op.edges if edge is not None})
        found[id(op)] = op
    return list(found.values())


def _op_node(op: Op, saved_bytes: int, name: str | None) -> Node:
    package, _, file = type(op).__module__.rpartition(".")
    return Node(
        title=type(op).__name__,
        kind=file if package == "autograd.ops" else "other",
        outputs=tuple([(shape, str(dtype)) for shape, dtype in op.output_specs]),
        saved_bytes=saved_bytes,
        freed=op.freed,
        where=op.where,
        name=name,
    )
