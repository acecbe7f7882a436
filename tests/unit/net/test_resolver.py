"""Whose turn an address is."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence

import pytest

from levada.api.engine_setup import bootstrap_of
from levada.config import ClientConfig
from levada.errors import ConfigError
from levada.net.resolver import Address, Resolver, Route, look_up

ONE, TWO = Address(socket.AF_INET, ("10.0.0.1", 9092)), Address(socket.AF_INET, ("10.0.0.2", 9092))


def test_N23_addresses_take_turns_until_they_are_used_up() -> None:
    route = Route("kafka", 9092)
    assert route.exhausted
    route.found([ONE, TWO])
    assert [route.next_address(), route.next_address()] == [ONE, TWO]
    assert route.exhausted


def test_TR26_after_a_new_lookup_the_address_tried_last_is_tried_last() -> None:
    route = Route("kafka", 9092)
    route.found([ONE, TWO])
    route.next_address()
    route.forget()
    route.found([ONE, TWO])
    assert [route.next_address(), route.next_address()] == [TWO, ONE]


def test_an_empty_answer_is_an_error() -> None:
    route = Route("kafka", 9092)
    route.found([])
    assert route.exhausted
    assert route.error


def test_a_literal_address_needs_no_lookup() -> None:
    assert [str(address) for address in look_up("127.0.0.1", 9092, literal_only=True)] == ["127.0.0.1:9092"]
    assert [str(address) for address in look_up("::1", 9092, literal_only=True)] == ["[::1]:9092"]


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)


def one_address(host: str, port: int) -> Sequence[Address]:
    return [ONE]


def test_a_lookup_whose_thread_cannot_be_started_has_failed(no_threads: None) -> None:
    route = Route("kafka.example", 9092)
    Resolver(lambda: None, one_address).start(route)
    assert not route.pending
    assert route.exhausted
    assert route.error == "can't start new thread"


def test_at_the_interpreters_exit_a_name_is_looked_up_in_place(no_threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "main_thread", lambda: threading.Thread(name="has ended"))
    route = Route("kafka.example", 9092)
    Resolver(lambda: None, one_address).start(route)
    assert not route.pending
    assert route.next_address() == ONE


def test_a_lookup_that_fails_in_an_unknown_way_has_ended_too() -> None:
    def broken(host: str, port: int) -> Sequence[Address]:
        raise TypeError("a lookup of somebody's own")

    ended = threading.Event()
    route = Route("kafka.example", 9092)
    Resolver(ended.set, broken).start(route)
    assert ended.wait(5)
    assert not route.pending
    assert route.error == "a lookup of somebody's own"


@pytest.fixture
def dns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two addresses behind one name, of which one has a name."""
    addresses = {"kafka": [ONE, TWO], "a.kafka": [ONE]}
    names = {ONE.sockaddr: "a.kafka"}

    def getaddrinfo(host: str, port: int, **options: int) -> list[tuple[object, ...]]:
        if host not in addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(address.family, socket.SOCK_STREAM, 6, "", address.sockaddr) for address in addresses[host]]

    monkeypatch.setattr("socket.getaddrinfo", getaddrinfo)
    monkeypatch.setattr("socket.getnameinfo", lambda sockaddr, flags: (names.get(sockaddr, sockaddr[0]), str(sockaddr[1])))


CANONICAL = "resolve_canonical_bootstrap_servers_only"


@pytest.mark.usefixtures("dns")
def test_N23_bootstrap_names_become_those_of_all_their_addresses(caplog: pytest.LogCaptureFixture) -> None:
    servers = {"bootstrap.servers": "kafka:9092,a.kafka:9092,nowhere:9092"}
    assert bootstrap_of(ClientConfig.parse(servers, client_dns_lookup=CANONICAL)) == [("a.kafka", 9092), ("10.0.0.2", 9092)]
    assert "left out: nowhere:9092: [Errno -2] Name or service not known" in caplog.text
    assert bootstrap_of(ClientConfig.parse(servers)) == (("kafka", 9092), ("a.kafka", 9092), ("nowhere", 9092))


@pytest.mark.usefixtures("dns")
def test_N24_a_name_at_least_has_to_be_resolvable() -> None:
    config = ClientConfig.parse({"bootstrap.servers": "nowhere:9092"}, client_dns_lookup=CANONICAL)
    with pytest.raises(ConfigError, match=r"client\.dns\.lookup=resolve_.*nowhere:9092: .*not known"):
        bootstrap_of(config)
