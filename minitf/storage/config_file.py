"""A configuration as a JSON file: `config.json` of a run directory."""

import json
from pathlib import Path
from typing import TypeVar

from minitf.config import RunConfig
from minitf.config.options import from_plain, to_plain
from minitf.errors import UserError
from minitf.system.files import atomic_write, os_errors_explained, parse_json

Config = TypeVar("Config")


def save_config(path: Path, config: object) -> None:
    """Write a configuration as JSON, whole or not at all."""
    text = json.dumps(to_plain(config), indent=2) + "\n"
    with atomic_write(path) as file:
        file.write(text.encode())


def load_config(path: Path, config_class: type[Config] = RunConfig) -> Config:  # type: ignore[assignment]
    """The configuration that `save_config` wrote.

    Raises: UserError for a file that cannot be read, is not JSON, has an unknown key or a value that cannot be.
    """
    with os_errors_explained(f"read {path}"):
        content = path.read_bytes()
    try:
        plain = parse_json(content)
        if config_class is RunConfig and isinstance(plain, dict) and "dtype" in plain:
            plain["precision"] = plain.pop("dtype")  # what it was called before there were others
        return from_plain(config_class, plain)
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error
