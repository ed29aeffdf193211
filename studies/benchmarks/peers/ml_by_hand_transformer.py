"""The peer's side of a training step: forward, backward, Adam in ml-by-hand, a framework by hand over NumPy.

    PYTHONPATH=CHECKOUT python ml_by_hand_transformer.py --config six-layers

CHECKOUT is a copy of github.com/workofart/ml-by-hand (tried with 7eb6ff4 of 2026-05-17, Python 3.12, NumPy, ml_dtypes,
regex, tqdm, pyarrow).  Its Transformer has 6 + 6 layers with d_ff = 4 d_model, whatever it is given, a norm at the end
of both stacks, the norm of a sublayer before the addition, and a matrix of its own for the logits.  Its package has the name of ours, `autograd`.
"""

import argparse
import sys
from pathlib import Path

import autograd.nn as nn
import autograd.optim as optim
import numpy as np
from examples.transformers import Transformer

import autograd.functional as functional

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from workload import add_arguments, chosen, median_seconds, report


def set_dropout(module: nn.Module, p: float) -> None:
    """Give all layers of dropout in a module the same probability."""
    if isinstance(module, nn.Dropout):
        module.p = p
    for name in module._modules:
        set_dropout(module._modules[name], p)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    sizes = chosen(args)
    if (sizes["layers"], sizes["d_ff"]) != (6, 4 * sizes["d_model"]):
        parser.error("its Transformer has 6 layers and d_ff = 4 · d_model; choose --config six-layers")
    model = Transformer(sizes["vocab_size"], sizes["d_model"], sizes["heads"])
    set_dropout(model, sizes["dropout"])
    model.train()
    optimizer = optim.Adam(model.parameters, lr=1e-4, beta2=0.98, epsilon=1e-9)
    rng = np.random.default_rng(0)
    shape = args.batch, args.length + 1
    source, target = (rng.integers(4, sizes["vocab_size"], shape, np.int32) for _ in range(2))

    def step() -> None:
        optimizer.zero_grad()
        logits = model(source[:, 1:], target[:, :-1])
        functional.cross_entropy(logits, target[:, 1:], label_smoothing=0.1).backward()
        optimizer.step()

    seconds = median_seconds(step, args.runs, warmup=2)
    report("ml-by-hand", "train", seconds, args.batch * args.length, config=args.config)


if __name__ == "__main__":
    main()
