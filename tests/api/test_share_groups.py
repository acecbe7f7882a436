"""Share consumers, as users have them: both APIs, every broker that has share groups, and one that has none (KIP-932)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any
from uuid import uuid4

import pytest

import levada as lv
from api_kit import EVERYWHERE, api_and_broker
from levada import aio
from levada.api import share_consumer
from levada.errors import (
    AcknowledgeError,
    ConcurrentUseError,
    IllegalStateError,
    KafkaError,
    RecordDeserializationError,
    UnsupportedVersionError,
    WakeupError,
)
from log_lines import said
from share_peers import new_share_group

PATIENCE_S = 40
WITH_SHARE_GROUPS = [param for param in EVERYWHERE if param.id != "kafka-3.9.2"]
HERE_AND_THERE = [param for param in EVERYWHERE if param.id in ("asyncio-embedded", "kafka-4.4.0", "simulation")]
"""Each kind of API and of broker once."""
SIMULATED = [param for param in EVERYWHERE if param.id == "simulation"]
WITHOUT = [param for param in EVERYWHERE if param.id == "kafka-3.9.2"]


@pytest.fixture
def kafka(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, embedded: Any) -> Iterator[Any]:
    yield from api_and_broker(request, monkeypatch)


def new_group(kafka: Any) -> str:
    return new_share_group(lv, kafka)


def member(kafka: Any, group: str, topic: str, *, explicit: bool = True, **settings: Any) -> Any:
    settings["share_acknowledgement_mode"] = "explicit" if explicit else "implicit"
    made = lv.KafkaShareConsumer(bootstrap_servers=kafka.bootstrap_servers, group_id=group, retry_backoff_ms=20, **settings)
    made.subscribe([topic])
    return made


def produce(kafka: Any, topic: str, values: list[bytes], partition: int | None = None) -> None:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, value=value, partition=partition)


def poll_some(consumer: Any, **arguments: Any) -> Any:
    """Poll until something comes."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if found := consumer.poll(1.0, **arguments):
            return found
    raise AssertionError(f"no records within {PATIENCE_S} s")


def values(records: Any) -> list[bytes]:
    return [record.value for record in records]


@pytest.mark.parametrize("kafka", WITH_SHARE_GROUPS, indirect=True)
def test_each_record_is_accepted_released_or_rejected(kafka: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka)
    group = new_group(kafka)
    produce(kafka, topic, [b"accept", b"release", b"reject", b"accept too"])
    told: list[tuple[dict[Any, list[int]], Any]] = []
    with member(kafka, group, topic) as consumer:
        consumer.set_acknowledgement_commit_callback(lambda offsets, error: told.append((offsets, error)))
        seen: list[Any] = []
        while len(seen) < 4:
            found = poll_some(consumer)
            for record in found:
                consumer.acknowledge(record, record.value.split()[0].decode())
            seen += found
        assert {record.value: record.delivery_count for record in seen[:4]} == dict.fromkeys(values(seen[:4]), 1)
        consumer.commit()
        assert sorted(offset for offsets, _ in told for offset in offsets[lv.TopicPartition(topic, 0)])[:4] == [0, 1, 2, 3]
        assert {error for _, error in told} == {None}
        again = seen[4:] or poll_some(consumer)
        assert [(record.value, record.delivery_count) for record in again] == [(b"release", 2)]
        consumer.acknowledge(again, lv.AcknowledgeType.ACCEPT)
        consumer.commit()
        assert consumer.poll(0.3) == []
        assert consumer.acquisition_lock_timeout() == 30


@pytest.mark.parametrize("kafka", HERE_AND_THERE, indirect=True)
def test_without_a_word_everything_is_accepted_by_the_next_call(kafka: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka, 3)
    group = new_group(kafka)
    wanted = [b"%d" % number for number in range(60)]
    for partition in range(3):
        produce(kafka, topic, wanted[partition::3], partition)
    with member(kafka, group, topic, explicit=False) as consumer:
        seen: list[Any] = []
        while len(seen) < 60:
            seen += poll_some(consumer, max_records=7)
        with pytest.raises(IllegalStateError, match=r"share\.acknowledgement\.mode=explicit"):
            consumer.acknowledge(seen[0])
    assert sorted(values(seen)) == sorted(wanted)
    # What the first one had in its hands was accepted by its close().
    produce(kafka, topic, [b"next"])
    with member(kafka, group, topic, explicit=False) as consumer:
        assert [(record.value, record.delivery_count) for record in poll_some(consumer)] == [(b"next", 1)]


@pytest.mark.parametrize("kafka", HERE_AND_THERE, indirect=True)
def test_columns_are_acknowledged_as_a_whole_or_in_part(kafka: Any, new_topic: Callable[..., str]) -> None:
    pa = pytest.importorskip("pyarrow")
    topic = new_topic(kafka)
    group = new_group(kafka)
    produce(kafka, topic, [b"%d" % number for number in range(10)], 0)
    with member(kafka, group, topic) as consumer:
        batches: list[Any] = []
        while sum(batch.num_rows for batch in batches) < 10:
            batch = consumer.poll_arrow(1.0)
            consumer.acknowledge_arrow(batch)
            batches.append(batch)
        table = pa.Table.from_batches(batches)
        assert table.column_names == ["key", "value", "topic", "partition", "offset", "timestamp", "delivery_count"]
        assert table["value"].to_pylist() == [b"%d" % number for number in range(10)]
        assert table["delivery_count"].to_pylist() == [1] * 10
        produce(kafka, topic, [b"a", b"b", b"c", b"d"], 0)
        rows: list[Any] = []
        while len(rows) < 4:
            batch = consumer.poll_arrow(1.0, text=["value"])
            consumer.acknowledge_arrow(batch, "accept")
            consumer.acknowledge_arrow(batch, "release", mask=[value in ("b", "d") for value in batch["value"].to_pylist()])
            rows += batch.to_pylist()
        again: list[Any] = rows[4:]
        while len(again) < 2:
            batch = consumer.poll_arrow(1.0, columns=["offset", "delivery_count"])
            consumer.acknowledge_offsets(lv.TopicPartition(topic, 0), batch["offset"])
            again += batch.to_pylist()
        assert {row["offset"]: row["delivery_count"] for row in again} == {11: 2, 13: 2}
        consumer.commit()


@pytest.mark.parametrize("kafka", HERE_AND_THERE, indirect=True)
def test_a_renewed_record_comes_again_and_no_other(kafka: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka)
    group = new_group(kafka)
    produce(kafka, topic, [b"long", b"short"], 0)
    with member(kafka, group, topic, max_poll_records=1, share_acquire_mode="record_limit") as consumer:
        (record,) = poll_some(consumer)
        consumer.acknowledge(record, "renew")
        (again,) = poll_some(consumer)
        assert (again, again.delivery_count) == (record, 1)
        consumer.acknowledge(again, "renew")
        consumer.commit()
        consumer.acknowledge(again, "accept")
        (other,) = poll_some(consumer)
        assert (record.value, other.value) == (b"long", b"short")
        consumer.acknowledge(other)


@pytest.mark.parametrize("kafka", HERE_AND_THERE, indirect=True)
def test_what_is_not_acknowledged_goes_to_others_when_its_consumer_closes(kafka: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka)
    group = new_group(kafka)
    produce(kafka, topic, [b"a", b"b"], 0)
    first = member(kafka, group, topic)
    seen: list[Any] = []
    while len(seen) < 2:
        seen += poll_some(first, max_records=2)
        first.acknowledge(seen[0]) if len(seen) == 2 else first.acknowledge(seen)
    first.close()
    with member(kafka, group, topic) as second:
        again = poll_some(second)
        assert values(again) == [b"b"]
        second.acknowledge(again, "reject")


@pytest.mark.parametrize("kafka", HERE_AND_THERE, indirect=True)
def test_two_members_share_one_partition(kafka: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka)
    group = new_group(kafka)
    settings: dict[str, Any] = {"max_poll_records": 5, "share_acquire_mode": "record_limit"}
    with member(kafka, group, topic, **settings) as one, member(kafka, group, topic, **settings) as other:
        one.poll(0.3), other.poll(0.3)
        produce(kafka, topic, [b"%d" % number for number in range(40)], 0)
        seen: dict[str, list[bytes]] = {"one": [], "other": []}
        deadline = time.monotonic() + PATIENCE_S
        while sum(map(len, seen.values())) < 40 and time.monotonic() < deadline:
            for name, consumer in (("one", one), ("other", other)):
                found = consumer.poll(0.3)
                consumer.acknowledge(found)
                seen[name] += values(found)
        assert sorted(seen["one"] + seen["other"]) == sorted(b"%d" % number for number in range(40))
        assert seen["one"], "both members have worked"
        assert seen["other"], "both members have worked"


@pytest.mark.parametrize("kafka", HERE_AND_THERE, indirect=True)
def test_a_loop_that_is_left_goes_on_with_what_it_was_not_given(kafka: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka)
    group = new_group(kafka)
    produce(kafka, topic, [b"%d" % number for number in range(6)], 0)
    with member(kafka, group, topic, explicit=False) as consumer:
        seen: list[bytes] = []
        for record in consumer:
            seen.append(record.value)
            if len(seen) == 2:
                break
        for record in consumer:
            assert record.delivery_count == 1
            seen.append(record.value)
            if len(seen) == 6:
                break
    assert seen == [b"%d" % number for number in range(6)]


@pytest.mark.parametrize("kafka", SIMULATED, indirect=True)
def test_a_loop_ends_when_no_record_came_for_so_long(kafka: Any) -> None:
    kafka.create_topic("t")
    group = new_group(kafka)
    produce(kafka, "t", [b"a", b"b"], 0)
    with member(kafka, group, "t", explicit=False, consumer_timeout_ms=20_000) as consumer:
        began = time.monotonic()
        assert [record.value for record in consumer] == [b"a", b"b"]
        assert 20 <= time.monotonic() - began < 40


@pytest.mark.parametrize("kafka", HERE_AND_THERE, indirect=True)
@pytest.mark.parametrize("commits", [False, True])
def test_the_record_at_which_a_loop_was_left_is_released(kafka: Any, new_topic: Callable[..., str], commits: bool) -> None:
    """The loop is done with a record when it asks for the next one, or when the program commits."""
    topic = new_topic(kafka)
    group = new_group(kafka)
    produce(kafka, topic, [b"0", b"1", b"2", b"3"])
    with member(kafka, group, topic, explicit=False) as consumer:
        for record in consumer:
            if record.value == b"2":
                if commits:
                    consumer.commit()
                break
    with member(kafka, group, topic) as consumer:
        left: list[Any] = []
        while len(left) < (1 if commits else 2):
            found = poll_some(consumer)
            consumer.acknowledge(found)
            left += found
        assert values(left) == ([b"3"] if commits else [b"2", b"3"])


@pytest.mark.parametrize("kafka", HERE_AND_THERE, indirect=True)
def test_an_exception_in_the_program_accepts_nothing(kafka: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka)
    group = new_group(kafka)
    produce(kafka, topic, [b"a"], 0)
    with pytest.raises(ZeroDivisionError), member(kafka, group, topic, explicit=False) as consumer:
        assert values(poll_some(consumer)) == [b"a"]
        raise ZeroDivisionError
    with member(kafka, group, topic, explicit=False) as consumer:
        assert values(poll_some(consumer)) == [b"a"]


@pytest.mark.parametrize("kafka", HERE_AND_THERE, indirect=True)
def test_a_record_that_does_not_deserialize_is_the_programs_to_decide(kafka: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka)
    group = new_group(kafka)
    produce(kafka, topic, [b"1", b"x", b"3"], 0)
    with member(kafka, group, topic, value_deserializer=int) as consumer:
        seen: list[Any] = []
        failed: list[Any] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(seen) < 2 and time.monotonic() < deadline:
            try:
                found = consumer.poll(1.0)
                consumer.acknowledge(found)
                seen += values(found)
            except RecordDeserializationError as error:
                assert "seek" not in str(error)
                failed.append(error.record)
                consumer.acknowledge(error.record, "reject")
        assert (seen, values(failed)) == ([1, 3], [b"x"])
        consumer.commit()
        assert consumer.poll(0.3) == []


@pytest.mark.parametrize("kafka", HERE_AND_THERE, indirect=True)
def test_every_record_is_to_be_acknowledged_before_more_are_asked_for(kafka: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka)
    group = new_group(kafka)
    produce(kafka, topic, [b"a", b"b"], 0)
    with member(kafka, group, topic) as consumer:
        found = poll_some(consumer)
        with pytest.raises(IllegalStateError, match=rf"{len(found)} records are not acknowledged, the first is {topic}-0 at offset 0"):
            consumer.poll(0.1)
        with pytest.raises(ValueError, match="accept, release, reject or renew; got 'done'"):
            consumer.acknowledge(found, "done")
        consumer.acknowledge(found)
        consumer.commit()
        with pytest.raises(IllegalStateError, match="or has already sent an acknowledgement"):
            consumer.acknowledge(found)


@pytest.mark.parametrize("kafka", HERE_AND_THERE, indirect=True)
def test_a_group_of_another_kind_takes_no_share_consumer(kafka: Any, new_topic: Callable[..., str]) -> None:
    topic, group = new_topic(kafka), f"classic-{uuid4()}"
    with lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, group_id=group) as other:
        other.subscribe([topic])
        while not other.assignment():
            other.poll(0.1)
        with member(kafka, group, topic) as consumer:
            for _ in range(2):
                with pytest.raises(KafkaError, match=rf"share group '{group}': .* a group of another kind"):
                    consumer.poll(10)


@pytest.mark.parametrize("kafka", SIMULATED, indirect=True)
def test_a_topic_that_comes_later_is_read_then(kafka: Any) -> None:
    group = new_group(kafka)
    with member(kafka, group, "later", allow_auto_create_topics=False) as consumer:
        assert consumer.poll(10) == []
        kafka.create_topic("later", 2)
        produce(kafka, "later", [b"a"], 1)
        found = poll_some(consumer)
        assert values(found) == [b"a"]
        consumer.acknowledge(found)


@pytest.mark.parametrize("kafka", WITHOUT, indirect=True)
def test_a_broker_without_share_groups_is_named_with_what_has_them(kafka: Any) -> None:
    with member(kafka, "g", "t") as consumer, pytest.raises(UnsupportedVersionError, match=r"share groups need Kafka 4\.1, or better 4\.2"):
        consumer.poll(10)


@pytest.mark.parametrize("kafka", SIMULATED, indirect=True)
def test_a_lock_that_has_ended_is_told_where_it_is_acknowledged(kafka: Any) -> None:
    kafka.create_topic("t")
    group = new_group(kafka)
    produce(kafka, "t", [b"slow"], 0)
    with member(kafka, group, "t") as consumer:
        (record,) = poll_some(consumer)
        time.sleep(31)
        consumer.acknowledge(record)
        with pytest.raises(AcknowledgeError, match="the lock had ended, or the records went to another member") as raised:
            consumer.commit()
        tp = lv.TopicPartition("t", 0)
        assert raised.value.offsets == {tp: [0]}
        error = raised.value.outcomes[tp]
        assert error is not None
        (again,) = poll_some(consumer)
        assert again.delivery_count == 2
        consumer.acknowledge(again)


@pytest.mark.parametrize("kafka", HERE_AND_THERE, indirect=True)
def test_a_call_that_waits_can_be_woken_up(kafka: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka)
    with member(kafka, new_group(kafka), topic) as consumer:
        consumer.wakeup()
        with pytest.raises(WakeupError):
            consumer.poll(30)
        assert consumer.poll(0.1) == []


@pytest.mark.parametrize("kafka", SIMULATED, indirect=True)
def test_polls_without_a_wait_get_records_too(kafka: Any) -> None:
    kafka.create_topic("t")
    group = new_group(kafka)
    produce(kafka, "t", [b"a"], 0)
    with member(kafka, group, "t") as consumer:
        for _ in range(200):
            if found := consumer.poll(0):
                consumer.acknowledge(found)
                break
            time.sleep(0.1)
        assert values(found) == [b"a"]


@pytest.mark.parametrize("kafka", SIMULATED, indirect=True)
def test_what_did_not_reach_the_program_comes_with_the_next_call(kafka: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after Ctrl-C, or the cancellation of a task, between the end of a call and its caller's getting the result."""
    kafka.create_topic("t")
    group = new_group(kafka)
    produce(kafka, "t", [b"a", b"b"], 0)
    with member(kafka, group, "t") as consumer:
        with monkeypatch.context() as patched:
            patched.setattr(share_consumer, "ShareRecords", interrupted)
            with pytest.raises(KeyboardInterrupt):
                poll_some(consumer)
        found = poll_some(consumer)
        assert [(record.value, record.delivery_count) for record in found] == [(b"a", 1), (b"b", 1)]
        consumer.acknowledge(found)
        consumer.commit()


def interrupted(records: list[Any]) -> list[Any]:
    if records:
        raise KeyboardInterrupt
    return records


@pytest.mark.parametrize("kafka", SIMULATED, indirect=True)
def test_records_whose_locks_ended_before_they_were_handed_out_are_left_to_others(kafka: Any) -> None:
    kafka.create_topic("t")
    group = new_group(kafka)
    produce(kafka, "t", [b"a", b"b"], 0)
    with member(kafka, group, "t", explicit=False) as consumer:
        (first,) = poll_some(consumer, max_records=1)
        consumer.commit()
        time.sleep(31)
        (second,) = poll_some(consumer, max_records=1)
        assert [(record.value, record.delivery_count) for record in (first, second)] == [(b"a", 1), (b"b", 2)]


@pytest.mark.parametrize("kafka", SIMULATED, indirect=True)
def test_a_topic_that_is_given_up_is_released_and_its_records_stay_acknowledgeable(kafka: Any) -> None:
    kafka.create_topic("t")
    kafka.create_topic("other")
    group = new_group(kafka)
    produce(kafka, "t", [b"a", b"b"], 0)
    with member(kafka, group, "t") as consumer, member(kafka, group, "t") as another:
        (first,) = poll_some(consumer, max_records=1)
        consumer.subscribe(["other"])
        consumer.acknowledge(first)
        consumer.commit()
        assert consumer.subscription() == {"other"}
        (second,) = poll_some(another)
        assert second.value == b"b", "it was fetched and not handed out"
        another.acknowledge(second)


@pytest.mark.parametrize("kafka", SIMULATED, indirect=True)
def test_without_a_callback_what_was_refused_is_logged(kafka: Any, caplog: pytest.LogCaptureFixture) -> None:
    kafka.create_topic("t")
    group = new_group(kafka)
    produce(kafka, "t", [b"slow"], 0)
    with member(kafka, group, "t", explicit=False) as consumer:
        assert poll_some(consumer)
        time.sleep(31)
        assert poll_some(consumer)[0].delivery_count == 2
    (line,) = said(record for record in caplog.records if record.name == "levada.api.share_consumer")
    assert line.startswith("1 records from offset 0 are delivered again unless their acknowledgement was taken: t-0: node 1")


@pytest.mark.parametrize("kafka", SIMULATED, indirect=True)
def test_misuse_is_told_where_it_happens(kafka: Any) -> None:
    made: Any = lv.KafkaShareConsumer(bootstrap_servers=kafka.bootstrap_servers, group_id="g")
    with made as consumer:
        with pytest.raises(IllegalStateError, match="subscribe"):
            consumer.poll(0)
        with pytest.raises(ValueError, match="one topic at least"):
            consumer.subscribe([])
        with pytest.raises(TypeError, match="it is called timeout, and is in seconds"):
            consumer.poll(timeout_ms=5)
        with pytest.raises(TypeError, match="offsets by partition"):
            consumer.set_acknowledgement_commit_callback(7)
        with pytest.raises(AttributeError, match="a share group has no positions"):
            consumer.seek  # noqa: B018
        assert consumer.acquisition_lock_timeout() is None
        assert consumer.metrics().value("acknowledgements-send-total") == 0


def test_one_task_at_a_time_uses_a_consumer(embedded: Any) -> None:
    async def main() -> None:
        async with aio.KafkaShareConsumer(bootstrap_servers=embedded.bootstrap_servers, group_id="alone") as consumer:
            consumer.subscribe(["t"])
            waiting = asyncio.create_task(consumer.poll(60))
            await asyncio.sleep(0)
            tp = lv.TopicPartition("t", 0)
            uses: list[Callable[[], Any]] = [
                lambda: consumer.subscribe(["t"]),
                consumer.subscription,
                consumer.unsubscribe,
                lambda: consumer.acknowledge([]),
                lambda: consumer.acknowledge_offsets(tp, []),
                lambda: consumer.acknowledge_arrow(None),
                lambda: consumer.set_acknowledgement_commit_callback(None),
                consumer.acquisition_lock_timeout,
            ]
            for use in uses:
                with pytest.raises(ConcurrentUseError):
                    use()
            consumer.wakeup()
            with pytest.raises(WakeupError):
                await waiting

    asyncio.run(main())


@pytest.mark.parametrize("kafka", SIMULATED, indirect=True)
def test_an_offset_may_be_an_integer_of_any_kind(kafka: Any) -> None:
    numpy = pytest.importorskip("numpy")
    kafka.create_topic("t")
    produce(kafka, "t", [b"a", b"b", b"c"], 0)
    with member(kafka, new_group(kafka), "t") as consumer:
        poll_some(consumer)
        for offsets in (numpy.int64(0), numpy.array([1], "int32"), [numpy.uint8(2)]):
            consumer.acknowledge_offsets(lv.TopicPartition("t", 0), offsets)
        consumer.commit()
        with pytest.raises(TypeError, match=r"offset must be a whole number, got 1\.5"):
            consumer.acknowledge_offsets(lv.TopicPartition("t", 0), 1.5)


@pytest.mark.parametrize("kafka", SIMULATED, indirect=True)
def test_a_callback_may_not_ask_for_more(kafka: Any) -> None:
    kafka.create_topic("t")
    group = new_group(kafka)
    produce(kafka, "t", [b"a"], 0)
    with member(kafka, group, "t") as consumer:
        failed: list[Any] = []

        def callback(offsets: Any, error: Any) -> None:
            with pytest.raises(IllegalStateError, match="an acknowledgement callback may not"):
                consumer.commit()
            failed.append(offsets)

        consumer.set_acknowledgement_commit_callback(callback)
        consumer.acknowledge(poll_some(consumer))
        consumer.commit_async()
        time.sleep(1)
        consumer.poll(0)
        assert failed == [{lv.TopicPartition("t", 0): [0]}]


def test_a_cancelled_call_neither_skips_nor_repeats_records(embedded: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(embedded)
    group = new_group(embedded)
    wanted = [b"%d" % number for number in range(300)]
    produce(embedded, topic, wanted, 0)

    async def main() -> list[Any]:
        seen: list[Any] = []
        random = Random(1)
        async with aio.KafkaShareConsumer(
            bootstrap_servers=embedded.bootstrap_servers, group_id=group, max_poll_records=7, share_acquire_mode="record_limit"
        ) as consumer:
            consumer.subscribe([topic])
            while len(seen) < len(wanted):
                task = asyncio.create_task(consumer.poll(1))
                await asyncio.sleep(random.random() * 0.002)
                if random.random() < 0.7:
                    task.cancel()
                with suppress(asyncio.CancelledError):
                    seen += await task
        return seen

    seen = asyncio.run(main())
    assert (values(seen), {record.delivery_count for record in seen}) == (wanted, {1})
