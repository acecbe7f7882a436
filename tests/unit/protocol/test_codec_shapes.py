"""Where generated code takes another way: few numbers and many, lengths of one, two and three bytes, large messages."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from array import array
from collections.abc import Iterator
from typing import Any

import pytest

from levada.base.gil import has_gil
from levada.errors import ProtocolError, TruncatedError
from levada.protocol import untracked
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


@pytest.fixture
def hands_off(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fails whoever sets something of the process's garbage collector."""

    def refuse(*arguments: object) -> None:
        raise AssertionError("the garbage collector belongs to the program")

    enabled, threshold = gc.isenabled(), gc.get_threshold()
    for name in ("disable", "enable", "freeze", "unfreeze", "set_threshold", "collect"):
        monkeypatch.setattr(gc, name, refuse)
    yield
    assert (gc.isenabled(), gc.get_threshold()) == (enabled, threshold)


@pytest.mark.usefixtures("hands_off")
def test_a_large_message_leaves_the_garbage_collector_alone() -> None:
    data = large_metadata()
    message, _ = decode(MetadataResponse, data, 12)
    assert len(message.topics) == 3000
    with pytest.raises(TruncatedError):
        decode(MetadataResponse, data[:-1], 12)


FORKS_WHILE_READING = """
import gc, os, sys
from levada.protocol.codegen import decode, encode
from levada.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic

def fork(phase, _):
    if phase == "stop" and sys._getframe(1).f_code.co_name == "decode":
        gc.callbacks.remove(fork)
        child = os.fork()
        if not child:
            os._exit(10 + gc.isenabled())
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)

data = encode(MetadataResponse(topics=[MetadataResponseTopic(name=f"topic-{number}") for number in range(3000)]), 12)
gc.callbacks.append(fork)
decode(MetadataResponse, data, 12)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_while_a_large_message_is_read_has_its_garbage_collector() -> None:
    run = subprocess.run([sys.executable, "-c", FORKS_WHILE_READING], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["11"]


compiled = pytest.mark.skipif(not getattr(untracked, "__file__", "").endswith((".so", ".pyd")), reason="the collector is spoken to in C")


@compiled
def test_what_was_read_is_nothing_to_the_garbage_collector() -> None:
    message, _ = decode(FetchResponse, a_fetch_response(topics=1000, size=100), 11)
    topics = message.responses
    assert not any(map(gc.is_tracked, [topics, *topics]))
    assert not any(gc.is_tracked(topic.partitions) or gc.is_tracked(topic.partitions[0]) for topic in topics)
    # A view relies on being tracked when it is freed. Without the interpreter lock, records are bytes.
    assert gc.is_tracked(topics[0].partitions[0].records) is has_gil()


@compiled
@pytest.mark.parametrize("count", [1, 7, 8, 63, 64, 65, 129])
def test_the_last_of_an_array_is_untracked_like_the_first(count: int) -> None:
    data = encode(MetadataResponse(topics=[MetadataResponseTopic(name=f"topic-{number}") for number in range(count)]), 12)
    topics = decode(MetadataResponse, data, 12)[0].topics
    assert len(topics) == count
    assert [*map(gc.is_tracked, topics)] == [count < 8] * count
    topics.append(MetadataResponseTopic(name="another"))
    assert len(topics) == count + 1


@pytest.mark.skipif(not has_gil(), reason="without the interpreter lock, records are copied (ADR 64)")
def test_what_was_read_is_freed_with_its_last_reference() -> None:
    data = bytearray(a_fetch_response(topics=1000, size=100))
    message, _ = decode(FetchResponse, data, 11)
    with pytest.raises(BufferError):
        data.clear()
    del message
    data.clear()


def a_fetch_response(topics: int, size: int) -> bytes:
    parts = [PartitionData(records=bytes(size))]
    return encode(FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=parts) for _ in range(topics)]), 11)
