"""Our side of every speed comparison: one training step (forward, backward, Adam) at a fixed batch of full rows.

    python benchmarks/train_step.py --config base --batch 64 --length 32

Prints one JSON line: median seconds of a step, target tokens per second, peak memory in MiB.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # also without an installation

import numpy as np

from autograd import random
from minitf.config import OptimizerConfig, TransformerConfig
from minitf.data.batches import Batch
from minitf.fast.accelerate import accelerate, accelerate_adam
from minitf.model.transformer import Transformer
from minitf.system.process import set_up_device
from minitf.training.optim import Adam, batch_loss
from workload import add_arguments, chosen


def prepared_step(args: argparse.Namespace) -> tuple[Transformer, Adam, Callable[[int], None]]:
    """A model of random weights, its optimizer, and the step of a given number on a random batch."""
    config = TransformerConfig(**chosen(args))
    model = accelerate(Transformer(config), checkpoint_layers=getattr(args, "checkpoint_activations", False))
    optimizer = accelerate_adam(Adam(model.named_parameters(), OptimizerConfig()))
    rng = np.random.default_rng(0)
    source = rng.integers(4, config.vocab_size, (args.batch, args.length))
    target = rng.integers(4, config.vocab_size, (args.batch, args.length + 1))
    batch = Batch(np.arange(args.batch), source, target[:, :-1], target[:, 1:])

    def step(number: int) -> None:
        random.begin_step(number)
        optimizer.zero_grad()
        loss, _ = batch_loss(model, batch, label_smoothing=0.1)
        loss.backward()
        optimizer.step(1e-4, 1 / target[:, 1:].size)

    return model, optimizer, step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--threads", type=int, help="default: one a core")
    parser.add_argument("--checkpoint-activations", action="store_true", help="keep only the inputs of layers")
    parser.add_argument("--kernels", choices=["numpy", "numba"], default="numpy")
    parser.add_argument("--precision", choices=["float32", "bf16"], default="float32")
    args = parser.parse_args()

    set_up_device(args.threads, precision=args.precision, kernels=args.kernels)
    model, _, step = prepared_step(args)

    seconds = []
    for number in range(args.warmup + args.runs):
        start = time.perf_counter()
        step(number)
        if number >= args.warmup:
            seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds)
    print(
        json.dumps(
            {
                "peer": "minitf",
                "mode": "train",
                "config": args.config,
                "seconds": round(median, 5),
                "tokens_per_second": round(args.batch * args.length / median, 1),
                "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
                "parameters": model.parameter_count(),
            }
        )
    )


if __name__ == "__main__":
    main()
