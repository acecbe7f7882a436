"""M-C14: aiokafka and kafka-python agree with us about damaged records, or the difference is one of those listed here, with its reason."""

from __future__ import annotations

import re
from collections import Counter

import pytest

import differential_responses
from differential_kit import CRASHED, HUNG, PEERS, Reading, read_by_us, readings
from differential_responses import many_responses, read_by_kafka_python, valid
from hardening_kit import FULL, note, scaled
from hostile_records import WHOLE, many

pytestmark = pytest.mark.hardening

INPUTS = scaled(50_000, 1_500)
SEED = 11

# What of our refusals others accept, and why.
STRICTER = {
    r"\d+ records, but the last offset delta is -?\d+": "others do not compare the count with the offsets",
    r"unknown codec [567]": "others take an unknown codec for none",
    r"unknown magic -?\d+": "others read every magic but 0 and 1 as 2",
    r"a length of \d+ bytes is less than the header": "others read a header beyond its entry",
    r"offset deltas do not ascend": "others hand out offsets in any order, and twice",
    r"a (key|value)'s length does not fit its record": "others take every negative length for null",
    r"a record's headers do not fit it": "others take every negative length of a header's value for null",
    r"a (key|value) of -?\d+ bytes does not (fit|fill) its message": "others do not hold key and value to their message's size",
    r"a size of -?\d+ bytes (where|is less than)": "others stop silently at an entry that does not fit its wrapper",
    r"bytes are left over": "others stop silently at an entry that does not fit its wrapper",
    r"the checksum of the message at byte \d+ does not fit": "others check the wrapper's checksum only",
    r"the last one's relative offset is \d+, which is beyond": "others count below zero",
    r"the offset is negative": "others count below zero",
    r"magic -?\d+ within magic": "others read a message within a wrapper as if it were of the wrapper's magic",
    r"a xerial chunk of -?\d+ bytes where": "others take what they find of a chunk that is cut short",
    r"(lz4|gzip): the (frame|stream) is cut short": "others do not miss the end of a stream",
    r"lz4: no frame begins at byte \d+": "others ignore what follows a frame",
}
# What others refuse and we accept, and why.
LAXER = {
    r"UnicodeDecodeError": "a header's key that is not UTF-8 is read with U+FFFD, as Java does",
    # One byte for Java and us, a varint for them: all behind it is out of place.
    r"Can't read \d+ bytes|index out of range|Invalid negative|invalid number of record headers": "a record's attributes",
    r"LZ4 is not supported|pip install xxhash": "lz4 of magic 0, which they do not read without another package",
    r"snappy: corrupt input": "a xerial header of another version, which Java reads too",
}
# Rows that differ: what was done to the input, and why.
OTHER_ROWS = {"wrapper": "offsets that go back: each message is handed out once by us, though a log may hold it twice (KAFKA-4298)"}


def listed(classes: dict[str, str], text: str) -> str | None:
    return next((pattern for pattern in classes if re.search(pattern, text)), None)


def judged(kind: str, ours: Reading, theirs: Reading) -> tuple[str, str | None]:
    """What the two make of an input, and the class of the difference, None for one that is not listed."""
    if ours.rows is None and theirs.rows is None:
        return "both refuse", ""
    if ours.rows is None:
        return "only we refuse", listed(STRICTER, ours.refusal)
    if theirs in (CRASHED, HUNG):
        return "only they end", ""
    if theirs.rows is None:
        return "only they refuse", listed(LAXER, theirs.refusal)
    return ("same rows", "") if ours.rows == theirs.rows else ("other rows", kind if kind in OTHER_ROWS else None)


@pytest.mark.timeout(1_800)
def test_M_C14_others_agree_or_the_difference_is_listed() -> None:
    inputs = [(kind, data, read_by_us(data)) for kind, data in many(INPUTS, SEED)]
    unlisted, classes = [], set()
    for peer in PEERS:
        theirs = readings(peer, [data for _, data, _ in inputs])
        verdicts = Counter({"crashed": theirs.count(CRASHED), "hung": theirs.count(HUNG)})
        for (kind, data, ours), reading in zip(inputs, theirs, strict=True):
            verdict, why = judged(kind, ours, reading)
            verdicts[verdict] += 1
            classes.add(why)
            if why is None:
                unlisted.append((peer, verdict, kind, ours, reading, data.hex()))
        shown = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.most_common())
        note("M-C14", f"damaged records, beside {peer}", f"{INPUTS}: {shown}", "all listed")
        assert verdicts["same rows"] > INPUTS / 50

    assert not unlisted[:5], f"{len(unlisted)} differences are not listed"
    if FULL:
        assert {*STRICTER, *LAXER, *OTHER_ROWS} <= classes, "a difference that is listed did not come up"


@pytest.mark.parametrize("peer", PEERS)
def test_M_C14_all_agree_about_records_that_are_not_damaged(peer: str) -> None:
    assert readings(peer, WHOLE) == [read_by_us(data) for data in WHOLE]
    assert all(read_by_us(data).rows for data in WHOLE)


# The same of responses: what of our refusals kafka-python accepts.
STRICTER_RESPONSES = {
    r"(\d+ bytes are announced|tag \d+ announces \d+ bytes), but only -?\d+ remain": "it takes what there is of a string or bytes",
    r"negative (count|length) -\d+": "it takes every negative count or length for null",
    r"null where null is not allowed": "it does not look where null is allowed",
    r"holds more than \d+ bits|is longer than \d+ bytes": "it reads a varint to whatever end",
    r"tags must ascend": "it takes tags in any order, and twice",
    r"ends \d+ bytes (after|before) its announced end": "it does not compare a tagged field with its size",
}


@pytest.mark.timeout(600)
def test_M_C14_kafka_python_agrees_about_responses_or_the_difference_is_listed() -> None:
    verdicts, classes, unlisted = Counter[str](), set(), []
    for given in many_responses(INPUTS, SEED):
        ours, theirs = differential_responses.read_by_us(given), read_by_kafka_python(given)
        verdict, why = judged_response(ours, theirs)
        verdicts[verdict] += 1
        classes.add(why)
        if why is None:
            unlisted.append((given, ours, theirs))

    shown = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.most_common())
    note("M-C14", f"damaged responses, {len(valid())} versions, beside kafka-python", f"{INPUTS}: {shown}", "all listed")
    assert not unlisted[:5], f"{len(unlisted)} differences are not listed"
    assert len(valid()) > 250
    if FULL:
        assert set(STRICTER_RESPONSES) <= classes


def judged_response(ours: Reading, theirs: Reading) -> tuple[str, str | None]:
    """As judged(), but what we read it has to read too, and alike."""
    if ours.rows is not None:
        return ("same bytes", "") if ours == theirs else ("only we read, or other bytes", None)
    return ("both refuse", "") if theirs.rows is None else ("only we refuse", listed(STRICTER_RESPONSES, ours.refusal))
