"""The end of the path: the learner's translator is trained and asked, and a step of it becomes a page.

Of this project, it has the texts and the command line. The page is recorded by our engine, on which the graph that
theirs has left behind is run once more, with their ops.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from additions.course.path.checks import Work
from additions.course.path.steps import STEPS
from additions.pages.step import step_page
from autograd import Tensor
from autograd.engine import Op, apply
from minitf.corpora.built_in import built_in_corpus

PAIRS = 15_000  # of the built-in corpus


def run_demo(folder: Path, steps: int, lines: Iterable[str], say: Callable[[str], None]) -> Path:
    """Train the learner's translator, print the translations of lines, and write `step.html`; return its path."""
    work = Work(folder, STEPS[-1])
    work.run()
    pairs = built_in_corpus(train_pairs=PAIRS, valid_pairs=0, test_pairs=0).train

    def shown(step: int, loss: float) -> None:
        if step % 50 == 0 or step == steps:
            say(f"step {step}  loss {loss:.3f}")

    translator = work.search.Translator(pairs, steps, say=shown)
    write_page(work, translator, pairs[:2], folder / "step.html")
    for line in lines:
        say(f"{line}\n  → {translator.translate(line)}")
    return folder / "step.html"


def write_page(work: Work, translator: Any, pairs: list[Any], path: Path) -> None:
    """Write the page of one training step of the learner's model on a few pairs."""
    ids = [tuple(translator.vocabulary.encode(line) for line in pair) for pair in pairs]
    source, target, labels = next(iter(work.train.batches(ids, 10_000, np.random.default_rng(0))))
    model = translator.model.train()
    loss = model.loss(source, target, labels, 0.1)
    parameters = {name: Tensor(p.data, requires_grad=True) for name, p in model.named_parameters().items()}
    of_theirs = {id(p): parameters[name] for name, p in model.named_parameters().items()}
    step_page(
        lambda: replayed(work, loss, of_theirs),
        path,
        model=_Named(parameters),
        title="A step of my own",
        about=f"The learner's ops, in the order of the learner's engine: {', '.join(line for line, _ in pairs)}",
    )


class _Named:
    """The parts of a model that the page uses: names of parameters, and no layers."""

    def __init__(self, parameters: dict[str, Tensor]):
        self.parameters = parameters

    def named_parameters(self) -> dict[str, Tensor]:
        return self.parameters

    def children(self) -> list[Any]:
        return []


def replayed(work: Work, output: Any, leaves: dict[int, Tensor]) -> Tensor:
    """The graph of a Tensor of the learner, computed once more by our engine with the learner's ops.

    leaves: our Tensors by the id of the learner's
    """
    results: dict[int, Tensor] = {}
    ops: dict[type, type[Op]] = {}
    for node in reversed(work.engine.backward_order(output)):
        inputs = [
            results[id(x.node)] if getattr(x, "node", None) is not None else leaves.get(id(x), getattr(x, "data", x))
            for x in node.inputs
        ]
        if node.op not in ops:
            ops[node.op] = _as_ours(node.op)
        results[id(node)] = apply(ops[node.op], *inputs, **node.parameters)
    return results[id(output.node)]


def _as_ours(op: Any) -> type[Op]:
    """An op of the learner as one of our engine."""
    names = list(inspect.signature(op.forward).parameters)[1:]
    attributes = {
        "__doc__": op.__doc__ or op.__name__,
        "__module__": op.__module__,
        "broadcasts": op.broadcasts,
        "reads": " ".join(["y", *names]),
        "forward": staticmethod(op.forward),
        "backward": staticmethod(op.backward),
    }
    return type(op.__name__, (Op,), attributes)
