"""A training step as a page to walk through: the graph, each op with its arrays, gradients, source lines, and memory.

step_page(lambda: loss_of(model, batch), "step.html", model=model)
step_page(lambda x: (x.tanh() ** 2).sum(), "step.html", np.ones((2, 3)))

docs/step.md describes the page.
"""

from __future__ import annotations

import functools
import inspect
import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from additions.inspect.memory_profile import GRADIENT, INTERMEDIATE, RESULT, SAVED, Buffer
from additions.pages.html import BASE_SCRIPT, BASE_STYLE, asset, dagre, html_page
from additions.pages.recording import OpRecord, Recorder
from additions.pages.samples import Samples
from additions.pages.sources import class_description, documented, place, source_of
from autograd.backend import is_floating
from autograd.tensor import Tensor

SCRIPTS = ("graph.js", "step-data.js", "step-arrays.js", "step-graph.js", "step-memory.js", "step-op.js", "step.js")
BUDGET = 3_000_000  # bytes of compressed numbers, which base64 makes a third longer
REASONS = (SAVED, GRADIENT, INTERMEDIATE, RESULT)
Axes = Mapping[str, int | Sequence[str] | Sequence[Sequence[str]]]


def step_page(
    fn: Callable[..., Any],
    path: str | Path,
    *inputs: Any,
    model: Any = None,
    update: Callable[[], Any] | None = None,
    states: Mapping[str, Mapping[str, Any]] | None = None,
    axes: Axes | None = None,
    title: str = "",
    about: str = "",
) -> Any:
    """Record `fn(*inputs)`, its backward pass and the update, write a page to walk through them; return fn's result.

        step_page(lambda x, w: ag.tanh(x @ w).sum(), "step.html", np.ones((2, 3)), np.ones((3, 4)))

    The page is one HTML file that loads nothing.  The backward pass starts from the results that have a graph, with
    ones where a result has several elements.  Gradients are added to `grad`, as `backward()` does.

    inputs: floating-point arrays become Tensors that require a gradient; anything else is passed as it is
    model: has `named_parameters()` and `children()`, for names and layers; by default one that `fn` refers to, if it
        refers to a single one
    update: is called after the backward pass; a `functools.partial` of an optimizer's method, so that the page has its
        source
    states: arrays of the optimizer by kind and name of parameter: {"m": optimizer.m, "v": optimizer.v}
    axes: lengths of axes by name, to name the axes of arrays; a list labels the rows of the axis, a list of lists has
        the labels of each sentence of a batch: {"B": 2, "T": [["the", "cat"], ["a", "dog"]]}
    title, about: heading of the page, and what the step is of

    Raises: ValueError for a function that runs no op
    """
    text, result = recorded_page(
        fn, inputs, model=model, update=update, states=states, axes=axes, title=title, about=about
    )
    Path(path).write_text(text, encoding="utf-8", errors="backslashreplace")
    return result


def recorded_page(
    fn: Callable[..., Any], inputs: Sequence[Any] = (), *, model: Any, update: Any, states: Any, axes: Axes | None,
    title: str, about: str, loss_is_of: tuple[int, str] = (1, ""),
) -> tuple[str, Any]:  # fmt: skip
    """Return the page of `step_page` as HTML, and the result of fn.

    loss_is_of: of how many things of which name the loss is the sum; the heading has it for one of them
    """
    found = _referred(fn)
    models = {id(each): each for each in found.values() if hasattr(each, "named_parameters")}
    if model is None and len(models) == 1:
        (model,) = models.values()
    tensors = [_tensor(each) for each in inputs]
    names = _names(fn, tensors, model, found)
    recorder = Recorder(names, Samples(_focus(axes or {})), model)
    with recorder.recording():
        result = fn(*tensors)
        roots = [each for each in _results(result) if each.op is not None]
        if not recorder.ops and not roots:
            raise ValueError("the function runs no op on Tensors, so that there is no step to show")
        started = [recorder._number(each.op) for each in roots if each.op is not None]
        for root in roots:
            root.backward(None if root.size == 1 else np.ones(root.shape, root.dtype), retain_graph=len(roots) > 1)
    if update is not None:
        recorder.record_update(update, states or {}, names)
    described = _described(recorder, started, axes or {}, update)
    described |= {
        "title": title or f"A step of {getattr(fn, '__name__', 'a function')}".replace("<lambda>", "a function")
    }
    described |= {"about": about, "loss": _loss(roots), "loss_is_of": loss_is_of}
    described["values"], numbers = recorder.samples.pack(BUDGET)
    return _page(described, numbers), result


def _page(described: dict[str, Any], numbers: bytes) -> str:
    return html_page(
        described["title"],
        asset("step.html"),
        style=asset(BASE_STYLE) + asset("step.css"),
        script=dagre() + asset(BASE_SCRIPT) + "".join(map(asset, SCRIPTS)),
        data={"step": described},
        blobs={"numbers": numbers},
    )


# ---- What the step is of -----------------------------------------------------------------------------------------


def _tensor(given: Any) -> Any:
    if isinstance(given, Tensor) or not (hasattr(given, "dtype") and is_floating(given.dtype)):
        return given
    return Tensor(given, requires_grad=True)


def _results(result: Any) -> list[Tensor]:
    several = result if isinstance(result, (tuple, list)) else [result]
    tensors = [each for each in several if isinstance(each, Tensor)]
    if not tensors:
        raise TypeError(f"the function returned {type(result).__name__}; return a Tensor, or several in a tuple")
    return tensors


def _loss(roots: Sequence[Tensor]) -> float | None:
    value = float(roots[0].item()) if len(roots) == 1 and roots[0].size == 1 else math.nan
    return value if math.isfinite(value) else None


def _referred(fn: Callable[..., Any]) -> dict[str, Any]:
    """Tensors, lists of them and models that a function refers to, by name."""
    fn = inspect.unwrap(fn.func if isinstance(fn, functools.partial) else fn)
    if inspect.ismethod(fn):
        return {"self": fn.__self__}
    if not inspect.isfunction(fn):
        return {"": fn}
    variables = inspect.getclosurevars(fn)
    return {**variables.globals, **variables.nonlocals}


def _names(fn: Any, inputs: Sequence[Any], model: Any, referred: Mapping[str, Any]) -> dict[str, Tensor]:
    """Names of parameters of the model, of inputs, and of Tensors that the function refers to."""
    named: dict[str, Any] = dict(model.named_parameters()) if hasattr(model, "named_parameters") else {}
    try:
        parameters = list(inspect.signature(fn).parameters)
    except (TypeError, ValueError):
        parameters = []
    parameters += [f"input {i}" for i in range(len(parameters), len(inputs))]
    for name, value in [*zip(parameters, inputs, strict=False), *referred.items()]:
        pairs = [(name, value)]
        if isinstance(value, (list, tuple)):
            pairs = [(f"{name}[{i}]", each) for i, each in enumerate(value)]
        elif isinstance(value, dict):
            pairs = [(f"{name}[{key!r}]", each) for key, each in value.items()]
        known = {id(tensor) for tensor in named.values()}
        named |= {name: each for name, each in pairs if isinstance(each, Tensor) and id(each) not in known}
    return named


def _focus(axes: Axes) -> dict[int, Sequence[int]]:
    """Indices to keep first, of a labelled axis that is too long to be kept whole: their labels are another axis's."""
    used = {label for value in axes.values() if _is_batched(value) for row in value for label in row}  # type: ignore[union-attr]
    flat = [value for value in axes.values() if not isinstance(value, int) and not _is_batched(value)]
    return {len(labels): [i for i, label in enumerate(labels) if label in used] for labels in flat}


def _is_batched(value: Any) -> bool:
    return not isinstance(value, int) and len(value) > 0 and not isinstance(value[0], str)


# ---- The recording as values for JSON ----------------------------------------------------------------------------


def _described(recorder: Recorder, roots: Sequence[int], axes: Axes, update: Any) -> dict[str, Any]:
    classes = list(dict.fromkeys(op.op_class for op in recorder.ops))
    places = list(dict.fromkeys(op.where for op in recorder.ops))
    return {
        "axes": {name: {"size": _length(value), "labels": _labels(value)} for name, value in axes.items()},
        "classes": [class_description(each) for each in classes],
        "places": [place(each) for each in places],
        "ops": [_op(op, classes, places) for op in recorder.ops],
        "leaves": [vars(leaf) for leaf in recorder.leaves],
        "events": [
            {"kind": event.kind, "of": event.subject, "again": event.again, "phase": phase}
            for event, phase in zip(recorder.events, _phases(recorder, roots), strict=True)
        ],
        "arrivals": recorder.arrivals,
        "roots": roots,
        "memory": _memory(recorder),
        "update": _update(update),
    }


def _length(value: Any) -> int:
    return value if isinstance(value, int) else max(map(len, value)) if _is_batched(value) else len(value)


def _labels(value: Any) -> list[Any] | None:
    return None if isinstance(value, int) else [list(row) if _is_batched(value) else row for row in value]


def _op(op: OpRecord, classes: Sequence[type], places: Sequence[Any]) -> dict[str, Any]:
    about = {**vars(op), "class": classes.index(op.op_class), "where": places.index(op.where)}
    del about["op_class"]
    for name in ("inputs", "saved"):
        about[name] = [_without_none(vars(each)) for each in about[name]]
    return about


def _without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _phases(recorder: Recorder, roots: Sequence[int]) -> list[str]:
    """The phase of each event.  The loss is all that follows the last module, at least the op that it comes from."""
    forward = [i for i, event in enumerate(recorder.events) if event.kind == "forward" and not event.again]
    in_module = [i for i in forward if recorder.ops[recorder.events[i].subject].scope is not None]
    first = in_module[-1] + 1 if in_module else len(recorder.events)
    return [
        event.kind
        if event.kind != "forward"
        else "backward"
        if event.again
        else "loss"
        if i >= first or event.subject in roots
        else "forward"
        for i, event in enumerate(recorder.events)
    ]


def _memory(recorder: Recorder) -> dict[str, Any]:
    """Bytes alive at the fullest moment of each event, and the arrays alive then, with the reasons that held them."""
    memory, starts = recorder.memory, [event.moment for event in recorder.events]
    live = [moment.live_bytes for moment in memory.timeline]
    ends = [*starts[1:], len(live) - 1]
    moments = [max(range(a, max(a, b) + 1), key=live.__getitem__) for a, b in zip(starts, ends, strict=True)]
    return {
        "bytes": [live[moment] for moment in moments],
        "reasons": REASONS,
        "buffers": [_buffer(each, moments) for each in memory.buffers],
    }


def _buffer(buffer: Buffer, moments: Sequence[int]) -> dict[str, Any]:
    born = bisect_left(moments, buffer.born)
    died = len(moments) if buffer.died is None else bisect_left(moments, buffer.died)
    reasons: list[tuple[int, int]] = []  # from which event, and which reason
    changes = {born, *(bisect_left(moments, m) for span in buffer.saved for m in span if m is not None)}
    if buffer.gradient_of is not None:
        changes.add(bisect_left(moments, buffer.gradient_of[0]))
    for event in sorted(each for each in changes if born <= each < died):
        reason = REASONS.index(buffer.held_as(moments[event]))
        if not reasons or reasons[-1][1] != reason:
            reasons.append((event, reason))
    return {
        "bytes": buffer.nbytes, "shape": buffer.shape, "layer": buffer.layer,
        "what": buffer.gradient_of[1] if buffer.gradient_of else buffer.made_by,
        "born": born, "died": died, "reasons": reasons,
    }  # fmt: skip


def _update(update: Any) -> dict[str, Any] | None:
    """Formula, source and arguments of the update."""
    if update is None:
        return None
    function, arguments = update, {}
    if isinstance(update, functools.partial):
        function = update.func
        bound = inspect.signature(function).bind(*update.args, **update.keywords).arguments
        arguments = {name: repr(value)[:40] for name, value in bound.items() if isinstance(value, (int, float, str))}
    owner = type(getattr(function, "__self__", None))
    return {
        "name": owner.__name__ if inspect.ismethod(function) else "the update",
        **documented(function),
        "arguments": arguments,
        "source": [each for each in [source_of(function)] if each],
    }
