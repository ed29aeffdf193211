"""A thread pool for tasks of less than a tenth of a millisecond.

A future of `concurrent.futures` has a condition, a state, callbacks and a locked queue; a task here has two locks.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue


class Task:
    """A call that a thread of the pool makes, unless it is cancelled first."""

    __slots__ = ("_done", "_error", "_taken", "_work")

    def __init__(self, work: Callable[[], None]):
        self._work = work
        self._error: BaseException | None = None
        self._taken, self._done = threading.Lock(), threading.Lock()
        self._done.acquire()

    def run(self) -> None:
        """Make the call, unless it was cancelled."""
        if not self._taken.acquire(blocking=False):
            return
        try:
            self._work()
        except BaseException as error:  # `exception` returns it
            self._error = error
        self._done.release()

    def cancel(self) -> bool:
        """Cancel the call if it has not begun; return whether it had not."""
        cancelled = self._taken.acquire(blocking=False)
        if cancelled:
            del self._work  # it holds arrays, and a busy machine may leave this task in the queue for long
        return cancelled

    def exception(self) -> BaseException | None:
        """Wait until the call has ended; return the exception that it raised, if any."""
        with self._done:
            return self._error


class Workers:
    """Threads that run submitted tasks in order.  They end with this object, and a forked process starts its own."""

    def __init__(self, threads: int):
        self.threads = threads
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        for i in range(self.threads):
            threading.Thread(target=_serve, args=(self._tasks,), name=f"autograd-{i}", daemon=True).start()

    def submit(self, work: Callable[[], None]) -> Task:
        """Have a thread call `work`."""
        if self._process != os.getpid():  # a forked child has the queue, but none of the threads
            self._start()
        task = Task(work)
        self._tasks.put(task)
        return task

    def __del__(self) -> None:
        for _ in range(self.threads):
            self._tasks.put(None)


def _serve(tasks: SimpleQueue[Task | None]) -> None:
    while (task := tasks.get()) is not None:
        task.run()
        del task  # it holds arrays
