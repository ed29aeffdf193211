"""How the time of a training step grows with each size of the work, ours beside the peers'.

    python studies/benchmarks/scaling.py --peer pytorch=envs/torch/bin/python --peer jax=envs/jax/bin/python --plot scaling.svg

Around one workload each size is varied alone.  A step should take time in proportion to what it computes; a jump
between neighbours that the floor (the matrix products alone) does not have is a cliff, and is named.  Prints a
Markdown table, and with `--plot` draws it (matplotlib, the extra `plot`).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from side_by_side import HERE, Contestant, add_arguments, machine, ours, peers_given, take_turns

CENTRE = {"config": "small", "batch": 64, "length": 16, "vocab_size": 8000, "layers": 3, "d_model": 256}
SIZES = {
    "length": (4, 8, 16, 32, 64, 128),
    "batch": (4, 16, 64, 256),
    "vocab_size": (1000, 4000, 16000, 37000),
    "layers": (1, 2, 4, 6),
    "d_model": (64, 128, 256, 512),
}
AXES = {"length": "tokens a sentence", "batch": "sentences", "vocab_size": "vocabulary", "layers": "layers"}
CLIFF = 1.5  # ours may grow this much faster than the floor from one size to the next


def contestants(peers: dict[str, str], sizes: dict[str, Any]) -> list[Contestant]:
    flags = [part for name, value in sizes.items() for part in ("--" + name.replace("_", "-"), str(value))]
    flags += ["--d-ff", str(4 * sizes["d_model"])]
    step = ["--runs", "3"]
    found = ours("train_step.py", *flags, *step)
    found.append(Contestant("the products alone", [sys.executable, str(HERE / "peers" / "gemm_floor.py"), *flags]))
    if "pytorch" in peers:
        torch = [peers["pytorch"], str(HERE / "peers" / "torch_transformer.py"), "train", *flags, *step]
        found.append(Contestant("PyTorch", torch))
    if "jax" in peers:
        found.append(Contestant("JAX", [peers["jax"], str(HERE / "peers" / "jax_transformer.py"), *flags, *step]))
    return found


def measure(axis: str, peers: dict[str, str], rounds: int) -> dict[str, list[float | None]]:
    """Median milliseconds a step, a list over the sizes for each contestant."""
    curves: dict[str, list[float | None]] = {}
    for value in SIZES[axis]:
        running = contestants(peers, CENTRE | {axis: value})
        take_turns(running, rounds, f"{axis} {value}")
        for contestant in running:
            seconds = contestant.median("seconds")
            curves.setdefault(contestant.name, []).append(None if seconds is None else 1000 * seconds)
    return curves


def table(axis: str, curves: dict[str, list[float | None]]) -> str:
    header = f"| {AXES.get(axis, axis)} | " + " | ".join(str(value) for value in SIZES[axis]) + " |"
    rows = [header, "|---" * (len(SIZES[axis]) + 1) + "|"]
    for name, times in curves.items():
        rows.append(f"| {name} | " + " | ".join("–" if t is None else f"{t:,.1f}" for t in times) + " |")
    return "\n".join(rows)


def cliffs(axis: str, curves: dict[str, list[float | None]]) -> list[str]:
    """Neighbours between which ours grows by more than `CLIFF` times what the work does."""
    found = []
    first, floor = next(iter(curves.values())), curves["the products alone"]
    for i, (low, high) in enumerate(zip(SIZES[axis], SIZES[axis][1:], strict=False)):
        if None in (first[i], first[i + 1], floor[i], floor[i + 1]):
            continue
        growth = (first[i + 1] / first[i]) / max(floor[i + 1] / floor[i], high / low if axis != "d_model" else 0, 1)  # type: ignore[operator]
        if growth > CLIFF:
            found.append(f"a cliff: {axis} {low} → {high} costs {growth:.1f} times what the work grows by")
    return found


def plot(results: dict[str, dict[str, list[float | None]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, len(results), figsize=(3.2 * len(results), 3.2), layout="constrained", sharey=True)
    for panel, (axis, curves) in zip(panels if len(results) > 1 else [panels], results.items(), strict=True):
        for name, times in curves.items():
            style = {"color": "0.6", "linestyle": "--"} if name == "the products alone" else {"marker": "o"}
            panel.plot(SIZES[axis], [float("nan") if t is None else t for t in times], label=name, **style)
        panel.set(xscale="log", yscale="log", xlabel=AXES.get(axis, axis), xticks=SIZES[axis])
        panel.set_xticklabels([str(value) for value in SIZES[axis]])
        panel.minorticks_off()
        panel.grid(alpha=0.3)
    figure.axes[0].set_ylabel("ms a training step")
    figure.axes[0].legend(frameon=False, fontsize="small")
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--axes", nargs="+", default=list(SIZES), choices=SIZES)
    parser.add_argument("--plot", type=Path, help="draw the curves into this file (.svg, .png)")
    args = parser.parse_args()
    peers = peers_given(parser, args.peer, ("pytorch", "jax"))

    centre = ", ".join(f"{name} {value}" for name, value in CENTRE.items() if name != "config")
    parts = [f"{machine()}; {args.rounds} rounds in turn; around {centre}, d_ff 4 · d_model; ms a step"]
    print(parts[0])
    results = {}
    for axis in args.axes:
        results[axis] = measure(axis, peers, args.rounds)
        parts.append("\n".join([table(axis, results[axis]), *[f"\n{line}" for line in cliffs(axis, results[axis])]]))
        print(f"\n{parts[-1]}", flush=True)
    if args.plot is not None:
        plot(results, args.plot)
    if args.write is not None:
        args.write.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
