"""Transactions as programs use them, on both APIs, the embedded broker and real ones."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import count
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest

import levada as lv
from api_kit import WITH_SOCKETS, api_and_broker
from committed_kit import settled
from levada import aio
from levada.api.waiting import run_flow
from levada.broker.node.faults import Hold
from levada.errors import (
    IllegalStateError,
    ProducerFencedError,
    TokenError,
    TransactionAbortableError,
    TransactionAbortedError,
    TransactionOutcomeUnknownError,
)
from levada.sync import transaction
from levada.testing import EmbeddedKafka
from levada.types import TopicPartition

INTERPRETED = transaction.__file__.endswith(".py")
PATIENCE_S = 20
_numbers = count(1)


@pytest.fixture(params=WITH_SOCKETS)
def kafka(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, embedded: Any) -> Iterator[Any]:
    yield from api_and_broker(request, monkeypatch)


@pytest.fixture
def name() -> str:
    return f"transactional-{time.monotonic_ns()}-{next(_numbers)}"


def committed(kafka: Any, topic: str, wanted: int) -> list[Any]:
    """What a reader of committed records gets, once it is as many as wanted or PATIENCE_S have passed."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        records: list[Any] = list(lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers, isolation_level="read_committed"))
        if len(records) >= wanted or time.monotonic() > deadline:
            return sorted(record.value for record in records)
        time.sleep(0.02)


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert condition()


@contextmanager
def held(api: str, kafka: EmbeddedKafka) -> Iterator[Hold]:
    """Keep back the next answer of an API until the end of the block."""
    hold = kafka.faults.hold(api)
    try:
        yield hold
    finally:
        hold.release()


class StrikesWhenDeleted:
    """Its end leaves a signal pending whose handler runs at the next instruction that looks for one: not the one that ended it."""

    __del__ = staticmethod(partial(ctypes.CDLL(None)["raise"], signal.SIGUSR1))


@pytest.mark.skipif(INTERPRETED, reason="interpreted, __exit__() has a first instruction, at which a handler may raise")
def test_K10_a_signal_handler_that_raises_as_the_block_is_left_leaves_nothing_open(embedded: Any, name: str, new_topic: Any) -> None:
    class Strike(Exception):
        pass

    def strike(*_: object) -> None:
        raise Strike

    topic = new_topic(embedded)
    before = signal.signal(signal.SIGUSR1, strike)
    try:
        with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers, transactional_id=name) as producer:
            with pytest.raises(Strike), producer.transaction():
                producer.send(topic, "struck")
                struck = StrikesWhenDeleted()
                del struck
            with producer.transaction():
                producer.send(topic, "after")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert committed(embedded, topic, 1) == [b"after"]


def test_T7_many_partitions_are_committed_together_and_what_is_aborted_between_is_not_seen(
    kafka: Any, name: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(kafka, 12)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=name) as producer:
        producer.init_transactions()
        for number in range(4):
            producer.begin_transaction()
            handles = [producer.send(topic, b"%d-%d" % (number, partition), partition=partition) for partition in range(12)]
            if number % 2:
                producer.flush(PATIENCE_S)
                producer.abort_transaction()
            else:
                producer.commit_transaction()
                assert all(handle.done() and handle.exception() is None for handle in handles)
    assert committed(kafka, topic, 24) == sorted(b"%d-%d" % (number, partition) for number in (0, 2) for partition in range(12))


def test_T7_columns_belong_to_the_transaction(kafka: Any, name: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka, 3)
    rows = pa.table({"v": [b"%04d" % row for row in range(1000)]})
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=name) as producer:
        with producer.transaction():
            producer.send_arrow(topic, rows, value="v")
        with pytest.raises(ZeroDivisionError), producer.transaction():
            producer.send_arrow(topic, rows, value="v")
            raise ZeroDivisionError
        with pytest.raises(TransactionAbortableError), producer.transaction():
            producer.send_arrow(topic, pa.table({"v": [b"x" * 2_000_000, b"small"]}), value="v")
    assert committed(kafka, topic, 1000) == rows["v"].to_pylist()


def test_T6_what_is_read_and_written_counts_together(kafka: Any, name: str, new_topic: Callable[..., str]) -> None:
    source, sink = new_topic(kafka), new_topic(kafka)
    tp = TopicPartition(source, 0)
    servers = kafka.bootstrap_servers
    with lv.KafkaProducer(bootstrap_servers=servers) as writer:
        for number in range(10):
            writer.send(source, b"%d" % number)
    settings: dict[str, Any] = {"group_id": name, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    done = 0
    for is_good in (True, False, True):
        # A program that is started again after a crash goes on where the last transaction that was committed ended.
        with (
            lv.KafkaConsumer(bootstrap_servers=servers, **settings) as consumer,
            lv.KafkaProducer(bootstrap_servers=servers, transactional_id=name) as producer,
        ):
            try:
                with producer.transaction() as txn:
                    consumer.assign([tp])
                    records = consumer.poll(PATIENCE_S, max_records=3)
                    for record in records:
                        producer.send(sink, record.value)
                    txn.send_offsets(consumer)
                    if not is_good:
                        raise ZeroDivisionError
                done += len(records)
            except ZeroDivisionError:
                pass
            offset = consumer.committed([tp], timeout=PATIENCE_S)[tp]
            assert offset is not None
            assert offset.offset == done
    assert committed(kafka, sink, done) == [b"%d" % number for number in range(done)]


@pytest.fixture
def shop(kafka: Any, name: str, new_topic: Callable[..., str]) -> Iterator[Shop]:
    with Shop(kafka, name, new_topic(kafka, 2), new_topic(kafka)) as made:
        yield made


class Shop:
    """A program that reads ten orders of the first partition and two of the second, and writes bills."""

    def __init__(self, kafka: Any, name: str, orders: str, bills: str) -> None:
        servers = kafka.bootstrap_servers
        self.kafka, self.bills = kafka, bills
        self.first, self.second = TopicPartition(orders, 0), TopicPartition(orders, 1)
        with lv.KafkaProducer(bootstrap_servers=servers) as writer:
            writer.send_many(orders, [b"%d" % number for number in range(10)], partition=0)
            writer.send_many(orders, [b"10", b"11"], partition=1)
        reading: dict[str, Any] = {"group_id": name, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
        self.consumer: Any = lv.KafkaConsumer(bootstrap_servers=servers, **reading)
        self.consumer.assign([self.first])
        self.producer: Any = lv.KafkaProducer(bootstrap_servers=servers, transactional_id=name)

    def __enter__(self) -> Shop:
        return self

    def __exit__(self, *_: object) -> None:
        self.producer.close()
        self.consumer.close()

    def reads(self, wanted: int) -> list[Any]:
        found: list[Any] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < wanted and time.monotonic() < deadline:
            found += self.consumer.poll(1, max_records=wanted - len(found))
        return found

    def bills_for(self, records: Any, *named: Any, breaks: str = "") -> None:
        """Write the bills of records in a transaction. named: given to send_offsets(). breaks: "before" or "after" that."""
        try:
            with self.producer.transaction() as txn:
                for record in records:
                    self.producer.send(self.bills, record.value)
                if breaks == "before":
                    raise ZeroDivisionError
                txn.send_offsets(self.consumer, *named)
                if breaks:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            assert breaks

    @property
    def done(self) -> list[int]:
        """Which orders are billed."""
        return sorted(int(value) for value in settled(self.kafka, self.bills).elements())

    @property
    def committed(self) -> Any:
        at = self.consumer.committed([self.first], timeout=PATIENCE_S)[self.first]
        return None if at is None else at.offset


@pytest.mark.parametrize("breaks", ["before", "after"])
def test_T6_after_an_abort_offsets_are_sent_again_once_the_records_are_read_again(shop: Shop, breaks: str) -> None:
    shop.bills_for(shop.reads(2))
    shop.bills_for(shop.reads(3), breaks=breaks)
    for records in (shop.reads(3), []):
        with pytest.raises(IllegalStateError, match=rf"{shop.first}.* be skipped .*seek_to_committed\(\)"):
            shop.bills_for(records)
    assert (shop.done, shop.committed) == ([0, 1], 2)
    shop.consumer.seek_to_committed()
    shop.bills_for(shop.reads(4))
    assert (shop.done, shop.committed) == ([*range(6)], 6)


def test_T6_the_first_transaction_of_a_program_is_no_other(shop: Shop) -> None:
    shop.bills_for(shop.reads(3), breaks="before")
    with pytest.raises(IllegalStateError, match="were read before this producer's last transaction was aborted"):
        shop.bills_for(shop.reads(3))
    shop.consumer.seek(shop.first, 0)
    shop.bills_for(shop.reads(3))
    assert (shop.done, shop.committed) == ([0, 1, 2], 3)


def test_T6_named_records_do_not_pass_those_of_an_aborted_transaction(shop: Shop) -> None:
    """The abort came before its offsets were sent, so nothing says which records it was about."""
    shop.bills_for(shop.reads(3), breaks="before")
    later = shop.reads(3)
    with pytest.raises(IllegalStateError, match=r"were read before this producer's last transaction was aborted.*seek_to_committed\(\)"):
        shop.bills_for(later, later)
    shop.consumer.seek_to_committed()
    again = shop.reads(3)
    shop.bills_for(again, again)
    assert (shop.done, shop.committed) == ([0, 1, 2], 3)


def test_T6_records_that_are_named_again_need_no_seek(shop: Shop) -> None:
    records = shop.reads(3)
    shop.bills_for(records, records, breaks="before")
    shop.bills_for(records, records)
    later = shop.reads(3)
    shop.bills_for(later, later)
    assert (shop.done, shop.committed) == ([0, 1, 2, 3, 4, 5], 6)


def test_T6_a_seek_of_one_partition_says_nothing_of_another(shop: Shop) -> None:
    shop.consumer.assign([shop.first, shop.second])
    shop.bills_for(shop.reads(12), breaks="before")
    shop.consumer.seek(shop.second, 0)
    with pytest.raises(IllegalStateError, match=f"records of {shop.first} were read before"):
        shop.bills_for([])
    assert shop.committed is None


def test_T6_records_that_an_assignment_brought_again_are_sent(shop: Shop) -> None:
    shop.bills_for(shop.reads(3), breaks="before")
    shop.consumer.unsubscribe()
    shop.consumer.assign([shop.first])
    shop.bills_for(shop.reads(3))
    assert (shop.done, shop.committed) == ([0, 1, 2], 3)


@pytest.mark.parametrize("ends", ["fenced", "closed"])
def test_T6_a_new_producer_does_not_pass_what_another_left_uncommitted(shop: Shop, name: str, ends: str) -> None:
    options = {"bootstrap_servers": shop.kafka.bootstrap_servers, "transactional_id": f"{name}-replaced"}
    replaced = lv.KafkaProducer(**options)
    replaced.init_transactions()
    replaced.begin_transaction()
    for record in shop.reads(3):
        replaced.send(shop.bills, record.value).result(PATIENCE_S)
    if ends == "fenced":
        with lv.KafkaProducer(**options) as other:
            other.init_transactions()
        with pytest.raises(ProducerFencedError):
            replaced.commit_transaction()
    replaced.close()
    with lv.KafkaProducer(**options) as new:
        mine, shop.producer = shop.producer, new
        mine.close()
        new.init_transactions()
        with pytest.raises(IllegalStateError, match=r"may not have been worked off.*seek_to_committed\(\)"):
            shop.bills_for(shop.reads(3))
        shop.consumer.seek_to_committed()
        shop.bills_for(shop.reads(3))
    assert (shop.done, shop.committed) == ([0, 1, 2], 3)


def test_T6_records_of_a_transaction_that_named_none_are_named_again(shop: Shop) -> None:
    records = shop.reads(3)
    shop.bills_for(records, breaks="after")
    shop.bills_for(records, records)
    shop.bills_for(shop.reads(2))
    assert (shop.done, shop.committed) == ([*range(5)], 5)


def test_T6_what_the_consumer_has_committed_is_done(shop: Shop) -> None:
    shop.reads(3)
    shop.consumer.commit()
    shop.bills_for([], breaks="before")
    shop.bills_for(shop.reads(2))
    assert (shop.done, shop.committed) == ([3, 4], 5)


@pytest.mark.parametrize("breaks", ["before", "after"])
def test_T6_what_the_consumer_commits_after_an_abort_is_done(shop: Shop, breaks: str) -> None:
    shop.bills_for(shop.reads(3), breaks=breaks)
    shop.consumer.commit()
    shop.bills_for(shop.reads(2))
    assert (shop.done, shop.committed) == ([3, 4], 5)


def test_T6_each_of_two_aborted_transactions_is_named(shop: Shop) -> None:
    first = shop.reads(3)
    shop.bills_for(first, breaks="before")
    second = shop.reads(3)
    shop.bills_for(second, breaks="before")
    shop.bills_for(first, first)
    with pytest.raises(IllegalStateError, match="may not have been worked off"):
        shop.bills_for([])
    with pytest.raises(IllegalStateError, match="may not have been worked off"):
        later = shop.reads(2)
        shop.bills_for(later, later)
    shop.bills_for(second, second)
    shop.bills_for(later, later)
    assert (shop.done, shop.committed) == ([*range(8)], 8)


def test_T6_what_a_call_after_the_block_named_is_not_in_doubt(shop: Shop) -> None:
    with shop.producer.transaction() as ended:
        pass
    records = shop.reads(3)
    with pytest.raises(IllegalStateError, match=r"send_offsets\(\): no transaction is open"):
        ended.send_offsets(shop.consumer)
    shop.bills_for(records)
    assert (shop.done, shop.committed) == ([0, 1, 2], 3)


@pytest.mark.parametrize("call", ["commit", "commit_async", "send_offsets"])
def test_T6_records_of_an_earlier_assignment_do_not_set_the_group_back(shop: Shop, call: str) -> None:
    """While this consumer had not the partition another one may have read on."""
    records = shop.reads(3)
    shop.consumer.unsubscribe()
    shop.consumer.assign([shop.first])
    shop.consumer.commit({shop.first: 5})
    again = shop.reads(1)
    assert again[0].offset == 5
    with pytest.raises(IllegalStateError, match=rf"{call}\(\): .*{shop.first} were read in an earlier .* begins after them, at offset 5;"):
        shop.bills_for([], records) if call == "send_offsets" else getattr(shop.consumer, call)(records)
    assert shop.committed == 5
    shop.consumer.commit(again)
    assert shop.committed == 6


def test_T6_records_from_before_a_seek_are_committed(shop: Shop) -> None:
    records = shop.reads(3)
    shop.consumer.seek(shop.first, 8)
    assert shop.reads(1)[0].offset == 8
    shop.consumer.commit(records)
    assert shop.committed == 3


def test_T6_part_of_a_poll_is_sent(shop: Shop) -> None:
    shop.consumer.assign([shop.first, shop.second])
    records = [record for record in shop.reads(12) if record.partition == 0]
    shop.bills_for(records[:3], records[:3])
    assert (shop.done, shop.committed) == ([0, 1, 2], 3)
    shop.bills_for(records[3:4], records[3])
    assert (shop.done, shop.committed) == ([0, 1, 2, 3], 4)
    shop.bills_for([], [])
    assert shop.committed == 4
    assert shop.consumer.committed([shop.second], timeout=PATIENCE_S) == {shop.second: None}


def test_T6_named_records_are_sent_again_without_reading_them_again(shop: Shop) -> None:
    records = shop.reads(6)
    shop.bills_for(records[:3], records[:3], breaks="after")
    with pytest.raises(IllegalStateError, match=r"names them in each transaction: send_offsets\(consumer, records\)"):
        shop.bills_for(records[3:], records[3:])
    with pytest.raises(IllegalStateError, match="is not known to be committed"):
        shop.bills_for(records)
    shop.bills_for(records[:2], records[:2])
    shop.bills_for(records[2:], records[2:])
    assert (shop.done, shop.committed) == ([*range(6)], 6)
    shop.bills_for(shop.reads(4))
    assert (shop.done, shop.committed) == ([*range(10)], 10)


def test_T6_partitions_are_sought_one_by_one(shop: Shop) -> None:
    shop.consumer.assign([shop.first, shop.second])
    shop.bills_for(shop.reads(12), breaks="after")
    shop.consumer.seek(shop.second, 0)
    with pytest.raises(IllegalStateError, match=rf"offsets of {shop.first} is not known to be committed"):
        shop.bills_for([])
    shop.consumer.seek(shop.first, 0)
    shop.bills_for(shop.reads(12))
    assert (shop.done, shop.committed) == ([*range(12)], 10)


def test_T6_partitions_of_which_nothing_was_read_need_no_seek(shop: Shop) -> None:
    shop.consumer.assign([shop.first, shop.second])
    shop.consumer.pause([shop.second])
    shop.bills_for(shop.reads(3), breaks="after")
    shop.consumer.seek(shop.first, 0)
    shop.consumer.resume([shop.second])
    shop.bills_for(shop.reads(12))
    assert shop.done == [*range(12)]


def test_T6_a_loop_does_not_pass_a_record_of_an_aborted_transaction(shop: Shop) -> None:
    with pytest.raises(IllegalStateError, match="seek_to_committed"):
        for record in shop.consumer:
            shop.bills_for([record], breaks="after" if record.offset == 3 else "")
    assert (shop.done, shop.committed) == ([0, 1, 2], 3)
    shop.consumer.seek_to_committed()
    for record in shop.consumer:
        shop.bills_for([record])
        if record.offset == 9:
            break
    assert (shop.done, shop.committed) == ([*range(10)], 10)


def test_T6_a_producer_that_was_closed_leaves_its_offsets_in_doubt(shop: Shop, name: str) -> None:
    shop.producer.init_transactions()
    with lv.KafkaProducer(bootstrap_servers=shop.kafka.bootstrap_servers, transactional_id=f"{name}-other") as other:
        mine, shop.producer = shop.producer, other
        entered = mine.transaction()
        entered.__enter__()
        entered.send_offsets(shop.consumer, shop.reads(3))
        mine.close()
        with pytest.raises(IllegalStateError, match="is not known to be committed"):
            shop.bills_for(shop.reads(3))
        shop.consumer.seek_to_committed()
        shop.bills_for(shop.reads(3))
    assert (shop.done, shop.committed) == ([0, 1, 2], 3)


@pytest.mark.parametrize("end", ["commit_detached", "abort_detached"])
def test_T6_what_a_detached_transaction_was_sent_is_in_doubt_until_a_seek(shop: Shop, name: str, end: str) -> None:
    """Another process ends it, so the consumer cannot know how."""
    shop.producer.init_transactions()
    block = shop.producer.transaction()
    shop.producer.begin_transaction()
    for record in shop.reads(3):
        shop.producer.send(shop.bills, record.value)
    block.send_offsets(shop.consumer)
    handle = shop.producer.detach_transaction()
    servers = shop.kafka.bootstrap_servers
    with lv.KafkaProducer(bootstrap_servers=servers, transactional_id=f"{name}-other") as other:
        mine, shop.producer = shop.producer, other
        mine.close()
        with pytest.raises(IllegalStateError, match=r"not known to be committed.*seek_to_committed\(\)"):
            shop.bills_for(shop.reads(3))
        with lv.KafkaAdmin(bootstrap_servers=servers) as admin:
            getattr(admin, end)(handle)
        shop.consumer.seek_to_committed()
        done = 3 if end == "commit_detached" else 0
        shop.bills_for(shop.reads(10 - done))
    assert (shop.done, shop.committed) == ([*range(10)], 10)


def test_T6_an_interrupt_right_after_the_commit_leaves_nothing_in_doubt(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: Any) -> Any:
        result = yield from run_flow(*given)
        if given[-1] == "commit_transaction()":
            monkeypatch.undo()
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr("levada.api.transacting.run_flow", interrupted)
    with pytest.raises(KeyboardInterrupt):
        shop.bills_for(shop.reads(3))
    shop.bills_for(shop.reads(2))
    assert (shop.done, shop.committed) == ([*range(5)], 5)


@pytest.mark.parametrize("breaks", ["before", "after"])
def test_T6_what_was_acknowledged_for_an_aborted_transaction_is_handed_out_again(shop: Shop, breaks: str) -> None:
    def acknowledged(acks: Any, wanted: int) -> list[Any]:
        found: list[Any] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < wanted and time.monotonic() < deadline:
            found += acks.poll(1, max_records=wanted - len(found))
        for record in found:
            record.ack()
        return found

    with shop.consumer.acks() as acks:
        shop.bills_for(acknowledged(acks, 2))
        shop.bills_for(acknowledged(acks, 3), breaks=breaks)
        with pytest.raises(IllegalStateError, match="seek_to_committed"):
            shop.bills_for(acknowledged(acks, 2))
        with pytest.raises(IllegalStateError, match=r"call ack\(\) of the records, and send_offsets\(\) without them"):
            shop.bills_for([], acknowledged(acks, 1))
        assert (shop.done, shop.committed) == ([0, 1], 2)
        shop.consumer.seek_to_committed()
        shop.bills_for(acknowledged(acks, 8))
    assert (shop.done, shop.committed) == ([*range(10)], 10)


def test_M_A23_a_second_producer_of_the_id_fences_the_first(kafka: Any, name: str, new_topic: Callable[..., str]) -> None:
    topic, servers = new_topic(kafka), kafka.bootstrap_servers
    with (
        lv.KafkaProducer(bootstrap_servers=servers, transactional_id=name) as first,
        lv.KafkaProducer(bootstrap_servers=servers, transactional_id=name) as second,
    ):
        first.init_transactions()
        first.begin_transaction()
        first.send(topic, b"first").result(PATIENCE_S)
        second.init_transactions()
        with second.transaction():
            second.send(topic, b"second")
        with pytest.raises((ProducerFencedError, TransactionAbortableError)):
            first.commit_transaction()
        with pytest.raises(ProducerFencedError, match="another producer has taken over"):
            first.abort_transaction()
        with pytest.raises(ProducerFencedError):
            first.begin_transaction()
    assert committed(kafka, topic, 1) == [b"second"]


@pytest.mark.parametrize("ends", ["abort_transaction", "close"])
def test_T10_what_a_fenced_producer_calls_leaves_an_open_transaction_alone(
    kafka: Any, name: str, new_topic: Callable[..., str], ends: str
) -> None:
    topic = new_topic(kafka)
    settings = {"bootstrap_servers": kafka.bootstrap_servers, "transactional_id": name}
    with lv.KafkaProducer(**settings) as successor:
        paused = lv.KafkaProducer(**settings)
        paused.init_transactions()
        paused.begin_transaction()
        paused.send(topic, b"paused").result(timeout=10)
        successor.init_transactions()
        with successor.transaction():
            successor.send(topic, b"written").result(timeout=10)
            with contextlib.suppress(ProducerFencedError, TransactionAbortableError):
                getattr(paused, ends)()
            paused.close()
    assert committed(kafka, topic, 1) == [b"written"]


def test_a_transaction_is_handed_over_on_both_apis(kafka: Any, name: str, new_topic: Callable[..., str]) -> None:
    topic, servers = new_topic(kafka), kafka.bootstrap_servers
    with lv.KafkaProducer(bootstrap_servers=servers, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"v")
        handle = producer.detach_transaction()
    with lv.KafkaAdmin(bootstrap_servers=servers) as admin:
        admin.commit_detached(handle)
        with pytest.raises(TypeError, match="expected the TransactionHandle"):
            admin.abort_detached("no handle")  # type: ignore[arg-type]
        assert admin.end_transactions([handle], commit=True) == {handle: lv.TransactionOutcome.COMMITTED}
    assert committed(kafka, topic, 1) == [b"v"]


@pytest.fixture(scope="module")
def fast() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        yield kafka


def test_M_B18_a_cancelled_task_aborts_its_transaction(fast: EmbeddedKafka, name: str) -> None:
    async def program() -> Any:
        async with aio.KafkaProducer(bootstrap_servers=fast.bootstrap_servers, transactional_id=name, linger_ms=60_000) as producer:
            begun = asyncio.Event()

            async def work() -> None:
                async with producer.transaction():
                    handles.append(await producer.send("cancelled", b"v"))
                    begun.set()
                    await asyncio.sleep(60)

            handles: list[aio.Delivery] = []
            task = asyncio.create_task(work())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert isinstance(await handles[0].exception(), TransactionAbortedError)
            async with producer.transaction():
                await producer.send("cancelled", b"next")

    asyncio.run(asyncio.wait_for(program(), PATIENCE_S))
    assert [r.value for r in lv.scan("cancelled", bootstrap_servers=fast.bootstrap_servers, isolation_level="read_committed")] == [b"next"]


def test_M_B18_a_task_that_is_cancelled_while_a_block_begins_leaves_no_transaction_open(fast: EmbeddedKafka, name: str) -> None:
    async def program() -> None:
        async with aio.KafkaProducer(bootstrap_servers=fast.bootstrap_servers, transactional_id=name) as producer:
            await producer.init_transactions()

            async def work() -> None:
                async with producer.transaction():
                    await producer.send("entered", b"v")

            for steps in range(5):
                task = asyncio.create_task(work())
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                await work()

    asyncio.run(asyncio.wait_for(program(), PATIENCE_S))


def test_M_B18_an_exception_while_a_block_begins_or_ends_leaves_no_transaction_open(
    fast: EmbeddedKafka, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lv.KafkaProducer(bootstrap_servers=fast.bootstrap_servers, transactional_id=name) as producer:
        producer.init_transactions()
        call = producer._driver.call

        def interrupted_after(flow: Any) -> Any:
            monkeypatch.undo()
            call(flow)
            raise KeyboardInterrupt

        def interrupted_before(flow: Any) -> Any:
            monkeypatch.undo()
            raise KeyboardInterrupt

        monkeypatch.setattr(producer._driver, "call", interrupted_after)
        with pytest.raises(KeyboardInterrupt), producer.transaction():
            pytest.fail("the block was not entered")
        with pytest.raises(KeyboardInterrupt), producer.transaction():
            monkeypatch.setattr(producer._driver, "call", interrupted_before)
        with producer.transaction():
            producer.send("entered", b"v")


def test_T9_columns_do_not_go_on_in_the_next_transaction(fast: EmbeddedKafka, name: str) -> None:
    fast.create_topic("torn", partitions=1)
    with lv.KafkaProducer(bootstrap_servers=fast.bootstrap_servers, transactional_id=name, batch_size=50_000, linger_ms=0) as producer:
        taken, ended = threading.Event(), threading.Event()
        schema = pa.schema([("v", pa.binary())])

        def pieces() -> Iterator[pa.RecordBatch]:
            yield pa.RecordBatch.from_pydict({"v": [bytes(1000)] * 2000}, schema)
            yield pa.RecordBatch.from_pydict({"v": [bytes(1000)] * 2000}, schema)
            taken.set()
            ended.wait(PATIENCE_S)
            yield pa.RecordBatch.from_pydict({"v": [b"third"]}, schema)

        producer.init_transactions()
        producer.begin_transaction()
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(producer.send_arrow, "torn", pa.RecordBatchReader.from_batches(schema, pieces()), value="v")
            taken.wait(PATIENCE_S)
            producer.commit_transaction()
            producer.begin_transaction()
            ended.set()
            with pytest.raises(IllegalStateError, match="the transaction in which this call began has ended"):
                sending.result(PATIENCE_S).result(PATIENCE_S)
        with pytest.raises(TransactionAbortableError, match="the transaction in which this call began has ended"):
            producer.commit_transaction()
        producer.abort_transaction()
    seen = lv.scan("torn", bootstrap_servers=fast.bootstrap_servers, isolation_level="read_committed")
    assert b"third" not in [record.value for record in seen]


def test_T9_a_record_that_waits_does_not_go_into_the_next_transaction(name: str) -> None:
    async def program() -> None:
        with EmbeddedKafka(auto_create_topics_enable=False) as kafka:
            async with aio.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=name) as producer:
                await producer.init_transactions()
                await producer.begin_transaction()
                waiting = asyncio.create_task(producer.send("late", b"v"))
                await asyncio.sleep(0)
                await producer.commit_transaction()
                await producer.begin_transaction()
                kafka.create_topic("late", partitions=1)
                with pytest.raises(IllegalStateError, match="the transaction in which this call began has ended"):
                    await waiting
                await producer.commit_transaction()

    asyncio.run(asyncio.wait_for(program(), PATIENCE_S))


def test_a_producer_that_is_dropped_aborts_its_transaction(fast: EmbeddedKafka, name: str) -> None:
    producer = lv.KafkaProducer(bootstrap_servers=fast.bootstrap_servers, transactional_id=name)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("dropped", b"v").result(PATIENCE_S)
    thread = producer._driver._thread
    del producer
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    with lv.KafkaProducer(bootstrap_servers=fast.bootstrap_servers) as other:
        other.send("dropped", b"behind").result(PATIENCE_S)
    assert committed(fast, "dropped", 1) == [b"behind"], "nothing open holds readers back"


def test_a_second_call_while_one_is_under_way_is_refused(fast: EmbeddedKafka, name: str) -> None:
    with lv.KafkaProducer(bootstrap_servers=fast.bootstrap_servers, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("twice", b"v")
        fast.faults.delay("EndTxn", ms=300)
        committing = threading.Thread(target=producer.commit_transaction)
        committing.start()
        deadline = time.monotonic() + PATIENCE_S
        while fast.faults.requests["EndTxn"] == 0 and time.monotonic() < deadline:
            time.sleep(0.005)
        for call in (producer.commit_transaction, producer.abort_transaction, producer.begin_transaction):
            with pytest.raises(IllegalStateError, match="another call of this producer is under way"):
                call()
        committing.join(PATIENCE_S)
    assert committed(fast, "twice", 1) == [b"v"]


def test_K10_close_waits_for_the_commit_of_another_thread(fast: EmbeddedKafka, name: str) -> None:
    producer = lv.KafkaProducer(bootstrap_servers=fast.bootstrap_servers, transactional_id=name)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("closed", b"v")
    with ThreadPoolExecutor(1) as pool, held("EndTxn", fast) as hold:
        committing = pool.submit(producer.commit_transaction)
        until(lambda: hold.waiting)
        closing = Thread(target=producer.close)
        closing.start()
        until(lambda: producer._core.transaction_manager is not None and producer._core.transaction_manager._call_over is not None)
        assert not committing.done()
        hold.release()
        committing.result(PATIENCE_S)
        closing.join(PATIENCE_S)
    assert committed(fast, "closed", 1) == [b"v"]


def test_T8_a_commit_that_close_gives_up_is_not_known_on_both_apis(fast: EmbeddedKafka, name: str, monkeypatch: Any) -> None:
    async def program() -> None:
        producer = aio.KafkaProducer(bootstrap_servers=fast.bootstrap_servers, transactional_id=name)
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send("given-up", b"v")
        with held("EndTxn", fast) as hold:
            committing = asyncio.create_task(producer.commit_transaction())
            while not hold.waiting:
                await asyncio.sleep(0.005)
            await producer.close(0.05)
            with pytest.raises(TransactionOutcomeUnknownError, match=f"'{name}'.*the client was closed.*whether it was committed"):
                await committing

    asyncio.run(asyncio.wait_for(program(), PATIENCE_S))
    producer = lv.KafkaProducer(bootstrap_servers=fast.bootstrap_servers, transactional_id=name)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("given-up", b"v")
    stepper = producer._driver._stepper
    shut_down = stepper.shut_down

    def shut_down_late() -> None:
        time.sleep(0.05)  # Who waits looks now, and must not take the client for finished before the commit has its error.
        shut_down()

    monkeypatch.setattr(stepper, "shut_down", shut_down_late)
    with ThreadPoolExecutor(1) as pool, held("EndTxn", fast) as hold:
        committing = pool.submit(producer.commit_transaction)
        until(lambda: hold.waiting)
        producer.close(0.05)
        with pytest.raises(TransactionOutcomeUnknownError, match=f"'{name}'.*the client was closed.*whether it was committed"):
            committing.result(PATIENCE_S)


def test_a_call_in_a_callback_would_wait_for_itself(fast: EmbeddedKafka, name: str) -> None:
    raised: list[BaseException] = []
    with lv.KafkaProducer(bootstrap_servers=fast.bootstrap_servers, transactional_id=name) as producer:

        def commit(metadata: Any, error: Any) -> None:
            try:
                producer.commit_transaction()
            except IllegalStateError as refused:
                raised.append(refused)

        with producer.transaction():
            producer.send("called", b"v", on_delivery=commit)
    assert [str(error).partition(" would")[0] for error in raised] == ["commit_transaction() in an on_delivery callback"]


def test_K23_the_client_id_names_the_transactional_id(fast: EmbeddedKafka, name: str) -> None:
    with lv.KafkaProducer(bootstrap_servers=fast.bootstrap_servers, transactional_id=name) as producer:
        assert f"producer-{name}" in producer._driver.name


def test_T3_a_coordinator_that_moves_within_a_transaction_is_followed(name: str) -> None:
    tp = TopicPartition("moved", 0)
    with EmbeddedKafka(brokers=3) as kafka, lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=name) as producer:
        for node in (1, 2, 3):
            with producer.transaction():
                producer.send("moved", b"%d" % node)
                kafka.move_coordinator(transactional_id=name, node=node)
                producer.send_offsets_to_transaction({tp: node}, "g")
                kafka.move_coordinator(group="g", node=node)
                producer.send_offsets_to_transaction({tp: node + 1}, "g")
                kafka.move_coordinator(transactional_id=name, node=node % 3 + 1)
        assert committed(kafka, "moved", 3) == [b"1", b"2", b"3"]
        with lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, group_id="g") as consumer:
            offset = consumer.committed([tp], timeout=PATIENCE_S)[tp]
        assert offset is not None
        assert offset.offset == 4


def test_T3_a_coordinator_that_loads_is_waited_for(fast: EmbeddedKafka, name: str) -> None:
    with lv.KafkaProducer(bootstrap_servers=fast.bootstrap_servers, transactional_id=name) as producer:
        with fast.loading_coordinator(transactional_id=name):
            with pytest.raises(lv.errors.TimeoutError):
                producer.init_transactions(timeout=0.3)
            initializing = threading.Thread(target=producer.init_transactions)
            initializing.start()
        initializing.join(PATIENCE_S)
        with producer.transaction():
            producer.send("loaded", b"v")
    assert committed(fast, "loaded", 1) == [b"v"]


class Login:
    """PLAIN, until the program has no password any more."""

    name = "PLAIN"
    has_password = True

    def begin(self, host: str) -> Iterator[bytes]:
        if not self.has_password:
            raise TokenError("there is no password")
        yield b"\0user\0password"


@pytest.mark.parametrize("applied", [True, False])
def test_a_login_that_fails_after_a_commit_without_an_answer_leaves_it_unknown(applied: bool) -> None:
    login: Any = Login()
    with (
        EmbeddedKafka(users={"user": "password"}) as kafka,
        lv.KafkaProducer(**kafka.client_settings, sasl_mechanism=login, transactional_id="x") as producer,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"1").result()
        kafka.faults.disconnect("EndTxn", applied=applied)
        login.has_password = False
        for _ in range(2):
            with pytest.raises(TransactionOutcomeUnknownError, match=r"there is no password.*whether it was committed is not known"):
                producer.commit_transaction()
        login.has_password = True
        producer.commit_transaction()
