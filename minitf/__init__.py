"""The Transformer of "Attention Is All You Need" on top of the autograd engine.

    from minitf import Transformer, TransformerConfig, Translator

The names below are imported when first used: `--help` and a wrong flag need no NumPy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minitf.config import OptimizerConfig, RunConfig, TransformerConfig
    from minitf.decoding.search import BeamSearchConfig, beam_search, greedy_search
    from minitf.errors import UserError
    from minitf.model.transformer import Transformer
    from minitf.training.optim import Adam
    from minitf.translation.translator import Translator

_HOMES = {
    "Adam": "minitf.training.optim",
    "BeamSearchConfig": "minitf.decoding.search",
    "OptimizerConfig": "minitf.config",
    "RunConfig": "minitf.config",
    "Transformer": "minitf.model.transformer",
    "TransformerConfig": "minitf.config",
    "Translator": "minitf.translation.translator",
    "UserError": "minitf.errors",
    "beam_search": "minitf.decoding.search",
    "greedy_search": "minitf.decoding.search",
}

__all__ = [
    "Adam",
    "BeamSearchConfig",
    "OptimizerConfig",
    "RunConfig",
    "Transformer",
    "TransformerConfig",
    "Translator",
    "UserError",
    "beam_search",
    "greedy_search",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'minitf' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
