"""Progress of a training run: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from typing import Any, Self

from tqdm import tqdm

from minitf.system.messages import clock, say, silent


class Progress:
    """A bar over the steps of a run on standard error, with lines above it.

    Where standard error is not a terminal, there is no bar and `update` prints a line for every record. With
    `shown=False`, for a non-zero rank, nothing is printed.
    """

    def __init__(self, total: int, start: int, shown: bool = True):
        self._say = say if shown else silent
        self._on_terminal = shown and sys.stderr is not None and sys.stderr.isatty()
        self._bar: Any = tqdm(
            total=total,
            initial=start,
            unit="step",
            dynamic_ncols=True,
            disable=not self._on_terminal,
            bar_format="{percentage:3.0f}% |{bar:20}| {n_fmt}/{total_fmt} {postfix}",
        )

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        if not self._on_terminal:
            self._say(text)
            return
        with self._bar.external_write_mode(file=sys.stderr):
            self._say(text)

    def step(self) -> None:
        """Count one step."""
        self._bar.update(1)

    def update(self, record: dict[str, Any], remaining_s: float) -> None:
        """Show the figures of a log record and the remaining time."""
        text = (
            f"loss {record['loss']:.3f}  ppl {record['perplexity']:.2f}  "
            f"{record['target_tokens_per_s']:,.0f} tokens/s  "
            f"lr {record['learning_rate']:.2e}  {clock(remaining_s)} left"
        )
        if self._on_terminal:
            self._bar.set_postfix_str(text)
        else:
            self._say(f"step {record['step']:,}  {text}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()
