"""One grammar for offsets, for all commands."""

from __future__ import annotations

import pytest

from levada.cli.offsets import FromEnd, FromStart, Log, Span, parse_position, parse_spans, parse_time, settle, time_ms
from levada.cli.positions import OffsetRange, remarks
from levada.consumer.scan.bounds import Ago, Moment
from levada.errors import ConfigError
from levada.types import TopicPartition


def test_a_format_in_the_place_of_an_offset_is_told_where_it_belongs() -> None:
    with pytest.raises(ConfigError, match="for the format write --output"):
        parse_spans("json")


POSITIONS = {
    "start": "earliest",
    "END": "latest",
    "beginning": "earliest",
    "0": 0,
    "42": 42,
    "-1000": FromEnd(1000),
    "+5": FromStart(5),
    "-1h": Ago(3_600_000),
    "-1h30m": Ago(5_400_000),
    "@-2d": Ago(2 * 86_400_000),
    "@2026-11-01T10:00Z": Moment(1_793_527_200_000),
    "@2026-11-01T12:00+02:00": Moment(1_793_527_200_000),
    "@1793527200": Moment(1_793_527_200_000),
    "@1793527200123": Moment(1_793_527_200_123),
}


@pytest.mark.parametrize("text", POSITIONS)
def test_a_position_is_read(text: str) -> None:
    assert parse_position(text) == POSITIONS[text]


def test_a_time_without_a_zone_is_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert parse_position("@2026-11-01T10:00") == parse_position("@2026-11-01T01:00Z")
        assert parse_time("2026-11-01") == parse_time("2026-10-31T15:00Z")
    finally:
        monkeypatch.undo()
        time.tzset()


SPANS = {
    "end": (Span("latest", None), {}),
    "start..end": (Span("earliest", "latest"), {}),
    "-2h..-1h": (Span(Ago(7_200_000), Ago(3_600_000)), {}),
    "..@2026-11-01T10:00Z": (Span(None, Moment(1_793_527_200_000)), {}),
    "10..": (Span(10, None), {}),
    "0:42": (Span(None, None), {0: Span(42, None)}),
    "0:42..100,3:-5,end": (Span("latest", None), {0: Span(42, 100), 3: Span(FromEnd(5), None)}),
    "@2026-11-01T10:00Z..@2026-11-01T11:00Z": (Span(Moment(1_793_527_200_000), Moment(1_793_530_800_000)), {}),
}


@pytest.mark.parametrize("text", SPANS)
def test_spans_are_read(text: str) -> None:
    assert tuple(parse_spans(text)) == SPANS[text]


@pytest.mark.parametrize("text", ["5..3", "+5..+3", "-3..-5", "-1h..-2h", "end..start", "0:1..,1:5..3", "@2026-11-02..@2026-11-01"])
def test_a_range_that_ends_before_it_begins_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="ends before it begins"):
        parse_spans(text)


@pytest.mark.parametrize("text", ["5..5", "+3..-5", "42..-1h", "start..end", "@2026-11-01..-1h"])
def test_a_range_of_which_only_the_log_can_tell_is_read(text: str) -> None:
    parse_spans(text)


def test_what_is_not_in_the_log_is_told() -> None:
    log = Log(10, 20)
    ranges = {
        TopicPartition("whole", 0): OffsetRange(10, 20, True, log),
        TopicPartition("empty", 0): OffsetRange(15, 15, True, log),
        TopicPartition("reversed", 0): OffsetRange(18, 12, True, log),
        TopicPartition("ahead", 0): OffsetRange(21, 20, False, log),
        TopicPartition("far", 0): OffsetRange(30, 40, True, log),
        TopicPartition("later", 0): OffsetRange(20, 20, False, log, is_to_come=True),
        TopicPartition("short", 0): OffsetRange(12, 40, True, log),
    }
    before, ahead, later, short = remarks(ranges, waits=False)
    assert before == "the range ends before it begins, so nothing is read: reversed-0 (from 18 to 12)"
    assert ahead.endswith("so nothing is read: ahead-0 (from 21, the log ends at 20), far-0 (from 30, the log ends at 20)")
    assert short.endswith("so only what is there is read: short-0 (to 40, the log ends at 20)")
    assert later == "the range begins at a time to come, so nothing is read: later-0 (the log ends at 20)"
    assert "its first record is waited for" in remarks(ranges, waits=True)[1]
    assert "so all new records are read, whatever their timestamps: later-0" in remarks(ranges, waits=True)[2]
    none = {TopicPartition("empty", part): OffsetRange(15, 15, True, log) for part in (0, 1)}
    assert remarks(none, waits=True) == ["there are no records in the range, so nothing is read: empty-0, empty-1"]
    at_end = {TopicPartition("t", 0): OffsetRange(20, 20, False, log)}
    assert remarks(at_end, waits=False) == ["there are no records in the range, so nothing is read: t-0"]
    assert remarks(at_end, waits=True) == []
    assert remarks({TopicPartition("t", 0): OffsetRange(0, 0, False, Log(0, 0))}, waits=False) == [
        "the log is empty, so nothing is read: t-0"
    ]
    bounded = {TopicPartition("later", 0): OffsetRange(20, 20, True, log, is_to_come=True)}
    assert remarks(bounded, waits=True) == [later]


@pytest.mark.parametrize("text", [f"{sign}{10**19}{unit}" for sign in ("", "+", "-", "@", "5..", "@0..@") for unit in ("", "h")])
def test_numbers_beyond_64_bits_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected"):
        parse_spans(text)


@pytest.mark.parametrize("text", ["", "sart", "@", "@yesterday", "-1y", "1:2:3", "..", "0:", "start,end", "0:1,0:2", "--5", "@1969-01-01Z"])
def test_what_is_no_offset_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ConfigError, match=r"-1h|0:42|2026-11-01|named twice|a start or an end"):
        parse_spans(text)


@pytest.mark.parametrize(
    ("position", "offset"),
    [
        ("earliest", 10),
        ("latest", 20),
        (15, 15),
        (FromEnd(3), 17),
        (FromEnd(1000), 10),
        (FromStart(3), 13),
        (FromStart(1000), 1010),
        (Moment(5), 12),
    ],
)
def test_a_position_is_settled(position: object, offset: int) -> None:
    assert settle(position, Log(10, 20), 12) == offset  # type: ignore[arg-type]


def test_a_time_after_the_last_record_is_the_end() -> None:
    assert settle(Ago(1), Log(10, 20), None) == 20
    assert time_ms(Ago(1_000), 5_000) == 4_000
    assert time_ms("latest", 5_000) is None
