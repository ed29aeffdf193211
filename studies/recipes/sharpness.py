#!/usr/bin/env python3
"""The largest eigenvalue of the loss's Hessian along training: with and without warm-up, post-norm and pre-norm.

    python studies/recipes/sharpness.py                  # 12 runs of 600 updates, half an hour of one core
    python studies/recipes/sharpness.py --quick

Prints a table for each, means over three seeds: the loss, the rate, the largest eigenvalue λ of the Hessian, and η λ of
the Hessian that Adam meets, as a share of the limit above which Adam is not stable. What is measured is kept in the
folder for the runs, that of studies/recipes/claims.py, whose claims `warm-up-curvature` and `post-norm-curvature` use it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import resumable  # noqa: F401  # first: it finds minitf without an installation
from paper_claims.curvature import table
from paper_claims.runs import Study

from minitf.system.process import run_command


def main(argv: Sequence[str]) -> int:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, whose figures mean nothing")
    parser.add_argument("--output", type=Path, default=Path("runs/claims"), metavar="DIR", help="folder for the runs")
    args = parser.parse_args(argv)
    print(table(Study(args.output, args.quick)))
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main, sys.argv[1:]))
