"""Rules of the network client and its metadata that a server sees, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from levada.base.flow import Flow, Wait
from levada.client.setup.flow import FIRST_RESERVED_CORRELATION_ID
from levada.errors import UnsupportedVersionError, UnwritableError
from levada.protocol.frame import RequestFrame
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.fetch import FetchRequest
from levada.protocol.messages.metadata import MetadataRequest
from levada.testing import Simulation
from log_lines import said
from sim_kit import SPOKEN, ScriptedServer, SimClient, broker, one_node, server, versions_reply


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(seed=3) as sim:
        yield sim


def silent(frame: RequestFrame) -> None:
    return None


def asked_for_metadata(kafka: ScriptedServer) -> int:
    return kafka.count(MetadataRequest)


def test_H5_correlation_ids_begin_anew_before_those_that_java_reserves(sim: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    assert FIRST_RESERVED_CORRELATION_ID == 2_147_483_640
    monkeypatch.setattr("levada.client.network.network_client.FIRST_RESERVED_CORRELATION_ID", 6)
    kafka = server(sim)
    client = SimClient(sim)
    for _ in range(20):
        client.ask(MetadataRequest())
    ids = [frame.correlation_id for frame in kafka.asked if isinstance(frame.request, MetadataRequest)]
    assert set(ids) == set(range(6))
    assert len(kafka.connected) <= 2, "an answer was not recognised"


def test_D9_one_metadata_request_is_in_progress_at_a_time(sim: Simulation) -> None:
    kafka = server(sim, {MetadataRequest: silent})
    client = SimClient(sim, request_timeout_ms=30_000)
    for _ in range(5):
        sim.advance(5_000)
        client.metadata.request_update()
    assert asked_for_metadata(kafka) == 1
    sim.advance(30_000)
    assert asked_for_metadata(kafka) == 2


def test_D12_a_metadata_request_that_cannot_be_written_fails_who_waits(sim: Simulation) -> None:
    """It counts as no answer otherwise, and everybody would wait until their time is over."""
    kafka = server(sim)
    client = SimClient(sim)
    assert client.updated()
    before = asked_for_metadata(kafka)
    client.metadata.set_topics(["t", "\ud800"], sim.now_ms)
    update = client.metadata.await_update(client.metadata.version)
    assert sim.run_until(update, 100)
    assert isinstance(update.error, UnwritableError)
    assert "cannot be written, in topics.name" in str(update.error)
    assert asked_for_metadata(kafka) == before
    client.metadata.set_topics(["t"], sim.now_ms)
    assert client.updated(within_ms=5_000)


def test_D11_metadata_is_asked_for_after_every_unexpected_disconnect(sim: Simulation) -> None:
    kafka = server(sim)
    client = SimClient(sim)
    assert client.updated()
    client.ask(MetadataRequest(), node=1)
    sim.advance(60_000)
    before = asked_for_metadata(kafka)
    sim.advance(60_000)
    assert asked_for_metadata(kafka) == before
    for conn_id in kafka.connected:
        kafka.hang_up(conn_id)
    sim.advance(5_000)
    assert asked_for_metadata(kafka) == before + 1


def test_M_B11_a_thousand_unknown_apis_and_an_inverted_range_do_no_harm(sim: Simulation) -> None:
    fetch = FetchRequest.API_KEY
    spoken = {**SPOKEN, fetch: (9, 2), **dict.fromkeys(range(500, 1500), (0, 3))}
    kafka = server(sim, {ApiVersionsRequest: lambda frame: versions_reply(spoken)})
    client = SimClient(sim)
    assert client.ask(MetadataRequest()).brokers
    with pytest.raises(UnsupportedVersionError, match="Fetch"):
        client.ask(FetchRequest(), node=1)
    assert kafka.count(FetchRequest) == 0


def test_M_B11_a_broker_that_was_downgraded_is_asked_in_its_new_versions(sim: Simulation) -> None:
    spoken = {**SPOKEN, MetadataRequest.API_KEY: (0, 12)}
    kafka = server(sim, {ApiVersionsRequest: lambda frame: versions_reply(spoken)})
    client = SimClient(sim)
    assert client.updated()
    client.ask(MetadataRequest(), node=1)
    spoken[MetadataRequest.API_KEY] = (0, 5)
    for conn_id in kafka.connected:
        kafka.hang_up(conn_id)
    sim.advance(5_000)
    before = len(kafka.asked)
    client.ask(MetadataRequest(), node=1)
    metadata = [(at < before, frame.version) for at, frame in enumerate(kafka.asked) if isinstance(frame.request, MetadataRequest)]
    assert metadata[0] == (True, 12)
    assert metadata[-1] == (False, 5)


def test_metadata_that_a_flow_asks_for_within_a_pause_comes_when_the_pause_is_over(sim: Simulation) -> None:
    broker(sim)
    client = SimClient(sim)

    def refreshes() -> Flow[None]:
        for _ in range(3):
            yield Wait(client.metadata.refreshed())

    begun_ms = sim.now_ms
    client.driver.run(refreshes(), 60, "three refreshes")
    assert sim.now_ms - begun_ms < 1_000


def test_D21_an_address_that_leads_to_another_cluster_is_told(sim: Simulation, caplog: pytest.LogCaptureFixture) -> None:
    clusters = ["a", "a", "b", None, "b"]
    server(sim, {MetadataRequest: lambda frame: one_node(cluster_id=clusters.pop(0))})
    client = SimClient(sim)
    for _ in range(5):
        client.metadata.request_update()
        assert client.updated()
    (warning,) = said(caplog.records)
    assert warning.startswith("kafka:9092 belongs to cluster b, the brokers known so far to cluster a;")
    assert client.metadata.snapshot.cluster_id == "b"


def test_M_D18_what_a_broker_calls_itself_cannot_forge_a_line_of_the_log(sim: Simulation, caplog: pytest.LogCaptureFixture) -> None:
    clusters = ["a", "b\r\n2026-11-22 ERROR all records were deleted\x1b[2J\u202e"]
    server(sim, {MetadataRequest: lambda frame: one_node(cluster_id=clusters.pop(0))})
    client = SimClient(sim)
    for _ in range(2):
        client.metadata.request_update()
        assert client.updated()
    (warning,) = said(caplog.records)
    assert r"belongs to cluster b\r\n2026-11-22 ERROR all records were deleted\x1b[2J\u202e, the brokers" in warning
    assert not [line for line in caplog.text.splitlines() if line.startswith("2026-11-22")]
