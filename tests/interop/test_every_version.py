"""Every version of every API that levada and a broker share, asked of the broker on a bare socket."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from levada.broker.apis import SERVED, TELEMETRY
from levada.error_codes import ErrorCode
from levada.protocol.frame import FrameReader, decode_response, encode_request, response_correlation_id
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from levada.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from levada.protocol.schema import ZERO_UUID, Request

# The record "123" in each format, from appendix D of the specification.
MAGIC_0 = bytes.fromhex("0000000000000000 00000011 feb01dbf 00 00 ffffffff 00000003 313233")
MAGIC_1 = bytes.fromhex("0000000000000000 00000019 478628c2 01 00 0000015e1867abae ffffffff 00000003 313233")
MAGIC_2 = bytes.fromhex(
    "0000000000000000 0000003b 00000001 02 0318a270 0000 00000000 0000015dff7b063c 0000015dff7b063c"
    "ffffffffffffffff ffff ffffffff 00000001 12 00 00 00 01 06 313233 00"
)


class Connection:
    """One connection, one request at a time."""

    def __init__(self, bootstrap_servers: str) -> None:
        host, port = bootstrap_servers.split(",")[0].rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=20)
        self._frames = FrameReader(100 << 20)
        self._correlation_id = 0
        self.versions: dict[int, range] = {}

    def ask(self, request: Request, version: int, *, answered_in: int | None = None) -> Any:
        self._correlation_id += 1
        self._socket.sendall(encode_request(request, version, self._correlation_id, "every-version"))
        frame = self._receive()
        assert response_correlation_id(frame) == self._correlation_id
        return decode_response(type(request), version if answered_in is None else answered_in, frame)

    def _receive(self) -> bytes | memoryview:
        while True:
            count = self._socket.recv_into(self._frames.get_buffer())
            if not count:
                raise ConnectionResetError("closed before the answer was complete")
            if frames := self._frames.received(count):
                (frame,) = frames
                return frame

    def shared(self, request: type[Request]) -> range:
        """The versions that both sides speak. Kafka 4 lists Produce 0 to 2 for the sake of old clients, and refuses them."""
        if not self.versions:
            ranges = self.ask(ApiVersionsRequest(), 0).api_keys
            self.versions = {api.api_key: range(api.min_version, api.max_version + 1) for api in ranges}
        theirs = self.versions[request.API_KEY]
        oldest = 3 if request is ProduceRequest and self.versions[FetchRequest.API_KEY][0] >= 4 else request.MIN_VERSION
        return range(max(oldest, theirs[0]), min(request.MAX_VERSION, theirs[-1]) + 1)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def broker(any_kafka: Any) -> Iterator[Connection]:
    connection = Connection(any_kafka.bootstrap_servers)
    yield connection
    connection.close()


@pytest.fixture
def topic(any_kafka: Any, new_topic: Callable[..., str]) -> str:
    return new_topic(any_kafka)


def topic_id(broker: Connection, name: str) -> UUID:
    response = broker.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12)
    found: UUID = response.topics[0].topic_id
    assert found != ZERO_UUID
    return found


def produce(broker: Connection, name: str, version: int) -> Any:
    records = MAGIC_2 if version >= 3 else MAGIC_1 if version == 2 else MAGIC_0
    named = {"topic_id": topic_id(broker, name)} if version >= 13 else {"name": name}
    data = TopicProduceData(partition_data=[PartitionProduceData(index=0, records=records)], **named)
    response = broker.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), version)
    return response.responses[0].partition_responses[0]


def test_H8_api_versions(broker: Connection) -> None:
    for version in broker.shared(ApiVersionsRequest):
        asked = ApiVersionsRequest(client_software_name="levada", client_software_version="0.1")
        response = broker.ask(asked, version)

        assert response.error_code == 0
        assert {key: (ranges[0], ranges[-1]) for key, ranges in broker.versions.items()}.items() >= {
            (api.api_key, (api.min_version, api.max_version)) for api in response.api_keys
        }
        left_out = set(TELEMETRY)
        if ShareGroupHeartbeatRequest.API_KEY not in broker.versions:
            # Kafka 3.9 has no share groups, and forgets no controllers.
            left_out |= {api.request.NAME for api in SERVED.values() if "Share" in api.request.NAME} | {"UnregisterController"}
        ours = {key for key, api in SERVED.items() if api.request.NAME not in left_out}
        assert ours <= {api.api_key for api in response.api_keys}


def test_H9_an_unknown_version_of_api_versions_is_answered_in_version_0(broker: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = broker.shared(ApiVersionsRequest)[-1]
    monkeypatch.setattr(ApiVersionsRequest, "NEWEST_VERSION", 77)

    response = broker.ask(ApiVersionsRequest(client_software_name="levada", client_software_version="0.1"), 77, answered_in=0)

    assert response.error_code == 35
    assert [(api.api_key, api.max_version >= newest) for api in response.api_keys if api.api_key == 18] == [(18, True)]


def test_metadata(broker: Connection, topic: str) -> None:
    for version in broker.shared(MetadataRequest):
        response = broker.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), version)

        assert len(response.brokers) == 1
        assert [(found.name, found.error_code, len(found.partitions)) for found in response.topics] == [(topic, 0, 1)]
        assert response.topics[0].partitions[0].leader_id == response.brokers[0].node_id
        assert (response.topics[0].topic_id != ZERO_UUID) == (version >= 10)


def test_metadata_by_topic_id(broker: Connection, topic: str) -> None:
    wanted = topic_id(broker, topic)
    for version in [version for version in broker.shared(MetadataRequest) if version >= 12]:
        response = broker.ask(MetadataRequest(topics=[MetadataRequestTopic(topic_id=wanted, name=None)]), version)

        assert [(found.name, found.topic_id) for found in response.topics] == [(topic, wanted)]


def test_metadata_of_all_topics(broker: Connection, topic: str) -> None:
    for version in broker.shared(MetadataRequest):
        response = broker.ask(MetadataRequest(topics=None if version else []), version)

        assert topic in {found.name for found in response.topics}


def test_produce_and_fetch(any_kafka: Any, broker: Connection, topic: str) -> None:
    versions = [version for version in broker.shared(ProduceRequest) if version >= 3 or keeps_old_formats(any_kafka)]
    for offset, version in enumerate(versions):
        written = produce(broker, topic, version)
        assert (written.error_code, written.base_offset) == (0, offset)

    for version in broker.shared(FetchRequest):
        if version < 4 and not keeps_old_formats(any_kafka):
            continue
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        named = {"topic_id": topic_id(broker, topic)} if version >= 13 else {"topic": topic}
        response = broker.ask(FetchRequest(max_wait_ms=100, topics=[FetchTopic(partitions=[partition], **named)]), version)
        read = response.responses[0].partitions[0]

        assert (read.error_code, read.high_watermark) == (0, len(versions))
        assert bytes(read.records).count(b"123") == len(versions)


def keeps_old_formats(kafka: Any) -> bool:
    """Whether the broker still takes and gives magic 0 and 1: Kafka 3.9 does, 4.x and the embedded broker do not."""
    return getattr(kafka, "version", "") == "3.9.2"


def test_list_offsets(broker: Connection, topic: str) -> None:
    assert produce(broker, topic, 3).error_code == 0
    for version in broker.shared(ListOffsetsRequest):
        wanted = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        response = broker.ask(ListOffsetsRequest(replica_id=-1, topics=[wanted], timeout_ms=5000 if version >= 10 else 0), version)
        found = response.topics[0].partitions[0]

        assert found.error_code == 0
        assert (found.old_style_offsets if version == 0 else [found.offset]) == [1]


def test_create_and_delete_topics(broker: Connection, topic: str) -> None:
    for version in broker.shared(CreateTopicsRequest):
        name = f"{topic}-v{version}"
        created = broker.ask(CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=2, replication_factor=1)]), version)
        assert [(result.name, result.error_code) for result in created.topics] == [(name, 0)]
        assert (created.topics[0].num_partitions, bool(created.topics[0].configs)) == ((2, True) if version >= 5 else (-1, False))

    names = [f"{topic}-v{version}" for version in broker.shared(CreateTopicsRequest)]
    for version in broker.shared(DeleteTopicsRequest):
        name = names.pop() if names else topic
        asked = {"topics": [DeleteTopicState(name=name)]} if version >= 6 else {"topic_names": [name]}
        deleted = broker.ask(DeleteTopicsRequest(timeout_ms=10_000, **asked), version)
        assert [(result.name, result.error_code) for result in deleted.responses] == [(name, 0)]


def init_producer_id(broker: Connection, version: int) -> Any:
    """Ask until the broker, when it has only just started, has fetched its first block of ids."""
    deadline = time.monotonic() + 20
    while True:
        response = broker.ask(InitProducerIdRequest(transaction_timeout_ms=60_000), version)
        if response.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS or time.monotonic() > deadline:
            return response
        time.sleep(0.1)


def test_init_producer_id(broker: Connection) -> None:
    seen = set()
    for version in broker.shared(InitProducerIdRequest):
        response = init_producer_id(broker, version)

        assert (response.error_code, response.producer_epoch) == (0, 0)
        seen.add(response.producer_id)
    assert len(seen) == len(broker.shared(InitProducerIdRequest))
