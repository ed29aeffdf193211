"""The options of a foreign model: its configuration, of which what is not supported is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minitf.convert.stored_arrays import ModelFileError

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"}


class Options:
    """Names and values that a file holds, of which any may be missing or of the wrong type."""

    def __init__(self, path: Path, values: Mapping[str, Any]):
        self.path, self.values = path, values

    def refused(self, name: str, advice: str = "") -> ModelFileError:
        """The error of an option whose value is not supported."""
        shown = repr(self.values.get(name))[:60]
        return ModelFileError(f"{self.path}: the option {name}={shown} is not supported{advice and '; ' + advice}")

    def number(self, name: str, default: int, at_least: int = 1, at_most: int = 2**24) -> int:
        """A whole number.  Raises: ModelFileError for anything else"""
        value = self.values.get(name)
        value = default if value is None else value
        if type(value) is not int or not at_least <= value <= at_most:
            raise self.refused(name, f"expected is a whole number from {at_least} to {at_most}")
        return value

    def fraction(self, name: str, default: float = 0.0) -> float:
        """A probability below 1."""
        value = self.values.get(name)
        value = default if value is None else value
        if type(value) not in (int, float) or not 0 <= value < 1:
            raise self.refused(name, "expected is a number from 0 to 1")
        return float(value)

    def flag(self, name: str, default: bool = False) -> bool:
        """A truth value."""
        value = self.values.get(name)
        if value is None:
            return default
        if value not in (True, False):
            raise self.refused(name, "expected is true or false")
        return bool(value)

    def text(self, name: str, default: str = "") -> str:
        """A text."""
        value = self.values.get(name)
        if not isinstance(value, str | None):
            raise self.refused(name, "expected is a text")
        return default if value is None else value

    def activation(self, name: str, default: str) -> Any:
        """The name of an activation, as ours."""
        value = self.text(name, default)
        if value not in ACTIVATIONS:
            raise self.refused(name, f"the activations are {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS[value]

    def require(self, name: str, *accepted: Any, advice: str = "") -> Any:
        """The value of an option, which must be one of those accepted; a missing one is None."""
        value = self.values.get(name)
        if not any(value == each and isinstance(value, bool) == isinstance(each, bool) for each in accepted):
            raise self.refused(name, advice)
        return value

    def refuse_set(self, *names: str) -> None:
        """Refuse any of these options that is given and neither false, zero nor empty."""
        for name in names:
            if self.values.get(name):
                raise self.refused(name)

    def equal(self, name: str, other: str, default: int) -> int:
        """The value of two options that must agree, such as the heads of encoder and decoder."""
        value = self.number(name, default)
        if self.number(other, value) != value:
            raise self.refused(other, f"{name}={value} must be the same")
        return value
