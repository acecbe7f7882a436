"""Brokers that close the connection at a version of ApiVersions that they do not know, instead of answering UNSUPPORTED_VERSION."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from levada.client.network.connection_key import ConnectionKey, Purpose
from levada.client.requests.request import api_versions
from levada.errors import BootstrapError, TimeoutError
from levada.protocol.frame import RequestFrame
from levada.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from levada.protocol.messages.metadata import MetadataRequest
from levada.testing import Simulation
from log_lines import said
from sim_kit import SPOKEN, ScriptedServer, SimClient, asking, server, versions_reply

NEWEST = ApiVersionsRequest.MAX_VERSION
OWN = ApiVersionsRequest.API_KEY


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(seed=15) as sim:
        yield sim


def hangs_up_above(sim: Simulation, newest: int, says: int | None = None) -> ScriptedServer:
    """A broker that closes the connection at any version of ApiVersions above `newest`. says: what it tells of itself."""
    spoken = {**SPOKEN, OWN: (0, newest if says is None else says)}

    def answer(frame: RequestFrame) -> ApiVersionsResponse | None:
        if frame.version <= newest:
            return versions_reply(spoken)
        kafka.hang_up(kafka.connected[-1])
        return None

    kafka = server(sim, {ApiVersionsRequest: answer})
    return kafka


def asked_with(kafka: ScriptedServer) -> list[int]:
    """Return the versions of ApiVersions that it was asked with, without the same one again."""
    versions = [frame.version for frame in kafka.asked if isinstance(frame.request, ApiVersionsRequest)]
    return [version for number, version in enumerate(versions) if number == 0 or version != versions[number - 1]]


@pytest.mark.parametrize(("newest", "asked"), [(3, [NEWEST, 3]), (2, [NEWEST, 3, 0])])
def test_an_older_version_is_asked_for_until_there_is_an_answer(sim: Simulation, newest: int, asked: list[int]) -> None:
    kafka = hangs_up_above(sim, newest)
    client = SimClient(sim)
    client.ask(MetadataRequest(topics=[]))
    assert asked_with(kafka) == asked


def test_the_version_that_was_answered_is_kept_for_the_address(sim: Simulation) -> None:
    kafka = hangs_up_above(sim, 3)
    client = SimClient(sim)
    client.ask(MetadataRequest(topics=[]))
    kafka.asked.clear()
    for _ in range(3):
        kafka.hang_up(kafka.connected[-1])
        sim.advance(2_000)
        client.ask(MetadataRequest(topics=[]))
    assert asked_with(kafka) == [3]


def test_one_connection_that_ends_proves_nothing(sim: Simulation) -> None:
    """A broker that is stopped ends connections as well."""
    kafka = server(sim)
    kafka.handlers[ApiVersionsRequest] = lambda frame: (
        kafka.hang_up(kafka.connected[-1]) if len(kafka.connected) == 1 else versions_reply({**SPOKEN, OWN: (0, NEWEST)})
    )
    client = SimClient(sim)
    client.ask(MetadataRequest(topics=[]))
    assert asked_with(kafka) == [NEWEST]
    assert len(kafka.connected) > 1


def test_version_0_is_not_kept_where_the_broker_knows_newer_ones(sim: Simulation) -> None:
    """Version 0 tells no features: a client would use the transactions of old brokers for as long as it lives."""
    kafka = hangs_up_above(sim, 0, says=NEWEST)
    client = SimClient(sim)
    client.ask(MetadataRequest(topics=[]))
    assert asked_with(kafka) == [NEWEST, 3, 0]
    kafka.handlers[ApiVersionsRequest] = lambda frame: versions_reply({**SPOKEN, OWN: (0, NEWEST)})
    kafka.asked.clear()
    kafka.hang_up(kafka.connected[-1])
    sim.advance(2_000)
    client.ask(MetadataRequest(topics=[]))
    assert asked_with(kafka) == [NEWEST]


def test_a_client_that_does_not_wait_tries_each_version(sim: Simulation) -> None:
    """bootstrap.wait=false gives an address up at its first failure otherwise."""
    kafka = hangs_up_above(sim, 0)
    SimClient(sim, bootstrap_wait=False).ask(MetadataRequest(topics=[]))
    assert asked_with(kafka) == [NEWEST, 3, 0]


def test_a_client_that_does_not_wait_gives_up_once_no_version_was_answered(sim: Simulation) -> None:
    kafka, began = hangs_up_above(sim, -1), sim.now_ms
    with pytest.raises(BootstrapError, match="before it answered ApiVersions"):
        SimClient(sim, bootstrap_wait=False).ask(MetadataRequest(topics=[]), timeout_s=60)
    assert asked_with(kafka) == [NEWEST, 3, 0]
    assert sim.now_ms - began < 30_000


@pytest.mark.parametrize(("newest", "says"), [(3, NEWEST), (3, 3), (0, NEWEST)])
def test_what_a_program_asks_is_asked_with_a_version_that_was_answered(sim: Simulation, newest: int, says: int) -> None:
    """As KafkaClient.api_versions(), describe_features() and `levada doctor` do."""
    kafka = hangs_up_above(sim, newest, says)
    client = SimClient(sim)
    client.ask(MetadataRequest(topics=[]))
    spoken = client.driver.run(api_versions(), 60, "ApiVersions request")
    assert spoken["ApiVersions"] == (0, says)
    assert kafka.asked[-1].version == newest


def test_nobody_is_warned_of_versions_that_were_not_answered_once_one_was(sim: Simulation, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    hangs_up_above(sim, 0)
    SimClient(sim).ask(MetadataRequest(topics=[]))
    assert said(caplog.records) == []


@pytest.mark.parametrize("waits", [True, False])
def test_a_warning_follows_when_no_version_was_answered(sim: Simulation, caplog: pytest.LogCaptureFixture, waits: bool) -> None:
    kafka = hangs_up_above(sim, -1)
    with pytest.raises((BootstrapError, TimeoutError)):
        SimClient(sim, bootstrap_wait=waits).ask(MetadataRequest(topics=[]), timeout_s=60)
    assert asked_with(kafka)[:3] == [NEWEST, 3, 0]
    told = said(caplog.records, logging.WARNING)
    assert len(told) == waits, "a client that does not wait says it in its error"
    assert all("before it answered ApiVersions" in line for line in told)


@pytest.mark.parametrize(("events", "then"), [(1, NEWEST), (2, 3), (3, 3), (4, 0)])
def test_connections_that_end_together_are_one_event(sim: Simulation, events: int, then: int) -> None:
    """A load balancer that restarts ends all connections at once, whatever they asked with."""
    kafka = server(sim)
    client = SimClient(sim, reconnect_backoff_ms=1_000, reconnect_backoff_max_ms=1_000)
    client.ask(MetadataRequest(topics=[]))
    purposes = (Purpose.COORDINATOR, Purpose.FETCH)
    asked: list[int] = []

    def answer(frame: RequestFrame) -> ApiVersionsResponse | None:
        asked.append(frame.version)
        if len(asked) > len(purposes) * events:
            return versions_reply()
        if len(asked) % len(purposes) == 0:
            for connection in kafka.connected[-len(purposes) :]:
                kafka.hang_up(connection)
        return None

    kafka.handlers[ApiVersionsRequest] = answer
    for _ in range(events + 1):
        calls = [client.start(asking(MetadataRequest(topics=[]), ConnectionKey(1, purpose))) for purpose in purposes]
        sim.advance(2_000)
    assert [call.error for call in calls] == [None] * len(calls)
    assert set(asked[len(purposes) * events :]) == {then}
