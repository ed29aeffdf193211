"""Losses of 150 steps in float32, tf32 and bf16 on the GPU, step by step beside float32's on the CPU.

    python studies/benchmarks/gpu_window/curves.py FOLDER

One seed, one text (made up), the same dropout masks.  Training amplifies roundings: at this learning rate, the NumPy
and the compiled kernels of one CPU are 2e-5 apart after 100 steps and 0.7 % after 150, and at the preset's, where the
loss rises again after 90 steps, 3.5 %.  So the first 100 steps decide.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from common import ROOT, SMALL, put
from made_up_text import write_text

TOLERANCES = {"float32": 0.001, "tf32": 0.02, "bf16": 0.02}  # relative, of the loss of each of the first steps
STEPS, FIRST = (3, 3) if SMALL else (150, 100)


def command(folder: Path, name: str, *flags: str) -> list[str]:
    texts = [str(folder / "text" / f"train.{side}") for side in ("source", "target")]
    seldom = ["--log-every", "1", "--valid-every", "100000", "--save-every", "100000"]
    model = ["--preset", "tiny", "--vocab-size", "290", "--model.layers", "1"] if SMALL else ["--preset", "tiny"]
    sizes = ["--max-steps", str(STEPS), *(["--max-tokens-per-batch", "300"] if SMALL else ["--vocab-size", "2000"])]
    sizes += ["--optimizer.peak-learning-rate", "0.0005"]
    train = [sys.executable, str(ROOT / "train.py"), *model, "--train", *texts, *sizes, *seldom]
    return [*train, "--output", str(folder / f"curve-{name}"), *flags]


def losses(folder: Path) -> dict[int, float]:
    """The loss of each step."""
    records = map(json.loads, (folder / "log.jsonl").read_text("utf-8").splitlines())
    return {record["step"]: record["loss"] for record in records if "gradient_norm" in record}


def main() -> int:
    folder = Path(sys.argv[1])
    write_text(folder / "text", 60 if SMALL else 6000)
    settings: Any = {"stdout": subprocess.DEVNULL, "env": os.environ | {"OPENBLAS_NUM_THREADS": "4"}}
    on_cpu = subprocess.Popen(command(folder, "cpu", "--device", "cpu"), **settings)
    for precision in TOLERANCES:
        subprocess.run(command(folder, precision, "--device", "cuda", "--precision", precision), check=True, **settings)
    if on_cpu.wait():
        return 1
    exact, wrong = losses(folder / "curve-cpu"), False
    for precision, tolerance in TOLERANCES.items():
        found = losses(folder / f"curve-{precision}")
        apart = [abs(found[step] / exact[step] - 1) for step in exact]
        right = len(found) == len(exact) == STEPS and max(apart[:FIRST]) <= tolerance
        shown = {step: [found[step], exact[step]] for step in (1, 2, 10, 50, 100, 150) if step in exact}
        put(
            f"curve, {precision}",
            steps=len(found),
            worst=max(apart[:FIRST]),
            worst_of_all=max(apart),
            right=right,
            shown=shown,
        )
        wrong = wrong or not right
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
