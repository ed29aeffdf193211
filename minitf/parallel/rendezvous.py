"""The connection of the ranks of an MPI job to rank 0 for heartbeats, with the token of the job that MPI has sent.

Rank 0 listens only on addresses at which other ranks reach it. Port scanners or processes of other users may also
connect: their messages are not parsed, rank 0 does not wait for them, and only a rank that is missing in the end is an
error.

    rank:    minitf <rank> <token>\\n
    rank 0:  welcome <digest of rank and token>\\n
"""

from __future__ import annotations

import hashlib
import hmac
import selectors
import socket
import struct
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from minitf.parallel.group import ParallelError

CONNECT_S = 60.0
GREETING_S = 5.0
"""Time for a process that has connected to show the token, and for rank 0 to answer."""
MOST_PENDING = 256
"""Connections that have yet to show the token; of more, the oldest is closed, whose rank would try again."""
LONGEST_LINE = 200
BACKLOG = 1024


# ---- Addresses ---------------------------------------------------------------------------------------------------


def own_addresses() -> list[str]:
    """Return the IPv4 addresses of all interfaces of this host, except for loopback."""
    found = set()
    with suppress(OSError):
        found |= {str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    with suppress(OSError, ImportError):
        import fcntl  # Unix only

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            for _, interface in socket.if_nameindex():
                with suppress(OSError):  # an interface without an address
                    siocgifaddr = 0x8915
                    answer = fcntl.ioctl(probe.fileno(), siocgifaddr, struct.pack("256s", interface.encode()[:15]))
                    found.add(socket.inet_ntoa(answer[20:24]))
    return sorted(address for address in found if not address.startswith("127."))


def needed_addresses(own: Sequence[str], others: Iterable[str], *, with_local: bool) -> list[str]:
    """Return the addresses of this host from which packets to other hosts leave, where these can reach it.

    others: addresses of the other hosts; none if there is no other host
    with_local: whether ranks of this host connect, too, by loopback
    """
    others = [address for address in others if address not in own]  # bridges of containers are the same on each host
    found = {address for address in map(_source_address, others) if address is not None and address in own}
    if others and not found:
        found = set(own)
    return [*sorted(found), *["127.0.0.1"] * (with_local or not found)]


def _source_address(target: str) -> str | None:
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((target, 9))  # sends nothing: the system looks for a route
        return str(probe.getsockname()[0])
    return None


def listen(addresses: Sequence[str]) -> list[socket.socket]:
    """Listen at each address, on a port of its own.  Raises: ParallelError if the system refuses."""
    servers: list[socket.socket] = []
    try:
        for address in addresses:
            servers.append(socket.create_server((address, 0), backlog=BACKLOG))
    except OSError as error:
        for server in servers:
            server.close()
        raise ParallelError(f"cannot listen at {', '.join(addresses)}: {error.strerror or error}") from error
    return servers


# ---- Rank 0 ------------------------------------------------------------------------------------------------------


@dataclass
class _Visitor:
    """A connection that has not shown the token."""

    connection: socket.socket
    until_s: float
    received: bytes = field(default=b"")


class Reception:
    """Accepts the connections of ranks: those that show the token, and no others."""

    def __init__(self, servers: Sequence[socket.socket], token: str, ranks: Collection[int]):
        self.admitted: dict[int, socket.socket] = {}
        self._token, self._ranks = token, ranks
        self._servers = servers
        self._visitors: dict[socket.socket, _Visitor] = {}
        self._selector = selectors.DefaultSelector()
        for server in servers:
            server.setblocking(False)
            self._selector.register(server, selectors.EVENT_READ)

    def wait(self, seconds: float) -> list[int]:
        """Wait until all ranks are admitted; return those that are missing after this time."""
        end = time.monotonic() + seconds
        while (missing := [rank for rank in self._ranks if rank not in self.admitted]) and time.monotonic() < end:
            for key, _ in self._selector.select(min(0.2, max(0.0, end - time.monotonic()))):
                if key.fileobj in self._servers:
                    self._accept(key.fileobj)  # type: ignore[arg-type]
                else:
                    self._read(self._visitors[key.fileobj])  # type: ignore[index]
            self._dismiss_late()
        return missing

    def close(self) -> None:
        """Stop listening; the connections of admitted ranks stay."""
        for visitor in list(self._visitors.values()):
            self._dismiss(visitor)
        self._selector.close()
        for server in self._servers:
            server.close()

    def _accept(self, server: socket.socket) -> None:
        try:
            connection, _ = server.accept()
        except OSError:  # it has gone again, or too many files are open
            time.sleep(0.01)
        else:
            connection.setblocking(False)
            self._visitors[connection] = _Visitor(connection, time.monotonic() + GREETING_S)
            self._selector.register(connection, selectors.EVENT_READ)
        if len(self._visitors) > MOST_PENDING:
            self._dismiss(next(iter(self._visitors.values())))

    def _read(self, visitor: _Visitor) -> None:
        try:
            data = visitor.connection.recv(LONGEST_LINE)
        except OSError:
            data = b""
        visitor.received += data
        line, end, rest = visitor.received.partition(b"\n")
        if not data or len(line) > LONGEST_LINE or rest:
            self._dismiss(visitor)
        elif end:
            self._admit(visitor, line)

    def _admit(self, visitor: _Visitor, line: bytes) -> None:
        rank = next((rank for rank in self._ranks if hmac.compare_digest(line, _greeting(rank, self._token))), None)
        if rank is None:
            self._dismiss(visitor)
            return
        del self._visitors[visitor.connection]
        self._selector.unregister(visitor.connection)
        with suppress(OSError):
            visitor.connection.setblocking(True)
            visitor.connection.sendall(_answer(rank, self._token) + b"\n")
            if earlier := self.admitted.pop(rank, None):  # the rank did not wait for the answer, and tries again
                earlier.close()
            self.admitted[rank] = visitor.connection

    def _dismiss_late(self) -> None:
        now = time.monotonic()
        for visitor in [each for each in self._visitors.values() if each.until_s < now]:
            self._dismiss(visitor)

    def _dismiss(self, visitor: _Visitor) -> None:
        del self._visitors[visitor.connection]
        self._selector.unregister(visitor.connection)
        visitor.connection.close()


# ---- The other ranks ---------------------------------------------------------------------------------------------


def connect(places: Sequence[tuple[str, int]], rank: int, token: str, seconds: float = CONNECT_S) -> socket.socket:
    """Connect to the first place at which rank 0 answers.  Raises: ParallelError if it answers at none."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for place in places:
            connection = _greet(place, rank, token)
            if connection is not None:
                return connection
        time.sleep(0.2)
    listed = ", ".join(f"{address} port {port}" for address, port in places)
    raise ParallelError(
        f"rank 0 cannot be reached at {listed}, within {seconds:g} seconds; open the ports between these hosts"
    )


def _greet(place: tuple[str, int], rank: int, token: str) -> socket.socket | None:
    """Show the token at one place; return the connection if rank 0 answers."""
    with suppress(OSError):
        connection = socket.create_connection(place, timeout=GREETING_S)
        with suppress(OSError):
            connection.sendall(_greeting(rank, token) + b"\n")
            if hmac.compare_digest(_line(connection), _answer(rank, token)):
                connection.settimeout(None)  # the next message comes when the job is aborted
                return connection
        connection.close()  # another program listens there
    return None


def _line(connection: socket.socket) -> bytes:
    """Read a short line, byte by byte: nothing that follows it is taken away.  Raises: OSError after a while."""
    end, received = time.monotonic() + GREETING_S, b""
    while not received.endswith(b"\n") and len(received) <= LONGEST_LINE:
        data = connection.recv(1)
        if not data or time.monotonic() > end:
            raise ConnectionError
        received += data
    return received.rstrip(b"\n")


def _greeting(rank: int, token: str) -> bytes:
    return f"minitf {rank} {token}".encode()


def _answer(rank: int, token: str) -> bytes:
    return f"welcome {hashlib.sha256(f'{rank} {token}'.encode()).hexdigest()}".encode()
