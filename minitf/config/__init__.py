"""All settings, as frozen dataclasses with checks, and presets."""

from minitf.config.model import TransformerConfig
from minitf.config.presets import DEFAULT_PRESET, PRESETS
from minitf.config.run_config import OptimizerConfig, PathPair, RunConfig

__all__ = ["DEFAULT_PRESET", "PRESETS", "OptimizerConfig", "PathPair", "RunConfig", "TransformerConfig"]
