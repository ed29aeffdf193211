"""Cost of a product with the Hessian of the whole Transformer's loss, in gradients of that loss: ours and PyTorch's.

    python studies/benchmarks/second_order.py --peer pytorch=PYTHON

The loss has dropout and label smoothing, and the Hessian is that by all weights.  All times are processor time
of the thread, with one thread for products, so that what else the machine does is not counted.  PyTorch is left out
where it is not given: by two backward passes, and by forward mode over a backward pass (`torch.func`), in eager mode.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("minitf", "pytorch")
SIZES = {  # d_model: (sentences, tokens each, vocabulary)
    128: (16, 24, 1000),
    256: (32, 24, 4000),
    512: (32, 24, 8000),
}
LAYERS, HEADS, DROPOUT, SMOOTHING = 2, 4, 0.1, 0.1


def ours(d_model: int, is_accelerated: bool = False) -> dict[str, Callable[[], object]]:
    """The gradient and the product, as functions without arguments."""
    import numpy as np

    import autograd as ag
    from autograd import random
    from autograd.fast import keep_freed_memory
    from minitf import Transformer, TransformerConfig
    from minitf.config.model import PAD
    from minitf.fast.accelerate import accelerate

    keep_freed_memory()
    sentences, tokens, vocabulary = SIZES[d_model]
    config = TransformerConfig(
        vocab_size=vocabulary, layers=LAYERS, d_model=d_model, heads=HEADS, d_ff=4 * d_model, dropout=DROPOUT
    )
    model: Any = Transformer(config, seed=1)
    if is_accelerated:
        model = accelerate(model)
    rng = np.random.default_rng(0)
    source, target_in, target_out = rng.integers(4, vocabulary, (3, sentences, tokens))
    weights = {name: p.data for name, p in model.named_parameters().items()}
    v = {name: rng.standard_normal(w.shape).astype(w.dtype) for name, w in weights.items()}
    owners = dict.fromkeys(weights, model)
    for name in weights:
        for part in name.split(".")[:-1]:
            owners[name] = owners[name][int(part)] if part.isdecimal() else getattr(owners[name], part)

    def loss(weights: dict[str, Any]) -> Any:
        random.set_state((7, 3, 0))  # the same masks each time
        for name, weight in weights.items():
            setattr(owners[name], name.rpartition(".")[2], weight)
        return ag.cross_entropy(model(source, target_in), target_out, label_smoothing=SMOOTHING, ignore_index=PAD)

    return {
        "gradient": lambda: ag.value_and_grad(loss)(weights),
        "two backward passes": lambda: ag.hvp(loss, weights, v),
    }


def pytorch(d_model: int) -> dict[str, Callable[[], object]]:
    """The same with the model that `cpu.py` compares with."""
    sys.path[:0] = [str(ROOT / "studies" / "benchmarks" / "peers"), str(ROOT / "studies" / "benchmarks")]
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import cross_entropy
    from torch_transformer import Transformer

    torch.set_num_threads(1)
    torch.manual_seed(0)
    sentences, tokens, vocabulary = SIZES[d_model]
    model = Transformer(LAYERS, d_model, 4 * d_model, HEADS, DROPOUT, vocabulary)
    source, target_in, target_out = torch.randint(4, vocabulary, (3, sentences, tokens))
    weights = dict(model.named_parameters())
    constant = {name: weight.detach() for name, weight in weights.items()}
    v = {name: torch.randn_like(weight) for name, weight in constant.items()}

    def loss(weights: dict[str, Any]) -> Any:
        torch.manual_seed(1)
        logits = torch.func.functional_call(model, weights, (source, target_in))
        return cross_entropy(logits.flatten(0, 1), target_out.flatten(), label_smoothing=SMOOTHING)

    def twice() -> Any:
        with sdpa_kernel(SDPBackend.MATH):  # fused attention has no second derivative
            gradients = torch.autograd.grad(loss(weights), list(weights.values()), create_graph=True)
            return torch.autograd.grad(gradients, list(weights.values()), list(v.values()))

    def forward_over_reverse() -> Any:
        with sdpa_kernel(SDPBackend.MATH):
            return torch.func.jvp(torch.func.grad(loss), (constant,), (v,))

    return {
        "gradient": lambda: torch.autograd.grad(loss(weights), list(weights.values())),
        "two backward passes": twice,
        "forward over a backward pass": forward_over_reverse,
    }


PROGRAMS: dict[str, Callable[[int], dict[str, Callable[[], object]]]] = {
    "minitf": ours,
    "minitf, accelerated": lambda d_model: ours(d_model, is_accelerated=True),
    "pytorch": pytorch,
}


def measure(program: str, d_model: int, repeats: int = 5) -> dict[str, float]:
    """Milliseconds of each: medians of `repeats` in turn."""
    works = PROGRAMS[program](d_model)
    found: dict[str, list[float]] = {name: [] for name in works}
    for repeat in range(repeats + 1):
        for name, work in works.items():
            start = time.thread_time()
            work()
            if repeat:  # after one to warm up
                found[name].append(1000 * (time.thread_time() - start))
    return {name: median(times) for name, times in found.items()}


def main() -> None:
    sys.path.insert(0, str(ROOT))
    from studies.benchmarks.side_by_side import add_arguments, machine, measured, peers_given, publish

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), choices=SIZES, help="widths d_model")
    args = parser.parse_args()
    peers = peers_given(parser, args.peer, NAMES[1:])
    pythons = {"minitf": sys.executable, "minitf, accelerated": sys.executable, **peers}
    records: dict[tuple[str, int], list[dict[str, float]]] = {}
    for _ in range(args.rounds):
        for d_model in args.sizes:
            for program, python in pythons.items():
                asked, is_ours = [program, str(d_model)], program != "pytorch"
                found = measured(parser, program, python, asked, sees_project=is_ours)
                records.setdefault((program, d_model), []).append(found)
    lines = [
        machine(),
        "",
        f"| | {' | '.join(f'd_model {d}' for d in args.sizes)} |",
        "|---|" + "---|" * len(args.sizes),
    ]
    for program in pythons:
        for name in records[program, args.sizes[0]][0]:
            cells = []
            for d_model in args.sizes:
                rounds = records[program, d_model]
                times = f"{median(r[name] for r in rounds):,.0f} ms"
                ratio = median(r[name] / r["gradient"] for r in rounds)
                cells.append(times if name == "gradient" else f"{times}, **{ratio:.2f}**")
            lines.append(f"| {program}: {name} | {' | '.join(cells)} |")
    publish(lines, args.write)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(sys.argv[2], int(sys.argv[3]))))
    else:
        main()
