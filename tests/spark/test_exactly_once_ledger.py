"""What the ledger of an exactly-once sink says, and what follows for a micro-batch (adr/0061)."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b85encode
from dataclasses import replace
from random import Random

import pytest

from levada.errors import ConfigError, CorruptRecordError, IllegalStateError
from levada.exactly_once.batch import NO_ROWS, BatchId, Rows, Slot, SlotName, parsed
from levada.exactly_once.ledger import Entry, Policy, Verdict, check_same_rows, continued_in, further_groups, judge, newest, read
from levada.spark.options.options import sink_options
from levada.types import OffsetAndMetadata, TopicPartition, TransactionHandle

BATCH = BatchId("query", "run-2", 7)
ROWS = Rows(3, 2**63 + 5)
TP = TopicPartition("t", 0)
LAST = Entry(BatchId("query", "run-1", 7), ROWS, TP)
KAFKA = {"kafka.bootstrap.servers": "localhost:9092", "topic": "t"}


def before(number: int) -> Entry:
    return replace(LAST, batch=replace(LAST.batch, number=number))


def slots(count: int, number: int = 7) -> tuple[Slot, ...]:
    """Slots of tasks that were tried more or less often. Digests are numbers that cannot be compressed."""
    made, random = [], Random(count)
    for task in range(count):
        name = SlotName(f"{random.getrandbits(32):08x}", number % 2, task, task % 3)
        full = name.within("g")
        handle = TransactionHandle(full, random.getrandbits(40), random.getrandbits(15), 5, groups=(full,))
        made.append(Slot(name, handle, Rows(random.getrandbits(20), random.getrandbits(64))))
    return tuple(made)


def read_again(entry: Entry) -> Entry:
    offsets = entry.offsets("g")
    assert max(len(offset.metadata) for offset in offsets.values()) < 4096, "the brokers' offset.metadata.max.bytes"
    offset = offsets.pop("g")
    assert list(offsets) == further_groups("g", continued_in(offset))
    return read("g", TP, offset, list(offsets.values()))


@pytest.mark.parametrize(
    "entry", [LAST, Entry(BatchId("", "", 0), NO_ROWS, TP), Entry(BatchId("q", "r", 2**63 - 1), Rows(2**63, 2**64 - 1), TP)]
)
def test_an_entry_is_read_as_it_was_written(entry: Entry) -> None:
    assert read_again(entry) == entry
    assert len(entry.offsets("g")) == 1


@pytest.mark.parametrize("count", [1, 2, 60, 200, 3000])
def test_slots_are_read_as_they_were_written_and_continued_in_further_groups(count: int) -> None:
    entry = replace(LAST, slots=slots(count))
    assert read_again(entry) == entry
    assert len(entry.offsets("g")) <= 1 + count // 50


def test_a_slot_is_known_by_its_name() -> None:
    name = SlotName.of(BatchId("q", "0123abcd-4567", 5), 12, 3)
    assert name.within("levada-a.b-c") == "levada-a.b-c~0123abcd.1.12.3"
    assert parsed("levada-a.b-c~0123abcd.1.12.3") == ("levada-a.b-c", name)
    assert not any(map(parsed, ("levada-a", "levada-a~1", "a~0123abcd.2.1.1", "a~0123abcd.1.1", "~0123abcd.1.1.1", "a~0123abcd.1.1.x")))


def test_entries_that_are_cut_off_or_damaged_are_refused() -> None:
    offsets = replace(LAST, slots=slots(300)).offsets("g")
    offset = offsets.pop("g")
    further = list(offsets.values())
    damaged: list[list[OffsetAndMetadata | None]] = [
        [*further[:-1]],
        [*further[:-1], None],
        [*further[:-1], further[-1]._replace(offset=6)],
        [*further[:-1], further[-1]._replace(metadata=further[-1].metadata[:-5])],
        [*further[:-1], further[-1]._replace(metadata="\u00e4")],
    ]
    for found in damaged:
        with pytest.raises(CorruptRecordError, match=r"group 'g', t-0\): cannot use"):
            read("g", TP, offset, found)


def test_slots_that_would_take_much_memory_are_refused() -> None:
    bomb = b85encode(zlib.compress(bytes(100 << 20))).decode()
    text = json.dumps({"v": 2, "query": "", "run": "", "rows": 1, "digest": "0", "more": 0, "slots": bomb})
    with pytest.raises(CorruptRecordError, match="its slots are cut off"):
        read("g", TP, OffsetAndMetadata(1, metadata=text))


def test_an_entry_of_a_newer_levada_is_not_given_up() -> None:
    with pytest.raises(IllegalStateError, match="version 3 is not known to this version of levada; use the version that has written it"):
        read("g", TP, OffsetAndMetadata(5, metadata='{"v":3}'))


def test_of_two_entries_of_one_batch_the_one_of_the_later_repetition_counts() -> None:
    first = LAST.offsets("g")["g"]
    later = replace(LAST, repetition=2).offsets("g")["g"]
    for order in ([("a", first), ("b", later)], [("b", later), ("a", first)]):
        assert newest({TopicPartition(topic, 0): offset for topic, offset in order}) == (TopicPartition("b", 0), later)


def test_the_newest_offset_counts_after_the_topic_of_the_ledger_was_changed() -> None:
    old, new = OffsetAndMetadata(4), OffsetAndMetadata(7)
    assert newest({TP: old, TopicPartition("u", 0): new, TopicPartition("v", 0): None}) == (TopicPartition("u", 0), new)
    assert newest({TP: None}) is None
    assert newest({}) is None


@pytest.mark.parametrize(
    "metadata",
    [
        "",
        "x",
        "[]",
        "{}",
        "null",
        '{"v":0,"query":"q"}',
        '{"v":1,"query":"q","run":"r","rows":"x","digest":"0"}',
        '{"v":1,"query":"q","run":"r","rows":Infinity,"digest":"0"}',
        "[" * 4096,
        '{"v":2,"query":"q","run":"r","rows":1,"digest":"0","more":"x","slots":"0"}',
        '{"v":2,"query":"q","run":"r","rows":1,"digest":"0","more":0,"slots":7}',
        '{"v":2,"query":"q","run":"r","rows":1,"digest":"0","more":2,"slots":"0"}',
    ],
)
def test_an_offset_that_no_sink_has_committed_is_refused(metadata: str) -> None:
    with pytest.raises(CorruptRecordError, match=r"group 'levada-q', t-0\): cannot use .* offset 5 .*give another exactlyOnce.id"):
        read("levada-q", TP, OffsetAndMetadata(5, metadata=metadata))


def test_an_offset_that_no_sink_has_committed_is_not_continued() -> None:
    assert continued_in(OffsetAndMetadata(5, metadata="[" * 4096)) == 0


@pytest.mark.parametrize(
    ("entry", "policy", "verdict"),
    [
        (before(6), Policy(), Verdict.WRITE),
        (before(0), Policy(), Verdict.WRITE),
        (LAST, Policy(), Verdict.REPEAT),
        (LAST, Policy(missing="fail", ahead="skip", other_rows="skip"), Verdict.REPEAT),
        (replace(LAST, rows=NO_ROWS), Policy(), Verdict.REPEAT),
        (None, Policy(), Verdict.WRITE_UNPROVEN),
        (None, Policy(missing="write"), Verdict.WRITE),
        (before(8), Policy(ahead="skip"), Verdict.SKIP_AHEAD),
    ],
)
def test_what_is_done_with_a_batch(entry: Entry | None, policy: Policy, verdict: Verdict) -> None:
    assert judge(BATCH, entry, policy, "s") is verdict


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (before(8), "the ledger is ahead, at batch 8: .* or onLedgerAhead=skip"),
        (replace(LAST, batch=BATCH), "this run has written this batch already: .* exactlyOnce.id of its own"),
        (replace(LAST, batch=BatchId("other", "run-1", 3)), "belongs to query other, this is query query.* give another id"),
    ],
)
def test_what_neither_writing_nor_skipping_would_be_right_for_is_refused(entry: Entry, why: str) -> None:
    with pytest.raises(IllegalStateError, match=f"exactly-once sink 's', batch 7: .*{why}"):
        judge(BATCH, entry, Policy(), "s")


JOB = BatchId("", "run-2", 7)
LAST_OF_JOBS = replace(LAST, batch=BatchId("", "run-1", 7))


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (None, r"this is the first batch under its exactlyOnce.id\. .* run the job once with onMissingLedger=write"),
        (
            replace(LAST_OF_JOBS, batch=replace(LAST_OF_JOBS.batch, number=8)),
            "at batch 8: the numbers .* have to rise.* give a higher number",
        ),
        (LAST, "the ledger belongs to query query, this is a batch job. Give the job an exactlyOnce.id"),
    ],
)
def test_a_batch_job_is_not_told_of_a_checkpoint(entry: Entry | None, why: str) -> None:
    with pytest.raises(IllegalStateError, match=f"exactly-once sink 's', batch 7: .*{why}") as refused:
        judge(JOB, entry, Policy(missing="fail"), "s")
    assert "checkpoint" not in str(refused.value)


def test_other_rows_of_a_batch_job_are_explained_by_what_a_job_has() -> None:
    why = "Another job has used this exactlyOnce.batchId.* run the job with onOtherRows=skip, .* give a higher exactlyOnce.batchId"
    with pytest.raises(IllegalStateError, match=why) as refused:
        check_same_rows(JOB, ROWS, replace(LAST_OF_JOBS, rows=NO_ROWS), Policy(), "s")
    assert "checkpoint" not in str(refused.value)


def test_a_query_is_told_that_a_ledger_is_of_batch_jobs() -> None:
    with pytest.raises(IllegalStateError, match=r"the ledger belongs to batch jobs, this is query query\. Give the query an"):
        judge(BATCH, LAST_OF_JOBS, Policy(), "s")


def test_a_batch_that_is_repeated_has_the_same_rows_or_is_refused() -> None:
    other = replace(LAST, rows=Rows(3, 1))
    assert check_same_rows(BATCH, ROWS, LAST, Policy(), "s") is True
    assert check_same_rows(BATCH, ROWS, other, Policy(other_rows="skip"), "s") is False
    why = r"rows: 3 \(digest 0000000000000001\) then, 3 \(digest 8000000000000005\) now.* onOtherRows=skip"
    with pytest.raises(IllegalStateError, match=f"exactly-once sink 's', batch 7: .*{why}"):
        check_same_rows(BATCH, ROWS, other, Policy(), "s")


def test_a_missing_ledger_is_nothing_to_wonder_about_at_the_first_batch() -> None:
    assert judge(replace(BATCH, number=0), None, Policy(missing="fail"), "s") is Verdict.WRITE
    with pytest.raises(IllegalStateError, match=r"the ledger has no entry, so it is not known .* once with onMissingLedger=write"):
        judge(BATCH, None, Policy(missing="fail"), "s")


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
        "onlostslot": "rewrite",
        "inlinemaxbytes": "1000",
    }
    full = sink_options({**KAFKA, **given}).exactly_once
    assert full is not None
    assert (full.sink_id, full.batch_number, full.ledger_topic, full.inline_max_bytes) == ("orders", 20261126, "ledger", 1000)
    assert full.policy == Policy("fail", "skip", "skip", "rewrite")
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
        ({"ledgerTopic": "a/b"}, "option 'ledgerTopic': 'a/b' is not a topic name"),
        ({"onMissingLedger": "skip"}, "option 'onMissingLedger': expected warn or fail or write"),
        ({"onLedgerAhead": "warn"}, "option 'onLedgerAhead': expected fail or skip"),
        ({"onOtherRows": "warn"}, "option 'onOtherRows': expected fail or skip"),
        ({"onLostSlot": "warn"}, "option 'onLostSlot': expected fail or rewrite or skip"),
        ({"inlineMaxBytes": "0"}, "option 'inlineMaxBytes': expected a whole number above 0"),
        ({"kafka.transactional.id": "a"}, "option 'kafka.transactional.id' cannot be set: leave it out; delivery=exactly-once"),
        ({"kafka.enable.idempotence": "false"}, "option 'kafka.enable.idempotence': delivery=exactly-once needs it"),
        ({"kafka.acks": "1"}, "option 'kafka.acks'=1 cannot be used"),
    ],
)
def test_a_wrong_option_is_refused(given: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        sink_options({**KAFKA, "delivery": "exactly-once", **given})


def test_topics_from_a_column_need_a_topic_for_the_ledger() -> None:
    servers = {"kafka.bootstrap.servers": "localhost:9092", "delivery": "exactly-once"}
    with pytest.raises(ConfigError, match=re.escape("needs the option 'topic', or, with topics from a column, 'ledgerTopic'")):
        sink_options(servers)
    by_column = sink_options({**servers, "ledgerTopic": "ledger"})
    assert by_column.topic is None
    assert by_column.exactly_once is not None
