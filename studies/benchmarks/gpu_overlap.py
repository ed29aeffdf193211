"""Whether gradients are all-reduced while the backward pass still computes: a trace of one step on one GPU.

    python studies/benchmarks/gpu_overlap.py --json overlap.json

NCCL has one rank here, for which an all-reduce in place moves nothing: each bucket is copied to other memory on NCCL's
stream instead, after its all-reduce.  For each bucket, the trace has the time when the last of its gradients was
complete and the time when its copy was done, in milliseconds after the start of the backward pass.  The exit status is
0 only if every bucket but the last was done before the backward pass was.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))  # also where it is imported, by its tests
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # also without an installation

from autograd import random
from autograd.devices import get_backend
from minitf.parallel.buckets import GradientBuckets
from minitf.parallel.group import Group, NcclGroup
from minitf.training.optim import batch_loss
from train_step import prepared
from workload import add_arguments


class OneRank(Group):
    """The group that a group of GPUs is made of; its only rank has nobody to talk to."""

    def all_gather(self, value: Any, purpose: str = "", *, after_rank_0: bool = False) -> list[Any]:
        return [value]


class TracedGroup(NcclGroup):
    """Notes when each bucket is ready, and when it is done."""

    def begin(self) -> None:
        self.bytes: list[int] = []
        self.events: list[tuple[Any, Any]] = []

    def all_reduce(self, array: Any) -> None:
        ready = self._xp.cuda.get_current_stream().record(self._xp.cuda.Event())
        super().all_reduce(array)
        with self._stream:
            array.copy()
        self.bytes.append(array.nbytes)
        self.events.append((ready, self._stream.record(self._xp.cuda.Event())))


def traced_step(args: argparse.Namespace, steps: int = 3) -> tuple[list[dict[str, float]], float]:
    """The buckets of the last of several steps, and when its backward pass ended."""
    backend = get_backend("cuda")
    xp = backend.xp
    backend.set_precision("bf16")
    model, _, batch = prepared(args, "cuda", "bfloat16")
    group = TracedGroup(OneRank(), backend, "cuda")
    buckets = GradientBuckets(model.parameters(), group)
    stream = xp.cuda.get_current_stream()
    for number in range(steps):
        random.begin_step(number)
        buckets.begin(1)
        group.begin()
        loss, _ = batch_loss(model, batch, label_smoothing=0.1)
        start = stream.record(xp.cuda.Event())
        loss.backward()
        end = stream.record(xp.cuda.Event())
        buckets.finish()
        xp.cuda.Device().synchronize()
    since = xp.cuda.get_elapsed_time
    rows = [
        {"bytes": size, "ready_ms": since(start, ready), "done_ms": since(start, done)}
        for size, (ready, done) in zip(group.bytes, group.events, strict=True)
    ]
    return rows, since(start, end)


def late(rows: list[dict[str, float]], end_ms: float) -> int:
    """How many buckets but the last, whose gradients are complete only at the end, were not done before the end."""
    return sum(row["done_ms"] >= end_ms for row in rows[:-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if args.config in ("base", "big"):
        args.batch, args.length = args.batch or 500, args.length or 50
    rows, end_ms = traced_step(args)
    print(f"{'bucket':>6}{'MB':>8}{'ready, ms':>12}{'done, ms':>12}")
    for number, row in enumerate(rows):
        print(f"{number:6}{row['bytes'] / 1e6:8.1f}{row['ready_ms']:12.3f}{row['done_ms']:12.3f}")
    print(f"the backward pass ended after {end_ms:.3f} ms")
    if args.json is not None:
        args.json.write_text(json.dumps({"buckets": rows, "end_ms": end_ms}), encoding="utf-8")
    if len(rows) < 2 or late(rows, end_ms):
        print(f"no overlap: {late(rows, end_ms)} of {len(rows)} buckets were done only after the backward pass")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
