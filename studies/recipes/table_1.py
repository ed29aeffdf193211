#!/usr/bin/env python3
"""Table 1, measured: what a layer costs in time, operations and bytes, and how far apart it leaves two positions.

    python studies/recipes/table_1.py --write docs/table-1.md --plot docs/table-1.svg
    python studies/recipes/table_1.py --quick

Each layer maps one sentence of n positions and d features to another, forward and backward, in float32. As in the
paper's table, self-attention has no projections, and the recurrent layer has none of its inputs; the row "with
projections" is the sub-layer of the model. Sequential steps are the longest chain of ops when the layer is composed of
plain ops. The path length is the smallest number of stacked layers for which the gradient of the last position with
respect to the first is not exactly zero. Each exponent is the slope of a straight line through the logarithms, over the
longer half of the lengths, and is followed by the order that the paper gives.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import resumable  # first: it finds minitf without an installation
from compared_layers import Convolution, SeparableConvolution

import autograd as ag
from additions.inspect import memory, profile
from autograd import Tensor
from autograd.engine import Op
from autograd.functional import ancestors
from minitf.errors import UserError
from minitf.model.parameters import Initializer
from minitf.model.transformer import MultiHeadAttention
from minitf.system.process import run_command
from studies.benchmarks.side_by_side import machine
from studies.ops import gru, local_attention

HEADS, NEIGHBOURHOOD, WIDTH = 8, 32, 3  # h, r and k
LENGTHS = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096]
FEATURES = [128, 512]
FARTHEST = 257  # positions, for the length of paths

Layer = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Kind:
    """A row of Table 1.

    make: a layer of d features; plain: the same of plain ops, or None where `make` uses nothing else
    """

    name: str
    make: Callable[[int], Layer]
    plain: Callable[[int], Layer] | None
    operations: str
    steps: str
    path: str


def _initializer() -> Initializer:
    return Initializer(0)


def _heads(x: Tensor) -> Tensor:
    """Shapes: [1, n, d] -> [1, H, n, d / H]"""
    heads = math.gcd(HEADS, x.shape[-1])
    return x.reshape(1, x.shape[1], heads, x.shape[2] // heads).swapaxes(1, 2)


def _self_attention(d: int) -> Layer:
    def layer(x: Tensor) -> Tensor:
        # keys are an array of their own, as in the model: where both factors of q kᵀ are one array, NumPy calls BLAS's
        # syrk, with which the forward pass takes 2.4 times as long
        q, k = _heads(x), _heads(x * 1.0)
        return ag.scaled_dot_product_attention(q, k, k).swapaxes(1, 2).reshape(*x.shape)

    return layer


def _plain_attention(d: int) -> Layer:
    def layer(x: Tensor) -> Tensor:
        q = _heads(x)
        return (ag.softmax(q @ q.swapaxes(-1, -2) * q.shape[-1] ** -0.5, -1) @ q).swapaxes(1, 2).reshape(*x.shape)

    return layer


def _with_projections(d: int) -> Layer:
    attention = MultiHeadAttention(d, HEADS, init=_initializer())
    return lambda x: attention(x, x, x)


def _restricted(d: int) -> Layer:
    def layer(x: Tensor) -> Tensor:
        q = _heads(x)
        return local_attention(q, q, q, neighbourhood=NEIGHBOURHOOD).swapaxes(1, 2).reshape(*x.shape)

    return layer


def _recurrent(d: int) -> Layer:
    init = _initializer()
    weight, bias = init.glorot_uniform(3 * d, d), init.zeros(3 * d)
    return lambda x: gru(ag.concatenate([x, x, x], axis=-1), weight, bias)


def _plain_recurrent(d: int) -> Layer:
    init = _initializer()
    weight = init.glorot_uniform(3 * d, d)

    def layer(x: Tensor) -> Tensor:
        h, states = Tensor(np.zeros((1, d), x.dtype)), []
        for t in range(x.shape[1]):
            r, z, n = ag.split(ag.linear(h, weight), 3, axis=-1)
            x_t = x[:, t]
            z = ag.sigmoid(x_t + z)
            h = (1 - z) * ag.tanh(x_t + ag.sigmoid(x_t + r) * n) + z * h
            states.append(h)
        return ag.stack(states, axis=1)

    return layer


def _convolutional(make: type[Convolution] | type[SeparableConvolution]) -> Callable[[int], Layer]:
    def layer_of(d: int) -> Layer:
        layer = make(d, WIDTH, _initializer())
        return lambda x: layer(x, np.ones((1, 1, 1, x.shape[1]), bool))

    return layer_of


KINDS = [
    Kind("self-attention", _self_attention, _plain_attention, "n² d", "1", "1"),
    Kind("self-attention with projections", _with_projections, _plain_attention, "n² d + n d²", "1", "1"),
    Kind("recurrent", _recurrent, _plain_recurrent, "n d²", "n", "n steps"),
    Kind(f"convolutional, k = {WIDTH}", _convolutional(Convolution), None, "k n d²", "1", "n / k"),
    Kind(f"separable, k = {WIDTH}", _convolutional(SeparableConvolution), None, "k n d + n d²", "1", "n / k"),
    Kind(f"restricted, r = {NEIGHBOURHOOD}", _restricted, _plain_attention, "r n d", "1", "n / r"),
]


@dataclass(frozen=True)
class Cost:
    """Of one layer, forward and backward."""

    seconds: float
    operations: float
    peak_bytes: int


def _input(n: int, d: int) -> Tensor:
    return Tensor(np.random.default_rng(n).standard_normal((1, n, d)).astype(np.float32), requires_grad=True)


def operations_of(step: Callable[[], object]) -> float:
    """The operations of a step, by the profiler."""
    with profile() as profiled:
        step()
    return sum(row.flops for row in profiled.rows())


def cost(layer: Layer, n: int, d: int, seconds: float) -> Cost:
    """The least time of several runs, at least two and at most `seconds` together; operations and peak of one more."""
    x, g = _input(n, d), np.ones((1, n, d), np.float32)
    with memory() as used:
        operations = operations_of(lambda: layer(x).backward(g))
    times: list[float] = []
    while len(times) < 2 or (sum(times) < seconds and len(times) < 200):
        x.zero_grad()
        start = time.perf_counter()
        layer(x).backward(g)
        times.append(time.perf_counter() - start)
    return Cost(min(times), operations, used.peak_bytes)


def sequential_steps(kind: Kind, n: int) -> int:
    """The longest chain of ops that use each other's results, in the layer composed of plain ops."""
    depth: dict[int, int] = {}
    for node in ancestors([(kind.plain or kind.make)(HEADS)(_input(n, HEADS))]):
        if isinstance(node, Op):
            before = [depth.get(id(edge[0]), 0) for edge in node.edges if edge is not None]
            depth[id(node)] = 1 + max(before, default=0)
    return max(depth.values())


def path_length(kind: Kind, n: int) -> int:
    """Layers until the gradient of the last position by the first is not exactly zero; float64, so that it is not
    rounded to zero.
    """
    layer = kind.make(HEADS)
    x = Tensor(np.random.default_rng(0).standard_normal((1, n, HEADS)), requires_grad=True)
    y = x
    for layers in range(1, n + 1):
        y = layer(y)
        (g,) = ag.grad(y[0, -1].sum(), x, retain_graph=True)
        if (g.data[0, 0] != 0).any():
            return layers
    return n + 1


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The slope of the straight line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def crossing(lengths: Sequence[int], one: Sequence[float], other: Sequence[float]) -> float | None:
    """The length from which `one` costs more than `other`, between two measured ones; None if it never does."""
    ratio = np.log(np.array(one) / np.array(other))
    for i in range(len(lengths) - 1, 0, -1):
        if ratio[i] > 0 >= ratio[i - 1]:
            share = -ratio[i - 1] / (ratio[i] - ratio[i - 1])
            return float(lengths[i - 1] * (lengths[i] / lengths[i - 1]) ** share)
    return float(lengths[0]) if ratio[0] > 0 else None


def table(lengths: Sequence[int], features: Sequence[int], costs: dict[tuple[str, int, int], Cost], far: int) -> str:
    """Markdown: a row for each kind and number of features, then where self-attention and recurrence cross."""
    n, upper = lengths[-1], lengths[len(lengths) // 2 :]
    columns = [
        *("layer", "d", f"ms at n = {n:,}", "time ~ n to the", "operations", "~ n to the", "the paper", "peak MiB"),
        *(f"steps in sequence, n = {far}", "the paper", f"layers between {far} positions", "the paper"),
    ]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for kind in KINDS:
        steps, path = sequential_steps(kind, far), path_length(kind, far)
        for d in features:
            last, some = costs[kind.name, n, d], [costs[kind.name, each, d] for each in upper]
            cells = [
                *(
                    kind.name,
                    str(d),
                    f"{1000 * last.seconds:,.1f}",
                    f"{exponent(upper, [c.seconds for c in some]):.2f}",
                ),
                *(f"{last.operations:.2e}", f"{exponent(upper, [c.operations for c in some]):.2f}"),
                *(kind.operations, f"{last.peak_bytes / 2**20:,.1f}", f"{steps:,}", kind.steps, f"{path:,}", kind.path),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    for d in features:
        one, other = ([costs[kind, each, d] for each in lengths] for kind in ("self-attention", "recurrent"))
        for what in ("operations", "seconds"):
            found = crossing(lengths, [getattr(c, what) for c in one], [getattr(c, what) for c in other])
            where = "at no length measured" if found is None else f"from n = {found:,.0f}"
            lines.append(f"- d = {d}: self-attention takes more {what} than recurrence {where} (the paper: n > d).")
    return "\n".join(lines)


def plot(path: Path, lengths: Sequence[int], features: Sequence[int], costs: dict[tuple[str, int, int], Cost]) -> None:
    """Time against length, a panel for each number of features."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UserError(
            f"--plot needs matplotlib ({error}); pip install '.[plot]' in the project's directory"
        ) from None
    figure = Figure(figsize=(5 * len(features), 4), layout="constrained")
    for panel, d in zip(figure.subplots(1, len(features), squeeze=False)[0], features, strict=True):
        for kind in KINDS:
            panel.loglog(lengths, [1000 * costs[kind.name, n, d].seconds for n in lengths], marker=".", label=kind.name)
        panel.axvline(d, color="grey", linewidth=0.8, linestyle=":")
        panel.set(title=f"d = {d}", xlabel="positions n", ylabel="ms, forward and backward")
    panel.legend(fontsize="small")
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main(argv: Sequence[str]) -> int:
    """Measure every layer at every size, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, in seconds")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table as a page")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw time against length (matplotlib)")
    args = parser.parse_args(argv)
    lengths, features, far, seconds = (
        (LENGTHS[:4], [16, 32], 33, 0.02) if args.quick else (LENGTHS, FEATURES, FARTHEST, 1.0)
    )
    costs = {(kind.name, n, d): cost(kind.make(d), n, d, seconds) for kind in KINDS for d in features for n in lengths}
    found = table(lengths, features, costs, far)
    print(found)
    if args.plot:
        plot(args.plot, lengths, features, costs)
    if args.write:
        _write(args.write, found, args.plot)
    return 0


def _write(path: Path, found: str, picture: Path | None) -> None:
    command = f"python studies/recipes/table_1.py --write {path}" + (f" --plot {picture}" if picture else "")
    drawn = f"\n![Time of each layer against the number of positions]({picture.name})\n" if picture else ""
    about = (__doc__ or "").split("\n\n", 2)[2]
    head = f"# Table 1, measured\n\nThis page is generated by\n\n    {command}\n\n{machine()}\n\n"
    resumable.write(path, f"{head}{about}{drawn}\n{found}\n")


if __name__ == "__main__":
    sys.exit(run_command(main))
