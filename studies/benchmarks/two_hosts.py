"""The Python of two_hosts.sh: the flags of its runs, and how far their weights are apart."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the helpers of the tests, too

import numpy as np

from minitf.storage import checkpoints
from tests.helpers.runs import write_corpus

FLAGS = [
    *("--precision", "float64", "--vocab-size", "320", "--max-length", "32", "--max-tokens-per-batch", "64"),
    *("--accumulate", "3", "--max-steps", "50", "--log-every", "10", "--valid-every", "50", "--save-every", "50"),
    *("--model.dropout", "0.1", "--model.layers", "2", "--model.d-model", "32", "--model.d-ff", "64"),
    *("--model.heads", "2", "--optimizer.warmup-steps", "4000", "--optimizer.peak-learning-rate", "none"),
    *("--average-checkpoints", "1", "--beam", "1", "--max-extra-length", "2"),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("deed", choices=["flags", "compare"])
    parser.add_argument("folder", type=Path, help="of the corpus and the runs")
    args = parser.parse_args()
    deed, folder = args.deed, args.folder
    if deed == "flags":
        print(" ".join([*FLAGS, *write_corpus(folder)]))
        return 0
    one, two = (checkpoints.load(folder / run / "checkpoints/step-00000050.safetensors")[0] for run in ("one", "two"))
    worst, name = max((float(np.abs(one[name] - two[name]).max()), name) for name in one)
    print(f"one process and four on two hosts, 50 steps in float64: at most {worst:.1e} apart ({name})")
    return int(not worst <= 1e-12)


if __name__ == "__main__":
    sys.exit(main())
