"""Ranks on any number of hosts, started by mpiexec: mpi4py between hosts, a shared-memory window within each."""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitf.errors import UserError
from minitf.parallel import rendezvous
from minitf.parallel.group import Group, chunk_of, sum_rows
from minitf.parallel.heartbeat import Coordinator, Heartbeat, describe
from minitf.system.process import say

Array = Any

FIRST_PAUSE_S, LAST_PAUSE_S = 2e-5, 1e-3
MAX_COUNT = 1 << 28  # MPI counts in 32 bits


def import_mpi() -> Any:
    """Import mpi4py's MPI, initialised so that a second thread may communicate while the main thread computes.

    Raises: UserError if mpi4py or the MPI library is missing or too old.
    """
    try:
        import mpi4py
        from mpi4py import MPI  # initialises MPI
    except ImportError as error:
        raise UserError(
            f"mpiexec has started this as one process of several, but mpi4py cannot be used ({error}); "
            "pip install '.[mpi]' in the project's directory, and mpich where the system has no MPI library, or leave "
            "mpiexec out"
        ) from None
    except RuntimeError as error:  # mpi4py is installed, but finds no MPI library
        raise UserError(
            f"mpi4py finds no MPI library ({str(error).splitlines()[0]}); install one, such as pip install mpich"
        ) from None
    if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
        raise UserError(
            f"this MPI library does not support communication from a second thread (thread level {MPI.Query_thread()}, "
            f"{MPI.THREAD_SERIALIZED} expected; mpi4py {mpi4py.__version__}); use one built with thread support"
        )
    return MPI


class MpiGroup(Group):
    """The ranks of `mpiexec -n N`."""

    def __init__(self, mpi: Any, timeout_s: float):
        self._mpi = mpi
        self._world = mpi.COMM_WORLD.Dup()
        self.rank, self.size = self._world.rank, self._world.size
        self._host = self._world.Split_type(mpi.COMM_TYPE_SHARED)
        self.local_rank, self.local_size = self._host.rank, self._host.size
        is_leader = self.local_rank == 0
        self._leaders = self._world.Split(0 if is_leader else mpi.UNDEFINED)  # one rank of each host
        self.hosts = self._host.bcast(self._leaders.size if is_leader else None)
        self._window: Any = None
        self._rows: list[Array] = []
        self.heartbeat = _connect(self._world, self._host, timeout_s)

    def barrier(self) -> None:
        self._wait(self._world.Ibarrier())

    def all_gather(self, value: Any) -> list[Any]:
        with self.waiting():
            self.barrier()  # waits asleep, unlike allgather, which spins
            return [json.loads(each) for each in self._world.allgather(json.dumps(value))]

    def broadcast(self, array: Array) -> None:
        flat = array.reshape(-1).view(np.uint8)
        with self.waiting():
            self.barrier()
            for start in range(0, flat.size, MAX_COUNT):
                self._world.Bcast(flat[start : start + MAX_COUNT])

    def new_buffer(self, length: int, dtype: Any) -> Array:
        dtype = np.dtype(dtype)
        self._window = self._mpi.Win.Allocate_shared(max(length, 1) * dtype.itemsize, dtype.itemsize, comm=self._host)
        self._rows = [
            np.frombuffer(self._window.Shared_query(rank)[0], dtype, length) for rank in range(self.local_size)
        ]
        row = self._rows[self.local_rank]
        row[...] = 0
        self._window.Lock_all()
        return row

    def all_reduce(self, part: slice) -> None:
        """Sum directly into all buffers on one host; on several, sum into each leader's, between leaders, and copy."""
        start = time.perf_counter()
        self._host_barrier()
        self.waited_s += time.perf_counter() - start
        chunk = chunk_of(part, self.local_rank, self.local_size)
        sum_rows(self._rows, chunk, into=self._rows if self.hosts == 1 else self._rows[:1])
        self._host_barrier()
        if self.hosts > 1:
            if self.local_rank == 0:
                self._sum_over_hosts(self._rows[0][part])
            self._host_barrier()
            if self.local_rank:
                self._rows[self.local_rank][part] = self._rows[0][part]

    def _sum_over_hosts(self, row: Array) -> None:
        """Reduce-scatter and all-gather between leaders: each sums its chunk of all rows in the order of hosts.

        This moves as many bytes as the best Allreduce.  MPI leaves the order of an Allreduce open, and some libraries
        give different ranks different last bits.
        """
        leaders, kind = self._leaders, self._mpi._typedict[row.dtype.char]
        chunks = [chunk_of(slice(0, row.size), rank, self.hosts) for rank in range(self.hosts)]
        counts, starts = [each.stop - each.start for each in chunks], [each.start for each in chunks]
        width = counts[leaders.rank]
        received = np.empty((self.hosts, width), row.dtype)
        widths, offsets = [width] * self.hosts, [width * rank for rank in range(self.hosts)]
        self._wait(leaders.Ialltoallv([row, (counts, starts), kind], [received, (widths, offsets), kind]))
        sum_rows(list(received), slice(0, width), into=[received[0]])
        total = received[0].copy()
        self._wait(leaders.Iallgatherv([total, kind], [row, (counts, starts), kind]))

    def close(self) -> None:
        super().close()
        if self._window is not None:
            self._window.Unlock_all()
            self._window.Free()  # MPI_Finalize may hang if it is left to free the window

    def _host_barrier(self) -> None:
        if self._window is not None:
            self._window.Sync()
        self._wait(self._host.Ibarrier())
        if self._window is not None:
            self._window.Sync()

    @staticmethod
    def _wait(request: Any) -> None:
        """Sleep until the request is done; MPI's own wait spins on a core that other ranks could use."""
        pause_s = FIRST_PAUSE_S
        while not request.Test():
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LAST_PAUSE_S)


# ---- Heartbeats --------------------------------------------------------------------------------------------------


def _connect(world: Any, host: Any, timeout_s: float) -> Heartbeat:
    """Connect every rank to rank 0, where a thread is the coordinator.

    host: the communicator of the ranks of this host
    """
    own = rendezvous.own_addresses()
    facts = world.allgather((f"process {os.getpid()} on {socket.gethostname()}", own))
    names = {rank: name for rank, (name, _) in enumerate(facts)}
    on_host = set(host.allgather(world.rank))
    servers: list[socket.socket] = []
    places, token = None, secrets.token_hex(16)
    if world.rank == 0:
        others = {address for rank, (_, theirs) in enumerate(facts) if rank not in on_host for address in theirs}
        servers = rendezvous.listen(rendezvous.needed_addresses(own, sorted(others), with_local=len(on_host) > 1))
        places = [server.getsockname() for server in servers]
    places, token = world.bcast((places, token))
    if servers:
        theirs, connection = socket.socketpair()
        threading.Thread(target=_coordinate, args=(servers, theirs, token, timeout_s, names), daemon=True).start()
    else:
        connection = rendezvous.connect(places, world.rank, token)
    return Heartbeat(world.rank, connection)


def _coordinate(
    servers: Sequence[socket.socket], own: socket.socket, token: str, timeout_s: float, names: dict[int, str]
) -> None:
    """Receive heartbeats; abort the job on the first failure.  Runs in a thread of rank 0."""
    reception = rendezvous.Reception(servers, token, [rank for rank in names if rank != 0])
    missing = reception.wait(rendezvous.CONNECT_S)
    reception.close()
    if missing:
        listed = ", ".join(f"rank {rank} ({names[rank]})" for rank in missing[:5])
        say(f"error: {len(missing)} ranks cannot reach rank 0: {listed}; open the ports between these hosts")
        os._exit(1)
    coordinator = Coordinator({0: own, **reception.admitted}, timeout_s)
    failure = None
    while failure is None and not coordinator.all_done:
        failure = coordinator.listen(0.2)
    if failure is not None:
        if failure.reason is not None:
            say(f"error: {describe(failure, names)}")
        coordinator.abort(but=0)
        time.sleep(0.5)  # for the ranks to exit by themselves: mpiexec reports each one that it has to kill
        os._exit(failure.status)
    coordinator.close()
