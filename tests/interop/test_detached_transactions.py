"""Transactions that one process opens and another one ends: what Kafka 3.9 and 4.4 answer, case by case, and the embedded broker with them.

The cases are those that an exactly-once sink meets, which keeps handles in a ledger of its own and repeats what it is not sure of.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

import levada as lv
from levada.errors import BrokerError, IllegalStateError, ProducerFencedError
from levada.types import TransactionHandle

PATIENCE_S = 20
NEWEST_OLD_VERSION = 4
_numbers = count(1)

End = Callable[[TransactionHandle], None]


@pytest.fixture
def admin(any_kafka: Any) -> Iterator[lv.KafkaAdmin]:
    with lv.KafkaAdmin(bootstrap_servers=any_kafka.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def topic(any_kafka: Any, new_topic: Callable[..., str]) -> str:
    return new_topic(any_kafka, 2)


@pytest.fixture
def new_id() -> str:
    return f"detached-{time.monotonic_ns()}-{next(_numbers)}"


def detached(kafka: Any, name: str, topic: str, value: bytes = b"v", **settings: Any) -> TransactionHandle:
    """Write a record to both partitions in a transaction, and leave it open."""
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=name, **settings) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for partition in range(2):
            producer.send(topic, value, partition=partition)
        return producer.detach_transaction()


def seen(kafka: Any, topic: str, wanted: int) -> int:
    """How many records a reader of committed ones gets, once it is as many as wanted or PATIENCE_S have passed."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = len(list(lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers, isolation_level="read_committed")))
        if found == wanted or time.monotonic() > deadline:
            return found
        time.sleep(0.02)


def code_of(call: Callable[[], None]) -> int:
    try:
        call()
    except BrokerError as error:
        return int(error.code)
    return 0


def is_new(handle: TransactionHandle) -> bool:
    return handle.end_version > NEWEST_OLD_VERSION


COMMIT_ELSEWHERE = """
import pickle, sys
import levada as lv

with lv.KafkaAdmin(bootstrap_servers=sys.argv[1]) as admin:
    admin.commit_detached(pickle.load(sys.stdin.buffer))
"""


def test_another_process_commits_and_repeats_it(any_kafka: Any, admin: lv.KafkaAdmin, topic: str, new_id: str) -> None:
    handle = detached(any_kafka, new_id, topic)
    assert handle.partitions == ((topic, 0), (topic, 1))
    assert seen(any_kafka, topic, 0) == 0
    command = [sys.executable, "-c", COMMIT_ELSEWHERE, any_kafka.bootstrap_servers]
    subprocess.run(command, input=pickle.dumps(handle), check=True, timeout=60)
    assert seen(any_kafka, topic, 2) == 2
    # From a ledger: as text.
    admin.commit_detached(json.loads(json.dumps(handle)))
    admin.commit_detached(handle)
    assert seen(any_kafka, topic, 2) == 2


def test_another_process_aborts_and_repeats_it(any_kafka: Any, admin: lv.KafkaAdmin, topic: str, new_id: str) -> None:
    handle = detached(any_kafka, new_id, topic)
    admin.abort_detached(handle)
    admin.abort_detached(handle)
    assert seen(any_kafka, topic, 0) == 0
    with pytest.raises(BrokerError, match="not committed: it was aborted before"):
        admin.commit_detached(handle)


def test_an_abort_after_a_commit_says_that_it_was_committed(any_kafka: Any, admin: lv.KafkaAdmin, topic: str, new_id: str) -> None:
    handle = detached(any_kafka, new_id, topic)
    admin.commit_detached(handle)
    with pytest.raises(BrokerError, match="not aborted: it was committed before"):
        admin.abort_detached(handle)
    assert seen(any_kafka, topic, 2) == 2


def test_another_version_or_epoch_than_the_first_is_not_recognized(any_kafka: Any, admin: lv.KafkaAdmin, topic: str, new_id: str) -> None:
    """Why the handle keeps both: of a transaction that was committed, these answers say that it was not."""
    handle = detached(any_kafka, new_id, topic)
    admin.commit_detached(handle)
    if is_new(handle):
        assert code_of(lambda: admin.commit_detached(handle._replace(producer_epoch=handle.producer_epoch + 1))) == 48
        assert code_of(lambda: admin.commit_detached(handle._replace(end_version=4))) == 90
    else:
        assert code_of(lambda: admin.commit_detached(handle._replace(producer_epoch=handle.producer_epoch + 1))) == 90


def test_a_transaction_that_took_too_long_is_not_committed(any_kafka: Any, admin: lv.KafkaAdmin, topic: str, new_id: str) -> None:
    handle = detached(any_kafka, new_id, topic, transaction_timeout_ms=1000)
    deadline = time.monotonic() + PATIENCE_S
    # Brokers look for such transactions every few seconds; then nothing holds back readers of committed records any more.
    with lv.KafkaConsumer(bootstrap_servers=any_kafka.bootstrap_servers, isolation_level="read_committed") as consumer:
        tp = lv.TopicPartition(topic, 0)
        while consumer.end_offsets([tp])[tp] == 0 and time.monotonic() < deadline:
            time.sleep(0.1)
    with pytest.raises(BrokerError, match=r"(not committed|not known): .*transaction\.timeout\.ms") as refused:
        admin.commit_detached(handle)
    assert int(refused.value.code) == (48 if is_new(handle) else 90)
    assert admin.end_transactions([handle], commit=True) == {handle: lv.TransactionOutcome.LOST}
    assert code_of(lambda: admin.abort_detached(handle)) == (0 if is_new(handle) else 90)
    assert seen(any_kafka, topic, 0) == 0


def test_a_producer_made_with_the_id_aborts_what_is_open(any_kafka: Any, admin: lv.KafkaAdmin, topic: str, new_id: str) -> None:
    handle = detached(any_kafka, new_id, topic)
    with lv.KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers, transactional_id=new_id) as other:
        other.init_transactions()
    with pytest.raises(ProducerFencedError, match="whether it was committed is not known"):
        admin.commit_detached(handle)
    assert seen(any_kafka, topic, 0) == 0


def test_an_id_used_again_before_the_outcome_is_known_hides_it(any_kafka: Any, admin: lv.KafkaAdmin, topic: str, new_id: str) -> None:
    """The trap that commit_detached() warns of: committed, and told otherwise."""
    handle = detached(any_kafka, new_id, topic)
    admin.commit_detached(handle)
    with lv.KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers, transactional_id=new_id) as other:
        other.init_transactions()
    assert code_of(lambda: admin.commit_detached(handle)) == 90
    assert seen(any_kafka, topic, 2) == 2


def test_an_id_that_is_not_known_says_nothing(any_kafka: Any, admin: lv.KafkaAdmin, topic: str, new_id: str) -> None:
    handle = detached(any_kafka, new_id, topic)
    with pytest.raises(BrokerError, match=r"whether it was committed is not known: INVALID_PRODUCER_ID_MAPPING \(49\)"):
        admin.commit_detached(handle._replace(transactional_id=f"{new_id}-forgotten"))
    admin.abort_detached(handle)


def test_a_transaction_without_records_has_nothing_to_be_ended(any_kafka: Any, admin: lv.KafkaAdmin, topic: str, new_id: str) -> None:
    with lv.KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers, transactional_id=new_id) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        handle = producer.detach_transaction()
    assert (handle.partitions, handle.groups) == ((), ())
    admin.commit_detached(handle)
    admin.abort_detached(handle)
    # What a broker says to who asks all the same.
    assert code_of(lambda: admin.commit_detached(handle._replace(partitions=(lv.TopicPartition(topic, 0),)))) == 48


def test_many_are_ended_by_one_call(any_kafka: Any, admin: lv.KafkaAdmin, topic: str, new_id: str) -> None:
    """What became of each, by what each answers: aborted before, ended by a new producer, and an id that is not known."""
    handles = [detached(any_kafka, f"{new_id}-{number}", topic) for number in range(5)]
    aborted, fenced, *others = handles
    assert admin.end_transactions([aborted], commit=False) == {aborted: lv.TransactionOutcome.ABORTED}
    admin.fence_producers([fenced.transactional_id])
    nobodys = handles[0]._replace(transactional_id=f"{new_id}-forgotten")
    expected = {
        aborted: lv.TransactionOutcome.LOST,
        nobodys: lv.TransactionOutcome.UNKNOWN,
        fenced: lv.TransactionOutcome.LOST,
        **dict.fromkeys(others, lv.TransactionOutcome.COMMITTED),
    }
    for _ in range(2):
        assert admin.end_transactions(expected, commit=True) == expected
    assert seen(any_kafka, topic, 6) == 6
    assert admin.end_transactions(others, commit=False) == dict.fromkeys(others, lv.TransactionOutcome.COMMITTED)
    assert seen(any_kafka, topic, 6) == 6


def test_the_producer_can_only_be_closed_afterwards(any_kafka: Any, admin: lv.KafkaAdmin, topic: str, new_id: str) -> None:
    with lv.KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers, transactional_id=new_id) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"v")
        handle = producer.detach_transaction()
        for call in (producer.init_transactions, producer.begin_transaction, producer.commit_transaction, producer.abort_transaction):
            with pytest.raises(IllegalStateError, match="handed over"):
                call()
    admin.commit_detached(handle)
    assert seen(any_kafka, topic, 1) == 1


def test_offsets_of_a_detached_transaction_count_with_it(any_kafka: Any, admin: lv.KafkaAdmin, topic: str, new_id: str) -> None:
    tp = lv.TopicPartition(topic, 0)
    with lv.KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers, transactional_id=new_id) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_offsets_to_transaction({tp: 5}, f"group-of-{new_id}")
        handle = producer.detach_transaction()
    assert handle.groups == (f"group-of-{new_id}",)
    admin.commit_detached(handle)
    with lv.KafkaConsumer(bootstrap_servers=any_kafka.bootstrap_servers, group_id=handle.groups[0]) as consumer:
        committed = consumer.committed([tp], timeout=PATIENCE_S)[tp]
    assert committed is not None
    assert committed.offset == 5
