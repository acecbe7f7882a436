"""M-C1, M-C2 and M-C4: every message of every version comes back as it was, or is refused with a type and a place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz_targets import serve
from hardening_kit import FULL, Tally, count, note, scaled
from levada.broker.apis import SERVED
from levada.errors import TruncatedError
from levada.protocol.api import APIS
from levada.protocol.codegen import decode, encode
from levada.protocol.frame import decode_request, decode_response, encode_request, encode_response
from levada.protocol.schema import Message, Request
from mutation_kit import damaged
from protocol_strategies import MESSAGES, VERSIONED, emptied, filled, messages, versions_of

pytestmark = pytest.mark.hardening

SIZE = 4
EXAMPLES = scaled(200, 5)
DAMAGED = scaled(200, 10)
OFFERED: list[tuple[type[Request], int]] = [
    (request, version) for request in APIS.values() for version in range(request.MIN_VERSION, request.MAX_VERSION + 1)
]


# A round trip of every message is in tests/unit/protocol too, with fewer examples.
@pytest.mark.parametrize("message", MESSAGES if FULL else MESSAGES[:8])
def test_M_C1_what_is_written_is_read(message: type[Message]) -> None:
    @given(data=st.data())
    @settings(max_examples=EXAMPLES, database=None, suppress_health_check=list(HealthCheck))
    def check(version: int, data: st.DataObject) -> None:
        value = data.draw(messages(message, version))
        written = encode(value, version)
        assert decode(message, written, version) == (value, len(written))

    for version in versions_of(message):
        check(version)
    count("M-C1", "versions of messages written and read", len(versions_of(message)), f"equal and all bytes used, {EXAMPLES} examples each")


def test_M_C2_damaged_responses_are_read_or_refused_with_a_type_and_a_place() -> None:
    random, tally = Random(2), Tally()
    for request, version in OFFERED:
        for message in (filled(request.RESPONSE, version), emptied(request.RESPONSE, version)):
            frame = encode_response(message, version, 7)[SIZE:]
            for _ in range(DAMAGED):
                broken = damaged(frame, random)
                tally.run(decode_response, request, version, broken)

    tally.note("M-C2", "damaged responses")
    assert not tally.vague[:10]
    assert tally.outcomes["TruncatedError"] > DAMAGED


def test_M_C2_damaged_requests_are_read_or_refused_with_a_type_and_a_place() -> None:
    random, tally = Random(3), Tally()
    for request, version in OFFERED:
        for message in (filled(request, version), emptied(request, version)):
            frame = encode_request(message, version, 7, "client")[SIZE:]
            for _ in range(DAMAGED):
                # API and version stay as they are, most of the time.
                broken = damaged(frame, random, start=random.choice([0, SIZE, SIZE, SIZE]))
                tally.run(decode_request, broken)

    tally.note("M-C2", "damaged requests")
    assert not tally.vague[:10]
    assert tally.outcomes["TruncatedError"] > DAMAGED


def test_M_C2_a_broker_answers_damaged_requests_or_closes_the_connection() -> None:
    random, outcomes = Random(6), Counter[str]()
    for api in SERVED.values():
        for version in range(api.request.MIN_VERSION, api.request.MAX_VERSION + 1):
            for message in (filled(api.request, version), emptied(api.request, version)):
                frame = encode_request(message, version, 7, "client")[SIZE:]
                outcomes.update(serve(damaged(frame, random, start=SIZE)) for _ in range(scaled(100, 3)))

    note("M-C2", "damaged requests to a broker", f"{outcomes.total()}: {dict(outcomes)}", "no failure inside the broker")
    assert {"answered", "closed"} <= set(outcomes) <= {"answered", "closed", "silent"}


def test_M_C2_damaged_structs_inside_other_bytes_are_read_or_refused() -> None:
    random, tally = Random(4), Tally()
    for message, version in VERSIONED:
        if hasattr(message, "API_KEY"):
            continue
        written = encode(filled(message, version), version)
        for _ in range(DAMAGED):
            broken = damaged(written, random)
            tally.run(decode, message, broken, version)

    tally.note("M-C2", "damaged embedded structs and records of Kafka's own topics")
    assert not tally.vague[:10]


def test_M_C4_every_cut_of_every_frame_is_truncated() -> None:
    cuts, whole = 0, []
    for request, version in OFFERED:
        answer = encode_response(filled(request.RESPONSE, version), version, 7)[SIZE:]
        asked = encode_request(filled(request, version), version, 7, "client")[SIZE:]
        cuts += len(answer) + len(asked)
        whole += [
            (request.NAME, version) for size in range(len(answer)) if not is_truncated(decode_response, request, version, answer[:size])
        ]
        whole += [(request.NAME, version) for size in range(len(asked)) if not is_truncated(decode_request, asked[:size])]

    assert whole == []
    note("M-C4", "frames cut at every byte", f"{cuts} cuts: {cuts} TruncatedError", "all TruncatedError")


def is_truncated(read: Callable[..., object], *arguments: object) -> bool:
    try:
        read(*arguments)
    except TruncatedError:
        return True
    return False
