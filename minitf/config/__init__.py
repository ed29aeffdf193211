"""Everything that can be chosen: frozen dataclasses with checks, and presets."""

from minitf.config.run import (
    DEFAULT_PRESET,
    PRESETS,
    OptimizerConfig,
    ParsingConfig,
    RunConfig,
    TransformerConfig,
    TranslateConfig,
    check_device,
    check_precision,
)

__all__ = [
    "DEFAULT_PRESET",
    "PRESETS",
    "OptimizerConfig",
    "ParsingConfig",
    "RunConfig",
    "TransformerConfig",
    "TranslateConfig",
    "check_device",
    "check_precision",
]
