"""The data in a page of a training step: the recording, and its arrays as a browser decodes them."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from additions.pages.tests.pages import Scripts


class StepPage:
    """The data of a page."""

    def __init__(self, path: Path):
        self.text = path.read_text(encoding="utf-8")
        scripts = Scripts(self.text)
        self.tags = scripts.tags
        self.step: dict[str, Any] = json.loads(scripts.found["step"])
        self._numbers = zlib.decompress(base64.b64decode(scripts.found["numbers"]))

    def __getattr__(self, name: str) -> Any:
        return self.step[name]

    def array(self, index: int) -> np.ndarray:
        """An array of the page, or the part of it that is kept."""
        about = self.values[index]
        kept = about.get("kept", [None] * len(about["shape"]))
        shape = [n if indices is None else len(indices) for n, indices in zip(about["shape"], kept, strict=True)]
        numbers = np.frombuffer(self._numbers, f"<{about['code']}", int(np.prod(shape)), about["at"])
        return numbers.reshape(shape)

    def named(self, name: str) -> list[dict[str, Any]]:
        """The ops of a class."""
        return [op for op in self.ops if self.classes[op["class"]]["name"] == name]

    def leaf(self, name: str) -> dict[str, Any]:
        """A parameter or input by its name."""
        (found,) = [leaf for leaf in self.leaves if leaf["name"] == name]
        return found
