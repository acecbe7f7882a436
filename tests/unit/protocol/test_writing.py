from __future__ import annotations

import array
from typing import Any

import pytest

from levada.errors import UnsupportedVersionError, UnwritableError
from levada.protocol.codegen import encode
from levada.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from levada.protocol.messages.create_topics import CreateTopicsRequest
from levada.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from levada.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
    ReplicaState,
)
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.protocol.schema import Message


def test_W9_an_ignorable_field_that_the_version_lacks_is_dropped() -> None:
    named = ApiVersionsRequest(client_software_name="levada", client_software_version="1")

    assert encode(named, 0) == b""
    assert encode(FetchRequest(rack_id="r", session_id=4), 4) == encode(FetchRequest(), 4)


@pytest.mark.parametrize(
    ("message", "version", "field"),
    [
        (ProduceRequest(transactional_id="x"), 2, "transactional_id"),
        (CreateTopicsRequest(validate_only=True), 0, "validate_only"),
        (MetadataRequest(allow_auto_topic_creation=False), 3, "allow_auto_topic_creation"),
        (MetadataRequest(include_cluster_authorized_operations=True), 11, "include_cluster_authorized_operations"),
        (DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), 5, "topics"),
        (InitProducerIdRequest(producer_id=4), 2, "producer_id"),
        (InitProducerIdRequest(enable_2pc=True), 5, "enable_2pc"),
        (FetchRequest(replica_id=3), 15, "replica_id"),
        (FetchRequest(replica_state=ReplicaState(replica_id=3)), 14, None),
        (
            ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(max_num_offsets=2)])]),
            1,
            "topics.partitions.max_num_offsets",
        ),
        (
            FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(preferred_read_replica=1)])]),
            10,
            "responses.partitions.preferred_read_replica",
        ),
        (
            FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(diverging_epoch=EpochEndOffset(epoch=1))])]),
            11,
            "responses.partitions.diverging_epoch",
        ),
    ],
)
def test_W9_any_other_field_that_the_version_lacks_is_refused_by_name(message: Message, version: int, field: str | None) -> None:
    expected = f"{type(message).__name__} v{version} has no field {field or 'replica_state'}, which was set"

    with pytest.raises(UnsupportedVersionError, match=expected):
        encode(message, version)


@pytest.mark.parametrize(
    ("message", "version", "field"),
    [
        (MetadataRequest(topics=None), 0, "topics"),
        (MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 9, "topics.name"),
        (CreateTopicsRequest(topics=None), 5, "topics"),  # type: ignore[arg-type]
        (ProduceRequest(acks=None), 9, "acks .. timeout_ms"),  # type: ignore[arg-type]
        (FetchResponse(node_endpoints=None), 16, "node_endpoints"),  # type: ignore[arg-type]
    ],
)
def test_W2_null_where_it_is_not_allowed_is_not_written(message: Message, version: int, field: str) -> None:
    with pytest.raises(UnwritableError, match=f"^{type(message).__name__} v{version} cannot be written, in {field}: "):
        encode(message, version)


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (ProduceRequest(acks=1 << 15), "acks"),
        (ProduceRequest(timeout_ms=-(1 << 31) - 1), "acks .. "),
        (ProduceRequest(acks="all"), "acks"),  # type: ignore[arg-type]
        (ProduceRequest(transactional_id="\ud800"), "transactional_id"),
        (ProduceRequest(transactional_id=b"x"), "transactional_id"),  # type: ignore[arg-type]
        (ProduceRequest(transactional_id="x" * 32768), "transactional_id"),
        (ProduceRequest(topic_data=[TopicProduceData(partition_data=[PartitionProduceData(records="text")])]), "topic_data"),  # type: ignore[arg-type]
        (ProduceRequest(topic_data=[None]), "topic_data"),  # type: ignore[list-item]
    ],
)
@pytest.mark.parametrize("version", [3, 9])
def test_what_the_wire_cannot_carry_is_refused_by_field(message: Message, version: int, field: str) -> None:
    with pytest.raises(UnwritableError, match=f"^ProduceRequest v{version} cannot be written, in .*{field}"):
        encode(message, version)


@pytest.mark.parametrize(("cls", "version"), [(ProduceRequest, 14), (ProduceRequest, -1), (FetchResponse, 19)])
def test_H7_a_version_that_the_api_does_not_have_is_refused(cls: type[Message], version: int) -> None:
    with pytest.raises(UnsupportedVersionError, match=f"{cls.__name__} has versions 0 to "):
        encode(cls(), version)


def test_W7_a_tagged_field_at_its_default_is_not_written() -> None:
    assert encode(ApiVersionsResponse(), 3).hex() == "0000" + "01" + "00000000" + "00"


def test_W1_any_value_but_false_is_written_as_one() -> None:
    truthy: Any = 7

    assert encode(CreateTopicsRequest(validate_only=truthy), 1)[-1:] == b"\x01"


@pytest.mark.parametrize("version", [3, 9])
def test_W10_records_may_be_any_buffer(version: int) -> None:
    def request(records: Any) -> ProduceRequest:
        return ProduceRequest(topic_data=[TopicProduceData(partition_data=[PartitionProduceData(records=records)])])

    expected = encode(request(b"\x01\x00\x02\x00"), version)

    for records in (bytearray(b"\x01\x00\x02\x00"), memoryview(b"\x01\x00\x02\x00"), memoryview(array.array("H", b"\x01\x00\x02\x00"))):
        assert encode(request(records), version) == expected


def test_a_tuple_serves_as_a_list() -> None:
    names: Any = ("a", "b")

    assert encode(DeleteTopicsRequest(topic_names=names), 1) == encode(DeleteTopicsRequest(topic_names=["a", "b"]), 1)
