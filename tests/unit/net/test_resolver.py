"""Whose turn an address is."""

from __future__ import annotations

import socket

from levada.net.resolver import Address, Route, look_up

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
