"""Reading from the replica in the reader's rack (KIP-392)."""

from __future__ import annotations

from typing import Any

import pytest

from broker_kit import fetch_request, only_partition
from levada.broker.config.settings import RACK_AWARE, BrokerSettings
from levada.error_codes import ErrorCode
from levada.errors import ConfigError
from levada.protocol.messages.fetch import FetchRequest, PartitionData
from levada.record.memory_records import read_batches
from levada.types import Node
from replica_kit import Trio

RACKS = {1: "a", 2: "b", 3: "c"}


@pytest.fixture
def trio() -> Trio:
    """Three nodes, each in a rack of its own; node 1 leads and has two records."""
    made = Trio(replica_selector_class=RACK_AWARE)
    for node, rack in RACKS.items():
        made.cluster.join(Node(node, f"b{node}", 9092, rack))
    for value in (b"a", b"b"):
        made.produce(value)
    return made


def request(rack: str, offset: int = 0, **options: Any) -> FetchRequest:
    made = fetch_request("t", offset, **options)
    made.rack_id = rack
    return made


def ask(trio: Trio, node: int, rack: str, offset: int = 0, version: int = 12) -> PartitionData:
    return only_partition(trio.clients[node].ask(request(rack, offset), version))


def values(data: PartitionData) -> list[bytes | None]:
    return [record.value for batch in read_batches(data.records or b"") for record in batch.records()]


def test_the_leader_names_the_replica_in_the_readers_rack_and_sends_nothing(trio: Trio) -> None:
    data = ask(trio, 1, "b")
    assert (data.error_code, data.preferred_read_replica, values(data), data.high_watermark) == (0, 2, [], 2)


def test_that_replica_is_read(trio: Trio) -> None:
    data = ask(trio, 2, "b")
    assert (data.error_code, data.preferred_read_replica, values(data), data.high_watermark) == (0, -1, [b"a", b"b"], 2)


@pytest.mark.parametrize("rack", ["", "a", "unknown"])
def test_a_reader_without_a_replica_in_its_rack_reads_from_the_leader(trio: Trio, rack: str) -> None:
    data = ask(trio, 1, rack)
    assert (data.preferred_read_replica, values(data)) == (-1, [b"a", b"b"])


def test_an_answer_that_names_a_replica_does_not_wait(trio: Trio) -> None:
    trio.leader.send(request("b", 2, max_wait_ms=60_000), 12)
    (answer,) = trio.leader.answers()
    assert only_partition(answer).preferred_read_replica == 2


def test_a_session_names_the_replica_again_though_nothing_else_is_new(trio: Trio) -> None:
    begins, again = request("b", 2), request("b", 2)
    begins.session_epoch = 0
    first = trio.leader.ask(begins, 12)
    again.session_id, again.session_epoch = first.session_id, 1
    assert first.session_id and only_partition(first).preferred_read_replica == 2
    assert only_partition(trio.leader.ask(again, 12)).preferred_read_replica == 2


def test_a_replica_that_is_not_in_sync_or_down_is_not_named(trio: Trio) -> None:
    trio.cluster.pause_replication(2)
    trio.cluster.stop_node(3)
    trio.advance(31_000)
    trio.produce(b"c")
    trio.advance(60_000)
    assert 2 not in trio.partition.isr
    assert [ask(trio, 1, rack).preferred_read_replica for rack in "bc"] == [-1, -1]


def test_a_follower_that_lags_knows_only_what_it_has(trio: Trio) -> None:
    trio.cluster.pause_replication(2)
    trio.produce(b"c")
    assert values(ask(trio, 2, "b")) == [b"a", b"b"]
    assert ask(trio, 2, "b", 3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert ask(trio, 1, "b", 3).preferred_read_replica == -1


def test_who_waits_at_a_follower_is_woken_by_an_append(trio: Trio) -> None:
    follower = trio.clients[2]
    follower.send(request("b", 2, max_wait_ms=60_000), 12)
    assert follower.answers() == []
    trio.produce(b"c")
    trio.advance()
    (answer,) = follower.answers()
    assert values(only_partition(answer)) == [b"c"]


def test_versions_without_a_rack_read_from_the_leader_only(trio: Trio) -> None:
    assert values(ask(trio, 1, "b", version=10)) == [b"a", b"b"]
    assert ask(trio, 2, "b", version=10).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_without_a_selector_only_leaders_are_read() -> None:
    made = Trio()
    assert only_partition(made.clients[2].ask(request("b"), 12)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(ConfigError, match="replica_selector_class"):
        BrokerSettings.of(replica_selector_class="nearest")
