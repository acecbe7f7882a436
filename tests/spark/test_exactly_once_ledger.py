"""What the ledger of an exactly-once sink says, and what follows for a micro-batch (adr/0061)."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from levada.errors import ConfigError, CorruptRecordError, IllegalStateError
from levada.spark.exactly_once.ledger import NO_ROWS, BatchId, Entry, Policy, Rows, Verdict, judge, newest
from levada.spark.options import sink_options
from levada.types import OffsetAndMetadata, TopicPartition

BATCH = BatchId("query", "run-2", 7)
ROWS = Rows(3, 2**63 + 5)
LAST = Entry(BatchId("query", "run-1", 7), ROWS)
TP = TopicPartition("t", 0)
KAFKA = {"kafka.bootstrap.servers": "localhost:9092", "topic": "t"}


def before(number: int) -> Entry:
    return replace(LAST, batch=replace(LAST.batch, number=number))


def stored(entry: Entry) -> OffsetAndMetadata:
    return OffsetAndMetadata(entry.batch.number, metadata=entry.metadata)


def test_an_entry_is_read_as_it_was_written() -> None:
    assert newest({TP: stored(LAST)}, "g") == LAST
    assert newest({}, "g") is None
    assert newest({TP: None}, "g") is None


def test_the_entry_fits_the_metadata_that_brokers_take() -> None:
    entry = Entry(BatchId("q" * 36, "r" * 36, 2**63 - 1), Rows(2**63 - 1, 2**64 - 1))
    assert len(entry.metadata) < 200


def test_the_newest_entry_counts_after_the_topic_of_the_ledger_was_changed() -> None:
    assert newest({TP: stored(before(4)), TopicPartition("u", 0): stored(LAST)}, "g") == LAST


@pytest.mark.parametrize(
    "metadata", ["", "x", "[]", "{}", "null", '{"v":2,"query":"q"}', '{"v":1,"query":"q","run":"r","rows":"x","digest":"0"}']
)
def test_an_offset_that_no_sink_has_committed_is_refused(metadata: str) -> None:
    with pytest.raises(CorruptRecordError, match=r"group 'levada-q', t-0\): cannot use .* offset 5 .*give another exactlyOnce.id"):
        newest({TP: OffsetAndMetadata(5, metadata=metadata)}, "levada-q")


@pytest.mark.parametrize(
    ("entry", "policy", "verdict"),
    [
        (before(6), Policy(), Verdict.WRITE),
        (before(0), Policy(), Verdict.WRITE),
        (LAST, Policy(), Verdict.SKIP),
        (LAST, Policy(missing="fail", ahead="skip", other_rows="skip"), Verdict.SKIP),
        (None, Policy(), Verdict.WRITE_UNPROVEN),
        (None, Policy(missing="write"), Verdict.WRITE),
        (before(8), Policy(ahead="skip"), Verdict.SKIP_AHEAD),
        (replace(LAST, rows=Rows(3, 1)), Policy(other_rows="skip"), Verdict.SKIP_OTHER_ROWS),
        (replace(LAST, rows=NO_ROWS), Policy(other_rows="skip"), Verdict.SKIP_OTHER_ROWS),
    ],
)
def test_what_is_done_with_a_batch(entry: Entry | None, policy: Policy, verdict: Verdict) -> None:
    assert judge(BATCH, ROWS, entry, policy, "s") is verdict


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (before(8), "the ledger is ahead, at batch 8: .* or onLedgerAhead=skip"),
        (replace(LAST, rows=Rows(3, 1)), r"rows: 3 \(digest 0000000000000001\) then, 3 \(digest 8000000000000005\) now.* onOtherRows=skip"),
        (replace(LAST, batch=BATCH), "this run has written this batch already: .* exactlyOnce.id of its own"),
        (replace(LAST, batch=BatchId("other", "run-1", 3)), "belongs to query other, this is query query.* give another one"),
    ],
)
def test_what_neither_writing_nor_skipping_would_be_right_for_is_refused(entry: Entry, why: str) -> None:
    with pytest.raises(IllegalStateError, match=f"exactly-once sink 's', batch 7: .*{why}"):
        judge(BATCH, ROWS, entry, Policy(), "s")


def test_a_missing_ledger_is_nothing_to_wonder_about_at_the_first_batch() -> None:
    assert judge(replace(BATCH, number=0), ROWS, None, Policy(missing="fail"), "s") is Verdict.WRITE
    with pytest.raises(IllegalStateError, match=r"the ledger has no entry, so it cannot be known .* once with onMissingLedger=write"):
        judge(BATCH, ROWS, None, Policy(missing="fail"), "s")


def test_rows_of_parts_are_those_of_the_whole() -> None:
    assert Rows(1, 2**64 - 1) + Rows(2, 5) == Rows(3, 4)


def test_at_least_once_is_the_default_and_knows_no_ledger() -> None:
    assert sink_options(KAFKA).exactly_once is None
    assert sink_options({**KAFKA, "delivery": "At-Least-Once"}).exactly_once is None
    with pytest.raises(ConfigError, match=r"option 'exactlyOnce\.id' has no effect without delivery=exactly-once"):
        sink_options({**KAFKA, "exactlyonce.id": "a"})


def test_options_of_exactly_once_and_their_defaults() -> None:
    plain = sink_options({**KAFKA, "delivery": "exactly-once"}).exactly_once
    assert plain is not None
    assert (plain.sink_id, plain.batch_number, plain.ledger_topic, plain.policy) == (None, None, "t", Policy())
    assert plain.inline_max_bytes == 16 << 20
    assert plain.name_for("q") == "levada-q"
    given = {
        "delivery": "exactly-once",
        "exactlyonce.id": "orders",
        "exactlyonce.batchid": "20261126",
        "transactionalidprefix": "etl.",
        "ledgertopic": "ledger",
        "onmissingledger": "fail",
        "onledgerahead": "skip",
        "onotherrows": "skip",
        "inlinemaxbytes": "1000",
    }
    full = sink_options({**KAFKA, **given}).exactly_once
    assert full is not None
    assert (full.sink_id, full.batch_number, full.ledger_topic, full.inline_max_bytes) == ("orders", 20261126, "ledger", 1000)
    assert full.policy == Policy("fail", "skip", "skip")
    assert full.name_for("orders") == "etl.orders"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"delivery": "twice"}, "option 'delivery': expected at-least-once or exactly-once, got 'twice'"),
        ({"exactlyOnce.batchId": "1"}, "option 'exactlyOnce.batchId' needs 'exactlyOnce.id'"),
        ({"exactlyOnce.batchId": "-1", "exactlyOnce.id": "a"}, "option 'exactlyOnce.batchId': expected 0 or a whole number"),
        ({"exactlyOnce.id": "a b"}, "option 'exactlyOnce.id': 'a b'; give letters"),
        ({"exactlyOnce.id": ""}, "option 'exactlyOnce.id': ''; give letters"),
        ({"transactionalIdPrefix": "x" * 151}, "option 'transactionalIdPrefix': 'x+'; give letters, .* at most 150"),
        ({"ledgerTopic": "a/b"}, "option 'ledgerTopic': 'a/b' is no name of a topic"),
        ({"onMissingLedger": "skip"}, "option 'onMissingLedger': expected warn or fail or write"),
        ({"onLedgerAhead": "warn"}, "option 'onLedgerAhead': expected fail or skip"),
        ({"onOtherRows": "warn"}, "option 'onOtherRows': expected fail or skip"),
        ({"inlineMaxBytes": "0"}, "option 'inlineMaxBytes': expected a whole number above 0"),
        ({"kafka.transactional.id": "a"}, "option 'kafka.transactional.id' cannot be set: give delivery=exactly-once"),
        ({"kafka.enable.idempotence": "false"}, "among the kafka.* options: 'transactional.id' needs 'enable.idempotence'"),
        ({"kafka.acks": "1"}, "option 'kafka.acks'=1 cannot be used"),
    ],
)
def test_a_wrong_option_is_refused(given: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        sink_options({**KAFKA, "delivery": "exactly-once", **given})


def test_topics_from_a_column_need_a_topic_for_the_ledger() -> None:
    servers = {"kafka.bootstrap.servers": "localhost:9092", "delivery": "exactly-once"}
    with pytest.raises(ConfigError, match=re.escape("needs the option 'ledgerTopic'")):
        sink_options(servers)
    by_column = sink_options({**servers, "ledgerTopic": "ledger"})
    assert by_column.topic is None
    assert by_column.exactly_once is not None
