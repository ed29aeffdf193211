"""What the checks of steps have in common: the learner's files as modules, and where the checks of a step are."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from minitf.learn.expect import Wrong
from minitf.learn.path.steps import FILES, Step

Check = Callable[["Work"], None]
CHECKS: dict[str, list[Check]] = {}
"""The checks of each step by its name."""


def of(step: str) -> Callable[[Check], Check]:
    """Decorator: a check of a step; its docstring is what the verdict calls it."""

    def enter(check: Check) -> Check:
        CHECKS.setdefault(step, []).append(check)
        return check

    return enter


class Work:
    """The learner's files as modules: `work.engine.apply`."""

    engine: Any
    ops: Any
    model: Any
    train: Any
    search: Any

    def __init__(self, folder: Path, step: Step):
        """Run the files up to the one of the step."""
        self.step = step
        self.texts: dict[str, str] = {}
        for name in FILES[: FILES.index(step.file) + 1]:
            path = folder / f"{name}.py"
            if path.exists():
                self.texts[str(path)] = path.read_text(encoding="utf-8-sig")

    def run(self) -> None:
        """Run the files, each as the module of its name, which later ones import."""
        for path, text in self.texts.items():
            name = Path(path).stem
            module = sys.modules[name] = ModuleType(name)
            module.__file__ = path
            exec(compile(text, path, "exec", dont_inherit=True), vars(module))
            setattr(self, name, Names(name, module))


class Names:
    """The names of one of the learner's files."""

    def __init__(self, file: str, module: ModuleType):
        self._file, self.module = file, module

    def __getattr__(self, name: str) -> Any:
        if name not in vars(self.module):
            raise Wrong(f"{self._file}.py has no {name}; was it renamed? The step that gave it has its signature")
        return vars(self.module)[name]


def checks_of(work: Work) -> Iterator[tuple[str, Callable[[], None]]]:
    """The checks of a step with their descriptions; first, the files are run."""
    work.run()
    for check in CHECKS[work.step.name]:
        yield inspect.getdoc(check) or check.__name__, partial(check, work)
