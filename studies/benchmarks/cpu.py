"""A training step on the CPU: ours, the matrix products alone, and each peer that is installed, in turn.

    python studies/benchmarks/cpu.py --peer pytorch=envs/torch/bin/python --peer jax=envs/jax/bin/python

Peers live in environments of their own (`pip install torch`, `pip install jax jaxlib optax`; ml-by-hand: see its
script, with the config six-layers).  Run it on an idle
machine; it prints a Markdown table a workload.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from side_by_side import HERE, Contestant, add_arguments, machine, ours, peers_given, table, take_turns
from workload import BATCHES


def contestants(
    config: str, peers: dict[str, str], jemalloc: Path | None, steps: int, dropout: float | None
) -> list[Contestant]:
    size, runs = ["--config", config], ["--runs", str(steps)]
    size += [] if dropout is None else ["--dropout", str(dropout)]
    found = ours("train_step.py", *size, *runs)
    found.append(Contestant("the products alone", [sys.executable, str(HERE / "peers" / "gemm_floor.py"), *size]))
    if "pytorch" in peers:
        step = [peers["pytorch"], str(HERE / "peers" / "torch_transformer.py"), "train", *size, *runs]
        found.append(Contestant("PyTorch eager", step))
        found.append(Contestant("PyTorch compiled", [*step, "--compile"]))  # needs a C++ compiler
        if jemalloc is not None:
            found.append(Contestant("PyTorch eager, jemalloc", step, {"LD_PRELOAD": str(jemalloc)}))
        found.append(Contestant("PyTorch bf16 autocast", [*step, "--amp", "bf16"]))
    if "jax" in peers:
        found.append(
            Contestant("JAX, compiled", [peers["jax"], str(HERE / "peers" / "jax_transformer.py"), *size, *runs])
        )
    if "ml-by-hand" in peers and config == "six-layers":
        step = [peers["ml-by-hand"], str(HERE / "peers" / "ml_by_hand_transformer.py"), *size, *runs]
        found.append(Contestant("ml-by-hand", step))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--jemalloc", type=Path, help="libjemalloc.so: run PyTorch with it as well")
    parser.add_argument("--configs", nargs="+", default=["base", "small", "multi30k-tiny"], choices=BATCHES)
    parser.add_argument("--dropout", type=float, help="default: the config's")
    parser.add_argument("--steps", type=int, default=5, help="timed steps a run, after two of warm-up")
    args = parser.parse_args()
    peers = peers_given(parser, args.peer, ("pytorch", "jax", "ml-by-hand"))

    parts = [f"{machine()}; {args.rounds} rounds in turn, median of {args.steps} steps each"]
    print(parts[0])
    for config in args.configs:
        running = contestants(config, peers, args.jemalloc, args.steps, args.dropout)
        take_turns(running, args.rounds, config)
        batch, length = BATCHES[config]
        parts.append(f"### {config}: {batch} × {length} tokens per side\n\n{table(running, unit='target tokens/s')}")
        print(f"\n{parts[-1]}", flush=True)
    if args.write is not None:
        args.write.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
