"""Records histories of test runs, and checks them for records that were lost, duplicated or reordered. See docs/RELIABILITY.md."""

from __future__ import annotations

from levada.testing.history.checks import CHECKS
from levada.testing.history.events import Event, Found, History, HistoryFile, Op, Place, Type, name_of, process_of, value_of
from levada.testing.history.final_log import read_log
from levada.testing.history.findings import Finding
from levada.testing.history.members import RecordingMember
from levada.testing.history.recorder import AsyncRecordingProducer, Recorder, RecordingConsumer, RecordingProducer, found_in, outcome_of
from levada.testing.history.report import Report, check

__all__ = [
    "CHECKS",
    "AsyncRecordingProducer",
    "Event",
    "Finding",
    "Found",
    "History",
    "HistoryFile",
    "Op",
    "Place",
    "Recorder",
    "RecordingConsumer",
    "RecordingMember",
    "RecordingProducer",
    "Report",
    "Type",
    "check",
    "found_in",
    "name_of",
    "outcome_of",
    "process_of",
    "read_log",
    "value_of",
]
