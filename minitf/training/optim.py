"""The parts of an update: the loss of a batch and its gradients, Adam, and the learning rate (sections 5.3, 5.4)."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from autograd import Tensor
from autograd.backend import backend_of
from autograd.tensor import note_change
from minitf.config import OptimizerConfig
from minitf.config.options import of_type
from minitf.data.batches import Batch
from minitf.model.parameters import Parameter, load_arrays
from minitf.model.transformer import Reduction, Transformer

__all__ = ["Adam", "batch_loss", "learning_rate", "squared_norm", "update", "update_all"]

Array = Any


def batch_loss(
    model: Transformer, batch: Batch, label_smoothing: float, reduction: Reduction = "sum"
) -> tuple[Tensor, Tensor]:
    """Cross-entropy with smoothed labels, and negative log-likelihood, of the target tokens, in nats."""
    source, target, labels = map(model.backend.asarray, (batch.source, batch.target_in, batch.target_out))
    return model.loss(source, target, labels, label_smoothing, reduction)


def compute_gradients(model: Transformer, batch: Batch, label_smoothing: float) -> tuple[Array, Array]:
    """Forward and backward pass of a batch; return its summed loss and negative log-likelihood, arrays of one number.

    Reading them waits for a GPU.
    """
    loss, nll = batch_loss(model, batch, label_smoothing)
    loss.backward()
    return loss.data, nll.data


def learning_rate(step: int, d_model: int, config: OptimizerConfig) -> float:
    """scale · d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5), equation 3.

    It rises linearly for `warmup_steps` and then falls with 1/√step.  `peak_learning_rate` sets the top of the same
    curve instead of `scale`; with `decay_steps`, it falls linearly, to 0 at that step.  Steps count from 1.
    """
    shape = min(step**-0.5, step * config.warmup_steps**-1.5)
    if config.decay_steps is not None and step > config.warmup_steps:
        left = max(0, config.decay_steps - step) / (config.decay_steps - config.warmup_steps)
        shape = config.warmup_steps**-0.5 * left
    if config.peak_learning_rate is not None:
        return config.peak_learning_rate * shape * config.warmup_steps**0.5
    return config.learning_rate_scale * d_model**-0.5 * shape


def update(
    p: Array, g: Array, m: Array, v: Array, *,
    step_size: float, beta1: float, beta2: float, eps: float, gradient_scale: float,
) -> None:  # fmt: skip
    """m ← β₁ m + (1 - β₁) g;  v ← β₂ v + (1 - β₂) g²;  p ← p - step_size · m / (√v + ε), in place.

    Source: Kingma & Ba 2015, Algorithm 1, with the bias corrections in `step_size` and `eps`
    """
    xp = backend_of([p]).xp
    g = g * gradient_scale
    m += (1 - beta1) * (g - m)
    v += (1 - beta2) * (g * g - v)
    p -= step_size * (m / (xp.sqrt(v) + eps))


def update_all(learning: Sequence[tuple[Parameter, Array, Array]], **settings: float) -> None:
    """`update` for several parameters, each with its moments m and v."""
    for parameter, m, v in learning:
        assert parameter.grad is not None
        update(parameter.data, parameter.grad.data, m, v, **settings)


def squared_norm(gradients: Sequence[Array]) -> float:
    """Σ g²: pieces, of few enough numbers for float32, in the gradient's own precision; their sum in float64."""
    flats = [g.reshape(-1) for g in gradients]
    pieces = [flat[start : start + 65536] for flat in flats for start in range(0, flat.size, 65536)]
    return math.fsum(float(piece @ piece) for piece in pieces)


class Adam:
    """Adam (Kingma & Ba 2015) with the paper's β₁ = 0.9, β₂ = 0.98, ε = 1e-9."""

    update_all: Callable[..., None] = staticmethod(update_all)
    squared_norm: Callable[[Sequence[Array]], float] = staticmethod(squared_norm)

    def __init__(
        self,
        parameters: dict[str, Parameter] | Sequence[Parameter],
        config: OptimizerConfig = OptimizerConfig(),  # noqa: B008 (it cannot be changed)
        *,
        lr: float = 1e-3,
    ):
        named = parameters if isinstance(parameters, dict) else {str(i): p for i, p in enumerate(parameters)}
        self.named_parameters, self.config, self.lr = named, of_type(OptimizerConfig, config, "config"), lr
        self.step_count = 0
        self.m, self.v = (  # first and second moments
            {name: backend_of([p.data]).xp.zeros(p.shape, p.dtype) for name, p in named.items()} for _ in range(2)
        )

    def step(self, rate: float | None = None, gradient_scale: float = 1.0) -> None:
        """Update every parameter that has a gradient, after multiplying the gradient by `gradient_scale`.

        rate: the learning rate of this step, for a schedule; None: `lr`

        With bias corrections c_i = 1 - β_i^t: rate · (m / c₁) / (√(v / c₂) + ε) = step_size · m / (√v + ε √c₂).
        """
        self.step_count += 1
        correction1 = 1 - self.config.beta1**self.step_count
        root_correction2 = math.sqrt(1 - self.config.beta2**self.step_count)
        named = self.named_parameters.items()
        learning = [(parameter, self.m[name], self.v[name]) for name, parameter in named if parameter.grad is not None]
        for parameter, _, _ in learning:
            note_change(parameter.data)  # graphs that saved its old value notice
        self.update_all(
            learning,
            step_size=(self.lr if rate is None else rate) * root_correction2 / correction1,
            beta1=self.config.beta1,
            beta2=self.config.beta2,
            eps=self.config.epsilon * root_correction2,
            gradient_scale=gradient_scale,
        )

    def gradient_norm(self) -> float:
        """√(Σ g²) over all gradients."""
        gradients = [p.grad.data for p in self.named_parameters.values() if p.grad is not None]
        return math.sqrt(self.squared_norm(gradients))

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.named_parameters.values():
            parameter.grad = None

    def state_arrays(self) -> dict[str, Array]:
        """Return the moments by name, for a checkpoint; with `step_count`, they are the whole state."""
        return {f"{kind}.{name}": a for kind, moments in (("m", self.m), ("v", self.v)) for name, a in moments.items()}

    def load_state(self, step_count: int, arrays: dict[str, Array]) -> None:
        """Continue from `state_arrays()` after `step_count` updates.  Raises: ValueError if names or shapes differ."""
        load_arrays(self.state_arrays(), arrays, "the optimizer's moments")
        self.step_count = step_count
