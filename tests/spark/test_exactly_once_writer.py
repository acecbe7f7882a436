"""The exactly-once sink against brokers, driven as Spark drives it: replay, abort and new processes included, without a Spark session."""

from __future__ import annotations

import logging
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import levada as lv
from committed_kit import committed, settled
from levada.error_codes import ErrorCode
from levada.errors import ConfigError, IllegalStateError, KafkaError, ProducerFencedError, TransactionOutcomeUnknownError
from levada.exactly_once.batch import BatchId, Rows
from levada.exactly_once.ledger import Entry
from levada.spark.clients import reused_transactional_producer
from levada.spark.datasource import LevadaDataSource
from levada.spark.sink.exactly_once import committing
from levada.spark.sink.exactly_once.settings import exactly_once
from levada.spark.sink.writing import Written
from levada.testing import EmbeddedKafka
from levada.types import TopicPartition
from spark_sink import ROWS, SCHEMA, Died, Query, dying
from spark_strikes import STEPS

pytestmark = pytest.mark.usefixtures("no_idle_clients")


@pytest.fixture
def kafka(any_kafka: Any) -> Any:
    return any_kafka


def test_batches_are_written_once_however_often_they_are_repeated(kafka: Any, new_topic: Any) -> None:
    topic = new_topic(kafka, 3)
    query = Query(kafka, topic)
    query.run(0, [b"a", b"b"], [], [b"c"])
    query.restart()
    query.run(0, [b"c"], [b"b", b"a"])
    query.run(1, [b"d"])
    query.run(2, [], [])
    query.run(3, [b"e"], [b"f"])
    query.restart()
    query.run(3, [b"e", b"f"])
    query.restart()
    query.run(3, [b"f", b"e"])
    query.run(4, [b"g"])
    assert settled(kafka, topic) == Counter([b"a", b"b", b"c", b"d", b"e", b"f", b"g"])


def test_the_ledger_is_a_group_that_tools_can_read(kafka: Any, new_topic: Any) -> None:
    topic, ledger = new_topic(kafka, 1), new_topic(kafka, 1)
    query = Query(kafka, topic, ledgerTopic=ledger, transactionalIdPrefix="etl-", **{"exactlyOnce.id": topic})
    query.run(0, [b"a"])
    query.run(5, [b"b"])
    with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        offsets = admin.list_consumer_group_offsets(f"etl-{topic}", require_stable=True)
    assert {tp: at and at.offset for tp, at in offsets.items()} == {TopicPartition(ledger, 0): 5}


@pytest.mark.parametrize("is_first", [True, False])
def test_an_entry_that_is_on_its_way_into_the_ledger_is_waited_for(kafka: Any, new_topic: Any, is_first: bool) -> None:
    topic = new_topic(kafka, 1)
    name, client = f"levada-{topic}", {"bootstrap.servers": kafka.bootstrap_servers}
    entry = Entry(BatchId("query", "run", 1), Rows(1, 1), TopicPartition(topic, 0))
    settings = exactly_once({"delivery": "exactly-once"}, topic)
    assert settings is not None
    with lv.KafkaProducer(client, transactional_id=topic) as producer, lv.KafkaAdmin(client) as admin:
        if not is_first:
            before = replace(entry, batch=replace(entry.batch, number=0))
            admin.alter_consumer_group_offsets(name, {entry.at: before.offsets(name)[name]})
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_offsets_to_transaction({entry.at: entry.offsets(name)[name]}, name)
        impatient = committing.SinkClients({**client, "default.api.timeout.ms": "1000", "request.timeout.ms": "500"}, name, settings)
        try:
            with pytest.raises(TimeoutError, match="UNSTABLE_OFFSET_COMMIT"):
                impatient.last_entry()
        finally:
            impatient.close()
        producer.commit_transaction()
    patient = committing.SinkClients(client, name, settings)
    try:
        assert patient.last_entry() == entry
    finally:
        patient.close()


def test_a_commit_that_fails_before_the_decision_leaves_nothing_behind(kafka: Any, new_topic: Any, monkeypatch: Any) -> None:
    topic = new_topic(kafka, 2)
    query = Query(kafka, topic)
    query.run(0, [b"a"])

    def fails(*_: object) -> None:
        raise KafkaError("the driver is broken")

    with monkeypatch.context() as broken:
        broken.setattr(committing.SinkClients, "_commit", fails)
        with pytest.raises(KafkaError, match="the driver is broken"):
            query.run(1, [b"b"], [b"c"])
    settled(kafka, topic)
    query.restart()
    query.run(1, [b"b"], [b"c"])
    assert settled(kafka, topic) == Counter([b"a", b"b", b"c"])


def test_a_message_that_cannot_be_sent_leaves_nothing_open(embedded: Any, new_topic: Any) -> None:
    topic = new_topic(embedded)
    query = Query(embedded, topic)
    messages = query.run_tasks(0, [[b"a"], [b"b"]])
    batches = messages[1].batches
    for data, error in ((batches[0].data[:-1], lv.errors.CorruptRecordError), (None, TypeError)):
        damaged = replace(messages[1], batches=(batches[0]._replace(data=data),))
        with pytest.raises(error):
            query.commit(0, [messages[0], damaged])
        settled(embedded, topic)
    query.restart()
    query.run(0, [b"a"], [b"b"])
    assert settled(embedded, topic) == Counter([b"a", b"b"])


def test_a_driver_that_died_within_its_transaction_is_fenced_by_the_next_one(kafka: Any, new_topic: Any, monkeypatch: Any) -> None:
    topic = new_topic(kafka, 2)
    query = Query(kafka, topic)

    def dies(*_: object) -> None:
        raise Died

    dead: list[Any] = []
    with monkeypatch.context() as broken:
        broken.setattr(committing.SinkClients, "_commit", dies)
        broken.setattr(committing.SinkClients, "close", lambda clients, *raised: dead.append(clients))
        with pytest.raises(Died):
            query.run(0, [b"a"], [b"b"])
    dead[0]._producer.flush()
    query.restart()
    query.run(0, [b"a"], [b"b"])
    query.run(1, [b"c"])
    with pytest.raises(KafkaError):
        dead[0]._commit()
    dead[0].close()
    assert settled(kafka, topic) == Counter([b"a", b"b", b"c"])


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_driver_may_die_at_every_step(kafka: Any, new_topic: Any, monkeypatch: Any, when: str) -> None:
    topic, expected = new_topic(kafka, 2), Counter[bytes]()
    query = Query(kafka, topic)
    for number, (owner, name) in enumerate(STEPS.values()):
        rows = [b"%d-a" % number], [b"%d-b" % number, b"%d-c" % number]
        query.restart()
        with monkeypatch.context() as struck:
            struck.setattr(owner, name, dying(getattr(owner, name), when))
            struck.setattr(committing.SinkClients, "close", lambda clients, *raised: None)
            with pytest.raises(Died):
                query.run(number, *rows)
        query.restart()
        query.run(number, *reversed(rows))
        expected.update(rows[0] + rows[1])
        assert settled(kafka, topic) == expected, name
    settled(kafka, topic)


def test_a_driver_that_was_paused_loses_against_its_successor(kafka: Any, new_topic: Any, monkeypatch: Any, caplog: Any) -> None:
    topic = new_topic(kafka, 2)
    query = Query(kafka, topic)
    query.run(0, [b"a"])
    messages, send = query.run_tasks(1, [[b"b"]]), lv.KafkaProducer.send_sealed

    def late(*args: Any) -> Any:
        monkeypatch.setattr(lv.KafkaProducer, "send_sealed", send)
        query.restart()
        query.run(1, [b"b"])
        return send(*args)

    monkeypatch.setattr(lv.KafkaProducer, "send_sealed", late)
    with pytest.raises((ProducerFencedError, lv.errors.TransactionAbortableError)):
        query.commit(1, messages)
    assert "not asked about" not in caplog.text, "the error says it all"

    query.run(2, [b"c"])
    assert settled(kafka, topic) == Counter([b"a", b"b", b"c"])


def test_two_writes_of_one_batch_are_refused_unless_they_have_ids(kafka: Any, new_topic: Any) -> None:
    first, second = new_topic(kafka), new_topic(kafka)
    query = Query(kafka, first)
    query.is_stream = False
    query.run(0, [b"a"])
    query.options["topic"] = second
    with pytest.raises(IllegalStateError, match=r"has written this batch already: .* do not try it again here.* exactlyOnce.id of its own"):
        query.run(0, [b"b"])
    query.restart()
    query.options["topic"] = first
    query.run(0, [b"a"])
    for values in ([b"a"], [b"b"]):
        with pytest.raises(IllegalStateError, match="this run has written this batch already"):
            query.run(0, values)
    query.options["topic"] = second
    query.options["exactlyOnce.id"] = "second"
    query.options["transactionalIdPrefix"] = f"{second}-"
    query.run(0, [b"b"])
    assert (settled(kafka, first), settled(kafka, second)) == (Counter([b"a"]), Counter([b"b"]))


def test_a_batch_job_is_all_or_nothing_and_leaves_no_ledger(kafka: Any, new_topic: Any) -> None:
    topic = new_topic(kafka, 2)
    job = Query(kafka, topic, transactionalIdPrefix=f"{topic}.")
    job.is_stream, job.query_id = False, ""
    job.run(0, [b"a"], [b"b"])
    job.run(0, [b"a"], [b"b"])
    assert settled(kafka, topic) == Counter({b"a": 2, b"b": 2})
    with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        assert not [group for group in admin.list_groups() if group.group_id.startswith(topic)]


def test_a_job_that_a_scheduler_repeats_is_written_once_per_number(kafka: Any, new_topic: Any) -> None:
    topic = new_topic(kafka, 2)
    job = Query(kafka, topic, **{"exactlyOnce.id": topic, "exactlyOnce.batchId": "20261125"})
    job.is_stream, job.query_id = False, ""
    job.run(0, [b"a"], [b"b"])
    job.run(0, [b"b"], [b"a"])
    job.options["exactlyOnce.batchId"] = "20261126"
    job.run(0, [b"c"])
    assert settled(kafka, topic) == Counter([b"a", b"b", b"c"])
    job.options["exactlyOnce.batchId"] = "20261125"
    with pytest.raises(IllegalStateError, match="the ledger is ahead, at batch 20261126"):
        job.run(0, [b"a"], [b"b"])


def test_another_query_and_other_rows_are_refused(kafka: Any, new_topic: Any) -> None:
    topic = new_topic(kafka, 2)
    query = Query(kafka, topic, **{"exactlyOnce.id": topic})
    query.run(0, [b"a"])
    query.restart()
    with pytest.raises(IllegalStateError, match="this batch was written with other rows"):
        query.run(0, [b"b"])
    query.options["onOtherRows"] = "skip"
    query.run(0, [b"b"])
    query.query_id = str(uuid.uuid4())
    with pytest.raises(IllegalStateError, match="the ledger belongs to query"):
        query.run(1, [b"b"])
    assert settled(kafka, topic) == Counter([b"a"])


def test_a_refused_batch_is_not_promised_and_a_skipped_one_says_that_nothing_is_written(
    kafka: Any, new_topic: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "levada.spark")
    topic = new_topic(kafka, 2)
    query = Query(kafka, topic, **{"exactlyOnce.id": topic})
    query.run(0, [b"a"])
    assert "exactly once, for readers" in caplog.text
    query.restart()
    caplog.clear()
    with pytest.raises(IllegalStateError, match="none of the rows that this batch has now, not even new rows"):
        query.run(0, [b"a", b"new"])
    query.query_id, of_before = str(uuid.uuid4()), query.query_id
    caplog.clear()
    with pytest.raises(IllegalStateError, match="writes the records from startingOffsets on again"):
        query.run(1, [b"b"])
    assert "exactly once, for readers" not in caplog.text
    query.query_id = of_before
    query.options["onOtherRows"] = "skip"
    query.run(0, [b"a", b"new"])
    assert "with 1 other rows; none of its 2 rows of now is written" in caplog.text
    assert settled(kafka, topic) == Counter([b"a"])


def test_a_transactional_producer_is_used_again_unless_it_is_fenced(kafka: Any, new_topic: Any) -> None:
    topic = new_topic(kafka, 1)
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic}
    with reused_transactional_producer(settings) as first:
        first.init_transactions()
        with first.transaction():
            first.send(topic, b"1")
    with reused_transactional_producer(settings) as again:
        assert again is first
        again.init_transactions()
        with lv.KafkaProducer(settings) as successor:
            successor.init_transactions()
        with pytest.raises(KafkaError), again.transaction():
            again.send(topic, b"fenced")
    with reused_transactional_producer(settings) as other:
        assert other is not first
        other.init_transactions()


def test_a_transactional_producer_is_not_used_again_while_its_transaction_is_open(kafka: Any, new_topic: Any) -> None:
    topic = new_topic(kafka, 1)
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic}
    with reused_transactional_producer(settings) as first:
        first.init_transactions()
        first.begin_transaction()
    with reused_transactional_producer(settings) as other:
        assert other is not first


def test_lost_answers_of_every_request_write_nothing_twice(new_topic: Any) -> None:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t", 2)
        query, expected = Query(kafka, "t"), Counter[bytes]()
        apis = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "Produce", "TxnOffsetCommit", "EndTxn", "OffsetFetch")
        for number, api in enumerate(apis * 2):
            kafka.faults.disconnect(api, nth=1, applied=number < len(apis))
            value = f"{number}-{api}".encode()
            with suppress(KafkaError):
                query.run(number, [value], [value + b"-2"])
            query.restart()
            query.run(number, [value], [value + b"-2"])
            expected.update([value, value + b"-2"])
        assert settled(kafka, "t") == expected


LAST_EPOCH = 32_767


def run_beyond_the_last_epoch(kafka: Any, query: Query, age: Callable[[], None]) -> None:
    """A transactional id gets another producer id when its epochs have run out, and so does each slot."""
    query.run(0, [b"0"])
    query.run(1, [b"1"])
    age()
    for number in range(2, 12):
        query.run(number, [b"%d" % number])
        if number == 9:
            query.restart()
            query.run(number, [b"%d" % number])
    assert settled(kafka, query.options["topic"]) == Counter(b"%d" % number for number in range(12))


@pytest.mark.parametrize("inline_max_bytes", ["1", "1000"])
def test_forty_thousand_batches_do_not_run_out_of_epochs(inline_max_bytes: str) -> None:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t", 1)
        query = Query(kafka, "t", inlineMaxBytes=inline_max_bytes)
        transactions = kafka.nodes[0].cluster.transactions._known

        def age() -> None:
            for transaction in transactions.values():
                transaction.producer = transaction.producer._replace(epoch=LAST_EPOCH - 6)

        run_beyond_the_last_epoch(kafka, query, age)


@pytest.mark.matrix
@pytest.mark.timeout(600)
@pytest.mark.parametrize("inline_max_bytes", ["1", "1000"])
def test_forty_thousand_batches_do_not_run_out_of_epochs_on_real_brokers(kafka: Any, new_topic: Any, inline_max_bytes: str) -> None:
    query = Query(kafka, new_topic(kafka), inlineMaxBytes=inline_max_bytes)

    def age() -> None:
        with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
            names = [found.transactional_id for found in admin.list_transactions() if query.query_id in found.transactional_id]
            for _ in range(admin.describe_transactions(names[:1])[names[0]].producer_epoch, LAST_EPOCH - 6):
                admin.fence_producers(names)

    run_beyond_the_last_epoch(kafka, query, age)


def test_batches_without_rows_keep_the_ledger_from_expiring(kafka: Any, new_topic: Any, monkeypatch: Any) -> None:
    topic, name = new_topic(kafka), str(uuid.uuid4())
    query = Query(kafka, topic, **{"exactlyOnce.id": name})

    def last() -> int:
        with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
            found = admin.list_consumer_group_offsets(f"levada-{name}", require_stable=True)[TopicPartition(topic, 0)]
        assert found is not None
        return found.offset

    query.run(0, [b"a"])
    query.run(1, [], [])
    assert last() == 0, "a batch without rows costs one look at the ledger"
    monkeypatch.setattr(committing, "REFRESH_S", -1)
    query.run(2, [], [])
    assert last() == 2
    query.restart()
    query.run(2, [])
    query.run(3, [b"b"])
    assert settled(kafka, topic) == Counter([b"a", b"b"])


def test_a_query_whose_first_batches_have_no_rows_does_not_miss_its_ledger(kafka: Any, new_topic: Any) -> None:
    topic = new_topic(kafka)
    query = Query(kafka, topic, onMissingLedger="fail")
    query.run(0, [], [])
    query.restart()
    query.run(0, [])
    query.run(1, [], [])
    query.restart()
    query.run(2, [b"a"])
    query.restart()
    query.run(2, [b"a"])
    query.run(3, [b"b"])
    assert settled(kafka, topic) == Counter([b"a", b"b"])


def test_a_later_batch_without_rows_does_not_hide_that_the_ledger_is_lost(kafka: Any, new_topic: Any) -> None:
    topic = new_topic(kafka)
    query = Query(kafka, topic, onMissingLedger="fail")
    query.run(0, [b"a"])
    query.run(1, [])
    query.run(2, [b"b"])
    with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.delete_consumer_groups([f"levada-{query.query_id}"])
    query.restart()
    query.run(1, [])
    with pytest.raises(IllegalStateError, match="the ledger has no entry"):
        query.run(2, [b"b"])
    assert settled(kafka, topic) == Counter([b"a", b"b"])


def test_rows_with_and_without_keys_keep_their_order_and_their_partitions(embedded: Any, new_topic: Any) -> None:
    topics = [new_topic(embedded, 3), new_topic(embedded, 3)]
    options = {"kafka.bootstrap.servers": embedded.bootstrap_servers, "delivery": "exactly-once"}
    given = [[b"k"] * 4, [None] * 4, [b"k", None, b"l", None]]
    for topic, delivery in zip(topics, ("exactly-once", "at-least-once"), strict=True):
        writer = LevadaDataSource({**options, "delivery": delivery, "topic": topic}).writer(SCHEMA, False)
        batches = [
            pa.RecordBatch.from_pydict({"key": keys, "value": [b"%d-%d" % (number, row) for row in range(4)]}, schema=ROWS)
            for number, keys in enumerate(given)
        ]
        writer.commit([writer.write(iter(batches))])
    by_key = [
        [(record.partition, record.value) for record in lv.scan(topic, bootstrap_servers=embedded.bootstrap_servers) if record.key]
        for topic in topics
    ]
    assert sorted(by_key[0]) == sorted(by_key[1])
    assert [value for _, value in by_key[0] if value and value[:2] == b"0-"] == [b"0-%d" % row for row in range(4)]
    assert sum(committed(embedded, topics[0]).values()) == 12


def test_a_stream_whose_batch_is_not_known_is_refused(embedded: Any, new_topic: Any) -> None:
    query = Query(embedded, new_topic(embedded))
    query.query_id = ""
    with pytest.raises(IllegalStateError, match="Spark has not told this task which micro-batch it writes"):
        query.run(0, [b"a"])
    query.is_stream = False
    query.options["exactlyOnce.id"] = "a"
    with pytest.raises(IllegalStateError, match=r"'exactlyOnce\.id' needs 'exactlyOnce\.batchId' here"):
        query.run(0, [b"a"])


@pytest.fixture
def asked(monkeypatch: Any) -> Counter[str]:
    """Count the calls of the driver that a batch needs unless its process wrote the batch before."""
    counts = Counter[str]()

    def counted(name: str, call: Any) -> Any:
        def counting(*args: Any, **kwargs: Any) -> Any:
            counts[name] += 1
            return call(*args, **kwargs)

        return counting

    for name in ("initialize", "last_entry"):
        monkeypatch.setattr(committing.SinkClients, name, counted(name, getattr(committing.SinkClients, name)))
    return counts


def test_a_process_that_wrote_the_batch_before_neither_initializes_nor_reads_the_ledger(kafka: Any, new_topic: Any, asked: Any) -> None:
    query = Query(kafka, topic := new_topic(kafka))
    for run in (0, 1):
        query.restart()
        for number in range(3 * run, 3 * run + 3):
            query.run(number, [b"%d" % number])
        assert asked == {"initialize": run + 1, "last_entry": run + 1}
    assert settled(kafka, topic) == Counter(b"%d" % number for number in range(6))


def test_processes_take_turns_in_committing_the_batches_of_a_query(kafka: Any, new_topic: Any, asked: Any) -> None:
    """Spark shares its processes for commits between all queries of a driver."""
    topic = new_topic(kafka)
    query = Query(kafka, topic)
    for number in range(4):
        query.run(number, [b"%d" % number])
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=f"levada-{query.query_id}") as other_process:
            other_process.init_transactions()
    assert settled(kafka, topic) == Counter(b"%d" % number for number in range(4))
    assert asked["initialize"] == 4, "after the first time that it is fenced, the process begins each commit anew"


@pytest.mark.parametrize("step", ["begin", "send-offsets", "send", "decide"])
def test_a_process_that_another_one_has_fenced_starts_over_unless_it_has_begun(
    kafka: Any, new_topic: Any, monkeypatch: Any, asked: Any, step: str
) -> None:
    query = Query(kafka, topic := new_topic(kafka, 2))
    query.run(0, [b"a"], [b"b"])
    owner, name = STEPS[step]
    call = getattr(owner, name)

    def fenced(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(owner, name, call)
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=f"levada-{query.query_id}") as other_process:
            other_process.init_transactions()
        return call(*args, **kwargs)

    monkeypatch.setattr(owner, name, fenced)
    if step in ("begin", "send-offsets"):
        query.run(1, [b"c"], [b"d"])
        assert asked["initialize"] == 2
    else:
        with pytest.raises((ProducerFencedError, lv.errors.TransactionAbortableError)):
            query.run(1, [b"c"], [b"d"])
        assert asked["initialize"] == 1
        query.restart()
        query.run(1, [b"c"], [b"d"])
    query.run(2, [b"e"])
    assert settled(kafka, topic) == Counter([b"a", b"b", b"c", b"d", b"e"])


def test_a_commit_that_was_fenced_after_its_answer_was_lost_is_not_taken_for_a_second_write(asked: Any) -> None:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t")
        query = Query(kafka, "t")
        query.run(0, [b"a"])
        kafka.faults.disconnect("EndTxn", nth=1, applied=True)
        kafka.faults.fail_next("EndTxn", ErrorCode.PRODUCER_FENCED)
        with pytest.raises(ProducerFencedError, match="whether it was committed is not known"):
            query.run(1, [b"b"])
        query.restart()
        query.run(1, [b"b"])
        assert settled(kafka, "t") == Counter([b"a", b"b"])


def test_a_run_keeps_its_producer_id_where_the_run_before_could_not(kafka: Any, new_topic: Any, asked: Any) -> None:
    query = Query(kafka, topic := new_topic(kafka))
    query.run(0, [b"a"])
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=f"levada-{query.query_id}") as other_process:
        other_process.init_transactions()
    query.run(1, [b"b"])
    query.run(2, [b"c"])
    assert asked["initialize"] == 3
    query.restart()
    query.run(3, [b"d"])
    query.run(4, [b"e"])
    assert asked["initialize"] == 4
    assert settled(kafka, topic) == Counter([b"a", b"b", b"c", b"d", b"e"])


@pytest.mark.parametrize("api", ["AddOffsetsToTxn", "EndTxn"])
def test_after_a_lost_answer_of_the_older_protocol_the_next_batch_begins_anew(asked: Any, api: str) -> None:
    """Such a request may arrive late, and to initialize again as the present producer is not safe at the end of its epochs (KIP-360)."""
    with EmbeddedKafka(transaction_version=1) as kafka:
        kafka.create_topic("t")
        query = Query(kafka, "t")
        query.run(0, [b"a"])
        kafka.faults.disconnect(api, nth=1, applied=True)
        query.run(1, [b"b"])
        query.run(2, [b"c"])
        query.run(3, [b"d"])
        assert settled(kafka, "t") == Counter([b"a", b"b", b"c", b"d"])
        assert asked["initialize"] == 2


@pytest.mark.parametrize(("version", "api"), [(1, "AddOffsetsToTxn"), (2, "TxnOffsetCommit")])
def test_a_process_whose_producer_id_has_expired_starts_over(asked: Any, version: int, api: str) -> None:
    with EmbeddedKafka(transaction_version=version) as kafka:
        kafka.create_topic("t")
        query = Query(kafka, "t")
        query.run(0, [b"a"])
        kafka.faults.fail_next(api, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        query.run(1, [b"b"])
        assert settled(kafka, "t") == Counter([b"a", b"b"])
        assert asked["initialize"] == 2


def test_a_commit_that_failed_may_be_repeated_by_the_same_process(kafka: Any, new_topic: Any, monkeypatch: Any) -> None:
    query = Query(kafka, topic := new_topic(kafka))
    query.run(0, [b"a"])
    messages = query.run_tasks(1, [[b"b"]])
    with monkeypatch.context() as failing:
        failing.setattr(lv.KafkaProducer, "send_sealed", dying(lv.KafkaProducer.send_sealed, "after"))
        with pytest.raises(Died):
            query.commit(1, messages)
    query.commit(1, messages)
    query.run(2, [b"c"])
    assert settled(kafka, topic) == Counter([b"a", b"b", b"c"])


def test_a_job_group_of_the_programs_own_is_not_taken_for_the_run(embedded: Any, new_topic: Any) -> None:
    query = Query(embedded, topic := new_topic(embedded))
    for is_stream in (True, False):
        query.is_stream = is_stream
        for group, shown in (("etl", "'etl'"), (None, "None")):
            query.run_id = group  # type: ignore[assignment]
            with pytest.raises(IllegalStateError, match=rf"the job group is {shown} instead: setJobGroup\(\) or clearJobGroup"):
                query.run(0, [b"a"])
    assert committed(embedded, topic) == Counter()


@pytest.mark.parametrize(
    ("numbered", "advice"), [(True, "Run the job again: the ledger tells"), (False, "Look whether the rows are in Kafka")]
)
def test_a_commit_whose_outcome_is_not_known_says_whether_to_repeat_it(new_topic: Any, numbered: bool, advice: str) -> None:
    with EmbeddedKafka() as kafka:
        topic = new_topic(kafka)
        options = {"exactlyOnce.id": "a", "exactlyOnce.batchId": "1"} if numbered else {}
        job = Query(kafka, topic, **{"kafka.max.block.ms": "500", **options})
        job.is_stream, job.query_id = False, ""
        for _ in range(40):
            kafka.faults.disconnect("EndTxn", nth=1, applied=True)
        with pytest.raises(TransactionOutcomeUnknownError) as raised:
            job.run(0, [b"a"])
        assert any(advice in note for note in raised.value.__notes__)


def test_a_driver_that_is_fenced_says_that_another_run_is_active(embedded: Any, new_topic: Any, monkeypatch: Any) -> None:
    query = Query(embedded, topic := new_topic(embedded))
    query.run(0, [b"a"])
    messages, send = query.run_tasks(1, [[b"b"]]), lv.KafkaProducer.send_sealed

    def after_a_successor(producer: Any, *args: Any) -> Any:
        with lv.KafkaAdmin(bootstrap_servers=embedded.bootstrap_servers) as admin:
            admin.fence_producers([f"levada-{query.query_id}"])
        return send(producer, *args)

    with monkeypatch.context() as fenced:
        fenced.setattr(lv.KafkaProducer, "send_sealed", after_a_successor)
        with pytest.raises(KafkaError) as raised:
            query.commit(1, messages)
    assert any("another run of this query" in note for note in raised.value.__notes__)
    assert settled(embedded, topic) == Counter([b"a"])


def test_a_stream_is_not_numbered_by_the_program(embedded: Any, new_topic: Any) -> None:
    query = Query(embedded, new_topic(embedded), **{"exactlyOnce.id": "a", "exactlyOnce.batchId": "1"})
    with pytest.raises(ConfigError, match=r"option 'exactlyOnce\.batchId' cannot be used by a stream"):
        query.writer()


def test_a_topic_for_the_ledger_that_does_not_exist_is_named_before_any_task_starts(embedded: Any, new_topic: Any) -> None:
    query = Query(embedded, new_topic(embedded), ledgerTopic="legder")
    with pytest.raises(lv.errors.UnknownTopicOrPartitionError, match=r"topic 'legder' does not exist; .* 'ledgerTopic'"):
        query.writer()


def test_a_task_that_wrote_nothing_ends_the_batch(embedded: Any, new_topic: Any) -> None:
    query = Query(embedded, new_topic(embedded))
    messages = query.run_tasks(0, [[b"a"]])
    with pytest.raises(IllegalStateError, match="1 of 2 tasks wrote nothing"):
        query.commit(0, [*messages, None])
    with pytest.raises(IllegalStateError, match="a task has returned no record batches"):
        query.commit(0, [*messages, Written(1)])
    other = [replace(messages[0], batch=replace(messages[0].batch, number=1))]
    with pytest.raises(IllegalStateError, match="of several micro-batches"):
        query.commit(0, [*messages, *other])


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_missing_topic_is_named_before_any_task_starts(delivery: str) -> None:
    with EmbeddedKafka(auto_create_topics_enable=False) as kafka:
        query = Query(kafka, "ordres", delivery=delivery, **{"kafka.max.block.ms": "300"})
        with pytest.raises(lv.errors.UnknownTopicOrPartitionError, match=r"topic 'ordres' does not exist.*; create it, or"):
            query.writer()


def test_a_topic_that_brokers_create_is_told_of(embedded: Any, caplog: Any) -> None:
    Query(embedded, "made-by-being-asked-for").writer()
    assert "topic 'made-by-being-asked-for' did not exist; the brokers have created it" in caplog.text
    caplog.clear()
    Query(embedded, "made-by-being-asked-for").writer()
    assert caplog.text == ""


def test_the_log_says_what_is_promised(embedded: Any, new_topic: Any, caplog: Any) -> None:
    for delivery, promise in {"exactly-once": "exactly once, for readers with", "at-least-once": "at least once"}.items():
        with caplog.at_level("INFO", "levada.spark"):
            Query(embedded, topic := new_topic(embedded), delivery=delivery).writer()
        assert f"rows are written to {topic} {promise}" in caplog.text


def test_the_first_batch_of_each_run_says_what_is_promised_and_where_the_ledger_is(embedded: Any, new_topic: Any, caplog: Any) -> None:
    topic, ledger = new_topic(embedded), new_topic(embedded)
    query = Query(embedded, topic, ledgerTopic=ledger)

    def told() -> list[str]:
        lines = [record.getMessage() for record in caplog.records if "the ledger is group" in record.getMessage()]
        caplog.clear()
        return lines

    with caplog.at_level("INFO", "levada.spark"):
        query.run(0, [])
        promise = f"the rows of this query are written to topic '{topic}' exactly once, for readers with isolation.level=read_committed"
        where = f"the ledger is group 'levada-{query.query_id}' ({ledger}-0)"
        assert told() == [f"exactly-once sink '{query.query_id}', batch 0: {promise}; {where} and is empty"]
        query.run(1, [b"a"])
        assert told() == []
        query.run(2, [b"b"])
        assert told() == []
        query.restart()
        query.run(2, [b"b"])
        assert told() == [f"exactly-once sink '{query.query_id}', batch 2: {promise}; {where} and has batch 2 as the last one"]
        query.run(3, [b"c"])
        assert told() == []


def test_nobody_is_told_of_brokers_that_a_process_between_two_commits_cannot_reach(
    new_topic: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clients stay open for the next commit."""
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(logging.getLogger("levada"), "handlers", [])
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t")
        query = Query(kafka, "t")
        message = query.run_tasks(0, [[b"a"]])
        monkeypatch.setattr(logging.getLogger("levada"), "handlers", [])
        query.commit(0, message)
        capsys.readouterr()
    logging.getLogger("levada.client.network.network_client").warning("the broker closed the connection")
    logging.getLogger("levada.x").warning("something else")
    lines = capsys.readouterr().err
    assert "the broker closed" not in lines
    assert "WARNING levada.x something else" in lines
