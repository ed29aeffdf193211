"""Presets: complete configurations by name, from presets.toml.

minitf presets
minitf train --preset table3-b-dk-16
"""

import tomllib
from dataclasses import dataclass, field
from importlib.resources import files

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


def _read() -> dict[str, Preset]:
    found: dict[str, Preset] = {}
    group = ""
    for name, values in tomllib.loads((files("minitf.config") / "presets.toml").read_text("utf-8")).items():
        group = values.pop("group", group)
        about, published = values.pop("about"), values.pop("published", {})
        values |= dict.fromkeys(values.pop("omit", ()))
        plain = to_plain(found[values.pop("from")].config if "from" in values else RunConfig())
        for part in ("model", "optimizer"):
            plain[part] |= values.pop(part, {})
        config = from_plain(RunConfig, {**plain, **values, "preset": name, "output": f"runs/{name}"})
        found[name] = Preset(config, about, group, published)
    return found


NAMED: dict[str, Preset] = _read()
"""All presets by name, in the order of `minitf presets`."""
PRESETS: dict[str, RunConfig] = {name: preset.config for name, preset in NAMED.items() if preset.group == "everyday"}
"""The everyday presets."""
DEFAULT_PRESET = "tiny"
