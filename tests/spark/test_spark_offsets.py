"""The arithmetic of micro-batches (spark.md 1.1, 2.4)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levada.errors import ConfigError
from levada.spark.source.bounds import EARLIEST, LATEST, resolve
from levada.spark.source.loss import data_loss
from levada.spark.source.offsets import from_json, start_of, to_json, with_start
from levada.spark.source.trigger import findings, limit_rows, losses, lost_beginnings
from levada.types import TopicPartition

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
OFFSETS = st.dictionaries(st.sampled_from([T0, T1, T2, TopicPartition("s", 10)]), st.integers(0, 2**62), min_size=1)


@given(OFFSETS)
def test_json_and_back(offsets: Any) -> None:
    assert from_json(to_json(offsets)) == offsets


def test_equal_offsets_are_equal_text() -> None:
    assert str(to_json({T1: 1, T0: 0})) == str(to_json({T0: 0, T1: 1})) == "{'t': {'0': 0, '1': 1}}"


def test_the_end_of_batch_0_carries_its_start() -> None:
    start, end = to_json({T0: 5}), with_start(to_json({T0: 9}), to_json({T0: 5}))
    assert end == {"t": {"0": 9}, "$start": {"t": {"0": 5}}}
    assert from_json(end) == {T0: 9}
    assert start_of(to_json({T0: 8}), end) == start
    assert start_of(start, to_json({T0: 9})) == start


class Ends:
    """A cluster that records the requests for offsets."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[TopicPartition]]] = []

    def earliest(self, partitions: Any) -> Any:
        self.asked.append(("earliest", list(partitions)))
        return {tp: 3 + tp.partition for tp in partitions}

    def latest(self, partitions: Any) -> Any:
        self.asked.append(("latest", list(partitions)))
        return {tp: 30 + 10 * tp.partition for tp in partitions}


def resolved(bound: Any, partitions: Any = (T0, T1)) -> tuple[Any, Any]:
    ends = Ends()
    return resolve(bound, partitions, ends, "startingOffsets"), ends.asked  # type: ignore[arg-type]


def test_starts_are_resolved_for_every_partition_and_nothing_more_is_asked() -> None:
    assert resolved(EARLIEST) == ({T0: 3, T1: 4}, [("earliest", [T0, T1])])
    assert resolved(LATEST) == ({T0: 30, T1: 40}, [("latest", [T0, T1])])
    assert resolved({T0: EARLIEST, T1: LATEST}) == ({T0: 3, T1: 40}, [("earliest", [T0]), ("latest", [T1])])
    assert resolved({T0: 7, T1: 8}) == ({T0: 7, T1: 8}, [])


def test_json_must_name_exactly_the_partitions() -> None:
    with pytest.raises(ConfigError, match="'startingOffsets' must name every partition that is read; missing: t-1, t-2"):
        resolved({T0: 1}, [T0, T1, T2])
    with pytest.raises(ConfigError, match="'startingOffsets' names partitions that are not read: t-1"):
        resolved({T0: 1, T1: 1}, [T0])


def test_a_limit_is_shared_in_proportion() -> None:
    assert limit_rows({T0: 0, T1: 100}, {T0: 900, T1: 200}, 100) == {T0: 90, T1: 110}


def test_a_small_partition_is_not_starved() -> None:
    assert limit_rows({T0: 0, T1: 0}, {T0: 1_000_000, T1: 1}, 10) == {T0: 9, T1: 1}


def test_shares_above_one_are_rounded_down() -> None:
    assert limit_rows({T0: 0, T1: 0, T2: 0}, {T0: 5, T1: 5, T2: 5}, 5) == {T0: 1, T1: 1, T2: 1}


def test_a_limit_above_the_backlog_changes_nothing() -> None:
    assert limit_rows({T0: 0, T1: 7}, {T0: 5, T1: 7}, 5) == {T0: 5, T1: 7}


def test_partitions_without_backlog_stay() -> None:
    assert limit_rows({T0: 10, T1: 50}, {T0: 90, T1: 50}, 8) == {T0: 18, T1: 50}


@given(
    st.dictionaries(st.sampled_from([T0, T1, T2]), st.tuples(st.integers(0, 10**15), st.integers(0, 10**15)), min_size=1),
    st.integers(1, 10**15),
)
def test_a_limited_batch_moves_forward_within_its_bounds(backlogs: Any, most: Any) -> None:
    start = {tp: begin for tp, (begin, _) in backlogs.items()}
    end = {tp: begin + size for tp, (begin, size) in backlogs.items()}
    limited = limit_rows(start, end, most)
    assert all(start[tp] <= limited[tp] <= end[tp] for tp in end)
    assert all(limited[tp] > start[tp] for tp in end if end[tp] > start[tp])
    assert sum(limited.values()) - sum(start.values()) <= most + len(end)


def test_signs_of_lost_data_are_reported_in_sentences() -> None:
    reached, latest = {T0: 10, T1: 20, T2: 5}, {T1: 7, T2: 6}
    lost = losses(reached, latest, remade_topics=(), same_topics=())
    said = findings(lost, reached, latest)
    assert said[0] == "t-0 was read up to offset 10 and does not exist any more"
    assert said[1].startswith("t-1 ends at offset 7, but was read up to 20: the topic was probably deleted and created again")
    assert len(said) == 2
    assert lost_beginnings({T0: 0, T1: 3}) == ["t-1 is new to this query, but begins at offset 3: earlier records are gone already"]


def test_an_id_tells_a_new_topic_from_a_log_that_was_cut() -> None:
    assert losses({T0: 10}, {T0: 50}, remade_topics={"t"}, same_topics=()).remade == [T0]
    assert losses({T0: 10}, {T0: 9}, remade_topics=(), same_topics={"t"}).shorter == [T0]
    assert not losses({T0: 10}, {T0: 10}, remade_topics=(), same_topics=())


def test_the_error_says_what_to_do() -> None:
    text = str(data_loss(["t-0 is gone", "t-1 too"]))
    assert text.startswith("t-0 is gone; t-1 too. Records may have been lost. ")
    assert "failOnDataLoss to false" in text
