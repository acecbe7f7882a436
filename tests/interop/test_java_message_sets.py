"""Message sets as nobody writes them any more, and as old producers and cleaners left them: read as Java's consumer reads them.

Where Java reads on and levada refuses, the reason is in REFUSED; nothing else may differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from java_kit import JavaError, JavaProgram
from java_records import JavaRecords
from levada.errors import CorruptRecordError
from levada.record.compression import Codec
from levada.record.memory_records import read_batches
from record_kit import OLD_CODECS, raw_message, raw_wrapper

pytestmark = pytest.mark.kafka

# Java drops a message cut short inside a wrapper without a word, and takes bytes for no message's; both would be silent loss. It looks at
# the magic of messages inside only when it writes (M7), and not at what a message holds behind its value.
REFUSED = ("bytes are left over", "bytes where", "within magic", "does not fill its message", "is out of range", "is negative")


@pytest.fixture(scope="module")
def java(java_program: Callable[[str, str], JavaProgram]) -> JavaRecords:
    return JavaRecords(java_program("Records", "4.4.0"))


Found = list[tuple[int, int, int, bytes | None, bytes | None]]


def java_consumes(java: JavaRecords, data: bytes) -> Found | str:
    """What Java's consumer hands out: records below the position are passed over, one by one (CompletedFetch)."""
    try:
        batches = java.read(data)
    except JavaError as error:
        return f"Java: {error}"
    rows = [(batch.fields["timestamp_type"], record) for batch in batches for record in batch.records]
    return _ascending([(record.offset, kind, record.timestamp, record.key, record.value) for kind, record in rows])


def we_consume(data: bytes) -> Found | str:
    found: Found = []
    try:
        for batch in read_batches(data):
            batch.verify_crc()
            found += [(each.offset, batch.timestamp_type, each.timestamp, each.key, each.value) for each in batch.records()]
    except CorruptRecordError as error:
        return str(error)
    return _ascending(found)


def _ascending(rows: Found) -> Found:
    found: Found = []
    for row in rows:
        if not found or row[0] > found[-1][0]:
            found.append(row)
    return found


offsets = st.integers(0, 12)
fields = st.none() | st.binary(max_size=8)
times = st.sampled_from([-1, 0, 5, 2**40, 2**63 - 1, -2, -(2**63)])


@st.composite
def messages(draw: st.DrawFn, magic: int) -> bytes:
    attributes = draw(st.sampled_from([0, 0, 0, 8, 0x70]))
    return raw_message(draw(offsets), magic, draw(fields), draw(fields), timestamp=draw(times), attributes=attributes)


@st.composite
def wrappers(draw: st.DrawFn) -> bytes:
    magic = draw(st.integers(0, 1))
    inner = draw(st.sampled_from([magic] * 9 + [1 - magic]))
    inside = b"".join(draw(st.lists(messages(inner), min_size=draw(st.sampled_from([0, 1, 1, 1])), max_size=4)))
    inside = inside[: len(inside) - draw(st.sampled_from([0, 0, 0, 0, 1, 20]))]
    codec = draw(st.sampled_from(OLD_CODECS[1:]))
    if draw(st.sampled_from([False] * 9 + [True])):
        inside += raw_wrapper(draw(offsets), magic, codec, raw_message(0, magic))
    options: dict[str, Any] = {"attributes": draw(st.sampled_from([0, 0, 8])), "timestamp": draw(times)}
    return raw_wrapper(draw(offsets), magic, codec, inside, **options)


logs = st.lists(messages(0) | messages(1) | wrappers(), min_size=1, max_size=4).map(b"".join)


@settings(max_examples=600)
@given(data=logs, cut=st.sampled_from([0, 0, 0, 1, 30]))
def test_TR9_what_java_reads_is_read_alike(java: JavaRecords, data: bytes, cut: int) -> None:
    data = data[: max(0, len(data) - cut)]
    ours, theirs = we_consume(data), java_consumes(java, data)

    if isinstance(ours, str) and not isinstance(theirs, str):
        event("only we refuse")
        assert any(re.search(reason, ours) for reason in REFUSED), ours
    else:
        event("both read" if isinstance(theirs, list) else "both refuse")
        assert isinstance(ours, str) if isinstance(theirs, str) else ours == theirs, theirs


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS[1:])
def test_M4_java_refuses_wrappers_within_wrappers_too(java: JavaRecords, magic: int, codec: Codec) -> None:
    data = raw_wrapper(0, magic, codec, raw_wrapper(0, magic, codec, raw_message(0, magic)))

    assert "Inner messages must not be compressed" in java_consumes(java, data)
    assert "compressed within compressed" in we_consume(data)
