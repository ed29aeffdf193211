"""Work on files that may be hostile, in a process that can write into one folder and has bounded memory and time.

The process is a fork of this one. Limits of the system bound its memory (on Linux), its processor time, and the size
and number of its files. On Linux from 5.13 on, Landlock forbids it to change files outside the folder and to start
programs, and from 6.7 on to use TCP. It can read what this process can read. Where a system has no forks, as Windows,
the work is done in this process.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import struct
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from minitf.errors import UserError
from minitf.system.files import os_errors_explained
from minitf.system.portable import SIGNALS, has_process_groups, resource
from minitf.system.process import uninterrupted

MOST_ANSWER_BYTES, MOST_FILES = 2**20, 128
EXECUTE, WRITE_FILE, READ = 1 << 0, 1 << 1, 0b1100
"""Rights of Landlock, of which the others change files: version 1 has 13, version 2 has 14, version 3 has 15."""
RIGHTS = {1: 13, 2: 14}
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same numbers on all processors
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38


# ---- Memory ----


def taken_bytes() -> int:
    """Size of the addresses that this process has; 0 where the system, which is not Linux then, does not say."""
    statm = Path("/proc/self/statm")
    if resource is None or not statm.exists():
        return 0
    return int(statm.read_text().split()[0]) * resource.getpagesize()


@contextmanager
def memory_limited(more_bytes: int) -> Iterator[None]:
    """Context manager that bounds the addresses of this process, and of those it starts: those it has and `more_bytes`.

    Beyond them, Python and NumPy raise MemoryError. Only Linux says what a process has; elsewhere, nothing is bounded.
    """
    taken = taken_bytes()
    if not taken:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limits = [taken + more_bytes, *(each for each in (soft, hard) if each != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_AS, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


# ---- A process ----


def confined(work: Callable[[], Any], folder: Path, more_bytes: int, seconds: int) -> Any:
    """Return the result of `work`, which JSON can hold, done by a process that can write into `folder` alone.

    more_bytes: addresses that it may take beyond those of this process, and the size of a file that it may write
    seconds: of processor time

    Raises: UserError as `work` does, and where the process ends otherwise
    """
    if not has_process_groups() or resource is None:
        return work()
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = 0
    try:
        with uninterrupted():  # an interrupt finds a process that is known, and ends it
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of threads: those of BLAS know about forks
                with os_errors_explained("start a process"):
                    pid = os.fork()
            if not pid:
                os.close(reader)
                _work(work, folder, more_bytes, seconds, writer)
            os.close(writer)
        with open(reader, "rb") as file:
            answer = file.read(MOST_ANSWER_BYTES)
    except BaseException:
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        raise
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status == -signal.SIGXCPU:
        raise UserError(f"no result within {seconds:,} s of processor time, the limit for a file of this size")
    if status != 0:
        raise UserError(f"the process that reads the file ended with status {status}")
    found = json.loads(answer)
    if "error" in found:
        raise UserError(found["error"])
    return found["result"]


def _work(work: Callable[[], Any], folder: Path, more_bytes: int, seconds: int, writer: int) -> NoReturn:
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that waits ends this one
        for each in SIGNALS[1:]:
            signal.signal(each, signal.SIG_DFL)
        try:
            with os_errors_explained(f"confine the process that reads the file to {folder}"):
                _confine(folder, more_bytes, seconds)
            answer = {"result": work()}
        except UserError as error:
            answer = {"error": str(error)}
        except MemoryError as error:
            most = f"a file of this size may take {more_bytes // 2**20:,} MiB"
            answer = {"error": f"not enough memory ({str(error) or 'MemoryError'}); {most}"}
        os.write(writer, json.dumps(answer).encode())
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _confine(folder: Path, more_bytes: int, seconds: int) -> None:
    """Lower the limits of this process for good, and forbid it to change files outside a folder."""
    limits = {resource.RLIMIT_CPU: seconds, resource.RLIMIT_FSIZE: more_bytes, resource.RLIMIT_CORE: 0}
    limits[resource.RLIMIT_NOFILE] = MOST_FILES
    if taken := taken_bytes():
        limits[resource.RLIMIT_AS] = taken + more_bytes
    for kind, most in limits.items():
        soft, hard = resource.getrlimit(kind)
        lowest = min([most, *(each for each in (soft, hard) if each != resource.RLIM_INFINITY)])
        # at the hard limit of time, the system sends SIGKILL, and at the soft one SIGXCPU, which says why
        resource.setrlimit(kind, (lowest, hard if kind == resource.RLIMIT_CPU else lowest))
    if hasattr(os, "O_PATH"):  # Linux
        _forbid_changes(folder)


def _forbid_changes(folder: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)

    def call(*arguments: Any) -> int:
        result: int = libc.syscall(*(ctypes.c_long(each) if isinstance(each, int) else each for each in arguments))
        return result

    libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    version = call(CREATE_RULESET, None, 0, 1)
    if version < 1:
        return  # a kernel without Landlock
    rights = (1 << RIGHTS.get(version, 15)) - 1 & ~READ
    handled = struct.pack("QQ", rights, 0b11)[: 16 if version >= 4 else 8]  # TCP: bind, connect
    ruleset = call(CREATE_RULESET, handled, len(handled), 0)
    descriptor = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    rule = struct.pack("=Qi", rights & ~EXECUTE, descriptor)
    done = ruleset >= 0 and call(ADD_RULE, ruleset, 1, rule, 0) == 0
    done = done and libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 and call(RESTRICT_SELF, ruleset, 0) == 0
    if not done:
        raise OSError(ctypes.get_errno(), "Landlock refused")
    os.close(descriptor)
    os.close(ruleset)
