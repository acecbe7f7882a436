"""Messages beside their bytes, derived by hand from the protocol's description: one line per field."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

import pytest

from levada.protocol.codegen import decode, encode
from levada.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey
from levada.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from levada.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from levada.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    LeaderIdAndEpoch,
    PartitionData,
    ReplicaState,
)
from levada.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from levada.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from levada.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from levada.protocol.messages.produce import (
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from levada.protocol.schema import Message

TOPIC_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")


class Vector(NamedTuple):
    name: str
    version: int
    message: Message
    hex: str


VECTORS = [
    Vector(
        "V3 a seed-era produce request",
        0,
        ProduceRequest(
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=3, records=b"\x01\x02")])],
        ),
        "ffff  000003e8  00000001  0001 74  00000001  00000003  00000002 0102",
    ),
    Vector(
        "Produce 3 puts the transactional id first",
        3,
        ProduceRequest(acks=1, timeout_ms=1, topic_data=[]),
        "ffff  0001  00000001  00000000",
    ),
    Vector(
        "Produce 9 is compact, with a tag section after every struct",
        9,
        ProduceRequest(
            transactional_id="x",
            topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=3, records=None)])],
        ),
        "02 78  0000  00000000  02  02 74  02  00000003  00  00  00  00",
    ),
    Vector(
        "Produce 13 names the topic by id",
        13,
        ProduceRequest(topic_data=[TopicProduceData(topic_id=TOPIC_ID, partition_data=[PartitionProduceData(records=b"r" * 127)])]),
        "00 0000 00000000 02 00112233445566778899aabbccddeeff 02 00000000 8001" + "72" * 127 + "00 00 00",
    ),
    Vector(
        "a seed-era produce response",
        0,
        ProduceResponse(
            responses=[TopicProduceResponse(name="t", partition_responses=[PartitionProduceResponse(index=1, error_code=6, base_offset=7)])]
        ),
        "00000001  0001 74  00000001  00000001 0006 0000000000000007",
    ),
    Vector(
        "Produce response 2 has the append time after the offset, and the throttle time at the end",
        2,
        ProduceResponse(
            responses=[TopicProduceResponse(name="t", partition_responses=[PartitionProduceResponse(base_offset=7, log_append_time_ms=8)])],
            throttle_time_ms=9,
        ),
        "00000001  0001 74  00000001  00000000 0000 0000000000000007 0000000000000008  00000009",
    ),
    Vector(
        "Produce response 10 hints at the leader in tags",
        10,
        ProduceResponse(
            responses=[TopicProduceResponse(name="t", partition_responses=[PartitionProduceResponse(error_code=6)])],
            node_endpoints=[NodeEndpoint(node_id=2, host="h", port=9092)],
        ),
        "02  02 74  02  00000000 0006 0000000000000000 ffffffffffffffff ffffffffffffffff 01 00  00  00"
        "  00000000  01  00 0d  02  00000002 02 68 00002384 00 00",
    ),
    Vector(
        "a seed-era fetch request",
        0,
        FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=2, fetch_offset=10, partition_max_bytes=1024)])],
        ),
        "ffffffff  000001f4  00000001  00000001  0001 74  00000001  00000002 000000000000000a 00000400",
    ),
    Vector(
        "Fetch 11 has sessions, forgotten topics and the rack",
        11,
        FetchRequest(
            session_id=5,
            session_epoch=6,
            isolation_level=1,
            forgotten_topics_data=[ForgottenTopic(topic="f", partitions=[1, 2])],
            rack_id="r",
        ),
        "ffffffff 00000000 00000000 7fffffff 01 00000005 00000006 00000000  00000001 0001 66 00000002 00000001 00000002  0001 72",
    ),
    Vector(
        "Fetch 17 asks by topic id; who asks is in a tag",
        17,
        FetchRequest(
            cluster_id="c",
            replica_state=ReplicaState(replica_id=1, replica_epoch=2),
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[FetchPartition(partition=1, replica_directory_id=TOPIC_ID)])],
        ),
        "00000000 00000000 7fffffff 00 00000000 ffffffff"
        "  02 00112233445566778899aabbccddeeff"
        "  02 00000001 ffffffff 0000000000000000 ffffffff ffffffffffffffff 00000000  01 00 10 00112233445566778899aabbccddeeff"
        "  00  01  01"
        "  02  00 02 02 63  01 0d 00000001 0000000000000002 00",
    ),
    Vector(
        "a seed-era fetch response",
        0,
        FetchResponse(
            responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData(partition_index=1, high_watermark=9, records=b"\x07")])]
        ),
        "00000001  0001 74  00000001  00000001 0000 0000000000000009 00000001 07",
    ),
    Vector(
        "Fetch response 1 begins with the throttle time",
        1,
        FetchResponse(throttle_time_ms=4),
        "00000004 00000000",
    ),
    Vector(
        "Fetch response 12 knows aborted transactions, the preferred replica and the leader",
        12,
        FetchResponse(
            session_id=5,
            responses=[
                FetchableTopicResponse(
                    topic="t",
                    partitions=[
                        PartitionData(
                            aborted_transactions=[AbortedTransaction(producer_id=1, first_offset=2)],
                            current_leader=LeaderIdAndEpoch(leader_id=3, leader_epoch=4),
                        )
                    ],
                )
            ],
        ),
        "00000000 0000 00000005  02  02 74  02"
        "  00000000 0000 0000000000000000 ffffffffffffffff ffffffffffffffff"
        "  02 0000000000000001 0000000000000002 00  ffffffff  00"
        "  01 01 09 00000003 00000004 00"
        "  00  00",
    ),
    Vector(
        "ListOffsets 0 asks for a number of offsets",
        0,
        ListOffsetsRequest(
            replica_id=-1,
            topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=1, timestamp=-2, max_num_offsets=3)])],
        ),
        "ffffffff  00000001  0001 74  00000001  00000001 fffffffffffffffe 00000003",
    ),
    Vector(
        "ListOffsets response 0 answers with a list",
        0,
        ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name="t", partitions=[ListOffsetsPartitionResponse(old_style_offsets=[9, 0])])]
        ),
        "00000001  0001 74  00000001  00000000 0000  00000002 0000000000000009 0000000000000000",
    ),
    Vector(
        "V12 ListOffsets response 1 answers with one offset",
        1,
        ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[ListOffsetsPartitionResponse(timestamp=5, offset=6)])]),
        "00000001  0001 74  00000001  00000000 0000 0000000000000005 0000000000000006",
    ),
    Vector(
        "a seed-era metadata response",
        0,
        MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="h", port=9092)],
            topics=[
                MetadataResponseTopic(
                    name="t",
                    partitions=[MetadataResponsePartition(partition_index=2, leader_id=1, replica_nodes=[1, 3], isr_nodes=[1])],
                )
            ],
        ),
        "00000001  00000001 0001 68 00002384"
        "  00000001  0000 0001 74  00000001  0000 00000002 00000001  00000002 00000001 00000003  00000001 00000001",
    ),
    Vector("Metadata 0 asks for all topics by an empty list", 0, MetadataRequest(topics=[]), "00000000"),
    Vector("Metadata 1 asks for all topics by null", 1, MetadataRequest(topics=None), "ffffffff"),
    Vector(
        "Metadata 12 asks by id with a null name",
        12,
        MetadataRequest(topics=[MetadataRequestTopic(topic_id=TOPIC_ID, name=None)], allow_auto_topic_creation=False),
        "02  00112233445566778899aabbccddeeff 00 00  00  00  00",
    ),
    Vector(
        "CreateTopics 2",
        2,
        CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name="t",
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1])],
                    configs=[CreatableTopicConfig(name="k", value=None)],
                )
            ],
            timeout_ms=1,
            validate_only=True,
        ),
        "00000001  0001 74 ffffffff ffff  00000001 00000000 00000001 00000001  00000001 0001 6b ffff  00000001 01",
    ),
    Vector(
        "CreateTopics response 7 tells why there are no configs in a tag",
        7,
        CreateTopicsResponse(topics=[CreatableTopicResult(name="t", topic_id=TOPIC_ID, topic_config_error_code=29)]),
        "00000000  02  02 74 00112233445566778899aabbccddeeff 0000 00 ffffffff ffff 00  01 00 02 001d  00",
    ),
    Vector("DeleteTopics 1 has names", 1, DeleteTopicsRequest(topic_names=["a"], timeout_ms=2), "00000001 0001 61 00000002"),
    Vector(
        "DeleteTopics 6 has names or ids",
        6,
        DeleteTopicsRequest(topics=[DeleteTopicState(name="a")]),
        "02  02 61 00000000000000000000000000000000 00  00000000  00",
    ),
    Vector("InitProducerId 0", 0, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=5), "ffff 00000005"),
    Vector(
        "InitProducerId 3 may ask for the next epoch",
        3,
        InitProducerIdRequest(transaction_timeout_ms=5, producer_id=6, producer_epoch=7),
        "00 00000005 0000000000000006 0007 00",
    ),
    Vector(
        "InitProducerId response 0",
        0,
        InitProducerIdResponse(producer_id=6, producer_epoch=7),
        "00000000 0000 0000000000000006 0007",
    ),
    Vector("ApiVersions 0 is empty", 0, ApiVersionsRequest(), ""),
    Vector(
        "H8 ApiVersions 3 names the software",
        3,
        ApiVersionsRequest(client_software_name="levada", client_software_version="1"),
        "07 6c6576616461 02 31 00",
    ),
    Vector(
        "H9 ApiVersions response 0",
        0,
        ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)]),
        "0023 00000001 0012 0000 0004",
    ),
    Vector(
        "H12 ApiVersions response 3 has features in tags",
        3,
        ApiVersionsResponse(
            api_keys=[ApiVersion(api_key=0, max_version=11)],
            finalized_features_epoch=7,
            finalized_features=[FinalizedFeatureKey(name="transaction.version", max_version_level=2, min_version_level=2)],
        ),
        "0000  02 0000 0000 000b 00  00000000  02  01 08 0000000000000007  02 1a 02 14 7472616e73616374696f6e2e76657273696f6e 0002 0002 00",
    ),
]


@pytest.mark.parametrize("vector", VECTORS, ids=[f"{type(v.message).__name__} {v.name}" for v in VECTORS])
def test_the_bytes_are_those_of_the_specification(vector: Vector) -> None:
    data = bytes.fromhex(vector.hex)

    assert encode(vector.message, vector.version).hex() == data.hex()
    assert decode(type(vector.message), data, vector.version) == (vector.message, len(data))
