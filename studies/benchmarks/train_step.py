"""Our side of every speed comparison: one training step (forward, backward, Adam) at a fixed batch of full rows.

    python studies/benchmarks/train_step.py --config base --batch 64 --length 32

Prints one JSON line: median seconds of a step, target tokens per second, peak memory in MiB.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # also without an installation

import numpy as np

from autograd import Tensor, random
from autograd.backend import get_backend
from autograd.fast import recompute_large_outputs
from minitf.config import OptimizerConfig, TransformerConfig
from minitf.data.batches import Batch
from minitf.fast.accelerate import accelerate, accelerate_adam
from minitf.model.transformer import Transformer
from minitf.system.process import set_up_device
from minitf.training.optim import Adam, batch_loss
from workload import add_arguments, chosen, median_seconds, report


def prepared(
    args: argparse.Namespace, device: str = "cpu", compute_dtype: str | None = None
) -> tuple[Transformer, Adam, Batch]:
    """A model of random weights, its optimizer, and a random batch, on a device."""
    recompute_large_outputs()
    backend, config = get_backend(device), TransformerConfig(**chosen(args))
    model = accelerate(
        Transformer(config).to(device),
        compute_dtype=compute_dtype,
        checkpoint_layers=getattr(args, "checkpoint_activations", False),
    )
    optimizer = accelerate_adam(Adam(model.named_parameters(), OptimizerConfig()))
    rng = np.random.default_rng(0)
    source, target = (rng.integers(4, config.vocab_size, (args.batch, args.length + 1), np.int32) for _ in range(2))
    ids = [np.ascontiguousarray(a) for a in (source[:, 1:], target[:, :-1], target[:, 1:])]
    return model, optimizer, Batch(np.arange(args.batch), *map(backend.asarray, ids))


def train_step(model: Transformer, optimizer: Adam, batch: Batch, number: int) -> Tensor:
    """Forward, backward and Adam; returns the loss."""
    random.begin_step(number)
    optimizer.zero_grad()
    loss, _ = batch_loss(model, batch, label_smoothing=0.1)
    loss.backward()
    optimizer.step(1e-4, 1 / batch.target_out.size)
    return loss


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
    model, optimizer, batch = prepared(args)
    numbers = itertools.count()
    seconds = median_seconds(lambda: train_step(model, optimizer, batch, next(numbers)), args.runs, args.warmup)
    parameters = model.parameter_count()
    report("minitf", "train", seconds, args.batch * args.length, config=args.config, parameters=parameters)


if __name__ == "__main__":
    main()
