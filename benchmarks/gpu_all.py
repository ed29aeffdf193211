"""All that is to be known about a GPU in one go: tests, gradients, equality, loss curves, speed and memory.

    python benchmarks/gpu_all.py results --peer benchmarks/peers/torch_transformer.py

Each section is a process of its own with a time limit: one that fails takes no other along.  Its output is in
results/SECTION.log; results/summary.txt has a line a section, and how long it took.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="folder for the results")
    parser.add_argument("--peer", type=Path, help="the PyTorch program to compare with")
    parser.add_argument("--train", nargs=2, type=Path, metavar=("SOURCE", "TARGET"), help="text for the loss curves")
    parser.add_argument("--steps", type=int, default=500, help="of the loss curves")
    parser.add_argument("--only", nargs="+", metavar="SECTION", help="these sections; default: all")
    args = parser.parse_args()

    output = args.output.absolute()
    output.mkdir(parents=True, exist_ok=True)
    peer = [] if args.peer is None else ["--peer", str(args.peer.absolute())]
    failed = 0
    for name, limit_s, commands in sections(output, peer, args):
        if args.only and name not in args.only:
            continue
        start = time.perf_counter()
        verdict = run_section(output / f"{name}.log", limit_s, commands)
        failed += verdict != "passed"
        line = f"{name:14}{verdict:12}{time.perf_counter() - start:8.1f} s"
        with (output / "summary.txt").open("a", encoding="utf-8") as file:
            print(line, file=file)
        print(line, flush=True)
    if not args.only or "curves" in args.only:
        print(compare_curves(output))
    return 1 if failed else 0


def sections(output: Path, peer: list[str], args: argparse.Namespace) -> list[tuple[str, float, list[list[str]]]]:
    """Name, seconds it may take, and commands of each section; the cheapest and most telling first."""
    pytest = [PYTHON, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider"]
    bench = [PYTHON, "benchmarks/gpu.py", *peer]
    return [
        ("card", 60, [["nvidia-smi"], [PYTHON, "-c", "import cupy; cupy.show_config()"]]),
        ("kernels", 300, [[*pytest, "tests/autograd/backend/test_cuda.py"]]),
        ("models", 300, [[*pytest, "tests/minitf/test_on_gpu.py"]]),
        ("gradcheck", 300, [[PYTHON, "-m", "tests.cases", "--ops", "--device", "cuda", "--examples", "1"]]),
        ("base", 300, [[*bench, "--json", str(output / "base.json")]]),
        ("big", 300, [[*bench, "--config", "big", "--precision", "bf16", "--json", str(output / "big.json")]]),
        ("curves", 400, [curve(output, precision, args) for precision in ("float32", "bf16", "tf32")]),
    ]


def curve(output: Path, precision: str, args: argparse.Namespace) -> list[str]:
    """A run of the small preset; the same seed, data and masks in every precision."""
    text = [] if args.train is None else ["--train", *[str(path.absolute()) for path in args.train]]
    return [
        PYTHON, "train.py", "--preset", "small", "--device", "cuda", "--precision", precision, *text,
        "--vocab-size", "5000", "--max-steps", str(args.steps), "--log-every", "20", "--valid-every", "100000",
        "--save-every", "100000", "--output", str(output / f"curve-{precision}-{time.time_ns()}"),
    ]  # fmt: skip


def run_section(log: Path, limit_s: float, commands: list[list[str]]) -> str:
    """Run commands one after the other; what came of it, in a word or two."""
    with log.open("w", encoding="utf-8") as file:
        for command in commands:
            file.write(f"$ {' '.join(command)}\n")
            file.flush()
            try:
                done = subprocess.run(command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, timeout=limit_s)
            except subprocess.TimeoutExpired:
                return "timed out"
            except OSError as error:
                file.write(f"{error}\n")
                return "not there"
            if done.returncode:
                return f"exit {done.returncode}"
    return "passed"


def compare_curves(output: Path) -> str:
    """How far the losses of the precisions are apart: the worst interval, in proportion to float32."""
    losses: dict[str, list[float]] = {}
    for precision in ("float32", "bf16", "tf32"):
        for run in sorted(output.glob(f"curve-{precision}-*")):
            logs = sorted(run.glob("*.jsonl"))
            records = [json.loads(line) for path in logs for line in path.read_text("utf-8").splitlines()]
            losses[precision] = [record["loss"] for record in records if "loss" in record]
    lines = []
    for precision, found in losses.items():
        pairs = list(zip(found, losses.get("float32", []), strict=False))
        if precision != "float32" and pairs:
            worst = max(abs(a - b) / b for a, b in pairs)
            lines.append(
                f"{precision}: the loss is within {100 * worst:.2f} % of float32's over {len(pairs)} intervals"
            )
    return "\n".join(lines) or "no two loss curves to compare"


if __name__ == "__main__":
    sys.exit(main())
