"""All settings, as frozen dataclasses with checks, and presets."""

from minitf.config.model import TransformerConfig
from minitf.config.presets import DEFAULT_PRESET, PRESETS
from minitf.config.run import OptimizerConfig, ParsingConfig, RunConfig
from minitf.config.translate import TranslateConfig

__all__ = [
    "DEFAULT_PRESET",
    "PRESETS",
    "OptimizerConfig",
    "ParsingConfig",
    "RunConfig",
    "TransformerConfig",
    "TranslateConfig",
]
