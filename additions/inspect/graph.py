"""The graph that a Tensor was computed by: as data.  `additions.pages` draws it as a page."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from additions.inspect.readable import readable_array, readable_bytes, readable_place
from autograd.engine import Op, implementations
from autograd.functional import ancestors
from autograd.safety import owner_of
from autograd.tensor import Tensor

__all__ = ["COLOURS", "LEAF", "definition_of", "kind_of"]

LEAF = "leaf"
COLOURS = {  # by kind of node
    LEAF: "#fdf3d0", "products": "#cfe3f7", "nn": "#d5ecd0", "fused": "#f9d5bb", "attention": "#f9d5bb",
    "activations": "#e3f3c8", "arithmetic": "#e6dcf2",
    "elementwise": "#e6dcf2", "choose": "#e6dcf2", "reduce": "#d3eeee", "index": "#eeeeee", "join": "#eeeeee",
    "shape": "#eeeeee", "other": "#ffffff",
}  # fmt: skip
LONGEST_TITLE = 26  # characters; a longer title is broken at a dot


@dataclass(frozen=True)
class Node:
    """An op or a leaf Tensor."""

    title: str  # the class of the op, or the name of the leaf
    kind: str  # the file that defines the op, "other", or "leaf"
    outputs: tuple[tuple[tuple[int, ...], str], ...]  # shape and dtype of each
    saved_bytes: int = 0  # memory that no older node and no leaf holds
    freed: bool = False
    where: tuple[str, int] | None = None  # file and line that made the op
    name: str | None = None  # of the op's result, if one was given

    @property
    def colour(self) -> str:
        """The colour of the node, by its kind."""
        return COLOURS.get(self.kind, COLOURS["other"])

    @property
    def tooltip(self) -> str:
        """The line that made the op, or the title of a node that no line made."""
        return f"{self.where[0]}:{self.where[1]}" if self.where else self.title

    @property
    def lines(self) -> list[str]:
        """The text below the title."""
        shapes = [readable_array(shape, dtype) for shape, dtype in self.outputs]
        if self.where is None:
            return shapes
        saves = "freed" if self.freed else f"saves {readable_bytes(self.saved_bytes)}"
        named = [f"= {self.name}"] if self.name else []
        return [*named, *shapes, f"{saves} · {readable_place(self.where)}"]

    @property
    def title_lines(self) -> list[str]:
        """Split the title into lines of at most `LONGEST_TITLE` characters, at dots."""
        lines = [""]
        for part in self.title.replace(".", ".\n").split("\n"):
            if lines[-1] and len(lines[-1]) + len(part) > LONGEST_TITLE:
                lines.append("")
            lines[-1] += part
        return lines


@dataclass(frozen=True)
class Graph:
    """Nodes from the oldest to the newest, and edges (from, to) in the direction of the forward pass.

    An op that uses a value twice has two edges from it.
    """

    nodes: list[Node] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)

    def __repr__(self) -> str:
        leaves = sum(node.kind == LEAF for node in self.nodes)
        return (
            f"Graph({len(self.nodes) - leaves:,} ops, {leaves:,} leaves, {len(self.edges):,} edges, "
            f"{self.saved_bytes:,} bytes kept for the backward pass)"
        )

    @property
    def saved_bytes(self) -> int:
        """Memory that the graph keeps for its backward pass, without the leaves."""
        return sum(node.saved_bytes for node in self.nodes)


def graph(results: Tensor | Sequence[Tensor], names: Mapping[str, Tensor] | None = None) -> Graph:
    """Return the nodes and leaves that one or several Tensors depend on.

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
    found = ancestors(results)
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


def definition_of(op_class: type[Op]) -> type[Op]:
    """Return the plain op that a class implements; of others, the class itself."""
    return next((plain for plain, fast in implementations.items() if fast is op_class), op_class)


def kind_of(op_class: type[Op]) -> str:
    """Return the file of this package that defines the op; "other" for ops of users."""
    module = definition_of(op_class).__module__
    return module.rpartition(".")[2] if module.startswith("autograd.") else "other"


def _op_node(op: Op, saved_bytes: int, name: str | None) -> Node:
    return Node(
        title=type(op).__name__,
        kind=kind_of(type(op)),
        outputs=tuple([(spec.shape, str(spec.dtype)) for spec in op.output_specs]),
        saved_bytes=saved_bytes,
        freed=op.freed,
        where=op.where,
        name=name,
    )


class SavedMemory:
    """Counter of the memory that the nodes of a graph save, to be asked for each node from the oldest to the newest.

    Shared memory is counted once, that of leaves not at all.
    """

    def __init__(self) -> None:
        self._counted: dict[int, weakref.ref] = {}  # by id; the reference distinguishes a reused id

    def added_by(self, op: Op) -> int:
        """Bytes that `op` saved and that neither a leaf nor an op counted before holds."""
        for edge in op.edges:
            if edge is not None and isinstance(edge[0], Tensor):
                self._new_bytes(edge[0].data)  # of a leaf: counted as known, for its views too
        return sum(self._new_bytes(a) for a in op.saved_arrays if hasattr(a, "nbytes"))

    def _new_bytes(self, array: Any) -> int:
        owner = owner_of(array)
        known = self._counted.get(id(owner))
        if known is not None and known() is owner:
            return 0
        try:
            self._counted[id(owner)] = weakref.ref(owner)
        except TypeError:  # memory of another library, or a bytes object: not allocated by an op
            return 0
        return owner.nbytes
