from __future__ import annotations

import pytest

from broker_kit import Bench, Client, make_batch
from levada.error_codes import ErrorCode
from levada.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from replica_kit import Trio
from transaction_kit import TransactionalProducer, read


def deletion(offset: int, *, topic: str = "t", partition: int = 0, timeout_ms: int = 1000) -> DeleteRecordsRequest:
    wanted = DeleteRecordsPartition(partition_index=partition, offset=offset)
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=timeout_ms)


def delete(client: Client, offset: int, version: int = 2, **where: object) -> tuple[int, int]:
    """Return the error code and the low watermark."""
    return told(client.ask(deletion(offset, **where), version))  # type: ignore[arg-type]


def told(answer: object) -> tuple[int, int]:
    (topic,) = answer.topics  # type: ignore[attr-defined]
    (result,) = topic.partitions
    return result.error_code, result.low_watermark


@pytest.mark.parametrize("version", range(3))
def test_every_version_moves_the_start_of_the_log(client: Client, version: int) -> None:
    client.produce("t", make_batch(b"a", b"b", b"c"))
    assert delete(client, 2, version) == (ErrorCode.NONE, 2)
    assert client.offset_of("t", -2)[1] == 2
    assert client.fetch("t", 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert client.fetch("t", 2).log_start_offset == 2


def test_minus_one_deletes_up_to_the_high_watermark_and_less_than_before_nothing(client: Client) -> None:
    client.produce("t", make_batch(b"a", b"b", b"c"))
    assert delete(client, -1) == (ErrorCode.NONE, 3)
    assert delete(client, 1) == (ErrorCode.NONE, 3)


@pytest.mark.parametrize("offset", [4, -2])
def test_an_offset_outside_is_refused(client: Client, offset: int) -> None:
    client.produce("t", make_batch(b"a", b"b", b"c"))
    assert delete(client, offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_what_does_not_exist_or_may_not_be_deleted_is_refused() -> None:
    bench = Bench()
    bench.node.create_topic("compacted", 1, {"cleanup.policy": "compact"})
    client = bench.client()
    assert delete(client, 0, topic="none") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete(client, 0, topic="compacted", partition=1) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete(client, 0, topic="compacted") == (ErrorCode.POLICY_VIOLATION, -1)


def test_a_planned_fault_is_answered(bench: Bench, client: Client) -> None:
    bench.node.faults.fail_next("DeleteRecords", "KAFKA_STORAGE_ERROR", topic="t")
    assert delete(client, 0) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


def test_aborted_transactions_that_are_gone_are_not_told(producer: TransactionalProducer, client: Client) -> None:
    producer.add()
    producer.write(b"a")
    producer.abort()
    client.produce("t", make_batch(b"b"))
    assert read(client).aborted_transactions
    delete(client, 2)
    assert not read(client, offset=2).aborted_transactions


def test_the_answer_waits_for_followers_that_are_up_and_for_no_others() -> None:
    trio = Trio()
    trio.produce(b"a")
    trio.produce(b"b")
    trio.cluster.stop_node(3)
    trio.cluster.pause_replication(2)
    trio.leader.send(deletion(1))
    trio.advance(500)
    assert trio.leader.answers() == []
    trio.cluster.resume_replication(2)
    trio.advance()
    (answer,) = trio.leader.answers()
    assert told(answer) == (ErrorCode.NONE, 1)
    assert [trio.partition.replicas[node].log.start_offset for node in (1, 2, 3)] == [1, 1, 0]
    trio.cluster.start_node(3)
    assert trio.partition.replicas[3].log.start_offset == 1


def test_after_the_timeout_it_says_that_it_is_not_done_everywhere() -> None:
    trio = Trio()
    trio.produce(b"a")
    trio.cluster.pause_replication(2)
    trio.leader.send(deletion(1, timeout_ms=700))
    trio.advance(699)
    assert trio.leader.answers() == []
    trio.advance(1)
    (answer,) = trio.leader.answers()
    assert told(answer) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    assert trio.partition.log.start_offset == 1


def test_only_the_leader_deletes() -> None:
    trio = Trio()
    assert delete(trio.clients[2], 0) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
