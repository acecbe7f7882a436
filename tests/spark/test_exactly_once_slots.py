"""Batches of the exactly-once sink that do not fit into the driver: tasks write slots, and the driver commits them (adr/0061)."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

import levada as lv
from committed_kit import committed, is_settled, settled
from fork_kit import told_by_child
from levada.base.clock import SystemClock
from levada.errors import IllegalStateError, KafkaError
from levada.exactly_once import ledger, slots
from levada.exactly_once.batch import parsed
from levada.exactly_once.slots import Slots
from levada.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from levada.spark.sink.exactly_once import committing, sealing
from levada.spark.sink.exactly_once.sealing import OpenSlot
from levada.testing import EmbeddedKafka
from levada.types import TopicPartition
from levada.wire.murmur2 import murmur2
from spark_sink import ROWS, Died, Query, dying
from spark_strikes import SLOT_STEPS

pytestmark = pytest.mark.usefixtures("no_idle_clients")


@pytest.fixture
def kafka(any_kafka: Any) -> Any:
    return any_kafka


def slots_only(kafka: Any, topic: str, **options: str) -> Query:
    return Query(kafka, topic, inlineMaxBytes="1", **options)


def mixed(kafka: Any, topic: str, **options: str) -> Query:
    """Tasks with one row of a few bytes return it, others write slots."""
    return Query(kafka, topic, inlineMaxBytes="250", **options)


LARGE = b"x" * 300


def groups(kafka: Any, sink: str) -> list[str]:
    """Return the groups of a sink that have committed something; brokers forget the others."""
    with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        listed = sorted(found.group_id for found in admin.list_groups() if found.group_id.startswith(f"levada-{sink}"))
        return [group for group in listed if admin.list_consumer_group_offsets(group)]


def fence(kafka: Any, *messages: Any) -> None:
    """Abort what tasks have open, as their coordinators do after transaction.timeout.ms."""
    with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.fence_producers([message.slot.handle.transactional_id for message in messages])


def dies_before_slots_are_committed(monkeypatch: Any, query: Query, number: int, *tasks: list[bytes]) -> list[Any]:
    """Decide a batch and die. Returns the messages of its tasks."""
    messages = query.run_tasks(number, tasks)
    finish = Slots.finish

    def dies(slots: Slots, entry: ledger.Entry, **options: Any) -> Any:
        if entry.unfinished:
            raise Died
        return finish(slots, entry)

    with monkeypatch.context() as struck:
        struck.setattr(Slots, "finish", dies)
        with pytest.raises(Died):
            query.commit(number, messages)
    query.restart()
    return messages


def test_batches_beyond_the_drivers_memory_are_written_once_however_often_they_are_repeated(kafka: Any, new_topic: Any) -> None:
    topic = new_topic(kafka, 3)
    query = mixed(kafka, topic)
    query.run(0, [b"a", LARGE], [], [b"c"])
    query.restart()
    query.run(0, [b"c"], [LARGE, b"a"])
    query.run(1, [b"d"])
    query.run(2, [LARGE + b"1"], [LARGE + b"2"], [LARGE + b"3"])
    query.restart()
    query.run(2, [LARGE + b"1", LARGE + b"2"], [LARGE + b"3"])
    query.run(3, [b"e"])
    expected = [b"a", LARGE, b"c", b"d", LARGE + b"1", LARGE + b"2", LARGE + b"3", b"e"]
    assert settled(kafka, topic) == Counter(expected)


def test_nothing_is_seen_before_the_decision(kafka: Any, new_topic: Any) -> None:
    topic = new_topic(kafka, 2)
    query = slots_only(kafka, topic)
    messages = query.run_tasks(0, [[b"a"], [b"b"]])
    assert [(parsed(message.slot.handle.transactional_id), message.batches) for message in messages] == [
        ((f"levada-{query.query_id}", (query.run_id[:8], 0, task, 0)), ()) for task in (0, 1)
    ]
    assert not is_settled(kafka, topic)
    assert committed(kafka, topic) == Counter()
    query.commit(0, messages)
    assert settled(kafka, topic) == Counter([b"a", b"b"])


def test_rows_of_a_slot_are_in_order_and_in_their_partitions(embedded: Any, new_topic: Any) -> None:
    topic = new_topic(embedded, 4)
    query = Query(embedded, topic, inlineMaxBytes="20000")
    rows = [(b"k%d" % (number % 7), b"%06d" % number + b"x" * 100) for number in range(3000)]
    writer = query.writer()
    batches = [
        pa.RecordBatch.from_pydict({"key": [key for key, _ in part], "value": [value for _, value in part]}, schema=ROWS)
        for part in (rows[:10], rows[10:40], rows[40:2000], rows[2000:])
    ]
    message = query.run_task(0, 0, iter(batches), writer)
    assert message.slot is not None
    query.commit(0, [message])
    found = list(lv.scan(topic, bootstrap_servers=embedded.bootstrap_servers, isolation_level="read_committed"))
    assert sorted((record.key, record.value) for record in found) == sorted(rows)
    for key in {key for key, _ in rows}:
        mine = [record for record in found if record.key == key]
        assert [record.value for record in mine] == [value for other, value in rows if other == key]
        assert len({record.partition for record in mine}) == 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_processes_may_die_at_every_step(kafka: Any, new_topic: Any, monkeypatch: Any, when: str) -> None:
    topic, expected = new_topic(kafka, 2), Counter[bytes]()
    query = mixed(kafka, topic)
    for step, (owner, name) in enumerate(SLOT_STEPS.values()):
        query.run(2 * step, [LARGE])
        number = 2 * step + 1
        rows = [b"%d-a" % number], [b"%d-b" % number, LARGE + b"%d" % number]
        query.restart()
        with monkeypatch.context() as struck:
            struck.setattr(owner, name, dying(getattr(owner, name), when))
            struck.setattr(committing.SinkClients, "close", lambda clients, *raised: None)
            struck.setattr(OpenSlot, "abort", lambda slot: None)
            with pytest.raises(Died):
                query.run(number, *rows)
        query.restart()
        query.run(number, *reversed(rows))
        expected.update([LARGE, *rows[0], *rows[1]])
        assert settled(kafka, topic) == expected, name


def test_a_slot_that_was_aborted_before_the_decision_ends_the_run_and_writes_nothing(kafka: Any, new_topic: Any) -> None:
    topic = new_topic(kafka, 2)
    query = slots_only(kafka, topic)
    messages = query.run_tasks(0, [[b"a"], [b"b"]])
    fence(kafka, messages[1])
    with pytest.raises(IllegalStateError, match=r"~.*\.0\.1\.0', with 1 rows of a task, will not be committed: its coordinator has"):
        query.commit(0, messages)
    assert committed(kafka, topic) == Counter()
    query.abort(0, messages)
    query.restart()
    query.run(0, [b"a"], [b"b"])
    assert settled(kafka, topic) == Counter([b"a", b"b"])


def test_a_slot_with_little_time_left_is_not_relied_on(embedded: Any, new_topic: Any, monkeypatch: Any) -> None:
    topic = new_topic(embedded)
    query = slots_only(embedded, topic)
    messages = query.run_tasks(0, [[b"a"]])
    in_thirteen_minutes = SystemClock().wall_ms() + 13 * 60 * 1000
    monkeypatch.setattr(SystemClock, "wall_ms", lambda clock: in_thirteen_minutes)
    with pytest.raises(IllegalStateError, match=r"it has 1\d\d s left of 900 s, .* \(repartition\)"):
        query.commit(0, messages)
    query.abort(0, messages)
    assert settled(embedded, topic) == Counter()


def test_an_error_after_the_decision_says_that_there_was_one(embedded: Any, new_topic: Any, monkeypatch: Any) -> None:
    topic = new_topic(embedded)
    query = slots_only(embedded, topic)
    with monkeypatch.context() as broken:
        broken.setattr(lv.KafkaAdmin, "end_transactions", Mock(side_effect=KafkaError("nobody answers")))
        with pytest.raises(KafkaError, match="nobody answers") as caught:
            query.run(0, [b"a"])
    assert (
        "batch 0 was decided before, but it is not known whether all of it is committed. To commit the rest, run the query again"
        in caught.value.__notes__[0]
    )
    query.restart()
    query.run(0, [b"a"])
    assert settled(embedded, topic) == Counter([b"a"])


def test_abort_commits_what_was_decided_and_aborts_what_was_not(kafka: Any, new_topic: Any, monkeypatch: Any) -> None:
    topic = new_topic(kafka, 2)
    query = slots_only(kafka, topic)
    messages = query.run_tasks(0, [[b"a"], [b"b"]])
    query.abort(0, [messages[0], None])
    query.abort(0, [None, messages[1]])
    assert settled(kafka, topic) == Counter()
    messages = query.run_tasks(0, [[b"a"], [b"b"]])
    with monkeypatch.context() as struck:
        struck.setattr(Slots, "finish", dying(Slots.finish, "before"))
        with pytest.raises(Died):
            query.commit(0, messages)
    query.abort(0, messages)
    assert settled(kafka, topic) == Counter([b"a", b"b"])


def test_a_slot_that_is_lost_after_the_decision_is_written_again_from_the_same_rows(kafka: Any, new_topic: Any, monkeypatch: Any) -> None:
    topic = new_topic(kafka, 2)
    query = mixed(kafka, topic)
    messages = dies_before_slots_are_committed(monkeypatch, query, 0, [LARGE, b"a"], [b"i"], [LARGE, b"b"])
    fence(kafka, messages[2])
    query.run(0, [LARGE, b"a"], [b"i"], [b"b", LARGE])
    assert settled(kafka, topic) == Counter([LARGE, LARGE, b"a", b"b", b"i"])
    query.restart()
    query.run(0, [LARGE, b"a"], [b"i"], [b"b", LARGE])
    query.run(1, [b"c"])
    assert settled(kafka, topic) == Counter([LARGE, LARGE, b"a", b"b", b"i", b"c"])


def test_a_lost_slot_is_written_again_although_other_tasks_have_other_rows(embedded: Any, new_topic: Any, monkeypatch: Any) -> None:
    topic = new_topic(embedded, 2)
    query = slots_only(embedded, topic)
    messages = dies_before_slots_are_committed(monkeypatch, query, 0, [b"a"], [b"b"])
    fence(embedded, messages[1])
    with pytest.raises(IllegalStateError, match="was written with other rows"):
        query.run(0, [b"x"], [b"b"])
    assert settled(embedded, topic) == Counter([b"a", b"b"])


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("fail", [b"a"]), ("skip", [b"a"]), ("rewrite", [b"a", b"a", b"b"])],
)
def test_a_lost_slot_whose_rows_are_divided_otherwise_now(
    embedded: Any, new_topic: Any, monkeypatch: Any, policy: str, expected: list[bytes]
) -> None:
    topic = new_topic(embedded, 2)
    query = slots_only(embedded, topic, onLostSlot=policy)
    messages = dies_before_slots_are_committed(monkeypatch, query, 0, [b"a"], [b"b"])
    fence(embedded, messages[1])
    again = query.run_tasks(0, [[b"b"], [b"a"]])
    if policy == "fail":
        with pytest.raises(IllegalStateError, match=r"with 1 of its 2 rows was aborted before .* onLostSlot=rewrite, .* onLostSlot=skip"):
            query.commit(0, again)
        query.abort(0, again)
    else:
        query.commit(0, again)
        query.restart()
        query.run(0, [b"b"], [b"a"])
        query.run(1, [b"c"])
        expected = [*expected, b"c"]
    assert settled(embedded, topic) == Counter(expected)


def test_a_late_request_of_a_task_does_not_make_a_committed_slot_a_lost_one(kafka: Any, new_topic: Any, monkeypatch: Any) -> None:
    topic = new_topic(kafka, 2)
    query = slots_only(kafka, topic)
    messages = query.run_tasks(0, [[b"a"], [b"b"]])
    with monkeypatch.context() as struck:
        struck.setattr(Slots, "finish", dying(Slots.finish, "after"))
        with pytest.raises(Died):
            query.commit(0, messages)
    fence(kafka, *messages)
    query.restart()
    query.run(0, [b"a"], [b"b"])
    assert settled(kafka, topic) == Counter([b"a", b"b"])


def test_what_attempts_that_lost_have_open_is_aborted(kafka: Any, new_topic: Any) -> None:
    topic = new_topic(kafka, 2)
    query = slots_only(kafka, topic)
    query.run_tasks(0, [[b"a"], [b"b"]])
    query.commit(0, query.run_tasks(0, [[b"a"], [b"b"]], attempt=1))
    assert settled(kafka, topic) == Counter([b"a", b"b"]), "what speculation has started is not left open"
    query.restart()
    query.run_tasks(1, [[b"c"]])
    query.restart()
    query.run(1, [b"c"])
    assert settled(kafka, topic) == Counter([b"a", b"b", b"c"]), "nor are tasks of the run that died"
    query.run_tasks(1, [[b"c"]], attempt=5)
    query.restart()
    query.run(1, [b"c"])
    assert settled(kafka, topic) == Counter([b"a", b"b", b"c"]), "nor are those where the batch is only repeated"


def test_a_batch_job_with_slots_is_all_or_nothing_and_leaves_no_groups(kafka: Any, new_topic: Any, monkeypatch: Any) -> None:
    topic = new_topic(kafka, 2)
    job = slots_only(kafka, topic, transactionalIdPrefix=f"{topic}.")
    job.is_stream, job.query_id = False, ""
    job.run(0, [b"a"], [b"b"])
    assert settled(kafka, topic) == Counter([b"a", b"b"])
    messages = job.run_tasks(0, [[b"c"], [b"d"]])
    monkeypatch.setattr(committing, "UNSTABLE_S", 0.1)
    with monkeypatch.context() as struck:
        struck.setattr(committing.SinkClients, "_commit", dying(committing.SinkClients._commit, "before"))
        with pytest.raises(Died):
            job.commit(0, messages)
    job.abort(0, messages)
    assert settled(kafka, topic) == Counter([b"a", b"b"])
    with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        mine = [group.group_id for group in admin.list_groups() if group.group_id.startswith(topic)]
        assert not [group for group in mine if admin.list_consumer_group_offsets(group)], "brokers forget groups without offsets"


def test_groups_of_slots_are_deleted_once_the_next_batch_is_decided(kafka: Any, new_topic: Any) -> None:
    topic, sink = new_topic(kafka), str(uuid.uuid4())
    query = slots_only(kafka, topic, **{"exactlyOnce.id": sink})
    for number in range(3):
        query.run(number, [b"a"], [b"b"])
        query.restart()
    left = [found for found in groups(kafka, sink) if found != f"levada-{sink}"]
    assert [name and name[1][1:] for name in map(parsed, left)] == [(0, 0, 0), (0, 1, 0)]
    query.run(2, [b"a"], [b"b"])
    query.restart()
    query.run(3, [b"a"])
    assert len(groups(kafka, sink)) == 2


def test_an_entry_with_many_slots_is_continued_in_further_groups(kafka: Any, new_topic: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(ledger, "PIECE", 60)
    topic, sink = new_topic(kafka), str(uuid.uuid4())
    query = slots_only(kafka, topic, **{"exactlyOnce.id": sink})
    rows = [[b"%d" % number] for number in range(6)]
    dies_before_slots_are_committed(monkeypatch, query, 0, *rows)
    assert f"levada-{sink}~2" in groups(kafka, sink)
    query.run(0, *reversed(rows))
    query.run(1, [b"a"])
    query.restart()
    query.run(1, [b"a"])
    assert settled(kafka, topic) == Counter([*(b"%d" % number for number in range(6)), b"a"])


def test_a_repetition_without_rows_finishes_what_was_decided(embedded: Any, new_topic: Any, monkeypatch: Any) -> None:
    topic = new_topic(embedded)
    query = slots_only(embedded, topic, onOtherRows="skip")
    dies_before_slots_are_committed(monkeypatch, query, 0, [b"a"])
    query.run(0, [], [])
    assert settled(embedded, topic) == Counter([b"a"])
    query.restart()
    query.options["onOtherRows"] = "fail"
    with pytest.raises(IllegalStateError, match=r"was written with other rows: 1 .* then, 0"):
        query.run(0, [])


def test_a_write_that_is_refused_leaves_nothing_open(embedded: Any, new_topic: Any) -> None:
    topic = new_topic(embedded)
    query = slots_only(embedded, topic)
    query.run(0, [b"a"])
    second = query.run_tasks(0, [[b"b"]])
    with pytest.raises(IllegalStateError, match="this run has written this batch already"):
        query.commit(0, second)
    query.abort(0, second)
    assert settled(embedded, topic) == Counter([b"a"])
    query.options["onLedgerAhead"] = "skip"
    query.run(5, [b"c"])
    query.restart()
    query.run(1, [b"b"])
    assert settled(embedded, topic) == Counter([b"a", b"c"])


def test_a_task_that_fails_leaves_nothing_open(embedded: Any, new_topic: Any, monkeypatch: Any) -> None:
    topic = new_topic(embedded)
    query = slots_only(embedded, topic)
    with monkeypatch.context() as broken:
        broken.setattr(lv.KafkaProducer, "detach_transaction", Mock(side_effect=KafkaError("broken")))
        with pytest.raises(KafkaError, match="broken"):
            query.run(0, [b"a"])


def test_lost_answers_of_every_request_write_nothing_twice() -> None:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t", 2)
        query, expected = slots_only(kafka, "t"), Counter[bytes]()
        apis = (
            *("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "Produce", "TxnOffsetCommit", "EndTxn", "OffsetFetch"),
            *("DescribeTransactions", "ListTransactions", "DeleteGroups"),
        )
        for number, api in enumerate(apis * 2):
            kafka.faults.disconnect(api, nth=1 + number % 3, applied=number < len(apis))
            value = f"{number}-{api}".encode()
            with suppress(KafkaError):
                query.run(number, [value], [value + b"-2"])
            query.restart()
            query.run(number, [value], [value + b"-2"])
            expected.update([value, value + b"-2"])
        query.run(100, [b"last"])
        assert settled(kafka, "t") == expected + Counter([b"last"])


def job(kafka: Any, topic: str, number: int, **options: str) -> Query:
    """A batch job that a scheduler numbers."""
    made = slots_only(kafka, topic, **{"exactlyOnce.id": topic, "exactlyOnce.batchId": str(number), **options})
    made.is_stream, made.query_id = False, ""
    return made


@pytest.mark.parametrize("rows", [[b"c"], []])
def test_a_batch_that_was_decided_is_finished_by_the_next_one_if_nobody_repeats_it(
    kafka: Any, new_topic: Any, monkeypatch: Any, rows: list[bytes]
) -> None:
    topic = new_topic(kafka)
    dies_before_slots_are_committed(monkeypatch, job(kafka, topic, 1), 0, [b"a"], [b"b"])
    job(kafka, topic, 2).run(0, rows)
    assert settled(kafka, topic) == Counter([b"a", b"b", *rows])


@pytest.mark.parametrize("rows", [[b"c"], []])
def test_rows_of_a_batch_that_nobody_repeats_are_not_lost_without_a_word(
    embedded: Any, new_topic: Any, monkeypatch: Any, caplog: Any, rows: list[bytes]
) -> None:
    topic = new_topic(embedded)
    messages = dies_before_slots_are_committed(monkeypatch, job(embedded, topic, 1), 0, [b"a"], [b"b"])
    fence(embedded, messages[1])
    later = job(embedded, topic, 2)
    refused = later.run_tasks(0, [rows])
    with pytest.raises(IllegalStateError, match=r"batch 1: it was decided, and .* with 1 of its 2 rows was aborted .*Repeat batch 1, or"):
        later.commit(0, refused)
    later.abort(0, refused)
    assert settled(embedded, topic) == Counter([b"a"])
    job(embedded, topic, 2, onLostSlot="skip").run(0, rows)
    assert "they are left out" in caplog.text
    assert settled(embedded, topic) == Counter([b"a", *rows])


def test_the_ledger_may_move_to_another_topic_and_back_while_a_batch_is_repeated(kafka: Any, new_topic: Any, monkeypatch: Any) -> None:
    topic = new_topic(kafka, 1)
    ledgers = [new_topic(kafka, 1), new_topic(kafka, 1)]
    query = slots_only(kafka, topic, ledgerTopic=ledgers[0])
    messages = dies_before_slots_are_committed(monkeypatch, query, 0, [b"a"], [b"b"])
    fence(kafka, messages[1])
    for ledger_topic in (*reversed(ledgers), *ledgers):
        query.options["ledgerTopic"] = ledger_topic
        query.restart()
        query.run(0, [b"a"], [b"b"])
        with pytest.raises(IllegalStateError, match="this run has written this batch already"):
            query.run(0, [b"a"], [b"b"])
        query.restart()
    assert committed(kafka, topic) == Counter([b"a", b"b"])


def test_a_task_that_everybody_takes_for_dead_does_not_hold_a_repetition_up(kafka: Any, new_topic: Any) -> None:
    topic = new_topic(kafka)
    query = slots_only(kafka, topic)
    messages = query.run_tasks(0, [[b"a"], [b"b"]])
    query.commit(0, messages)
    zombie = query.run_tasks(0, [[b"a"], [b"b"]])
    assert [message.slot.name for message in zombie] == [message.slot.name for message in messages]
    query.restart()
    query.run(0, [b"a"], [b"b"])
    assert settled(kafka, topic) == Counter([b"a", b"b"])


def test_a_repetition_without_rows_does_not_wait_for_the_driver_that_died(embedded: Any, new_topic: Any, monkeypatch: Any) -> None:
    topic = new_topic(embedded)
    query = slots_only(embedded, topic)
    query.run(0, [b"a"])
    monkeypatch.setattr(committing, "UNSTABLE_S", 0.1)
    with monkeypatch.context() as struck:
        struck.setattr(committing.SinkClients, "_commit", dying(committing.SinkClients._commit, "before"))
        struck.setattr(committing.SinkClients, "close", lambda clients, *raised: None)
        with pytest.raises(Died):
            query.run(1, [b"b"])
    query.restart()
    query.run(1, [])
    query.run(2, [b"c"])
    assert settled(embedded, topic) == Counter([b"a", b"c"])


def test_what_a_dead_run_has_open_is_ended_by_one_without_slots(kafka: Any, new_topic: Any) -> None:
    topic = new_topic(kafka)
    query = slots_only(kafka, topic)
    query.run_tasks(0, [[b"a"]])
    query.restart()
    query.options["inlineMaxBytes"] = "1000"
    query.run(0, [b"a"])
    assert settled(kafka, topic) == Counter([b"a"])


def test_a_batch_that_is_skipped_because_a_later_one_was_written_finishes_that_one(embedded: Any, new_topic: Any, monkeypatch: Any) -> None:
    topic = new_topic(embedded)
    query = slots_only(embedded, topic, onLedgerAhead="skip")
    query.run(0, [b"a"])
    dies_before_slots_are_committed(monkeypatch, query, 1, [b"b"])
    query.run(0, [b"a"])
    assert settled(embedded, topic) == Counter([b"a", b"b"])


def test_a_slot_that_is_to_replace_a_lost_one_and_is_lost_too(embedded: Any, new_topic: Any, monkeypatch: Any) -> None:
    topic = new_topic(embedded)
    query = slots_only(embedded, topic)
    messages = dies_before_slots_are_committed(monkeypatch, query, 0, [b"a"], [b"b"])
    fence(embedded, messages[1])
    again = query.run_tasks(0, [[b"a"], [b"b"]])
    fence(embedded, again[1])
    with pytest.raises(
        IllegalStateError, match=r"It was to replace rows that were lost .* the other rows are written. Run the query again"
    ):
        query.commit(0, again)
    query.abort(0, again)
    query.restart()
    query.run(0, [b"a"], [b"b"])
    assert settled(embedded, topic) == Counter([b"a", b"b"])


def test_an_entry_that_changes_while_it_is_read_is_read_again(embedded: Any, new_topic: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(ledger, "PIECE", 60)
    topic, sink = new_topic(embedded), str(uuid.uuid4())
    query = slots_only(embedded, topic, **{"exactlyOnce.id": sink})
    rows = [[b"%d" % number] for number in range(6)]
    query.run(0, *rows)
    call = lv.KafkaAdmin.list_consumer_group_offsets

    def read_slowly(admin: lv.KafkaAdmin, wanted: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(wanted, str):
            monkeypatch.setattr(lv.KafkaAdmin, "list_consumer_group_offsets", call)
            query.run(1, *rows)
        return call(admin, wanted, *args, **kwargs)

    monkeypatch.setattr(lv.KafkaAdmin, "list_consumer_group_offsets", read_slowly)
    with lv.KafkaAdmin(bootstrap_servers=embedded.bootstrap_servers) as admin:
        entry = Slots(admin, f"levada-{sink}").last_entry()
    assert entry is not None
    assert (entry.batch.number, len(entry.slots)) == (1, 6)


def test_the_time_for_the_ledger_counts_for_both_of_its_requests(monkeypatch: Any) -> None:
    now, asked = [100.0], []

    def answer(*args: Any, timeout: float | None, **kwargs: Any) -> dict[Any, Any]:
        asked.append(timeout)
        now[0] += 3
        return {}

    monkeypatch.setattr(slots, "monotonic", lambda: now[0])
    admin = Mock(list_consumer_group_offsets=answer)
    assert Slots(admin, "sink").last_entry(TopicPartition("t", 0), 5.0) is None
    assert Slots(admin, "sink").last_entry(TopicPartition("t", 0)) is None
    assert asked == [5.0, 2.0, None, None]


def commit_elsewhere(query: Query, number: int, messages: list[Any]) -> None:
    """Spark shares its processes for commits between all queries of a driver, so none of them sees every batch."""

    def commit() -> str:
        query.commit(number, messages)
        return "done"

    assert told_by_child(commit) == "done"


def test_a_batch_may_have_slots_of_the_same_names_as_the_one_before(kafka: Any, new_topic: Any) -> None:
    """As where each second batch has no rows, or foreachBatch does not write it."""
    topic = new_topic(kafka, 2)
    query = slots_only(kafka, topic)
    commit_elsewhere(query, 0, query.run_tasks(0, [[b"a"], [b"b"]]))
    query.run(1, [])
    commit_elsewhere(query, 2, query.run_tasks(2, [[b"c"], [b"d"]]))
    query.run(4, [b"e"])
    assert settled(kafka, topic) == Counter([b"a", b"b", b"c", b"d", b"e"])


def test_slots_of_the_same_names_as_those_before_are_not_taken_for_lost(kafka: Any, new_topic: Any) -> None:
    topic = new_topic(kafka, 2)
    query = slots_only(kafka, topic)
    query.run(0, [b"a"], [b"b"])
    messages = query.run_tasks(2, [[b"c"], [b"d"]])
    commit_elsewhere(query, 2, messages)
    fence(kafka, *messages)
    query.restart()
    query.run(2, [b"c"], [b"d"])
    assert settled(kafka, topic) == Counter([b"a", b"b", b"c", b"d"])


def test_two_clusters_have_sinks_of_one_name(embedded: Any) -> None:
    """As where foreachBatch writes each batch to two clusters."""
    with EmbeddedKafka() as other:
        for kafka in (embedded, other):
            kafka.create_topic("of-two-clusters", 1)
        query = slots_only(embedded, "of-two-clusters")
        query.is_stream = False
        for number in range(2):
            for kafka in (embedded, other):
                query.options["kafka.bootstrap.servers"] = kafka.bootstrap_servers
                query.run(number, [b"%d" % number])
                assert settled(kafka, "of-two-clusters") == Counter(b"%d" % before for before in range(number + 1))


def numbered_job(kafka: Any, topic: str, number: int, **options: str) -> Query:
    """A batch job that gives its own number."""
    found = Query(kafka, topic, **{"exactlyOnce.id": topic, "exactlyOnce.batchId": str(number), **options})
    found.is_stream, found.query_id = False, ""
    return found


def while_it_writes(query: Query, monkeypatch: Any, meanwhile: Any) -> Any:
    """Run a task whose transaction is open, with rows in one partition, when `meanwhile` is called; then it writes into others."""
    monkeypatch.setattr(sealing, "SEALED_TOGETHER", 1)

    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"key": [b"k"], "value": [b"first"]}, schema=ROWS)
        producer = flushed[0]
        producer.flush()
        meanwhile()
        # The first partition would refuse the rows.
        keys = [key for key in (b"%d" % number for number in range(8)) if (murmur2(key) ^ murmur2(b"k")) & 3]
        yield pa.RecordBatch.from_pydict({"key": keys, "value": keys}, schema=ROWS)

    flushed: list[Any] = []
    init = OpenSlot.__init__

    def opened(slot: OpenSlot, producer: Any, *rest: Any) -> None:
        flushed.append(producer)
        init(slot, producer, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(OpenSlot, "__init__", opened)
        return query.run_task(0, 0, rows(), query.writer())


def test_a_slot_that_another_run_aborted_while_its_task_wrote_it_is_not_committed(kafka: Any, new_topic: Any, monkeypatch: Any) -> None:
    topic = new_topic(kafka, 4)
    numbered_job(kafka, topic, 5).run(0, [b"five"])
    seven = numbered_job(kafka, topic, 7, inlineMaxBytes="1")
    # From transaction.version 2 on the task is fenced, before that its commit is refused.
    with pytest.raises(KafkaError, match=r"aborted while its task wrote it|INVALID_PRODUCER_EPOCH|PRODUCER_FENCED"):
        seven.commit(0, [while_it_writes(seven, monkeypatch, lambda: numbered_job(kafka, topic, 6).run(0, [b"six"]))])
    seven.restart()
    seven.run(0, [b"seven"])
    with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        left = [found.transactional_id for found in admin.list_transactions(states=["Ongoing"]) if topic in found.transactional_id]
        if left:
            admin.fence_producers(left)
    assert settled(kafka, topic) == Counter([b"five", b"six", b"seven"])


def test_an_aborted_slot_whose_task_went_on_is_seen_although_its_epoch_is_the_same(new_topic: Any, monkeypatch: Any) -> None:
    with EmbeddedKafka(transaction_version=1) as kafka:
        topic = new_topic(kafka, 4)
        query = slots_only(kafka, topic)

        def aborted_by_a_successor() -> None:
            with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
                found = Slots(admin, f"levada-{query.query_id}").left_open([])
                assert found is not None and [handle.end_version for handle in found] == [4]
                admin.end_transactions(found, commit=False)

        message = while_it_writes(query, monkeypatch, aborted_by_a_successor)
        with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
            name = message.slot.handle.transactional_id
            described = admin.describe_transactions([name])[name]
        assert (described.state, described.producer_id, described.producer_epoch) == ("Ongoing", *message.slot.handle[1:3])
        with pytest.raises(IllegalStateError, match=r"aborted while its task wrote it, .* Nothing of this batch was written"):
            query.commit(0, [message])
        assert committed(kafka, topic) == Counter()


def test_the_task_whose_slot_took_too_long_says_what_to_do(new_topic: Any, monkeypatch: Any) -> None:
    with EmbeddedKafka() as kafka:
        topic = new_topic(kafka, 4)
        query = slots_only(kafka, topic)

        def times_out() -> None:
            with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
                admin.fence_producers([found.transactional_id for found in admin.list_transactions(states=["Ongoing"])])

        with pytest.raises(KafkaError) as raised:
            while_it_writes(query, monkeypatch, times_out)
        assert any("divide the rows among more tasks" in note for note in raised.value.__notes__)
        assert is_settled(kafka, topic)


def test_a_job_that_is_committed_does_not_fail_because_its_successor_was_quicker(kafka: Any, new_topic: Any, monkeypatch: Any) -> None:
    topic = new_topic(kafka, 2)
    finish = Slots.finish

    def taken_over(slots: Slots, entry: ledger.Entry, **options: Any) -> Any:
        found = finish(slots, entry, **options)
        if entry.slots and entry.batch.number == 5:
            monkeypatch.undo()
            numbered_job(kafka, topic, 6).run(0, [b"six"])
        return found

    five = numbered_job(kafka, topic, 5, inlineMaxBytes="1")
    monkeypatch.setattr(Slots, "finish", taken_over)
    five.run(0, [b"five"])
    assert settled(kafka, topic) == Counter([b"five", b"six"])


def test_a_query_that_cannot_say_that_it_is_finished_says_that_it_is_committed(embedded: Any, new_topic: Any, monkeypatch: Any) -> None:
    topic = new_topic(embedded, 2)
    query = slots_only(embedded, topic)
    write = committing.SinkClients.write

    def refused(clients: committing.SinkClients, messages: Any, entry: ledger.Entry) -> None:
        if entry.is_finished:
            raise KafkaError("refused")
        write(clients, messages, entry)

    with monkeypatch.context() as broken:
        broken.setattr(committing.SinkClients, "write", refused)
        with pytest.raises(KafkaError) as raised:
            query.run(0, [b"a"])
    assert any("batch 0: it is decided, and all of it is committed" in note for note in raised.value.__notes__)
    query.restart()
    query.run(0, [b"a"])
    assert settled(embedded, topic) == Counter([b"a"])


def test_open_transactions_that_could_not_be_listed_are_looked_for_again(embedded: Any, new_topic: Any, monkeypatch: Any) -> None:
    topic = new_topic(embedded, 2)
    query = slots_only(embedded, topic)
    query.run_tasks(0, [[b"a"]])
    query.restart()
    query.options["inlineMaxBytes"] = "1000000"
    with monkeypatch.context() as broken:
        broken.setattr(Slots, "left_open", lambda slots, known: None)
        query.run(0, [b"a"])
    assert not is_settled(embedded, topic)
    query.run(1, [b"b"], [])
    query.restart()
    query.run(2, [b"c"])
    assert settled(embedded, topic) == Counter([b"a", b"b", b"c"])


def test_a_job_that_was_overtaken_leaves_the_slots_of_its_successor_alone(kafka: Any, new_topic: Any, monkeypatch: Any) -> None:
    topic = new_topic(kafka, 2)
    six, seven = (numbered_job(kafka, topic, number, inlineMaxBytes="1") for number in (6, 7))
    of_six, of_seven = six.run_tasks(0, [[b"six"]]), seven.run_tasks(0, [[b"seven"]])
    mark, finish = committing.Committing._mark_finished, Slots.finish

    def dies_at_seven(slots: Slots, entry: ledger.Entry, **options: Any) -> Any:
        if entry.batch.number == 7:
            raise Died
        return finish(slots, entry, **options)

    def overtaken(six: committing.Committing, decision: ledger.Entry) -> None:
        with monkeypatch.context() as struck:
            struck.setattr(committing.Committing, "_mark_finished", mark)
            struck.setattr(Slots, "finish", dies_at_seven)
            with pytest.raises(Died):
                seven.commit(0, of_seven)
        mark(six, decision)

    with monkeypatch.context() as struck:
        struck.setattr(committing.Committing, "_mark_finished", overtaken)
        six.commit(0, of_six)
    seven.restart()
    seven.run(0, [], [b"seven"])
    assert settled(kafka, topic) == Counter([b"six", b"seven"])


def test_a_late_request_that_begins_another_transaction_of_the_same_epoch_does_not_hide_the_loss(new_topic: Any, monkeypatch: Any) -> None:
    with EmbeddedKafka(transaction_version=1) as kafka:
        topic = new_topic(kafka, 1)
        query = slots_only(kafka, topic)
        messages = query.run_tasks(0, [[b"a"]])
        check = Slots.check

        def then_aborted(slots: Slots, *args: Any, **kwargs: Any) -> None:
            check(slots, *args, **kwargs)
            (handle,) = [message.slot.handle for message in messages]
            with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
                admin.end_transactions([handle], commit=False)
                late = AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=handle.transactional_id,
                    v3_and_below_producer_id=handle.producer_id,
                    v3_and_below_producer_epoch=handle.producer_epoch,
                    v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
                )
                while admin.request(late, version=3).results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code:
                    pass

        with monkeypatch.context() as struck:
            struck.setattr(Slots, "check", then_aborted)
            with pytest.raises(IllegalStateError, match=r"decided, but it is not known whether .* was committed with its 1 rows"):
                query.commit(0, messages)
        assert committed(kafka, topic) == Counter()
