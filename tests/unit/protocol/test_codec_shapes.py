"""Where generated code takes another way: few numbers and many, lengths of one, two and three bytes, large messages."""

from __future__ import annotations

import gc
from array import array
from typing import Any

import pytest

from levada.errors import ProtocolError, TruncatedError
from levada.protocol.codegen import decode, encode
from levada.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from levada.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from levada.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

COUNTS = [0, 1, 7, 8, 9, 126, 127, 128, 129, 16_383, 16_384]


@pytest.mark.parametrize("version", [5, 12])
@pytest.mark.parametrize("count", COUNTS)
def test_W3_any_count_of_numbers_is_read_back(version: int, count: int) -> None:
    partition = MetadataResponsePartition(replica_nodes=list(range(count)), isr_nodes=[-1] * count, offline_replicas=[])
    message = MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=[partition])])
    data = encode(message, version)

    assert decode(MetadataResponse, data, version) == (message, len(data))


@pytest.mark.parametrize("count", [7, 8, 9, 126, 127])
def test_W3_numbers_that_are_cut_off_are_refused(count: int) -> None:
    partition = MetadataResponsePartition(replica_nodes=[], isr_nodes=[], offline_replicas=list(range(count)))
    data = encode(MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=[partition])]), 5)

    with pytest.raises(TruncatedError, match=r"MetadataResponse v5, at byte \d+, in topics.partitions.offline_replicas"):
        decode(MetadataResponse, data[:-2], 5)


@pytest.mark.parametrize("version", [11, 16])
@pytest.mark.parametrize("size", COUNTS)
def test_W5_records_of_any_size_are_read_back(version: int, size: int) -> None:
    message = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(records=b"r" * size)])])
    data = encode(message, version)

    assert decode(FetchResponse, data, version) == (message, len(data))


@pytest.mark.parametrize("size", [126, 127, 128, 16_383, 16_384, 32_767])
def test_W4_text_of_any_size_is_read_back(size: int) -> None:
    message = ListPartitionReassignmentsRequest(topics=[ListPartitionReassignmentsTopics(name="t" * size, partition_indexes=[1])])
    data = encode(message, 0)

    assert decode(ListPartitionReassignmentsRequest, data, 0) == (message, len(data))


@pytest.mark.parametrize("version", [8, 12])
@pytest.mark.parametrize("records", [b"abcd", bytearray(b"abcd"), memoryview(b"abcd"), memoryview(b"axbxcxdx")[::2], array("H", b"abcd")])
def test_W10_records_may_be_any_bytes(version: int, records: Any) -> None:
    def message(records: Any) -> ProduceRequest:
        return ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(records=records)])])

    if isinstance(records, memoryview) and not records.c_contiguous:
        with pytest.raises(ProtocolError, match="records"):
            encode(message(records), version)
    else:
        assert encode(message(records), version) == encode(message(b"abcd"), version)


def test_W9_every_decoded_message_has_defaults_of_its_own() -> None:
    data = encode(FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(), PartitionData()])]), 16)
    (first, second), fresh = decode(FetchResponse, data, 16)[0].responses[0].partitions, decode(FetchResponse, data, 16)[0]

    first.diverging_epoch.epoch = 7

    assert second.diverging_epoch.epoch == fresh.responses[0].partitions[0].diverging_epoch.epoch == -1
    assert second == PartitionData()


def large_metadata() -> bytes:
    return encode(MetadataResponse(topics=[MetadataResponseTopic(name=f"topic-{number}") for number in range(3000)]), 12)


@pytest.mark.parametrize("wanted", [True, False])
def test_a_large_message_leaves_the_garbage_collector_as_it_was(wanted: bool) -> None:
    data = large_metadata()
    try:
        (gc.enable if wanted else gc.disable)()

        decode(MetadataResponse, data, 12)
        after = gc.isenabled()
        with pytest.raises(TruncatedError):
            decode(MetadataResponse, data[:-1], 12)

        assert (after, gc.isenabled()) == (wanted, wanted)
    finally:
        gc.enable()


def test_the_garbage_collector_stays_away_while_a_large_message_is_read() -> None:
    data = large_metadata()
    before = collections()

    message, _ = decode(MetadataResponse, data, 12)

    # The one that was due at its end; thousands of objects are worth several.
    assert collections() - before <= 1
    assert len(message.topics) == 3000


@pytest.fixture
def paused(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Has an entry for each time that the garbage collector is turned off."""
    seen: list[str] = []
    monkeypatch.setattr(gc, "disable", lambda: seen.append("off"))
    return seen


def a_fetch_response(topics: int, size: int) -> bytes:
    parts = [PartitionData(records=bytes(size))]
    return encode(FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=parts) for _ in range(topics)]), 11)


@pytest.mark.parametrize(("topics", "size", "times"), [(63, 20_000, 0), (64, 900, 0), (64, 20_000, 1), (1000, 100, 1)])
def test_the_garbage_collector_is_kept_out_of_many_structs_only_and_not_of_many_bytes(
    paused: list[str], topics: int, size: int, times: int
) -> None:
    decode(FetchResponse, a_fetch_response(topics, size), 11)
    assert len(paused) == times


def collections() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())
