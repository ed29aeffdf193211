"""Shared by the programs of this folder: the project on the path, results as lines of JSON, and times by GPU events."""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # also without an installation

import numpy as np

from autograd.backend import get_backend
from minitf.config import PRESETS
from minitf.data.batches import Batch
from minitf.fast.accelerate import accelerate, accelerate_adam
from minitf.model.transformer import Transformer
from minitf.parallel.group import Group
from minitf.training.optim import Adam

ROOT = Path(__file__).resolve().parents[3]
RESULTS = Path(os.environ.get("RESULTS", "results.jsonl"))
SMALL = os.environ.get("SMALL") == "1"  # to try these programs where a kernel takes long
ROWS, LENGTH, VOCAB = (4, 7, 301) if SMALL else (500, 50, 37_000)  # a step of base
LAYERS = 1 if SMALL else 6


def put(what: str, **found: Any) -> None:
    """Print a result, and append it to RESULTS."""
    line = json.dumps({"what": what, **found, "epilogues": get_backend("cuda").uses_epilogues})
    print(line, flush=True)
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def gpu_ms(work: Callable[[], object], runs: int = 10, warmup: int = 3) -> float:
    """Median milliseconds of `work` on the GPU, between two events.

    A copy before them keeps the GPU busy while the host launches, which may take longer than the work.
    """
    cupy, times = get_backend("cuda").xp, []
    cuda, ahead = cupy.cuda, [cupy.empty(1 << (10 if SMALL else 29), np.float32) for _ in range(2)]  # 1 ms on an H200
    for number in range(warmup + (1 if SMALL else runs)):
        start, end = cuda.Event(), cuda.Event()
        cupy.copyto(*ahead)
        start.record()
        work()
        end.record()
        end.synchronize()
        if number >= warmup:
            times.append(cuda.get_elapsed_time(start, end))
    return statistics.median(times)


def base_model(precision: str = "bf16", **changes: Any) -> tuple[Transformer, Adam, Any]:
    """A base model in training, its optimizer, and the backend."""
    backend: Any = get_backend("cuda")
    backend.set_precision(precision)
    preset = PRESETS["base"]
    config = replace(preset.model, **{"vocab_size": VOCAB, "layers": LAYERS, **changes})
    model = Transformer(config, seed=1).to("cuda")
    model = accelerate(model, compute_dtype="bfloat16" if precision == "bf16" else None).train()
    return model, accelerate_adam(Adam(model.named_parameters(), preset.optimizer)), backend


def batch_of(rows: int = ROWS, length: int = LENGTH, vocab: int = VOCAB) -> Batch:
    """Random sentences without padding."""
    ids = np.random.default_rng(0).integers(4, vocab, (3, rows, length)).astype(np.int32)
    return Batch(np.arange(rows), *ids)


class OneRank(Group):
    """A group of one process."""

    def __init__(self) -> None:
        """Without MPI."""

    def all_gather(self, value: Any, purpose: str = "", *, after_rank_0: bool = False) -> list[Any]:
        return [value]
