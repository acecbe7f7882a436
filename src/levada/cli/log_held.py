"""The batches of a partition as its leader holds them: control batches, aborted transactions and all that readers skip."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from levada import KafkaClient, TopicPartition
from levada.cli.log_dump import Dumped, Torn, dump
from levada.errors import broker_error
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData

_LAST_VERSION_BY_NAME: Final = 12
"""Later versions name topics by their ids."""
_MOST_BYTES: Final = 8 << 20
_MAX_WAIT_MS: Final = 100


def dump_held(client: KafkaClient, tp: TopicPartition, leader: int, start: int, end: int, *, with_records: bool) -> Iterator[Dumped | Torn]:
    """Yield the batches that hold the offsets from start to below end. Raises BrokerError where the leader refuses."""
    _, newest = client.api_versions(node=leader)["Fetch"]
    offset, position = start, 0
    while offset < end:
        data = _fetched(client, tp, leader, offset, min(newest, _LAST_VERSION_BY_NAME)).records or b""
        reached = offset
        for found in dump(data, topic=tp.topic, with_records=with_records, position=position):
            if isinstance(found, Dumped):
                reached = found.batch.last_offset + 1
                if found.batch.base_offset < end:
                    yield found
            elif not found.is_cut:
                yield found
                return
        if reached == offset:
            return
        offset, position = reached, position + len(data)


def _fetched(client: KafkaClient, tp: TopicPartition, leader: int, offset: int, version: int) -> PartitionData:
    wanted = FetchPartition(partition=tp.partition, fetch_offset=offset, partition_max_bytes=_MOST_BYTES)
    request = FetchRequest(
        max_wait_ms=_MAX_WAIT_MS, min_bytes=1, max_bytes=_MOST_BYTES, topics=[FetchTopic(topic=tp.topic, partitions=[wanted])]
    )
    response = client.request(request, node=leader, version=version)
    code = response.error_code or response.responses[0].partitions[0].error_code
    if code:
        raise broker_error(code, f"read {tp} at offset {offset} from broker {leader}")
    return response.responses[0].partitions[0]
