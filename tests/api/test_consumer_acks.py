"""Records handed out one by one, to be acknowledged: consumer.acks(), of both APIs."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

import levada as lv
from api_kit import BOTH_APIS, EVERYWHERE, api_and_broker
from levada.errors import ConfigError, IllegalStateError, ProcessingError, WakeupError
from levada.errors import TimeoutError as LevadaTimeoutError

KEYS = 5


@pytest.fixture(params=BOTH_APIS)
def kafka(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, embedded: Any) -> Iterator[Any]:
    yield from api_and_broker(request, monkeypatch)


@pytest.fixture
def topic(kafka: Any, new_topic: Callable[..., str]) -> str:
    return new_topic(kafka, partitions=2)


def write(kafka: Any, topic: str, count: int, **where: Any) -> None:
    """Records 0, 1, ... with the key of their number modulo KEYS."""
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send_many(topic, [(b"k%d" % (number % KEYS), b"%d" % number) for number in range(count)], **where)


def reader(kafka: Any, topic: str, **settings: Any) -> Any:
    """A consumer of the whole topic that ends by itself, in a group of its own."""
    made = lv.KafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers,
        **{"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50, "stop_at_end": True, "group_id": f"g-{uuid4().hex}", **settings},
    )
    made.assign(made.partitions_for(topic))
    return made


def committed(consumer: Any, topic: str, partition: int = 0) -> int | None:
    tp = lv.TopicPartition(topic, partition)
    at = consumer.committed([tp])[tp]
    return None if at is None else at.offset


@pytest.mark.parametrize("kafka", EVERYWHERE, indirect=True)
def test_every_record_is_handed_out_and_committed(kafka: Any, topic: str) -> None:
    write(kafka, topic, 40)
    with reader(kafka, topic) as consumer:
        seen = []
        with consumer.acks() as acks:
            for record in acks:
                seen.append(int(record.value))
                record.ack()
        assert sorted(seen) == list(range(40))
        consumer.commit()
        ends = consumer.end_offsets([lv.TopicPartition(topic, partition) for partition in range(2)])
        assert {tp: at.offset for tp, at in consumer.committed(ends).items()} == ends


@pytest.mark.parametrize("offset", [2, 8])
def test_after_a_seek_nothing_from_before_is_handed_out_or_keeps_commits_back(kafka: Any, topic: str, offset: int) -> None:
    write(kafka, topic, 10, partition=0)
    tp = lv.TopicPartition(topic, 0)
    with reader(kafka, topic) as consumer, consumer.acks(ordering="none") as acks:
        before = acks.poll(5, max_records=3)
        consumer.seek(tp, offset)
        consumer.commit()
        assert committed(consumer, topic) == offset
        for record in before:
            record.ack()
        after: list[int] = []
        while len(after) < 10 - offset:
            after += [record.offset for record in acks.poll(5, max_records=3)]
        assert after == list(range(offset, 10))
        assert committed(consumer, topic) == offset, "what was handed out before is not acknowledged any more"
        consumer.seek_to_beginning()
        assert [record.offset for record in acks.poll(5, max_records=1)] == [0]


def test_what_is_committed_is_never_past_a_record_that_is_not_done(kafka: Any, topic: str) -> None:
    write(kafka, topic, 10, partition=0)
    with reader(kafka, topic, max_poll_records=10) as consumer:
        with consumer.acks(ordering="none") as acks:
            records: list[Any] = []
            while len(records) < 10:
                records += acks.poll(5)
            for record in records:
                if record.offset not in (4, 7):
                    record.ack()
            consumer.commit()
            assert committed(consumer, topic) == 4
            assert consumer.consumed_offsets()[lv.TopicPartition(topic, 0)].offset == 4
            next(record for record in records if record.offset == 4).ack()
            consumer.commit()
            assert committed(consumer, topic) == 7
        assert consumer.position(lv.TopicPartition(topic, 0)) == 7, "what is not done is read again"
        assert [record.offset for record in consumer] == [7, 8, 9]


def test_it_is_committed_by_itself(kafka: Any, topic: str) -> None:
    write(kafka, topic, 4, partition=0)
    group = f"g-{uuid4().hex}"
    with reader(kafka, topic, group_id=group) as consumer, consumer.acks() as acks:
        for record in acks:
            if record.offset == 2:
                break
            record.ack()
    with reader(kafka, topic, group_id=group) as consumer:
        assert committed(consumer, topic) == 2
        with consumer.acks() as acks:
            left = []
            for record in acks:
                left.append(record.offset)
                record.ack()
        assert left == [2, 3]


def test_lanes_bound_what_the_program_has(kafka: Any, topic: str) -> None:
    write(kafka, topic, 20)
    with reader(kafka, topic, max_poll_records=4) as consumer, consumer.acks(lanes=3, ordering="none") as acks:
        first = acks.poll(5)
        while len(first) < 3:
            first += acks.poll(5)
        assert len(first) == acks.at_work == 3
        assert acks.poll(0.05) == []
        first[1].ack()
        assert len(acks.poll(5)) == 1


def test_order_of_a_key_is_kept(kafka: Any, topic: str) -> None:
    write(kafka, topic, 30)
    with reader(kafka, topic) as consumer, consumer.acks() as acks:
        at_work: set[bytes] = set()
        seen = defaultdict(list)
        held: list[Any] = []
        for record in acks:
            assert record.key not in at_work
            at_work.add(record.key)
            seen[record.key].append(int(record.value))
            held.append(record)
            if len(held) == 2 or len(seen[record.key]) == 30 // KEYS:
                for one in held:
                    at_work.discard(one.key)
                    one.ack()
                held.clear()
        assert all(numbers == sorted(numbers) for numbers in seen.values())
        assert sum(map(len, seen.values())) == 30


def test_a_delay_holds_up_its_own_key_only(kafka: Any, topic: str) -> None:
    write(kafka, topic, 20, partition=0)
    with reader(kafka, topic) as consumer, consumer.acks() as acks:
        done = []
        began = time.monotonic()
        for record in acks:
            if int(record.value) == 0 and record.attempt == 1:
                record.nack(delay=0.4)
                continue
            done.append((int(record.value), time.monotonic() - began))
            record.ack()
        late = {number: after for number, after in done if number % KEYS == 0}
        assert sorted(number for number, _ in done) == list(range(20))
        assert min(late.values()) >= 0.4
        assert [number for number, _ in done][-4:] == [0, 5, 10, 15], "the others went first"


@pytest.mark.parametrize("kafka", EVERYWHERE, indirect=True)
def test_a_rejected_record_is_in_the_dead_letter_topic_before_it_is_committed(
    kafka: Any, topic: str, new_topic: Callable[..., str]
) -> None:
    write(kafka, topic, 6, partition=0)
    dead = new_topic(kafka)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        # The asyncio API's producer stands behind the one that is waited for here.
        to = lv.DeadLetter(getattr(producer, "_inner", producer), dead)
        with reader(kafka, topic, max_poll_records=6) as consumer, consumer.acks(dead_letter=to) as acks:
            for record in acks:
                if int(record.value) == 2:
                    record.reject(ValueError("two is too many"))
                else:
                    record.ack()
            consumer.commit()
            assert committed(consumer, topic) == 6
    (letter,) = lv.scan(dead, bootstrap_servers=kafka.bootstrap_servers)
    told = {name.removeprefix("__levada.errors."): text.decode() for name, text in letter.headers if text is not None}
    assert (letter.key, letter.value) == (b"k2", b"2")
    assert (told["topic"], told["partition"], told["offset"], told["attempts"]) == (topic, "0", "2", "1")
    assert (told["exception"], told["message"]) == ("ValueError", "two is too many")
    assert "part" not in told


def test_what_cannot_be_written_to_the_dead_letter_topic_is_raised_and_comes_again(kafka: Any, topic: str) -> None:
    write(kafka, topic, 2, partition=0)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, max_block_ms=50) as producer:
        to = lv.DeadLetter(getattr(producer, "_inner", producer), "no such name!")
        with reader(kafka, topic, max_poll_records=1) as consumer, consumer.acks(dead_letter=to, max_unacked=2) as acks:
            (first,) = acks.poll(5)
            first.reject("bad")
            with pytest.raises(ProcessingError, match="'no such name!'") as told:
                while True:
                    for other in acks.poll(5):
                        other.ack()
            assert (told.value.record.offset, told.value.attempts) == (0, 1)
            assert told.value.__cause__ is not None
            consumer.commit()
            assert committed(consumer, topic) == 0
            (again,) = [record for record in acks.poll(5) if record.offset == 0]
            assert again.attempt == 2


def test_dead_letters_are_not_sent_under_the_lock_of_the_consumer(embedded: Any, new_topic: Callable[..., str]) -> None:
    """A producer that waits for memory would hold up heartbeats."""
    topic = new_topic(embedded)
    write(embedded, topic, 1)
    free = []

    class Producer:
        def __init__(self, consumer: Any) -> None:
            self.lock = consumer._driver.lock

        def send(self, *arguments: Any, on_delivery: Any, **more: Any) -> None:
            with ThreadPoolExecutor(1) as other:
                free.append(other.submit(self.lock.acquire, timeout=5).result())
                other.submit(self.lock.release).result()
            on_delivery(None, None)

    for commit in ("commit", "commit_async", "consumed_offsets"):
        with reader(embedded, topic) as consumer, consumer.acks(dead_letter=lv.DeadLetter(Producer(consumer), "dead")) as acks:
            (record,) = acks.poll(5)
            record.reject("bad")
            getattr(consumer, commit)()
    assert free == [True] * 3


def test_a_partition_that_is_too_far_ahead_is_paused_and_the_others_go_on(kafka: Any, topic: str) -> None:
    write(kafka, topic, 50, partition=0)
    write(kafka, topic, 30, partition=1)
    with reader(kafka, topic) as consumer, consumer.acks(max_unacked=10, ordering="none") as acks:
        stuck = None
        most = 0
        others = []
        for record in acks:
            if record.partition == 0 and record.offset == 0:
                stuck = record
                continue
            most = max(most, record.offset) if record.partition == 0 else most
            others.append(record)
            record.ack()
            if sum(one.partition == 1 for one in others) == 30 and most == 9:
                assert stuck is not None
                assert acks.poll(0.1) == [], "ten records from the first one that is not done"
                worst = next(one for one in consumer.health().partitions if one.partition.partition == 0)
                assert worst.detail == "paused by acks() until the record at offset 0 is done"
                stuck.ack()
        assert most == 49
        assert len(others) == 79
        assert consumer.paused() == set()


def test_a_loop_that_is_left_gives_back_what_it_was_not_given(kafka: Any, topic: str) -> None:
    write(kafka, topic, 10, partition=0)
    with reader(kafka, topic) as consumer, consumer.acks(ordering="none") as acks:
        for record in acks:
            record.ack()
            if record.offset == 3:
                break
        assert acks.at_work == 0
        rest = []
        for record in acks:
            assert record.attempt == 1
            rest.append(record.offset)
            record.ack()
        assert rest == list(range(4, 10))


def test_wait_empty_waits_for_what_was_handed_out(kafka: Any, topic: str) -> None:
    write(kafka, topic, 1)
    with reader(kafka, topic) as consumer, consumer.acks() as acks:
        (record,) = acks.poll(5)
        with pytest.raises(LevadaTimeoutError, match="1 records are still at work"):
            acks.wait_empty(timeout=0.05)
        record.nack()
        acks.wait_empty(timeout=5)


def test_an_error_of_the_program_comes_out_of_the_loop(kafka: Any, topic: str) -> None:
    write(kafka, topic, 3)
    with reader(kafka, topic) as consumer, consumer.acks() as acks:
        with pytest.raises(LookupError, match="the database is gone"):
            for record in acks:
                record.fail(LookupError("the database is gone"))
        assert next(record.attempt for record in acks.poll(5)) == 2


def test_a_seek_gives_up_what_was_handed_out_before(kafka: Any, topic: str) -> None:
    write(kafka, topic, 4, partition=0)
    with reader(kafka, topic) as consumer, consumer.acks(ordering="none") as acks:
        before: list[Any] = []
        while len(before) < 4:
            before += acks.poll(5)
        consumer.seek(lv.TopicPartition(topic, 0), 1)
        after: list[Any] = []
        while len(after) < 3:
            after += acks.poll(5)
        assert [record.offset for record in after] == [1, 2, 3]
        assert all(record.is_given_up for record in before)
        before[1].ack()
        consumer.commit()
        assert committed(consumer, topic) == 1


def test_records_are_plain_ones_with_a_say(kafka: Any, topic: str) -> None:
    import pickle

    write(kafka, topic, 1)
    with reader(kafka, topic, value_deserializer=lambda value: int(value)) as consumer, consumer.acks() as acks:
        (record,) = acks.poll(5)
        assert isinstance(record, lv.AckRecord)
        assert (record.value, record.raw_value, record.raw_key, record.decode_error) == (0, b"0", b"k0", None)
        copy = pickle.loads(pickle.dumps(record))
        assert type(copy) is lv.ConsumerRecord
        assert copy == record
        changed = record._replace(value=7)
        assert (changed.value, changed.raw_value) == (7, b"0")
        changed.ack()
        acks.wait_empty(5)


def test_the_consumer_hands_out_nothing_else_meanwhile(kafka: Any, topic: str) -> None:
    with reader(kafka, topic) as consumer:
        with consumer.acks():
            for use in (consumer.poll, consumer.poll_arrow, lambda: next(iter(consumer)), lambda: consumer.acks()):
                with pytest.raises(IllegalStateError, match=r"acks\(\)"):
                    use()
        assert consumer.poll(0) == []
    with lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers) as consumer, pytest.raises(IllegalStateError, match="nothing to read"):
        consumer.acks()


def test_a_closed_one_says_so(kafka: Any, topic: str) -> None:
    write(kafka, topic, 1)
    with reader(kafka, topic) as consumer:
        acks = consumer.acks()
        (record,) = acks.poll(5)
        acks.close()
        acks.close()
        record.ack()
        with pytest.raises(IllegalStateError, match=r"this acks\(\) is closed"):
            acks.poll(0)
        assert len(consumer.poll(5)) == 1, "it was not done"


def test_a_consumer_that_is_closed_first_ends_it(kafka: Any, topic: str) -> None:
    write(kafka, topic, 3, partition=0)
    group = f"g-{uuid4().hex}"
    consumer = reader(kafka, topic, group_id=group)
    acks = consumer.acks(ordering="none")
    first, *others = acks.poll(5)
    first.ack()
    consumer.close()
    for late in others:
        late.ack()
    acks.close()
    with reader(kafka, topic, group_id=group) as consumer:
        assert committed(consumer, topic) == 1


@pytest.mark.parametrize(
    ("wrong", "error", "told"),
    [
        ({"max_unacked": 0}, ValueError, "max_unacked must be at least 1"),
        ({"lanes": 0}, ValueError, "lanes must be at least 1"),
        ({"lanes": 1.5}, TypeError, "lanes must be a whole number"),
        ({"ordering": "keys"}, ValueError, "did you mean 'key'"),
        ({"dead_letter": "dead"}, TypeError, "dead_letter is a levada.DeadLetter"),
    ],
)
def test_wrong_arguments_are_refused(kafka: Any, topic: str, wrong: Any, error: type[Exception], told: str) -> None:
    with reader(kafka, topic) as consumer, pytest.raises(error, match=told):
        consumer.acks(**wrong)


def test_a_producer_that_serializes_is_refused_for_dead_letters(kafka: Any, topic: str) -> None:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, value_serializer=str.encode) as producer:
        to = lv.DeadLetter(getattr(producer, "_inner", producer), "dead")
        with reader(kafka, topic) as consumer, pytest.raises(ConfigError, match=r"dead_letter: .* value\.serializer"):
            consumer.acks(dead_letter=to)


def test_a_call_that_was_struck_before_it_began_takes_nothing_back(
    embedded: Any, new_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal's handler may raise in the first line of a call: what the call before has handed out is the program's."""
    topic = new_topic(embedded)
    write(embedded, topic, 10)

    def struck(*_: Any) -> Any:
        raise KeyboardInterrupt

    with reader(embedded, topic) as consumer, consumer.acks() as acks:
        first = acks.poll(20)
        for record in first:
            record.ack()
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(consumer._driver, "call", struck)
            acks.poll(20)
        seen = [record.offset for record in first]
        while len(seen) < 10:
            more = acks.poll(20)
            for record in more:
                record.ack()
            seen += [record.offset for record in more]
        assert (seen, acks.poll(0.1)) == (list(range(10)), [])


def test_many_threads_say_what_becomes_of_records(embedded: Any, new_topic: Callable[..., str]) -> None:
    """Blocking only: the loop waits while threads work, and is woken by them."""
    topic = new_topic(embedded, partitions=2)
    write(embedded, topic, 300)
    at_once: set[bytes] = set()
    seen = defaultdict(list)
    lock = threading.Lock()

    def work(record: Any) -> None:
        with lock:
            assert record.key not in at_once
            at_once.add(record.key)
        time.sleep(0.001)
        with lock:
            at_once.discard(record.key)
            seen[record.key].append(int(record.value))
        if int(record.value) % 50 == 7 and record.attempt == 1:
            seen[record.key].pop()
            record.nack(0.01)
        else:
            record.ack()

    with reader(embedded, topic) as consumer, consumer.acks(lanes=8) as acks, ThreadPoolExecutor(8) as pool:
        for record in acks:
            pool.submit(work, record)
    assert {key: len(numbers) for key, numbers in seen.items()} == {b"k%d" % key: 300 // KEYS for key in range(KEYS)}
    assert all(numbers == sorted(numbers) for numbers in seen.values())


def test_a_loop_ends_when_nothing_came_for_a_while_and_all_is_done(kafka: Any, topic: str) -> None:
    write(kafka, topic, 3, partition=0)
    with reader(kafka, topic, stop_at_end=False, consumer_timeout_ms=100) as consumer, consumer.acks(ordering="none") as acks:
        seen = []
        for record in acks:
            seen.append((record.offset, record.attempt))
            if record.attempt == 1 and record.offset == 1:
                record.nack(delay=0.3)
            else:
                record.ack()
        assert sorted(seen) == [(0, 1), (1, 1), (1, 2), (2, 1)]


def test_wakeup_ends_the_wait_for_records(kafka: Any, topic: str) -> None:
    write(kafka, topic, 1)
    with reader(kafka, topic) as consumer, consumer.acks() as acks:
        (record,) = acks.poll(5)
        consumer.wakeup()
        with pytest.raises(WakeupError):
            acks.poll(5)
        record.ack()
        assert acks.poll(0) == []
