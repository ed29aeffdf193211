"""The Transformer of "Attention Is All You Need" on top of the autograd engine.

    from minitf import Transformer, TransformerConfig, Translator

Start-up time: the public names are imported when first used, so that `import minitf` and `--help` need no NumPy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minitf.config import OptimizerConfig as OptimizerConfig
    from minitf.config import RunConfig as RunConfig
    from minitf.config import TransformerConfig as TransformerConfig
    from minitf.decoding.search import BeamSearchConfig as BeamSearchConfig
    from minitf.decoding.search import beam_search as beam_search
    from minitf.decoding.search import greedy_search as greedy_search
    from minitf.errors import UserError as UserError
    from minitf.model.transformer import Transformer as Transformer
    from minitf.training.optim import Adam as Adam
    from minitf.translation.parser import Parser as Parser
    from minitf.translation.translator import Translator as Translator

_MODULES = {
    "Adam": "minitf.training.optim",
    "BeamSearchConfig": "minitf.decoding.search",
    "OptimizerConfig": "minitf.config",
    "Parser": "minitf.translation.parser",
    "RunConfig": "minitf.config",
    "Transformer": "minitf.model.transformer",
    "TransformerConfig": "minitf.config",
    "Translator": "minitf.translation.translator",
    "UserError": "minitf.errors",
    "beam_search": "minitf.decoding.search",
    "greedy_search": "minitf.decoding.search",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'minitf' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
