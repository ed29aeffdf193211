"""The Transformer of "Attention Is All You Need" on top of the autograd engine.

    from minitf import Transformer, TransformerConfig, Translator

Start-up time: the public names are imported when first used, so that `import minitf` and `--help` need no NumPy.
"""

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minitf.config import OptimizerConfig as OptimizerConfig
    from minitf.config import RunConfig as RunConfig
    from minitf.config import TransformerConfig as TransformerConfig
    from minitf.config.model import BOS as BOS
    from minitf.config.model import EOS as EOS
    from minitf.config.model import PAD as PAD
    from minitf.data.batches import Batches as Batches
    from minitf.data.vocabulary import Vocabulary as Vocabulary
    from minitf.decoding.greedy import greedy_search as greedy_search
    from minitf.decoding.search import BeamSearchConfig as BeamSearchConfig
    from minitf.decoding.search import beam_search as beam_search
    from minitf.errors import UserError as UserError
    from minitf.fast.accelerate import accelerate as accelerate
    from minitf.model.layers import Dropout as Dropout
    from minitf.model.layers import Embedding as Embedding
    from minitf.model.layers import FeedForward as FeedForward
    from minitf.model.layers import LayerNorm as LayerNorm
    from minitf.model.layers import Linear as Linear
    from minitf.model.layers import Module as Module
    from minitf.model.parameters import Initializer as Initializer
    from minitf.model.parameters import Parameter as Parameter
    from minitf.model.transformer import MultiHeadAttention as MultiHeadAttention
    from minitf.model.transformer import Transformer as Transformer
    from minitf.training.optim import Adam as Adam
    from minitf.training.optim import learning_rate as learning_rate
    from minitf.translation.translator import Translator as Translator

    __version__: str

_PLACES = {
    "config": "OptimizerConfig RunConfig TransformerConfig",
    "config.model": "BOS EOS PAD",
    "data.batches": "Batches",
    "data.vocabulary": "Vocabulary",
    "decoding.greedy": "greedy_search",
    "decoding.search": "BeamSearchConfig beam_search",
    "errors": "UserError",
    "fast.accelerate": "accelerate",
    "model.layers": "Dropout Embedding FeedForward LayerNorm Linear Module",
    "model.parameters": "Initializer Parameter",
    "model.transformer": "MultiHeadAttention Transformer",
    "training.optim": "Adam learning_rate",
    "translation.translator": "Translator",
}
_MODULES = {name: f"minitf.{place}" for place, names in _PLACES.items() for name in names.split()}

__all__ = list(_MODULES)


def _check_autograd() -> None:
    """Check the package `autograd` without importing it: HIPS autograd, on PyPI, has the same import name.

    Raises: ImportError if it is HIPS autograd, or if installing or removing HIPS autograd has changed its files
    """
    spec = find_spec("autograd")
    if spec is None:
        return  # importing it will say so
    folder = next(iter(spec.submodule_search_locations or [spec.origin or ""]))
    found = [os.path.exists(os.path.join(folder, name)) for name in ("__init__.py", "engine.py", "tracer.py")]
    if found != [True, True, False]:  # tracer.py is a file of HIPS autograd
        raise ImportError(
            f"autograd in {folder} is not this project's package, or HIPS autograd, a package of the same name, has "
            "changed its files: use a virtual environment without HIPS autograd, or run `pip uninstall autograd` and "
            "install this project again with `pip install --force-reinstall --no-deps`"
        )


_check_autograd()
if sys.version_info < (3, 11):  # noqa: UP036 (for those who have it)
    import_module("autograd")  # refuses, in one sentence


if not TYPE_CHECKING:  # to a type checker, it would make every misspelt name right

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            return import_module("minitf.system.environment").VERSION
        if name not in _MODULES:
            raise AttributeError(f"module 'minitf' has no attribute {name!r}")
        if find_spec("numpy") is None:
            import_module("autograd")  # refuses, in one sentence
        return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
