"""Slices of time in the trace event format, which chrome://tracing and ui.perfetto.dev draw."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autograd.inspect.clock import Slice


def write_trace(path: str | Path, slices: Sequence[Slice], start_s: float) -> None:
    """One complete event ("ph": "X") a slice, in microseconds after `start_s`; viewers nest them by their times."""
    process, thread = os.getpid(), threading.get_ident()
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": process, "tid": thread, "args": {"name": "profile"}}
    ]
    for each in slices:
        events.append(
            {
                "ph": "X",
                "name": each.name,
                "cat": each.kind,
                "ts": round((each.start_s - start_s) * 1e6, 3),
                "dur": round((each.end_s - each.start_s) * 1e6, 3),
                "pid": process,
                "tid": thread,
                "args": each.details,
            }
        )
    text = json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, allow_nan=False)
    Path(path).write_text(text, encoding="utf-8")
