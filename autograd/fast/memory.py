"""Memory that arrays have left: kept for the next ones, or returned to the system."""

from __future__ import annotations

import contextlib
import ctypes


def keep_freed_memory() -> bool:
    """Make the C library keep freed memory instead of returning it to the system; return whether it does.

    A training step allocates and frees the same arrays every time.  Memory fresh from the system costs a page fault
    every 4 KiB, more than the arithmetic on it.  The setting is global, so only programs call this, never an import.
    """
    try:
        libc = ctypes.CDLL("libc.so.6")
    except OSError:  # not the GNU C library: its allocator is left as it is
        return False
    m_trim_threshold, m_top_pad, m_mmap_threshold = -1, -2, -3
    settings = ((m_mmap_threshold, 1 << 30), (m_trim_threshold, 2**31 - 1), (m_top_pad, 64 << 20))
    accepted = [libc.mallopt(name, value) == 1 for name, value in settings]  # all of them, whatever the first says
    return all(accepted)


def return_freed_memory() -> None:
    """Return what `keep_freed_memory` has kept: large arrays were freed, and will not be needed again."""
    with contextlib.suppress(OSError, AttributeError):  # not the GNU C library
        ctypes.CDLL("libc.so.6").malloc_trim(0)
