"""Versions of software and hardware, which a run records because bits may differ between them."""

import os
import platform

VERSION = "0.1.0"
"""Of this project; pyproject.toml reads it from here."""


def environment_facts() -> dict[str, str]:
    """Versions of this project, Python, NumPy, its matrix library, the system and the processor."""
    import numpy as np  # deferred: `--help` needs no NumPy

    blas = np.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
    return {
        "minitf": VERSION,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "numpy": np.__version__,
        "blas": f"{blas.get('name', 'unknown')} {blas.get('version', 'unknown')}",
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cores": str(os.cpu_count()),
    }


def changes(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Describe the facts that differ, one sentence each: `numpy was 2.3.1 and is 2.4.6`."""
    names = [*before, *(name for name in now if name not in before)]
    return [
        f"{name} was {before.get(name, 'not recorded')} and is {now.get(name, 'not recorded')}"
        for name in names
        if before.get(name) != now.get(name)
    ]
