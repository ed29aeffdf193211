"""The system on the learner's code: ours, with each finished part of theirs in the place of ours.

Modules of ours are compiled once more, with the learner's names in the place of their own: a class of ours then derives
from the learner's `Module`, and calls the learner's `apply`, as if it had been written on it. Ops that are still ours
run on the learner's engine, which their plain form allows.

So the Transformer is written once: `given/model.py` has statements, signatures and constructors alone, with none of the
options of a configuration, and is not ours with lines left out, since the parts of ours have these options.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from additions.course.expect import Wrong, close
from additions.course.path.checks import Work, described
from additions.course.path.ours import OurOp
from additions.course.path.steps import find_step
from autograd import random
from autograd.ops import arithmetic, nn, shape
from minitf.config import TransformerConfig
from minitf.config.model import BOS, EOS, PAD
from minitf.model import layers, parameters, transformer

Array = Any
OUR_OPS = {
    "Add": OurOp(arithmetic.Add),
    "Multiply": OurOp(arithmetic.Multiply),
    "Reshape": OurOp(shape.Reshape),
    "SwapAxes": OurOp(shape.SwapAxes),
    "Relu": OurOp(nn.Relu),
    "Linear": OurOp(nn.Linear, dtype=None),
    "Embedding": OurOp(nn.Embedding),
    "Dropout": OurOp(nn.Dropout),
    "LayerNorm": OurOp(nn.LayerNorm),
    "ScaledDotProductAttention": OurOp(nn.ScaledDotProductAttention, drop=None),
    "CrossEntropy": OurOp(nn.CrossEntropy, reduction="sum"),
}
UNFINISHED = {"ScaledDotProductAttention": "mask", "CrossEntropy": "label_smoothing"}  # ops of more than one step
SOURCE = np.array([[5, 6, 7, 8, EOS], [9, 5, EOS, PAD, PAD]])
TARGET = np.array([[BOS, 10, 11, 5], [BOS, 6, 10, PAD]])
LABELS = np.array([[10, 11, 5, EOS], [6, 10, EOS, PAD]])
CONFIG = TransformerConfig(vocab_size=12, layers=2, d_model=8, heads=2, d_ff=12, dropout=0.1)


def theirs(work: Work, file: str) -> dict[str, Any]:
    """The names that the learner's file defines."""
    module = getattr(getattr(work, file, None), "module", None)
    return {} if module is None else {
        name: value for name, value in vars(module).items() if getattr(value, "__module__", None) == file
    }  # fmt: skip


def recompiled(
    module: ModuleType, names: Mapping[str, Any], changes: Mapping[str, str] | None = None
) -> SimpleNamespace:
    """A module of ours, compiled again with `names` in the place of what it defines or imports under these names.

    changes: texts of its source, each with what is to stand there
    """
    assert module.__file__ is not None
    text = Path(module.__file__).read_text(encoding="utf-8")
    for right, wrong in (changes or {}).items():
        text = text.replace(right, wrong)
    tree = ast.parse(text)
    body: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name in names:
            continue
        if isinstance(node, ast.Import | ast.ImportFrom) and getattr(node, "module", None) != "__future__":
            node.names = [each for each in node.names if (each.asname or each.name) not in names]
            if not node.names:
                continue
        body.append(node)
    tree.body = body
    defined = {**names, "__name__": "on_the_learners_code"}
    exec(compile(tree, module.__file__, "exec", dont_inherit=True), defined)
    return SimpleNamespace(**{name: value for name, value in defined.items() if not name.startswith("__")})


def functions(work: Work) -> SimpleNamespace:
    """Our functions that the model calls, on the learner's Tensor and `apply`; finished ops are the learner's."""
    finished = theirs(work, "ops")
    ops = {
        name: finished[name] if name in finished and not _is_unfinished(work, name) else ours
        for name, ours in OUR_OPS.items()
    }
    for each in (work.ops, work.model) if "Mask" in finished and hasattr(work, "model") else ():
        vars(each.module)["Mask"] = lambda shape, p, rng: random.next_mask(shape, p)  # masks as ours are
    Tensor, apply = work.engine.Tensor, work.engine.apply
    for name, method in {
        "__add__": lambda a, b: apply(ops["Add"], a, b),
        "__radd__": lambda a, b: apply(ops["Add"], b, a),
        "__mul__": lambda a, b: apply(ops["Multiply"], a, b),
        "__rmul__": lambda a, b: apply(ops["Multiply"], b, a),
        "reshape": lambda x, *shape: apply(ops["Reshape"], x, shape=shape),
        "swapaxes": lambda x, axis1, axis2: apply(ops["SwapAxes"], x, axis1=axis1, axis2=axis2),
    }.items():
        if name not in vars(Tensor):
            setattr(Tensor, name, method)

    def attention(q: Any, k: Any, v: Any, mask: Array = None, *, is_causal: bool = False, dropout: float = 0.0) -> Any:
        if is_causal:
            causal = np.tri(q.shape[-2], k.shape[-2], dtype=bool)
            mask = causal if mask is None else mask & causal
        return apply(ops["ScaledDotProductAttention"], q, k, v, mask=mask, scale=1 / math.sqrt(q.shape[-1]))

    def cross_entropy(logits: Any, labels: Array, *, label_smoothing: float, **_: Any) -> tuple[Any, Any]:
        rows, targets = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
        loss, nll = (
            apply(ops["CrossEntropy"], rows, targets=targets, counted=targets != PAD, label_smoothing=epsilon)
            for epsilon in (label_smoothing, 0.0)
        )
        return loss, nll

    def dropout(x: Any, p: float, training: bool) -> Any:
        return apply(ops["Dropout"], x, drop=random.next_mask(x.shape, p)) if p and training else x

    return SimpleNamespace(
        relu=lambda x: apply(ops["Relu"], x),
        linear=lambda x, weight, bias=None: apply(ops["Linear"], x, weight, bias),
        embedding=lambda ids, weight: apply(ops["Embedding"], weight, ids),
        layer_norm=lambda x, weight, bias, *, eps: apply(ops["LayerNorm"], x, weight, bias, eps=eps),
        dropout=dropout,
        scaled_dot_product_attention=attention,
        cross_entropy=cross_entropy,
    )


def _is_unfinished(work: Work, name: str) -> bool:
    return name in UNFINISHED and work.step.number < find_step(UNFINISHED[name]).number


def model_on(work: Work, without: Collection[str] = (), texts: Sequence[str] = ()) -> SimpleNamespace:
    """The names of minitf's model, on the learner's code.

    without: names of the learner's that are not to take the place of ours
    texts: of our source, each followed by what is to stand there
    """
    names = {name: value for name, value in theirs(work, "model").items() if name not in {*without, *OURS_FOR_NUMBERS}}
    names |= {"ag": functions(work), "Tensor": work.engine.Tensor}
    changes = dict(zip(texts[::2], texts[1::2], strict=True))
    for module in (parameters, layers):
        names |= vars(recompiled(module, names, changes))
    return recompiled(transformer, names, changes)


OURS_FOR_NUMBERS = ("Initializer",)
"""Parts whose numbers may differ from ours and be as good: ours are used, so that results can be compared."""


def training_step(model_class: Any, **more: Any) -> tuple[float, dict[str, Array]]:
    """The loss of a batch of two sentences, and the gradients by all parameters, with dropout, in float64."""
    random.manual_seed(3)
    random.begin_step(1)
    model = model_class(CONFIG, seed=0, dtype=np.float64, **more)
    model.train()
    loss = model.loss(SOURCE, TARGET, LABELS, 0.1)
    loss = loss[0] if isinstance(loss, tuple) else loss  # ours comes with the negative log-likelihood
    loss.backward()
    return loss.item(), {name: None if p.grad is None else p.grad.data for name, p in model.named_parameters().items()}


def check_training_step(work: Work) -> None:
    """a training step of a Transformer on your code, with ours for what is still missing"""
    right_loss, right = training_step(transformer.Transformer)
    m = model_on(work)
    more = {"init": m.Initializer(0, np.float64)} if "Transformer" in theirs(work, "model") else {}
    loss, gradients = training_step(m.Transformer, **more)
    if not close(np.asarray(loss), np.asarray(right_loss)):
        raise Wrong(f"the loss of a batch is {loss:.10g}, expected {right_loss:.10g}")
    if gradients.keys() != right.keys():
        differ = sorted(gradients.keys() ^ right.keys())
        raise Wrong(f"the names of the parameters differ from ours in {', '.join(differ[:4])}")
    for name, g in gradients.items():
        if g is None:
            raise Wrong(f"the parameter {name} of the model gets no gradient")
        if not close(np.asarray(g), right[name]):
            raise Wrong(described(f"the gradient of the parameter {name}", g, right[name]))
