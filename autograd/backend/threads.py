"""Threads that wait for work: what `concurrent.futures` does, for blocks that take less than a tenth of a millisecond.

A future there has a condition, a state, callbacks and a work queue under a lock; here it is one lock.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue


class Task:
    """A piece of work that a thread does, has done, or will not do."""

    __slots__ = ("_done", "_error", "_taken", "_work")

    def __init__(self, work: Callable[[], None]):
        self._work = work
        self._error: BaseException | None = None
        self._taken, self._done = threading.Lock(), threading.Lock()
        self._done.acquire()

    def run(self) -> None:
        """Do it, unless it was cancelled."""
        if not self._taken.acquire(blocking=False):
            return
        try:
            self._work()
        except BaseException as error:  # whoever waits for the task gets it
            self._error = error
        self._done.release()

    def cancel(self) -> bool:
        """Whether it had not begun, and now never will."""
        return self._taken.acquire(blocking=False)

    def exception(self) -> BaseException | None:
        """Wait until it is done; the error that ended it, if one did."""
        with self._done:
            return self._error


class Workers:
    """Threads that run what is submitted, in order.  They end when this object does, and after a fork start anew."""

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
