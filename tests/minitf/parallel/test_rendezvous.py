"""Ranks find rank 0, whatever else connects to it."""

import socket
import threading

import pytest

from minitf.parallel import rendezvous
from minitf.parallel.group import ParallelError
from minitf.parallel.rendezvous import Reception, connect, listen, needed_addresses, own_addresses

TOKEN = "0123456789abcdef" * 2


@pytest.fixture
def servers():
    made = listen(["127.0.0.1"])
    yield made
    for server in made:
        server.close()


def places(servers):
    return [server.getsockname() for server in servers]


def join_all(servers, ranks, connections):
    def join(rank):
        connections[rank] = connect(places(servers), rank, TOKEN, seconds=20)

    threads = [threading.Thread(target=join, args=(rank,)) for rank in ranks]
    for thread in threads:
        thread.start()
    return threads


def close(*groups):
    for group in groups:
        for connection in group.values():
            connection.close()


def test_all_ranks_are_admitted_each_under_its_number(servers):
    connections = {}
    threads = join_all(servers, [1, 2, 3], connections)
    reception = Reception(servers, TOKEN, [1, 2, 3])
    assert reception.wait(20) == []
    reception.close()
    for thread in threads:
        thread.join()
    for rank, connection in connections.items():
        reception.admitted[rank].sendall(b"%d" % rank)
        assert connection.recv(9) == b"%d" % rank
    close(reception.admitted, connections)


def test_silent_strangers_delay_no_rank(servers):
    silent = [socket.create_connection(places(servers)[0]) for _ in range(40)]
    connections = {}
    threads = join_all(servers, [1, 2], connections)
    reception = Reception(servers, TOKEN, [1, 2])
    assert reception.wait(20) == []  # one after the other, the strangers would take 40 · GREETING_S
    reception.close()
    for thread in threads:
        thread.join()
    for each in silent:
        assert each.recv(9) == b""
        each.close()
    close(reception.admitted, connections)


def test_the_missing_ranks_are_named_and_not_others(servers, monkeypatch):
    monkeypatch.setattr(rendezvous, "GREETING_S", 0.1)
    silent = socket.create_connection(places(servers)[0])
    connections = {}
    threads = join_all(servers, [1, 3], connections)
    reception = Reception(servers, TOKEN, [1, 2, 3])
    assert reception.wait(1.0) == [2]
    reception.close()
    for thread in threads:
        thread.join()
    silent.close()
    close(reception.admitted, connections)


def test_a_rank_that_tries_again_is_admitted_with_its_new_connection(servers):
    reception = Reception(servers, TOKEN, [1, 2])
    first = socket.create_connection(places(servers)[0])
    first.sendall(f"minitf 1 {TOKEN}\n".encode())
    assert reception.wait(0.5) == [2]
    again = socket.create_connection(places(servers)[0])
    again.sendall(f"minitf 1 {TOKEN}\n".encode())
    assert reception.wait(0.5) == [2]
    reception.close()
    assert again.recv(200).startswith(b"welcome ")
    reception.admitted[1].sendall(b"x")
    assert again.recv(1) == b"x"
    first.close()
    again.close()
    close(reception.admitted)


@pytest.mark.parametrize(
    "answer", [b"", b"welcome\n", b"[" * 5000, b'{"welcome": true}\n', b"welcome " + b"0" * 64 + b"\n"]
)
def test_another_program_at_the_address_is_not_taken_for_rank_0(answer):
    with socket.create_server(("127.0.0.1", 0)) as other:

        def respond():
            while True:
                try:
                    connection, _ = other.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(200)
                    connection.sendall(answer)

        thread = threading.Thread(target=respond)
        thread.start()
        with pytest.raises(
            ParallelError, match=r"rank 0 cannot be reached at 127\.0\.0\.1 port \d+, within 0\.5 seconds"
        ):
            connect([other.getsockname()], 1, TOKEN, seconds=0.5)
        other.shutdown(socket.SHUT_RDWR)
        thread.join()


# ---- Addresses ----


def test_a_job_on_one_host_listens_on_loopback_only():
    assert needed_addresses(own_addresses(), [], with_local=True) == ["127.0.0.1"]
    assert needed_addresses([], [], with_local=False) == ["127.0.0.1"]


def test_addresses_are_those_on_the_way_to_other_hosts(monkeypatch):
    ways = {"10.0.0.2": "10.0.0.1", "192.168.1.9": "192.168.1.1", "8.8.8.8": None}
    monkeypatch.setattr(rendezvous, "_source_address", ways.get)
    own = ["10.0.0.1", "172.17.0.1", "192.168.1.1"]
    assert needed_addresses(own, ["10.0.0.2"], with_local=False) == ["10.0.0.1"]
    assert needed_addresses(own, ["10.0.0.2", "192.168.1.9"], with_local=True) == [
        "10.0.0.1",
        "192.168.1.1",
        "127.0.0.1",
    ]
    assert needed_addresses(own, ["172.17.0.1", "10.0.0.2"], with_local=False) == ["10.0.0.1"]  # a bridge of each host
    assert needed_addresses(own, ["8.8.8.8"], with_local=False) == own  # no route is known: all of them


def test_own_addresses_are_not_loopback():
    assert not any(address.startswith("127.") for address in own_addresses())


def test_an_address_that_cannot_be_listened_at():
    with pytest.raises(ParallelError, match=r"cannot listen at 127\.0\.0\.1, 203\.0\.113\.7"):
        listen(["127.0.0.1", "203.0.113.7"])
