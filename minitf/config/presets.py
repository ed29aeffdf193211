"""Presets: complete configurations by name, from presets.toml.

minitf presets
minitf train --preset table3-b-dk-16
"""

import tomllib
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from minitf.config.options import from_plain, to_plain
from minitf.config.run_config import RunConfig

__all__ = ["NAMED", "Preset"]


@dataclass(frozen=True)
class Preset:
    """A configuration, its origin and its published figures."""

    config: RunConfig
    about: str
    group: str
    published: dict[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the preset, as `--preset` takes it."""
        return self.config.preset


def _varied(start: RunConfig, name: str, **values: Any) -> RunConfig:
    """Return the configuration of a preset: `start` with some values changed, also in its parts."""
    plain = to_plain(start)
    for part in ("model", "optimizer"):
        plain[part] |= values.pop(part, {})
    return from_plain(RunConfig, {**plain, **values, "preset": name, "output": f"runs/{name}"})


def _read() -> dict[str, Preset]:
    found: dict[str, Preset] = {}
    group = ""
    for name, values in tomllib.loads((files("minitf.config") / "presets.toml").read_text("utf-8")).items():
        group = values.pop("group", group)
        about, published = values.pop("about"), values.pop("published", {})
        values |= dict.fromkeys(values.pop("omit", ()))
        start = found[values.pop("from")].config if "from" in values else RunConfig()
        found[name] = Preset(_varied(start, name, **values), about, group, published)
    return found


NAMED: dict[str, Preset] = _read()
"""All presets by name, in the order of `minitf presets`."""
PRESETS: dict[str, RunConfig] = {name: preset.config for name, preset in NAMED.items() if preset.group == "everyday"}
"""The everyday presets."""
DEFAULT_PRESET = "tiny"
