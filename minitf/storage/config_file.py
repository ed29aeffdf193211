"""A configuration as a JSON file: `config.json` of a run directory."""

import json
from pathlib import Path
from typing import TypeVar

from minitf.config import RunConfig
from minitf.config.options import from_plain, to_plain
from minitf.errors import UserError
from minitf.system.files import atomic_write, parse_json, read_small_file

Config = TypeVar("Config")


def save_config(path: Path, config: object) -> None:
    """Write a configuration as JSON, completely or not at all."""
    with atomic_write(path) as file:
        file.write(json.dumps(to_plain(config), indent=2).encode() + b"\n")


def load_config(path: Path, config_class: type[Config] = RunConfig) -> Config:  # type: ignore[assignment]
    """Read the configuration that `save_config` wrote.

    Raises: UserError for a file that cannot be read, is not JSON, has an unknown key or an invalid value.
    """
    content = read_small_file(path)
    try:
        plain = parse_json(content)
        if isinstance(plain, dict) and "dtype" in plain:  # beside `precision`, it could contradict it
            raise UserError("the key 'dtype' is unknown; rename it to 'precision'")
        return from_plain(config_class, plain)
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error
