"""The graph behind a Tensor, as data, as DOT text and as a drawing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autograd.engine import Op
from autograd.inspect.kept import KeptMemory
from autograd.inspect.text import readable_array, readable_bytes, readable_place
from autograd.tensor import Tensor

LEAF = "leaf"


@dataclass(frozen=True)
class Node:
    """A box of the drawing: an op or a leaf Tensor."""

    title: str  # the class of the op, or the name of the leaf
    kind: str  # the file of autograd/ops that the op is from, "other", or "leaf"
    outputs: tuple[tuple[tuple[int, ...], str], ...]  # shape and dtype of each
    saved_bytes: int = 0  # that no other node before it, and no leaf, holds
    freed: bool = False
    where: tuple[str, int] | None = None  # file and line that made the op
    name: str | None = None  # of the op's result, where one was given

    @property
    def lines(self) -> list[str]:
        """What stands in the box, below the title."""
        shapes = [readable_array(shape, dtype) for shape, dtype in self.outputs]
        if self.where is None:
            return shapes
        saves = "freed" if self.freed else f"saves {readable_bytes(self.saved_bytes)}"
        named = [f"= {self.name}"] if self.name else []
        return [*named, *shapes, f"{saves} · {readable_place(self.where)}"]


@dataclass(frozen=True)
class Graph:
    """Nodes from the oldest to the newest, and edges (from, to) in the direction of the forward pass.

    A value that an op takes twice has two edges.
    """

    nodes: list[Node] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)

    @property
    def saved_bytes(self) -> int:
        """What the whole graph keeps for its backward pass, leaves aside."""
        return sum(node.saved_bytes for node in self.nodes)

    def dot(self) -> str:
        """The graph in Graphviz's language."""
        lines = ["digraph {", '  node [shape=box, style="rounded,filled", fontname=monospace, fillcolor=white];']
        for i, node in enumerate(self.nodes):
            label = "\\n".join(_quote(text) for text in (node.title, *node.lines))
            place = f', tooltip="{_quote(f"{node.where[0]}:{node.where[1]}")}"' if node.where else ""
            shape = ', shape=ellipse, fillcolor="#fdf3d0"' if node.kind == LEAF else ""
            lines.append(f'  n{i} [label="{label}"{place}{shape}];')
        for (source, target), count in Counter(self.edges).items():
            times = f' [label="×{count}"]' if count > 1 else ""
            lines.append(f"  n{source} -> n{target}{times};")
        return "\n".join([*lines, "}", ""])

    def svg(self) -> str:
        """The graph as a picture that needs nothing else."""
        from autograd.inspect.svg import draw_graph

        return draw_graph(self)


def _quote(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def graph(results: Tensor | Sequence[Tensor], names: Mapping[str, Tensor] | None = None) -> Graph:
    """The nodes and leaves behind one Tensor or several.

    `names` gives Tensors their names, for example `model.named_parameters()`; leaves and results of ops alike.

    Raises: ValueError for a Tensor without a graph
    """
    results = [results] if isinstance(results, Tensor) else list(results)
    for tensor in results:
        if not tensor.requires_grad:
            raise ValueError(
                "this Tensor has no graph: it was made under no_grad(), or nothing that led to it has "
                "requires_grad=True"
            )
    leaf_names = {id(t): name for name, t in (names or {}).items() if t.op is None}
    result_names: dict[int, list[str]] = {}
    for name, tensor in (names or {}).items():
        if tensor.op is not None:
            result_names.setdefault(id(tensor.op), []).append(name)
    found = _oldest_first(results)
    index = {id(each): i for i, each in enumerate(found)}
    kept = KeptMemory()
    made = Graph()
    for each in found:
        if isinstance(each, Tensor):
            made.nodes.append(_leaf_node(each, leaf_names.get(id(each), LEAF)))
            continue
        made.nodes.append(_op_node(each, kept, result_names.get(id(each), [])))
        made.edges.extend([(index[id(edge[0])], index[id(each)]) for edge in each.edges if edge is not None])
    return made


def draw(results: Tensor | Sequence[Tensor], path: str | Path, names: Mapping[str, Tensor] | None = None) -> None:
    """Write the graph behind `results` to `path`: a picture for .svg, Graphviz's language for .dot.

    Raises: ValueError for another ending, and as `graph`
    """
    path = Path(path)
    if path.suffix not in (".svg", ".dot"):
        raise ValueError(f"{path.name!r} ends in neither .svg nor .dot; choose one of them")
    made = graph(results, names)
    path.write_text(made.svg() if path.suffix == ".svg" else made.dot(), encoding="utf-8")


def _oldest_first(results: Sequence[Tensor]) -> list[Op | Tensor]:
    """All nodes and leaves behind `results`, inputs before the ops that use them; no recursion, for long chains."""
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


def _leaf_node(leaf: Tensor, name: str) -> Node:
    return Node(title=name, kind=LEAF, outputs=((leaf.shape, str(leaf.dtype)),))


def _op_node(op: Op, kept: KeptMemory, names: list[str]) -> Node:
    *_, file = type(op).__module__.split(".")
    return Node(
        title=type(op).__name__,
        kind=file if type(op).__module__.startswith("autograd.ops.") else "other",
        outputs=tuple([(shape, str(dtype)) for shape, dtype in op.output_specs]),
        saved_bytes=kept.added_by(op),
        freed=op.freed,
        where=op.where,
        name=", ".join(names) or None,
    )
