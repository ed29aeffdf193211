"""Fast implementations of the ops, for CPUs and GPUs; what saves memory.

Nothing in `autograd` outside this package needs it: `install` enters the implementations into the engine's table.
"""

from autograd import backend
from autograd.engine import implementations
from autograd.fast import int8, numpy_layers, numpy_logits, numpy_products, ops  # noqa: F401 (they fill the table)
from autograd.fast.choices import (
    keep_freed_memory,
    make_gpu_backend,
    return_freed_memory,
    set_kernels,
    set_precision,
)
from autograd.fast.recomputed import recompute_large_outputs
from autograd.fast.table import cpu_kernels, kernels_of, kernels_on
from autograd.fast.threads import available_cores, in_one_thread, set_threads, thread_count
from autograd.ops.fused import (
    dropout_add_layer_norm,
    linear_cross_entropy,
    linear_heads,
    linear_relu,
    scaled_embedding,
)

__all__ = [
    "available_cores",
    "cpu_kernels",
    "dropout_add_layer_norm",
    "in_one_thread",
    "install",
    "keep_freed_memory",
    "kernels_of",
    "kernels_on",
    "linear_cross_entropy",
    "linear_heads",
    "linear_relu",
    "recompute_large_outputs",
    "return_freed_memory",
    "scaled_embedding",
    "set_kernels",
    "set_precision",
    "set_threads",
    "thread_count",
]


def install() -> None:
    """Compute with the implementations of this package from now on."""
    implementations.update(ops.IMPLEMENTATIONS)
    backend.make_gpu_backend = make_gpu_backend
