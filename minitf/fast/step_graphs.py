"""Forward and backward pass as one CUDA graph for each shape of batch; the same numbers as without, bit for bit.

A training step launches hundreds of kernels from Python.  For small batches that takes longer than the kernels; a graph
takes one launch.  Everything else of a step stays outside: the batch is copied into the graph's inputs, loss and norm
are read, and Adam, whose learning rate changes and which may skip an update, is one launch of its own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from autograd import Tensor, random
from autograd.fast import reduced
from autograd.fast.cuda_graphs import CaptureError, CudaGraph, CudaGraphs
from autograd.modes import state
from minitf.config import RunConfig
from minitf.data.batches import Batch
from minitf.errors import UserError
from minitf.model.layers import Module
from minitf.model.transformer import Transformer

Array = Any
Gradients = Callable[[Transformer, Batch, float], tuple[float, float]]
"""`compute_gradients` of minitf/training/optim.py"""
INPUTS = ("source", "target_in", "target_out")


def step_graphs(model: Transformer, compute_gradients: Gradients, config: RunConfig, is_parallel: bool) -> StepGraphs:
    """The graphs of a run.  Raises: UserError where a run can have none"""
    if is_parallel or config.device == "cpu" or config.accumulate > 1:
        found = "several processes" if is_parallel else f"device={config.device} and accumulate={config.accumulate}"
        raise UserError(
            f"graphs={config.graphs} are for one GPU and one batch an update, found {found}; give --graphs 0"
        )
    try:
        return StepGraphs(model, compute_gradients, config.optimizer.label_smoothing, config.graphs)
    except CaptureError as error:
        raise UserError(f"graphs={config.graphs}: {error}; or give --graphs 0") from error


@dataclass
class _Step:
    """The graph of a shape of batch."""

    inputs: Batch  # with arrays on the GPU
    memory: list[Array]  # of the model when the graph was captured
    graph: CudaGraph[tuple[Array, Array, list[Array | None]]]  # loss, negative log-likelihood, gradients


class StepGraphs:
    """The graphs of the `most` shapes of batch that were used last.

    The first batch of a shape is computed without a graph, which compiles kernels; the second one is captured.
    """

    def __init__(self, model: Transformer, compute_gradients: Gradients, label_smoothing: float, most: int):
        self.model = model
        self.compute_gradients = compute_gradients  # without a graph
        self.label_smoothing = label_smoothing
        self.most = most
        self.parameters = model.parameters()
        self._graphs = CudaGraphs(model.backend)
        self._seen: set[tuple[Any, ...]] = set()
        self._steps: OrderedDict[tuple[Any, ...], _Step] = OrderedDict()

    def __call__(self, batch: Batch) -> tuple[float, float]:
        seed, number, _ = random.get_state()
        key = seed, batch.number, batch.first_row, *[getattr(batch, name).shape for name in INPUTS]
        if state.observers or self._copies_are_old() or key not in self._seen:
            self._seen.add(key)
            return self.compute_gradients(self.model, batch, self.label_smoothing)
        if any(parameter.grad is not None for parameter in self.parameters):
            raise RuntimeError("a graph overwrites the gradients that are there; call zero_grad() before")
        step = self._steps.get(key)
        if step is None or any(a is not b for a, b in zip(step.memory, self._memory(), strict=True)):
            step = self._steps[key] = self._captured(batch, number)
        self._steps.move_to_end(key)
        while len(self._steps) > self.most:
            self._steps.popitem(last=False)
        for name in INPUTS:
            getattr(step.inputs, name)[...] = self.model.backend.asarray(getattr(batch, name))
        loss, nll, gradients = self._graphs.repeat(step.graph, number)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = None if gradient is None else Tensor(gradient)
        return float(loss), float(nll)

    def _captured(self, batch: Batch, number: int) -> _Step:
        backend = self.model.backend
        inputs = replace(batch, **{name: backend.asarray(getattr(batch, name)).copy() for name in INPUTS})

        def compute() -> tuple[Array, Array, list[Array | None]]:
            loss, nll = self.model.loss(inputs.source, inputs.target_in, inputs.target_out, self.label_smoothing)
            loss.backward()
            # valid until the next graph: graphs share the memory of their gradients, which nobody may keep
            gradients = [None if p.grad is None else self._graphs.unowned(p.grad.data) for p in self.parameters]
            for parameter in self.parameters:
                parameter.grad = None
            return loss.data, nll.data, gradients

        try:
            graph = self._graphs.capture(compute, number)
        except CaptureError as error:
            raise UserError(f"the training step of this model has no CUDA graph: {error}; give --graphs 0") from error
        return _Step(inputs, self._memory(), graph)

    def _memory(self) -> list[Array]:
        """The arrays that outlive a step: parameters, their copies in lower precision, tables."""
        arrays = [a for p in self.parameters for a in (p.data, reduced.last(p.data))]
        tables = (a for module in _modules(self.model) for a in vars(module).values())
        return [*arrays, *[a for a in tables if isinstance(a, self.model.backend.xp.ndarray)]]

    def _copies_are_old(self) -> bool:
        """Whether the step would make copies in lower precision, for the steps after it, too."""
        return any(reduced.last(p.data) is not None and reduced.current(p.data) is None for p in self.parameters)


def _modules(module: Module) -> Iterator[Module]:
    yield module
    for _, child in module.children():
        yield from _modules(child)
