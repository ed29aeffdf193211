"""Features of POSIX systems that Windows lacks: flags of `os.open`, signals, groups of processes, positioned reads."""

from __future__ import annotations

import os
import signal

# ---- Flags of os.open, and signals; 0 where a system lacks one ----

BINARY = getattr(os, "O_BINARY", 0)  # without it, Windows changes ends of lines
CLOEXEC = getattr(os, "O_CLOEXEC", 0) | BINARY

SIGNALS = tuple([getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)])
"""The signals that stop a command."""


def has_process_groups() -> bool:
    """Return whether processes can be started with the descriptors that they inherit, and be killed as a group."""
    return hasattr(os, "fork") and hasattr(os, "killpg")


# ---- Files ----


def read_at(descriptor: int, count: int, offset: int) -> bytes:
    """Read up to `count` bytes from `offset` on."""
    if hasattr(os, "pread"):
        return os.pread(descriptor, count, offset)
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.read(descriptor, count)


def read_into(descriptor: int, memory: memoryview, offset: int) -> int:
    """Fill `memory` from `offset` on; return the number of bytes that were there."""
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [memory], offset)
    found = read_at(descriptor, len(memory), offset)
    memory[: len(found)] = found
    return len(found)
