"""The files of `autograd/` and `minitf/` that a reader of a running program would open: those with a function it calls.

    python tests/reading_path.py train RUN       minitf train --max-steps 2 --output RUN
    python tests/reading_path.py translate RUN   minitf translate RUN, of one line
    python tests/reading_path.py step            one training step of the plain core

A file counts with all its lines. Calls while a module is imported do not count.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCES = tuple(f"{ROOT}{os.sep}{package}{os.sep}" for package in ("autograd", "minitf"))
IMPORTING = "<frozen importlib"
LINE = "seven thousand six hundred and twenty-one"


class ReadingPath:
    """The files of both packages in which functions are called inside `recorded`, in all threads."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._others: set[CodeType] = set()

    @property
    def lines(self) -> dict[str, int]:
        """The number of lines of each file, by its path in the project."""
        return {str(Path(name).relative_to(ROOT)): Path(name).read_bytes().count(b"\n") for name in sorted(self._files)}

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Context manager inside which calls are recorded."""
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "call" or code in self._others or code.co_filename in self._files:
            return
        if not code.co_filename.startswith(SOURCES):
            self._others.add(code)
        elif not _is_importing(frame):
            self._files.add(code.co_filename)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith(IMPORTING):
            return True
        frame = frame.f_back
    return False


# ---- Programs ----


def train(path: ReadingPath, run: str, *flags: str) -> None:
    """`minitf train --max-steps 2`, with more flags"""
    from minitf.__main__ import main

    with path.recorded():
        status = main(["train", "--max-steps", "2", "--output", run, *flags])
    assert status == 0


def translate(path: ReadingPath, run: str) -> None:
    """`minitf translate` of one line, from standard input."""
    from minitf.__main__ import main

    reading, writing = os.pipe()
    os.write(writing, f"{LINE}\n".encode())
    os.close(writing)
    os.dup2(reading, 0)
    with path.recorded():
        status = main(["translate", run])
    assert status == 0


def step(path: ReadingPath) -> None:
    """One training step: a batch, its loss, the gradients, and Adam's update of a model that is there."""
    os.environ["AUTOGRAD_PLAIN"] = "1"
    from autograd import random
    from minitf.config import OptimizerConfig, TransformerConfig
    from minitf.data.batches import Batches
    from minitf.data.prepared import PreparedCorpus
    from minitf.model.transformer import Transformer
    from minitf.training.optim import Adam, batch_loss, learning_rate

    sentences = [[4, 5, 6], [7, 8], [9, 4, 5, 6]]
    batches = Batches(PreparedCorpus.from_ids(sentences, sentences[::-1]), max_tokens_per_batch=32)
    model = Transformer(TransformerConfig(vocab_size=12, layers=1, d_model=8, heads=2, d_ff=16), seed=0)
    config = OptimizerConfig()
    optimizer = Adam(model.named_parameters(), config)
    random.manual_seed(0)
    model.train()
    with path.recorded():
        batch = next(batches)
        optimizer.zero_grad()
        random.begin_step(1, batch.number, batch.first_row)
        loss, _ = batch_loss(model, batch, config.label_smoothing)
        loss.backward()
        assert optimizer.gradient_norm() > 0
        optimizer.step(learning_rate(1, model.config.d_model, config), 1 / batch.target_tokens)


PROGRAMS: dict[str, Callable[..., None]] = {"train": train, "translate": translate, "step": step}

if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    name, *arguments = sys.argv[1:]
    path = ReadingPath()
    PROGRAMS[name](path, *arguments)
    for file, count in path.lines.items():
        print(f"{count:7,}  {file}")
    print(f"{len(path.lines)} files, {sum(path.lines.values())} lines")
