"""Programs that connect to rank 0 of an MPI job without its token."""

from __future__ import annotations

import json
import random
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress

from minitf.parallel.rendezvous import Reception, connect, listen
from tests.helpers.runs import check
from tests.torture.kills import Tally

RANKS = (1, 2, 3)
AT_ONCE = 100


def message(draw: random.Random, token: str) -> bytes:
    """Something that is not the greeting of a rank."""
    rank = draw.choice([0, 1, 2, 3, 4, -1, 10**30])
    wrong = draw.choice([token[:-1], token + "0", token.upper() + "x", "", "0" * len(token)])
    return draw.choice(
        [
            b"",
            b"\n",
            b"[1]\n",
            b"[" * 50_000 + b"\n",
            b'{"a":' * 20_000,
            json.dumps({"rank": rank, "token": wrong}).encode() + b"\n",
            json.dumps({"failed": "gone", "status": 7}).encode() + b"\n",
            f"minitf {rank} {wrong}\n".encode(),
            f"minitf {rank}".encode(),
            f"minitf {rank} {wrong}\n".encode() * 3,
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"minitf 1 " + draw.randbytes(draw.randrange(300)),
            draw.randbytes(draw.randrange(5000)),
            b"\xff\x00\n" * 9,
        ]
    )


def visit(servers: Sequence[socket.socket], token: str, messages: int, draw: random.Random) -> None:
    """Connect and send messages; in the end the ranks come, and are admitted, and nobody else is.

    Raises: LostError
    """
    place = servers[0].getsockname()
    ended = threading.Event()

    def disturb() -> None:
        open_ones: list[socket.socket] = []
        for _ in range(messages):
            with suppress(OSError):
                visitor = socket.create_connection(place, timeout=5)
                open_ones.append(visitor)
                visitor.sendall(message(draw, token))
            if len(open_ones) > AT_ONCE or draw.random() < 0.3:
                for each in open_ones:
                    each.close()
                open_ones.clear()
        for each in open_ones:
            each.close()
        ended.set()

    reception = Reception(servers, token, RANKS)
    disturber = threading.Thread(target=disturb)
    disturber.start()
    while not ended.is_set():
        check(reception.wait(0.05) == list(RANKS), "a stranger was taken for a rank")
    disturber.join()
    connections: list[socket.socket] = []
    threads = [
        threading.Thread(target=lambda rank=rank: connections.append(connect([place], rank, token, 20)))
        for rank in RANKS
    ]
    for thread in threads:
        thread.start()
    check(reception.wait(20) == [], "a rank was not admitted")
    for thread in threads:
        thread.join()
    reception.close()
    for each in (*connections, *reception.admitted.values()):
        each.close()


def strangers_are_ignored(tally: Tally, messages: int, draw: random.Random) -> None:
    """Messages without the token, a thousand between two arrivals of ranks."""
    for _ in range(max(1, messages // 1000)):
        servers = listen(["127.0.0.1"])
        with tally.trial(f"{min(messages, 1000)} messages"):
            visit(servers, draw.randbytes(16).hex(), min(messages, 1000), draw)
    tally.tried, tally.survived = tally.tried * min(messages, 1000), tally.survived * min(messages, 1000)
