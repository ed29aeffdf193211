"""Features of POSIX systems that Windows lacks."""

import os


def has_process_groups() -> bool:
    """Return whether processes can be started with the descriptors that they inherit, and be killed as a group."""
    return hasattr(os, "fork") and hasattr(os, "killpg")
