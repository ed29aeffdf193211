"""Fast implementations of the ops, for CPUs and GPUs; fused ops; what saves memory.

Nothing in `autograd` outside this package needs it: `install` enters the implementations into the engine's table.
"""

from autograd import backend, observers
from autograd.engine import implementations
from autograd.fast import ops, unfused  # noqa: F401 (unfused.py adds to the table of ops.py)
from autograd.fast.cpu import CpuKernels
from autograd.fast.devices import (
    available_cores,
    cpu_kernels,
    kernels_of,
    kernels_on,
    make_gpu_backend,
    set_kernels,
)
from autograd.fast.fused import (
    attention,
    dropout_add_layer_norm,
    gradient_places,
    linear_cross_entropy,
    linear_heads,
    linear_relu,
    scaled_embedding,
)
from autograd.fast.kernels import Kernels
from autograd.fast.memory import keep_freed_memory, return_freed_memory
from autograd.fast.recomputed import RecomputedOutputs

__all__ = [
    "CpuKernels",
    "Kernels",
    "attention",
    "available_cores",
    "cpu_kernels",
    "dropout_add_layer_norm",
    "gradient_places",
    "install",
    "keep_freed_memory",
    "kernels_of",
    "kernels_on",
    "linear_cross_entropy",
    "linear_heads",
    "linear_relu",
    "return_freed_memory",
    "scaled_embedding",
    "set_kernels",
]


def install() -> None:
    """Compute with the implementations of this package from now on."""
    for kind in implementations:
        implementations[kind] |= ops.IMPLEMENTATIONS
    backend.make_gpu_backend = make_gpu_backend
    observers.install(RecomputedOutputs())
