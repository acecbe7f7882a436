"""What became of the rows that a Spark query was given, as a reader finds them that shares no code with levada."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import confluent_kafka
from confluent_kafka import IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

import levada as lv

PATIENCE_S = 20
"""Less than the timeout that would end an open transaction."""
ENDED = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")


class Verdict(NamedTuple):
    """How rows 0 to n-1 came out. wrong: no such row was given; doubled: copies beyond the first. open: transactions of the sink that have
    not ended. is_settled: whether the last stable offset is the high watermark, so that nothing holds readers back.
    """

    wrong: int
    lost: int
    doubled: int
    open: int
    is_settled: bool

    @property
    def is_right(self) -> bool:
        """Whether each row is there once and nothing is left open."""
        return self == Verdict(0, 0, 0, 0, True)

    def since(self, earlier: Verdict) -> Verdict:
        """Return what has come after an earlier look; what is open or unsettled stays as it is now."""
        wrong, lost, doubled = self.wrong - earlier.wrong, self.lost - earlier.lost, self.doubled - earlier.doubled
        return Verdict(wrong, lost, doubled, self.open, self.is_settled)

    @property
    def cells(self) -> list[str]:
        """The cells of a table with HEADS."""
        return [*map(str, self[:4]), "yes" if self.is_settled else "no"]


HEADS = ["wrong rows", "lost", "doubled", "open transactions", "LSO = HW"]
NOTHING = Verdict(0, 0, 0, 0, True)


def verdict(servers: str, topic: str, given: int, transactional_ids: Sequence[str]) -> Verdict:
    """Look at a topic once its transactions have ended, or have had the time for it: coordinators answer before they write all markers."""
    deadline = time.monotonic() + PATIENCE_S
    while (is_open := open_transactions(servers, transactional_ids)) or not is_settled(servers, topic):
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    found, wrong = committed(servers, topic), 0
    for row in set(found) - set(range(given)):
        wrong += found.pop(row)
    return Verdict(wrong, given - len(found), found.total() - len(found), is_open, is_settled(servers, topic))


def committed(servers: str, topic: str) -> Counter[int]:
    """Count the rows that a reader of committed records is given."""
    settings = {"bootstrap.servers": servers, "group.id": topic, "enable.auto.commit": False, "enable.partition.eof": True}
    reader = confluent_kafka.Consumer({**settings, "isolation.level": "read_committed"})
    found: Counter[int] = Counter()
    try:
        partitions = [TopicPartition(topic, number, 0) for number in _partitions(servers, topic)]
        reader.assign(partitions)
        unread = {partition.partition for partition in partitions}
        while unread:
            message = reader.poll(PATIENCE_S)
            assert message is not None, f"partitions {unread} of {topic}: neither a record nor the end"
            if (error := message.error()) is None:
                found[int(message.value() or b"")] += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                unread.discard(message.partition())
            else:
                raise confluent_kafka.KafkaException(error)
    finally:
        reader.close()
    return found


def ends(servers: str, topic: str, level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED) -> dict[int, int]:
    """Return the high watermark of each partition, or its last stable offset."""
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    wanted = {TopicPartition(topic, number): latest for number in _partitions(servers, topic)}
    # Its answers come as long as there is an AdminClient.
    admin = AdminClient({"bootstrap.servers": servers})
    answers = admin.list_offsets(wanted, isolation_level=level)
    return {partition.partition: answer.result(PATIENCE_S).offset for partition, answer in answers.items()}


def records_in_log(servers: str, topic: str) -> int:
    """Count what is in the log, whether or not its transaction is decided: records, and markers of transactions."""
    return sum(ends(servers, topic).values())


def is_settled(servers: str, topic: str) -> bool:
    """Whether no open transaction holds readers of committed records back."""
    return ends(servers, topic, IsolationLevel.READ_COMMITTED) == ends(servers, topic)


def open_transactions(servers: str, transactional_ids: Sequence[str]) -> int:
    """Count the transactions of these ids, and of their slots, that have not ended."""
    with lv.KafkaAdmin(bootstrap_servers=servers) as admin:
        listed = [listing.transactional_id for listing in admin.list_transactions() if listing.state not in ENDED]
    return sum(name.partition("~")[0] in transactional_ids for name in listed)


def query_id(checkpoint: Path) -> str:
    """Return the id of the query that a checkpoint belongs to."""
    found: str = json.loads((checkpoint / "metadata").read_text())["id"]
    return found


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table."""
    lines = [heads, *rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def _partitions(servers: str, topic: str) -> list[int]:
    return list(AdminClient({"bootstrap.servers": servers}).list_topics(topic, PATIENCE_S).topics[topic].partitions)
