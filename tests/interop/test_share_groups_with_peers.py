"""One share group with members of levada, of confluent-kafka and of Java's client (KIP-932)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import levada as lv
from share_peers import ConfluentShareMember, JavaShareMember, LevadaShareMember, Seen, ShareMember, new_share_group

PATIENCE_S = 60
NOT_JAVAS = {
    ("consumer-metrics", "metadata-age"),
    ("consumer-metrics", "requests-in-flight"),
    ("consumer-share-metrics", "records-unacknowledged"),
}
"""Metrics that only Java's admin client or producer has, and one of levada's own."""
RECORDS = 240


@pytest.fixture(params=["embedded", pytest.param("kafka44", marks=pytest.mark.kafka)])
def kafka(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.fixture
def members(kafka: Any, java_program: Callable[[str, str], Any], new_topic: Callable[..., str]) -> Iterator[tuple[str, list[Any]]]:
    topic, group = new_topic(kafka, 3), new_share_group(lv, kafka, share_delivery_count_limit="10")
    servers = kafka.bootstrap_servers
    with ExitStack() as closing:
        made: list[ShareMember] = [
            LevadaShareMember(servers, group, topic),
            ConfluentShareMember(servers, group, topic),
            JavaShareMember(java_program("ShareClients", "4.4.0"), servers, group, topic),
        ]
        for member in made:
            closing.callback(member.close)
        yield topic, made


@pytest.mark.kafka
def test_every_record_is_accepted_once_whoever_gets_it(kafka: Any, members: tuple[str, list[Any]]) -> None:
    topic, (ours, *peers) = members
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=0) as producer:
        for number in range(RECORDS):
            producer.send(topic, value=b"%d" % number, partition=number % 3)
            if number % 5 == 4:
                producer.flush()
    accepted: list[list[Seen]] = [[], [], []]
    deadline = time.monotonic() + PATIENCE_S
    released = 0
    while sum(map(len, accepted)) < RECORDS and time.monotonic() < deadline:
        if released < 50:
            released += len(ours.release_some())
        for at, member in enumerate((ours, *peers)):
            accepted[at] += member.poll()
    found = sorted(record for records in accepted for record in records)
    assert [(record.partition, record.offset) for record in found] == [(at, offset) for at in range(3) for offset in range(RECORDS // 3)]
    assert {int(record.value) for record in found} == set(range(RECORDS))
    assert ours.metrics() - peers[1].metrics() == NOT_JAVAS
    assert released, "ours has released some that others got"
    assert all(accepted), "every member has worked"
