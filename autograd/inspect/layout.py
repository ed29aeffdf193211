"""Layered layout of a directed graph: every edge leads downward, few edges cross, no edge runs through a box.

The steps are those of Sugiyama, Tagawa and Toda (1981): assign rows by the longest path, split edges over several
rows into steps, order each row so that few edges cross, then assign positions along each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import itemgetter

Point = tuple[float, float]
Edge = tuple[int, int]

BOX_GAP = 18.0  # between neighbouring boxes of a row
ROW_GAP = 46.0  # between rows, for the edges
LANE = 10.0  # width of the space in which an edge passes a row
ORDER_SWEEPS = 16
PLACE_SWEEPS = 100


@dataclass(frozen=True)
class Layout:
    """Top left corners of the boxes, and for each edge its points from the bottom of one box to the top of another."""

    width: float
    height: float
    corners: list[Point]
    routes: dict[Edge, list[Point]]


@dataclass
class _Layers:
    """The graph with edges between adjacent rows only: where a longer edge passes a row, there is a node, a lane."""

    rows: list[list[int]]
    above: list[list[int]]  # by node: the nodes of the row above with an edge to it, in the order of its inputs
    below: list[list[int]]
    widths: list[float]
    boxes: int  # number of boxes; the nodes from this number on are lanes
    lanes: dict[tuple[int, int], int]  # (source, row) -> the lane in which the source's edges pass the row


def layout(sizes: Sequence[tuple[float, float]], edges: Sequence[Edge]) -> Layout:
    """Lay out boxes of `sizes` (width, height), numbered so that every edge leads to a higher number."""
    edges = list(dict.fromkeys(edges))
    rank = _ranks(len(sizes), edges)
    layers = _layers(sizes, edges, rank)
    _order_rows(layers)
    centres = _places(layers)
    return _finish(sizes, edges, rank, layers, centres)


def _ranks(count: int, edges: Sequence[Edge]) -> list[int]:
    """The row of each node: below all its inputs; a node without inputs is right above its first use."""
    rank = [0] * count
    for source, target in sorted(edges, key=itemgetter(1)):  # so that the rank of each source is final
        rank[target] = max(rank[target], rank[source] + 1)
    first_use: dict[int, int] = {}
    for source, target in edges:
        first_use[source] = min(first_use.get(source, rank[target]), rank[target])
    for node in first_use.keys() - {target for _, target in edges}:
        rank[node] = first_use[node] - 1
    return rank


def _layers(sizes: Sequence[tuple[float, float]], edges: Sequence[Edge], rank: Sequence[int]) -> _Layers:
    """Split long edges into steps between adjacent rows; all edges of one source share its lanes."""
    widths = [width for width, _ in sizes]
    rows: list[list[int]] = [[] for _ in range(max(rank, default=-1) + 1)]
    lanes: dict[tuple[int, int], int] = {}
    steps: dict[Edge, None] = {}
    for source, target in edges:
        last = source
        for row in range(rank[source] + 1, rank[target]):
            if (source, row) not in lanes:
                lanes[source, row] = len(widths)
                widths.append(LANE)
            steps[last, lanes[source, row]] = None
            last = lanes[source, row]
        steps[last, target] = None
    above: list[list[int]] = [[] for _ in widths]
    below: list[list[int]] = [[] for _ in widths]
    for upper, lower in steps:
        above[lower].append(upper)
        below[upper].append(lower)
    row_of = [*rank, *[row for _, row in lanes]]
    for node in _depth_first(above, below):
        rows[row_of[node]].append(node)
    return _Layers(rows, above, below, widths, len(sizes), lanes)


def _depth_first(above: Sequence[Sequence[int]], below: Sequence[Sequence[int]]) -> list[int]:
    """All nodes, from the results upward, inputs from left to right: an initial order in which few edges cross."""
    seen: dict[int, None] = {}
    stack = [node for node in reversed(range(len(below))) if not below[node]]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen[node] = None
            stack.extend(reversed(above[node]))
    return list(seen)


# ---- The order within each row ----


def _order_rows(layers: _Layers) -> None:
    """Sort each row by the mean of its neighbours' positions, down and up, and keep the order of fewest crossings."""
    best, fewest = [list(row) for row in layers.rows], _crossings(layers)
    for sweep in range(ORDER_SWEEPS):
        downward = sweep % 2 == 0
        neighbours = layers.above if downward else layers.below
        rows = layers.rows if downward else layers.rows[::-1]
        for fixed, moving in pairwise(rows):
            position = {node: i for i, node in enumerate(fixed)}
            own = {node: i for i, node in enumerate(moving)}
            moving.sort(key=lambda node: (_mean([position[n] for n in neighbours[node]], own[node]), own[node]))
        crossings = _crossings(layers)
        if crossings < fewest:
            best, fewest = [list(row) for row in layers.rows], crossings
    layers.rows[:] = best


def _mean(positions: list[int], otherwise: float) -> float:
    return sum(positions) / len(positions) if positions else otherwise


def _crossings(layers: _Layers) -> int:
    """Number of pairs of edges between adjacent rows that cross."""
    total = 0
    for upper, lower in pairwise(layers.rows):
        position = {node: i for i, node in enumerate(lower)}
        ends: list[int] = []
        for node in upper:
            arrivals = sorted(position[n] for n in layers.below[node])
            total += sum(1 for arrival in arrivals for end in ends if end > arrival)
            ends.extend(arrivals)
    return total


# ---- Positions along the rows ----


def _places(layers: _Layers) -> list[float]:
    """The x of every node's centre: as close to its neighbours' as the order and the widths allow."""
    centres = [0.0] * len(layers.widths)
    for row in layers.rows:
        _place_row(row, [0.0] * len(row), layers, centres)
    for sweep in range(PLACE_SWEEPS):
        downward = sweep % 2 == 0
        both = sweep >= PLACE_SWEEPS // 2
        for row in layers.rows if downward else layers.rows[::-1]:
            wishes = []
            for node in row:
                near = layers.above[node] if downward else layers.below[node]
                if both or not near:
                    near = [*layers.above[node], *layers.below[node]]
                wishes.append(_wish(node, near, layers, centres))
            _place_row(row, wishes, layers, centres)
    return centres


def _wish(node: int, near: Sequence[int], layers: _Layers, centres: Sequence[float]) -> float:
    """The preferred centre of `node`: the weighted mean of its neighbours' centres."""
    total = weights = 0.0
    for n in near:  # the built-in `sum` compensates rounding errors since Python 3.12: other bits, another drawing
        weight = _weight(n, layers)
        total += weight * centres[n]
        weights += weight
    return total / weights if near else centres[node]


def _weight(node: int, layers: _Layers) -> float:
    """Boxes with inputs count most, so that the main path is straight; lanes and other boxes move aside."""
    is_lane = node >= layers.boxes
    return 0.1 if is_lane or not layers.above[node] else 1.0


def _place_row(row: Sequence[int], wishes: Sequence[float], layers: _Layers, centres: list[float]) -> None:
    """Set the centres closest to `wishes` (least squares) with the order and gaps kept: pool adjacent violators."""
    offsets = [0.0]
    for left, right in pairwise(row):
        offsets.append(offsets[-1] + (layers.widths[left] + layers.widths[right]) / 2 + BOX_GAP)
    groups: list[tuple[float, float, int]] = []  # weighted sum of (wish - offset), weight, count: a group moves as one
    for node, wish, offset in zip(row, wishes, offsets, strict=True):
        weight = _weight(node, layers)
        total, count = weight * (wish - offset), 1
        while groups and groups[-1][0] / groups[-1][1] > total / weight:
            total_before, weight_before, count_before = groups.pop()
            total, weight, count = total + total_before, weight + weight_before, count + count_before
        groups.append((total, weight, count))
    shifts = [total / weight for total, weight, count in groups for _ in range(count)]
    for node, shift, offset in zip(row, shifts, offsets, strict=True):
        centres[node] = shift + offset


def _finish(
    sizes: Sequence[tuple[float, float]],
    edges: Sequence[Edge],
    rank: Sequence[int],
    layers: _Layers,
    centres: Sequence[float],
) -> Layout:
    """Corners of boxes and routes of edges, shifted so that the picture begins at 0."""
    left = min([centres[i] - layers.widths[i] / 2 for i in range(len(centres))], default=0.0)
    x = [centre - left for centre in centres]
    heights = [max([sizes[n][1] for n in row if n < len(sizes)], default=0.0) for row in layers.rows]
    tops = [0.0, *accumulate([height + ROW_GAP for height in heights])]
    corners = [(x[i] - width / 2, tops[rank[i]]) for i, (width, _) in enumerate(sizes)]
    entries = _entries(sizes, layers, x)
    routes = {}
    for source, target in edges:
        route = [(x[source], tops[rank[source]] + sizes[source][1])]
        last = source
        for row in range(rank[source] + 1, rank[target]):
            last = layers.lanes[source, row]
            route += [(x[last], tops[row]), (x[last], tops[row] + heights[row])]
        bottom = tops[rank[source]] + heights[rank[source]]
        if route[0][1] < bottom:  # a vertical line beside higher boxes of the same row
            route.insert(1, (x[source], bottom))
        routes[source, target] = [*route, (entries[last, target], tops[rank[target]])]
    width = max([x[i] + layers.widths[i] / 2 for i in range(len(x))], default=0.0)
    return Layout(width, max(tops[-1] - ROW_GAP, 0.0), corners, routes)


def _entries(sizes: Sequence[tuple[float, float]], layers: _Layers, x: Sequence[float]) -> dict[tuple[int, int], float]:
    """The x at which each edge meets the top of a box: side by side, in the order of the nodes they come from."""
    entries = {}
    for target, (width, _) in enumerate(sizes):
        arriving = sorted(layers.above[target], key=lambda node: x[node])
        spacing = min(24.0, (width - 2 * LANE) / max(len(arriving), 1))
        for i, node in enumerate(arriving):
            entries[node, target] = x[target] + (i - (len(arriving) - 1) / 2) * spacing
    return entries
