"""Every message in every version is what Kafka's own classes read and write, byte for byte.

Kafka 4.4 and 3.9 are asked in turn: 4.4 has the newest versions, 3.9 still the oldest. Each random message goes both ways: our bytes are
read by Java, shown field by field and written again; Java's bytes, made from JSON, are read by us and written again.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any, NamedTuple

import pytest

from java_kit import JavaError, JavaProgram
from java_messages import NOT_COMPARED, JavaMessages, Job, Seen, examples
from kafka_cluster import POMS, VERSIONS
from kafka_jars import jars
from levada.errors import ProtocolError, UnsupportedVersionError
from levada.protocol import header
from levada.protocol.api import APIS
from levada.protocol.codegen import decode, encode
from levada.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryData, OpData
from levada.protocol.prefixed import encode_prefixed
from levada.protocol.schema import Data, Field, Message, RecordKey, Struct
from protocol_strategies import API_MESSAGES, MESSAGES, VERSIONED, filled

pytestmark = pytest.mark.kafka

AskKafka = Callable[[str], JavaMessages]
HEADERS = {"RequestHeaderData", "ResponseHeaderData"}


@pytest.fixture(scope="module")
def java_of(java_program: Callable[[str, str], JavaProgram]) -> AskKafka:
    """The classes of a Kafka by its version."""
    return lambda kafka: JavaMessages(kafka, java_program("Messages", kafka), jars(POMS / f"pom-{kafka}.xml"))


@pytest.fixture(scope="module", params=VERSIONS, ids=lambda kafka: f"kafka-{kafka}")
def java(request: pytest.FixtureRequest, java_of: AskKafka) -> JavaMessages:
    """The classes of each Kafka in turn."""
    return java_of(request.param)


def seen(java: JavaMessages, jobs: list[Job]) -> list[Seen]:
    """What Java makes of messages that it must accept."""
    answers = java.do(jobs)
    assert not [(job, answer) for job, answer in zip(jobs, answers, strict=True) if isinstance(answer, JavaError)]
    return [answer for answer in answers if isinstance(answer, Seen)]


def cases_of(java: JavaMessages, message: type[Message]) -> list[tuple[Message, int]]:
    """The examples of a message, in every version that Java knows as well."""
    return [(example, version) for version in java.versions(message) for example in examples(message, version)]


@pytest.mark.parametrize("message", MESSAGES)
def test_java_reads_what_we_write_and_writes_the_same(java: JavaMessages, message: type[Message]) -> None:
    cases = cases_of(java, message)
    written = [encode(example, version) for example, version in cases]

    answers = seen(java, [java.job(message, data, version) for data, (_, version) in zip(written, cases, strict=True)])

    for (example, version), data, answer in zip(cases, written, answers, strict=True):
        assert answer.json == java.form.shown(example, version), f"version {version}"
        assert answer.data == data, f"version {version}"


@pytest.mark.parametrize("message", MESSAGES)
def test_we_read_what_java_writes_and_write_the_same(java: JavaMessages, message: type[Message]) -> None:
    cases = [(java.form.known_part(example), version) for example, version in cases_of(java, message)]

    answers = seen(java, [java.job(message, java.form.of(example, version), version) for example, version in cases])

    for (example, version), answer in zip(cases, answers, strict=True):
        assert decode(message, answer.data, version) == (example, len(answer.data)), f"version {version}"
        assert encode(example, version) == answer.data, f"version {version}"


def test_every_version_of_every_message_of_java_is_compared(java: JavaMessages, note: Callable[[str], None]) -> None:
    compared = {(java.class_of(message), java.version_of(message, version)) for message in MESSAGES for version in java.versions(message)}
    known = {(name, version) for name, (lowest, highest) in java.classes.items() for version in range(lowest, highest + 1)}
    left = {name.rpartition(".")[2] for name, _ in known - compared}

    messages = {name for name, _ in compared}
    apis = sum(1 for message in API_MESSAGES for _ in java.versions(message))
    note(f"Java's classes of Kafka {java.kafka}: {len(messages)} messages compared, {len(compared)} versions of them, in both directions;")
    note(f"    {apis} of these are requests and responses, of {len(java.apis)} APIs; not compared:")
    for name, reason in NOT_COMPARED[java.kafka].items():
        note(f"    {name}: {reason}")
    assert known >= compared
    assert left == set(NOT_COMPARED[java.kafka]) | HEADERS


def test_every_version_that_we_have_is_one_of_javas(java_of: AskKafka, note: Callable[[str], None]) -> None:
    known = [java_of(kafka) for kafka in VERSIONS]

    note(f"Java's classes: all {len(VERSIONED)} versions of our {len(MESSAGES)} messages are compared with those of one Kafka or both")
    assert [(message, version) for message, version in VERSIONED if not any(version in java.versions(message) for java in known)] == []


@pytest.mark.parametrize("message", MESSAGES)
def test_W7_java_and_we_skip_unknown_tags(java: JavaMessages, message: type[Message]) -> None:
    versions = [version for version in java.versions(message) if message.is_flexible(version)]
    plain = [(version, without_tags(message, version)) for version in versions]
    tagged = [encode(example, version)[:-1] + b"\x01\x81\x07\x02??" for version, example in plain]

    answers = seen(java, [java.job(message, data, version) for (version, _), data in zip(plain, tagged, strict=True)])

    for (version, example), data, answer in zip(plain, tagged, answers, strict=True):
        assert answer == Seen(java.form.shown(example, version), data)
        assert decode(message, data, version) == (example, len(data))


def without_tags(message: type[Message], version: int) -> Message:
    """An example that ends with its own, empty tag section."""
    example: Message = filled(message, version)
    for field in message.FIELDS:
        if field.is_tagged(version):
            setattr(example, field.name, field.new_default())
    return example


@pytest.mark.parametrize("message", [message for message in MESSAGES if issubclass(message, Data)])
def test_java_puts_the_same_in_front_of_what_has_no_request_around_it(java: JavaMessages, message: type[Data]) -> None:
    by_type = issubclass(message, RecordKey) and java.kafka >= "4"
    cases: list[tuple[int, Any]] = [(version, example) for version in java.versions(message) for example in examples(message, version)]
    jobs = [java.job(message, encode(example, version), version, prefix=b"T" if by_type else b"V") for version, example in cases]

    written = [answer.data for answer in seen(java, jobs)]

    assert written == [encode_prefixed(example, version) for version, example in cases]


@pytest.mark.parametrize("value", [math.inf, -math.inf, 5e-324, 1.7976931348623157e308, -0.0])
def test_W1_a_double_is_javas_double(java: JavaMessages, value: float) -> None:
    quota = EntryData(entity=[], ops=[OpData(key="k", value=value)])
    message = AlterClientQuotasRequest(entries=[quota])
    written = encode(message, 1)

    read, made = seen(java, [java.job(type(message), data, 1) for data in (written, java.form.of(message, 1))])

    assert read == made == Seen(java.form.shown(message, 1), written)


@pytest.mark.parametrize("message", MESSAGES)
def test_broken_bytes_that_java_refuses_we_refuse_and_what_both_read_is_the_same(java: JavaMessages, message: type[Message]) -> None:
    some = [(example, version) for version in java.versions(message) for example in examples(message, version)[1:5]]
    cases = [(data, version) for example, version in some for data in broken(encode(example, version))]

    answers = java.do([java.job(message, data, version) for data, version in cases])

    for (data, version), answer in zip(cases, answers, strict=True):
        if isinstance(answer, JavaError) and TOO_STRICT.fullmatch(answer.message):
            continue
        assert our_reading(java, message, data, version) in (REFUSED, java_reading(answer)), (version, data.hex())


REFUSED = "refused"
# W7: a tag that only other versions know is a tag that nobody knows.
TOO_STRICT = re.compile(r"Tag \d+ is not valid for version \d+")


def broken(data: bytes, count: int = 3) -> list[bytes]:
    """The same spoilt forms of some bytes in every run: other lengths, which may mean null, and bytes changed, lost and too many."""
    dice = Random(data)
    found = []
    for _ in range(count):
        at = dice.randrange(len(data) + 1)
        lie = dice.choice([b"\xff" * 4, b"\xff" * 2, b"\x00", b"\x01", b"\x7f\xff\xff\xff", dice.randbytes(1), b""])
        found.append(data[:at] + lie + data[at + dice.choice([0, 1, len(lie), len(lie)]) :])
    return found


def our_reading(java: JavaMessages, message: type[Message], data: bytes, version: int) -> str:
    try:
        found, end = decode(message, data, version)
    except ProtocolError:
        return REFUSED
    return json.dumps(java.form.shown(found, version), sort_keys=True) if end == len(data) else REFUSED


def java_reading(answer: Seen | JavaError) -> str:
    return json.dumps(answer.json, sort_keys=True) if isinstance(answer, Seen) else REFUSED


class Odd(NamedTuple):
    """A message that a version may not be able to carry, since one field holds what it should not; at_home: where it is as it should be."""

    field: str
    message: Message
    version: int
    at_home: int


def odd_messages(java: JavaMessages, message: type[Message]) -> Iterator[Odd]:
    """For every version and field that it lacks, or that may not be null in it: a message with that in it."""
    versions = java.versions(message)
    for version in versions:
        for name, spoilt, homes in spoilings(java, message, version, versions):
            yield Odd(name, spoilt, version, homes[0])


def spoilings(java: JavaMessages, struct: type[Struct], version: int, homes: list[int]) -> Iterator[tuple[str, Any, list[int]]]:
    for field in struct.FIELDS:
        there = [home for home in homes if is_there(field, home)]
        inner = (field.element or field).struct
        if not there or not java.form.reads(struct, field):
            continue
        if not is_there(field, version):
            yield field.name, with_field(struct, field, another(struct, field, there[0]), version), there
        elif inner is not None:
            for name, spoilt, deeper in spoilings(java, inner, version, there):
                value = [spoilt] if field.kind == "array" else spoilt
                yield f"{field.name}.{name}", with_field(struct, field, value, version), deeper
        nullable = [home for home in there if field.nullable.has(home)]
        if nullable and is_there(field, version) and not field.nullable.has(version):
            yield field.name, with_field(struct, field, None, version), nullable


def is_there(field: Field, version: int) -> bool:
    return field.is_inline(version) or field.is_tagged(version)


def another(struct: type[Struct], field: Field, version: int) -> Any:
    """A value that is not the field's default."""
    value = getattr(filled(struct, version), field.name)
    return value if value != field.new_default() else not value


# Where it shows that Kafka's default of a nullable field is an empty string and ours null.
EMPTY_TO_KAFKA = {("UpdateMetadataBroker", "rack"): ""}


def with_field(struct: type[Struct], field: Field, value: Any, version: int) -> Struct:
    """A struct with a value in one field and defaults in the others, or something else where the default is null and may not be."""
    plain = struct(**{field.name: value})
    for other in struct.FIELDS:
        if other.name != field.name and getattr(plain, other.name) is None and is_there(other, version):
            fit = None if other.nullable.has(version) else getattr(filled(struct, version), other.name)
            setattr(plain, other.name, EMPTY_TO_KAFKA.get((struct.__name__, other.name), fit))
    return plain


def our_outcome(odd: Odd) -> bytes | str:
    try:
        return encode(odd.message, odd.version)
    except UnsupportedVersionError:
        return "unsupported"
    except ProtocolError:
        return "refused"


def java_outcome(answer: Seen | JavaError) -> bytes | str:
    if isinstance(answer, Seen):
        return answer.data
    return "unsupported" if answer.kind.endswith(".UnsupportedVersionException") else "refused"


@pytest.mark.parametrize("message", MESSAGES)
def test_W2_W9_what_java_refuses_to_write_we_refuse_and_what_it_drops_we_drop(java: JavaMessages, message: type[Message]) -> None:
    odds = list(odd_messages(java, message))

    jobs = [java.job(message, java.form.of(odd.message, odd.at_home), odd.at_home, odd.version) for odd in odds]
    theirs = [java_outcome(answer) for answer in java.do(jobs)]

    for odd, outcome in zip(odds, theirs, strict=True):
        assert our_outcome(odd) == outcome, odd


@pytest.mark.parametrize("client_id", [None, "", "λ" * 100], ids=["null", "empty", "long"])
def test_H1_H4_headers_are_javas(java: JavaMessages, client_id: str | None) -> None:
    for request, version, (request_header, response_header) in spoken(java):
        ours = header.encode_request_header(request, version, -7, client_id)
        reply = header.encode_response_header(-7, header.has_tagged_response_header(request, version))
        told = {"requestApiKey": request.API_KEY, "requestApiVersion": version, "correlationId": -7}

        answers = seen(java, [header_job("Request", ours, request_header), header_job("Response", reply, response_header)])

        assert header.decode_client_id(request, version, ours) == (client_id if request_header else None, len(ours))
        assert header.response_body_start(request, version, reply) == len(reply)
        assert answers == [Seen(told | ({"clientId": client_id} if request_header else {}), ours), Seen({"correlationId": -7}, reply)]


def spoken(java: JavaMessages) -> Iterable[tuple[Any, int, tuple[int, int]]]:
    """Request type, version, and the versions of the two headers."""
    for key, api in java.apis.items():
        for version, headers in api["headers"].items():
            yield APIS[key], int(version), headers


def header_job(kind: str, data: bytes, version: int) -> Job:
    return Job(f"org.apache.kafka.common.message.{kind}HeaderData", data, version, version)
