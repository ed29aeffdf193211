#!/usr/bin/env python3
"""A recipe under several seeds: the score of each, their mean and their range.

    python studies/recipes/seeds.py --seeds 1 2 3 --output runs/tiny --preset multi30k-transformer-tiny

One run of 1,000 test sentences moves by about half a point with the seed, so one score says little. Further flags go to
train.py, for every seed. Runs that are done are not trained again, one that was interrupted goes on. With --jobs, as
many seeds at once share the cores.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import resumable  # first: it finds minitf without an installation

from minitf.system.process import run_command


def main(argv: Sequence[str]) -> int:
    """Train a run for each seed and print their scores."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], metavar="N", help="default: 1 2 3")
    parser.add_argument("--output", type=Path, required=True, help="folder for the runs, seed-1 and so on")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="seeds to train at once; default: 1")
    args, flags = parser.parse_known_args(argv)
    runs = {args.output / f"seed-{seed}": resumable.seeded(flags, seed) for seed in args.seeds}
    scores = []
    with closing(resumable.train_all(runs, args.jobs)) as done:
        for run in done:
            final = resumable.final_score(run)
            assert final is not None  # or `train` had failed
            scores.append(final["bleu"])
            print(f"{run.name.replace('-', ' ')}: BLEU {scores[-1]:.2f} after {final['step']:,} updates and "
                  f"{resumable.minutes(run):.1f} minutes ({final['signature']})", flush=True)  # fmt: skip
    mean = sum(scores) / len(scores)
    print(f"mean of {len(scores)}: {mean:.2f}, from {min(scores):.2f} to {max(scores):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
