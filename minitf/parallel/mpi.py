"""Processes of any number of hosts, started by mpiexec: mpi4py between hosts, a shared window of memory within each."""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from contextlib import suppress
from typing import Any

import numpy as np

from minitf.errors import UserError
from minitf.parallel.group import Group, ParallelError
from minitf.parallel.sums import own_part, sum_rows
from minitf.parallel.watch import Coordinator, Lines, Message, Pulse, in_words
from minitf.system.progress import say

Array = Any

FIRST_PAUSE_S, LAST_PAUSE_S = 2e-5, 1e-3
CONNECT_S = 60.0
WELCOME = {"welcome": True}


def import_mpi() -> Any:
    """mpi4py's MPI, initialised so that a thread of its own may talk while the main thread computes.

    Raises: UserError where mpi4py or the MPI library is missing or too old.
    """
    try:
        import mpi4py
        from mpi4py import MPI
    except ImportError as error:
        raise UserError(
            f"mpiexec has started this as one process of several, but mpi4py cannot be used ({error}); "
            "pip install '.[mpi]' in the project's directory, and mpich where the system has no MPI library, or leave "
            "mpiexec out"
        ) from None
    except RuntimeError as error:  # mpi4py is there, but finds no MPI library
        raise UserError(
            f"mpi4py finds no MPI library ({str(error).splitlines()[0]}); install one, such as pip install mpich"
        ) from None
    if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
        raise UserError(
            f"this MPI library does not let a thread of its own communicate (level {MPI.Query_thread()}, "
            f"{MPI.THREAD_SERIALIZED} expected; mpi4py {mpi4py.__version__}); use one built with threads"
        )
    return MPI


class MpiGroup(Group):
    """The processes of `mpiexec -n N`."""

    reduces = True

    def __init__(self, mpi: Any, timeout_s: float):
        self._mpi = mpi
        self._world = mpi.COMM_WORLD.Dup()
        self.rank, self.size = self._world.rank, self._world.size
        self._host = self._world.Split_type(mpi.COMM_TYPE_SHARED)
        self.local_rank, self.local_size = self._host.rank, self._host.size
        leads = self.local_rank == 0
        self._leaders = self._world.Split(0 if leads else mpi.UNDEFINED)  # one process of each host
        self.hosts = self._host.bcast(self._leaders.size if leads else None)
        self._window: Any = None
        self._rows: list[Array] = []
        self.pulse = _connect(self._world, timeout_s)

    def waiting(self) -> Any:
        return self.pulse.waiting()

    def barrier(self) -> None:
        self._wait(self._world.Ibarrier())

    def all_gather(self, value: Any) -> list[Any]:
        with self.waiting():
            self.barrier()  # to wait here, asleep, and not in what follows, which spins
            return [json.loads(each) for each in self._world.allgather(json.dumps(value))]

    def broadcast(self, array: Array) -> None:
        flat = array.reshape(-1).view(np.uint8)
        piece = 1 << 28  # MPI counts in 32 bits
        with self.waiting():
            self.barrier()
            for start in range(0, flat.size, piece):
                self._world.Bcast(flat[start : start + piece])

    def new_buffer(self, length: int, dtype: Any) -> Array:
        dtype = np.dtype(dtype)
        bytes_ = max(length, 1) * dtype.itemsize
        self._window = self._mpi.Win.Allocate_shared(bytes_, dtype.itemsize, comm=self._host)
        self._rows = [
            np.frombuffer(self._window.Shared_query(rank)[0], dtype, length) for rank in range(self.local_size)
        ]
        mine = self._rows[self.local_rank]
        mine[...] = 0
        self._window.Lock_all()
        return mine

    def all_reduce(self, part: slice) -> None:
        """Within each host into its leader's buffer, between the leaders, and back; on one host straight into all."""
        start = time.perf_counter()
        self._host_barrier()
        self.waited_s += time.perf_counter() - start
        own = own_part(part, self.local_rank, self.local_size)
        sum_rows(self._rows, own, into=self._rows if self.hosts == 1 else self._rows[:1])
        self._host_barrier()
        if self.hosts > 1:
            if self.local_rank == 0:
                self._sum_over_hosts(self._rows[0][part])
            self._host_barrier()
            if self.local_rank:
                self._rows[self.local_rank][part] = self._rows[0][part]

    def _sum_over_hosts(self, mine: Array) -> None:
        """Each leader adds up a part of what all leaders have, in the order of hosts, and gives the sum to all.

        As many bytes travel as with the best Allreduce, but MPI leaves the order of an Allreduce open, and some
        libraries give different ranks different last bits.
        """
        leaders, kind = self._leaders, self._mpi._typedict[mine.dtype.char]
        parts = [own_part(slice(0, mine.size), rank, self.hosts) for rank in range(self.hosts)]
        counts, places = [each.stop - each.start for each in parts], [each.start for each in parts]
        own = parts[leaders.rank]
        width = own.stop - own.start
        received = np.empty((self.hosts, width), mine.dtype)
        widths, starts = [width] * self.hosts, [width * rank for rank in range(self.hosts)]
        self._wait(leaders.Ialltoallv([mine, (counts, places), kind], [received, (widths, starts), kind]))
        whole = slice(0, width)
        sum_rows(list(received), whole, into=[received[0]])
        total = received[0].copy()
        self._wait(leaders.Iallgatherv([total, kind], [mine, (counts, places), kind]))

    def close(self) -> None:
        self.pulse.leave()
        with self.waiting():
            self.barrier()
        self.pulse.end()
        if self._window is not None:
            self._window.Unlock_all()
            self._window.Free()  # what is left to MPI_Finalize may keep it from ever ending

    def _host_barrier(self) -> None:
        if self._window is not None:
            self._window.Sync()
        self._wait(self._host.Ibarrier())
        if self._window is not None:
            self._window.Sync()

    @staticmethod
    def _wait(request: Any) -> None:
        """Until it is done, asleep: MPI's own wait spins, and takes the core that others compute on."""
        pause_s = FIRST_PAUSE_S
        while not request.Test():
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LAST_PAUSE_S)


# ---- Signs of life -----------------------------------------------------------------------------------------------


def _connect(world: Any, timeout_s: float) -> Pulse:
    """Rank 0 listens, everyone connects, and a thread of rank 0 watches over all of them."""
    token = secrets.token_hex(16)
    server = socket.create_server(("", 0), backlog=world.size) if world.rank == 0 else None
    port = None if server is None else server.getsockname()[1]
    port, token, hosts = world.bcast((port, token, _addresses()) if world.rank == 0 else None)
    name = f"process {os.getpid()} on {socket.gethostname()}"
    names = dict(enumerate(world.allgather(name)))
    if server is not None:
        theirs, ours = socket.socketpair()
        watching = threading.Thread(
            target=_watch_over, args=(server, theirs, world.size, token, timeout_s, names), daemon=True
        )
        watching.start()
    else:
        ours = _reach(hosts, port, {"rank": world.rank, "token": token}, timeout_s=CONNECT_S)
    return Pulse(world.rank, ours)


def _addresses() -> list[str]:
    """Where other hosts may reach this one: every address that its interfaces have, so far as it knows them."""
    found = {"127.0.0.1"}
    with suppress(OSError):
        found |= {str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    with suppress(OSError):
        import fcntl
        import struct

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            for _, interface in socket.if_nameindex():
                with suppress(OSError):  # one without an address
                    siocgifaddr = 0x8915
                    answer = fcntl.ioctl(probe.fileno(), siocgifaddr, struct.pack("256s", interface.encode()[:15]))
                    found.add(socket.inet_ntoa(answer[20:24]))
    return sorted(found, key=lambda address: address.startswith("127."))


def _reach(hosts: list[str], port: int, hello: Message, timeout_s: float) -> socket.socket:
    """A connection to the first address where rank 0 answers.  Raises: ParallelError where none does."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        for host in hosts:
            with suppress(OSError, ValueError):
                connection = socket.create_connection((host, port), timeout=5.0)
                lines = Lines(connection)
                lines.send(hello)
                if lines.receive() == [WELCOME]:
                    connection.settimeout(None)  # what comes over it comes when someone fails
                    return connection
                connection.close()  # someone else's
        time.sleep(0.2)
    raise ParallelError(
        f"rank 0 cannot be reached at {', '.join(hosts)}, port {port}, within {timeout_s:g} seconds; open the ports "
        "between these hosts"
    )


def _watch_over(
    server: socket.socket, own: socket.socket, size: int, token: str, timeout_s: float, names: dict[int, str]
) -> None:
    """In a thread of rank 0: hear everyone, and end the job when someone fails."""
    connections = {0: own}
    end = time.monotonic() + CONNECT_S
    with server:
        while len(connections) < size:
            server.settimeout(max(0.01, end - time.monotonic()))
            try:
                connection, _ = server.accept()
            except TimeoutError:
                missing = min(set(range(size)) - set(connections))
                say(f"error: rank {missing} ({names[missing]}) does not reach rank 0; open the ports in between")
                os._exit(1)
            if (rank := _greeted(connection, token)) is not None:
                connections[rank] = connection
    coordinator = Coordinator(connections, timeout_s)
    failure = None
    while failure is None and not coordinator.all_done:
        failure = coordinator.listen(0.2)
    if failure is not None:
        if failure.reason is not None:
            say(f"error: {in_words(failure, names)}")
        coordinator.end_job()
        time.sleep(0.5)  # for the others to go by themselves: mpiexec says more about those whom it must end
        os._exit(failure.status)
    coordinator.close()


def _greeted(connection: socket.socket, token: str) -> int | None:
    """The rank of a process that has connected; None, and the connection is closed, for anyone else."""
    connection.settimeout(5.0)
    lines = Lines(connection)
    with suppress(OSError, ValueError):
        hello = lines.receive()
        if hello and hello[0].get("token") == token:
            lines.send(WELCOME)
            return int(hello[0]["rank"])
    connection.close()
    return None
