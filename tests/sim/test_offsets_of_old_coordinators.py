"""Committed offsets at coordinators before Kafka 2.5, which do not wait for transactions that may change them (KIP-447)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from levada.errors import UnsupportedVersionError
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from levada.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from levada.testing import Simulation
from levada.types import OffsetAndMetadata, TopicPartition
from sim_kit import HOST, PORT, ScriptedServer, server, versions_reply

SERVERS = f"{HOST}:{PORT}"
TP = TopicPartition("t", 0)


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(seed=5) as sim:
        yield sim


@pytest.fixture
def kafka_2_4(sim: Simulation) -> ScriptedServer:
    return server(
        sim,
        {
            ApiVersionsRequest: lambda frame: versions_reply({3: (0, 9), 9: (0, 6), 10: (0, 3), 18: (0, 3)}),
            FindCoordinatorRequest: lambda frame: FindCoordinatorResponse(node_id=1, host=HOST, port=PORT),
            OffsetFetchRequest: lambda frame: OffsetFetchResponse(
                topics=[
                    OffsetFetchResponseTopic(name="t", partitions=[OffsetFetchResponsePartition(partition_index=0, committed_offset=7)])
                ]
            ),
        },
    )


def test_O16_an_administrator_who_wants_stable_offsets_is_refused(sim: Simulation, kafka_2_4: ScriptedServer) -> None:
    with sim.admin(bootstrap_servers=SERVERS) as admin:
        why = r"group 'g' cannot wait for transactions .* since Kafka 2\.5; ask without require_stable"
        with pytest.raises(UnsupportedVersionError, match=why):
            admin.list_consumer_group_offsets("g", require_stable=True)
        with pytest.raises(UnsupportedVersionError, match=why):
            admin.list_consumer_group_offsets({"g": [TP]}, require_stable=True)
        assert not [frame for frame in kafka_2_4.asked if isinstance(frame.request, OffsetFetchRequest)]
        assert admin.list_consumer_group_offsets("g") == {TP: OffsetAndMetadata(7)}


def test_O16_a_reader_of_transactions_is_told_once_that_offsets_may_change(
    sim: Simulation, kafka_2_4: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    settings: dict[str, Any] = {"bootstrap_servers": SERVERS, "group_id": "g"}
    with sim.consumer(**settings, isolation_level="read_committed") as consumer:
        for _ in range(2):
            assert consumer.committed([TP]) == {TP: OffsetAndMetadata(7)}
    assert caplog.text.count("the committed offsets of group 'g' are used although an open transaction may change them") == 1
    caplog.clear()
    with sim.consumer(**settings) as consumer:
        assert consumer.committed([TP]) == {TP: OffsetAndMetadata(7)}
    assert "although an open transaction may change them" not in caplog.text
