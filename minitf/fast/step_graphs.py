"""Forward and backward pass as one CUDA graph for each shape of batch; the same numbers as without, bit for bit.

A training step launches hundreds of kernels from Python.  For small batches that takes longer than the kernels; a graph
takes one launch.  Everything else of a step stays outside: the batch is copied into the graph's inputs, loss and norm
are read, and Adam, whose learning rate changes and which may skip an update, is one launch of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from autograd import Tensor, random
from autograd.backend import CPU
from autograd.fast.cuda_graphs import CaptureError, CudaGraph, CudaGraphs
from autograd.modes import current_modes
from minitf.config import RunConfig
from minitf.data.batches import Batch
from minitf.model.parameters import Parameter
from minitf.model.transformer import Transformer

Array = Any
Gradients = Callable[[Transformer, Batch, float], tuple[Array, Array]]
"""`compute_gradients` of minitf/training/optim.py"""
INPUTS = ("source", "target_in", "target_out")
MOST = 400  # graphs to keep, one for each shape of batch: an epoch of Europarl has some 350 shapes


def step_graphs(
    model: Transformer, compute_gradients: Gradients, config: RunConfig, is_parallel: bool
) -> StepGraphs | None:
    """Return the graphs of a run on GPUs; None for one whose steps cannot be captured."""
    if config.plain or model.backend is CPU or config.checkpoint_activations:
        return None
    if config.accumulate > 1 and not is_parallel:
        return None
    try:
        return StepGraphs(model, compute_gradients, config.optimizer.label_smoothing, MOST)
    except CaptureError as error:
        warnings.warn(f"training steps run without CUDA graphs: {error}", stacklevel=2)
        return None


@dataclass
class _Step:
    """The graph of a shape of batch."""

    inputs: Batch  # with arrays on the GPU
    memory: list[Array]  # of the model when the graph was captured
    arrived: list[Parameter]  # whose gradients are complete, in this order
    graph: CudaGraph[tuple[Array, Array, list[Array | None]]]  # loss, negative log-likelihood, new gradients


class StepGraphs:
    """The graphs of the first `most` shapes of batch that come twice.

    The first batch of a shape is computed without a graph, which compiles kernels; the second one is captured.  A graph
    is kept: if a new shape took the place of an old one, epochs of more shapes would capture in every step.

    A batch is computed without a graph, too, where there are gradients to add to.  Hooks of parameters are called after
    the launch.

    Where a step cannot be captured, a warning says so once, and steps are computed without graphs.
    """

    def __init__(self, model: Transformer, compute_gradients: Gradients, label_smoothing: float, most: int):
        self.model = model
        self.compute_gradients = compute_gradients  # without a graph
        self.label_smoothing = label_smoothing
        self.most = most
        self.parameters = model.parameters()
        self._modules = [*model.modules()]
        self._array_type = model.backend.xp.ndarray  # here, once: the model looks for its device in its modules
        self._backend = model.backend
        self._graphs = CudaGraphs(model.backend)
        self._seen: set[tuple[Any, ...]] = set()
        self._steps: dict[tuple[Any, ...], _Step] = {}

    def __call__(self, batch: Batch) -> tuple[Array, Array]:
        seed, number, _ = random.get_state()
        key = seed, batch.number, batch.first_row, *[getattr(batch, name).shape for name in INPUTS]
        adds = any(parameter.grad is not None for parameter in self.parameters)
        is_new = key not in self._seen or (key not in self._steps and len(self._steps) >= self.most)
        if not self.most or current_modes().observers or adds or self._copies_are_old() or is_new:
            self._seen.add(key)
            return self.compute_gradients(self.model, batch, self.label_smoothing)
        step = self._steps.get(key)
        if step is None or any(a is not b for a, b in zip(step.memory, self._memory(), strict=True)):
            try:
                step = self._steps[key] = self._captured(batch, number)
            except CaptureError as error:
                warnings.warn(f"training steps run without CUDA graphs: {error}", stacklevel=2)
                self.most = 0
                random.begin_step(number, batch.number, batch.first_row)  # the capture has drawn masks
                return self.compute_gradients(self.model, batch, self.label_smoothing)
        for name in INPUTS:
            getattr(step.inputs, name)[...] = self._backend.asarray(getattr(batch, name))
        loss, nll, gradients = self._graphs.repeat(step.graph, number)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            if gradient is not None:
                parameter.grad = Tensor(gradient)
        for parameter in step.arrived:
            for hook in list(parameter.grad_hooks or ()):
                hook(parameter)
        return loss, nll  # which this graph alone writes to: no other batch of an update has it

    def _captured(self, batch: Batch, number: int) -> _Step:
        """Raises: CaptureError"""
        inputs = replace(batch, **{name: self._backend.asarray(getattr(batch, name)).copy() for name in INPUTS})

        def compute() -> tuple[Array, Array, list[Array | None]]:
            loss, nll = self.model.loss(inputs.source, inputs.target_in, inputs.target_out, self.label_smoothing)
            loss.backward()
            # new ones are valid until the next graph: graphs share the memory of their gradients, which nobody may keep
            gradients = [None if p.grad is None else self._graphs.unowned(p.grad.data) for p in self.parameters]
            for parameter in self.parameters:
                parameter.grad = None
            return loss.data, nll.data, gradients

        with self._noting_arrivals() as arrived:
            graph = self._graphs.capture(compute, number)
        return _Step(inputs, self._memory(), arrived, graph)

    @contextmanager
    def _noting_arrivals(self) -> Iterator[list[Parameter]]:
        """Inside the block, a gradient that is complete is noted, and no hook of a parameter is called."""
        arrived: list[Parameter] = []
        hooks = [parameter.grad_hooks for parameter in self.parameters]
        for parameter in self.parameters:
            parameter.grad_hooks = [arrived.append]
        try:
            yield arrived
        finally:
            for parameter, before in zip(self.parameters, hooks, strict=True):
                parameter.grad_hooks = before

    def _memory(self) -> list[Array]:
        """The arrays that outlive a step: parameters, their copies in lower precision, tables."""
        arrays = [a for p in self.parameters for a in (p.data, p.low and p.low.copy)]
        tables = (a for module in self._modules for a in vars(module).values())
        return [*arrays, *[a for a in tables if isinstance(a, self._array_type)]]

    def _copies_are_old(self) -> bool:
        """Return whether the step would make copies in lower precision, for the steps after it, too."""
        return any(p.low is not None and not p.low.is_current(p.data) for p in self.parameters)
