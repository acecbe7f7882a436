"""Messages as Kafka's own classes see them: our side of tests/java/Messages.java.

A message goes to Java as bytes that we wrote, or as JSON in the form of Kafka's JSON converters, which owes nothing to our codec. Java
answers with the JSON and the bytes that its classes make of it, or with the exception they threw.
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from hypothesis import HealthCheck, Phase, given, seed, settings

from hardening_kit import scaled
from java_kit import JavaError, JavaProgram
from levada.protocol.schema import Field, Message, RecordKey, Struct
from protocol_strategies import emptied, filled, messages

_CONVERTER = re.compile(r"(org/apache/kafka/(?:common/message|coordinator/\w+/generated)/\w+)JsonConverter\.class")
_JOB = struct.Struct(">chchi")
_INT = struct.Struct(">i")

_WORDS = {"kraft": "KRaft", "2pc": "2Pc"}

# What Kafka 3.9 calls otherwise: classes, and fields by their struct.
_OLD_CLASSES = {"LegacyOffsetCommitKey": "OffsetCommitKey", "LegacyOffsetCommitValue": "OffsetCommitValue"}
_OLD_NAMES = {
    ("TxnOffsetCommitRequest", "generation_id_or_member_epoch"): "generationId",
    ("PartitionData", "replica_epoch"): "candidateEpoch",
    ("PartitionData", "replica_id"): "candidateId",
    ("PartitionData", "replica_directory_id"): "candidateDirectoryId",
    ("ListConfigResourcesResponse", "config_resources"): "clientMetricsResources",
    ("ConfigResource", "resource_name"): "name",
}
# Tagged fields that came later without a new version: Kafka 3.9 keeps them unread.
_NOT_READ = {
    ("TopicPartitions", "assignment_epochs"),
    ("ConsumerGroupMetadataValue", "metadata_hash"),
    ("ConsumerGroupTargetAssignmentMetadataValue", "assignment_timestamp"),
    ("OffsetCommitValue", "topic_id"),
    ("TransactionLogValue", "previous_producer_id"),
    ("TransactionLogValue", "next_producer_id"),
    ("TransactionLogValue", "next_producer_epoch"),
    ("TransactionLogValue", "client_transaction_version"),
}

# Java's classes, or versions that we have too, that are not compared, and why.
_EARLY = "an early access of share groups, which Kafka 4 changed without a new version"
NOT_COMPARED = {
    "4.4.0": {},
    "3.9.2": {
        **dict.fromkeys(("ReadShareGroupStateSummaryResponseData", "ShareGroupMetadataValue"), _EARLY),
        **dict.fromkeys(("ShareGroupPartitionMetadataKey", "ShareGroupPartitionMetadataValue"), "an early access, which Kafka 4 dropped"),
    },
}


class Job(NamedTuple):
    """One message for Java: made from data (bytes, or an object for JSON) in one version, and written in another.

    prefix: what the written bytes have in front, b"V" for the version and b"T" for the record type.
    """

    java_class: str
    data: Any
    version: int
    written_version: int
    prefix: bytes = b"B"

    def packed(self) -> bytes:
        """The job as the program reads it."""
        name = self.java_class.encode()
        data = self.data if isinstance(self.data, bytes) else json.dumps(self.data).encode()
        form = b"B" if isinstance(self.data, bytes) else b"J"
        return struct.pack(">h", len(name)) + name + _JOB.pack(form, self.version, self.prefix, self.written_version, len(data)) + data


class Seen(NamedTuple):
    """What Java made of a message."""

    json: Any
    data: bytes


class JavaMessages:
    """The messages of one version of Kafka. apis: by key, with the versions of their headers; classes: their lowest and highest version."""

    def __init__(self, kafka: str, program: JavaProgram, jars: Path) -> None:
        self.kafka = kafka
        self.form = JsonForm(_OLD_NAMES, _NOT_READ) if kafka.startswith("3.") else JsonForm({}, set())
        self._program = program
        known = json.loads(program.ask(b"L" + json.dumps(list(_classes(jars))).encode()))
        self.apis: dict[int, Any] = {api["key"]: api for api in known["apis"]}
        self.classes: dict[str, tuple[int, int]] = {name: tuple(span) for name, span in known["versions"].items()}
        self._by_name = {name.rpartition(".")[2]: name for name in self.classes}

    def class_of(self, message: type[Message]) -> str | None:
        """The name of Java's class for one of our messages, None when it has none."""
        if not hasattr(message, "API_KEY"):
            name = message.__name__
            return self._by_name.get(name) or self._by_name.get(_OLD_CLASSES.get(name, ""))
        api = self.apis.get(message.API_KEY)
        return api and str(api["request" if hasattr(message, "RESPONSE") else "response"])

    def versions(self, message: type[Message]) -> list[int]:
        """The versions of a message that Java and we both know."""
        found = self.class_of(message)
        if found is None or found.rpartition(".")[2] in NOT_COMPARED[self.kafka]:
            return []
        if issubclass(message, RecordKey):
            return [0]
        lowest, highest = self.classes[found]
        return list(range(max(lowest, message.OLDEST_VERSION), min(highest, message.NEWEST_VERSION) + 1))

    def version_of(self, message: type[Message], version: int) -> int:
        """What Java calls a version of ours: Kafka 3.9 takes a key's record type for its version."""
        lowest, highest = self.classes[str(self.class_of(message))]
        return message.RECORD_TYPE if issubclass(message, RecordKey) and lowest <= message.RECORD_TYPE <= highest else version

    def job(self, message: type[Message], data: Any, version: int, written_version: int | None = None, prefix: bytes = b"B") -> Job:
        """A job for the class of one of our messages, written in the version it is read in unless another one is named."""
        read, written = (self.version_of(message, number) for number in (version, version if written_version is None else written_version))
        return Job(str(self.class_of(message)), data, read, written, prefix)

    def do(self, jobs: Iterable[Job]) -> list[Seen | JavaError]:
        """Have Java do all jobs, in one question."""
        packed = [job.packed() for job in jobs]
        answer = self._program.ask(b"J" + _INT.pack(len(packed)) + b"".join(packed))
        return list(_answers(answer))


def _classes(jars: Path) -> Iterator[str]:
    for jar in sorted(jars.glob("kafka-*.jar")):
        with zipfile.ZipFile(jar) as content:
            found = (_CONVERTER.fullmatch(name) for name in content.namelist())
            yield from (match[1].replace("/", ".") for match in found if match)


def _answers(answer: bytes) -> Iterator[Seen | JavaError]:
    pos = 0
    while pos < len(answer):
        refused = answer[pos]
        first, pos = _blob(answer, pos + 1)
        if refused:
            yield JavaError.parse(first.decode())
        else:
            second, pos = _blob(answer, pos)
            yield Seen(json.loads(first), second)


def _blob(answer: bytes, pos: int) -> tuple[bytes, int]:
    (size,) = _INT.unpack_from(answer, pos)
    start = pos + _INT.size
    return answer[start : start + size], start + size


class JsonForm:
    """How Kafka's JSON converters write a message. names: those that do not follow from ours; not_read: fields that Java does not know."""

    def __init__(self, names: Mapping[tuple[str, str], str], not_read: Set[tuple[str, str]]) -> None:
        self._names = names
        self._not_read = not_read

    def of(self, message: Struct, version: int) -> dict[str, Any]:
        """What Java is told: every field of the version."""
        return {self._name(message, field): self._value(self.of, field, value, version) for field, value in self._fields(message, version)}

    def shown(self, message: Struct, version: int) -> dict[str, Any]:
        """What Java tells: without tagged fields that are at their default, and of records only that they are there (KIP-673)."""
        told = [(field, value) for field, value in self._fields(message, version) if not _is_left_out(field, value, version)]
        return {self._name(message, field): self._value(self.shown, field, value, version) for field, value in told}

    def known_part(self, message: Message) -> Message:
        """A copy of a message in which fields that Java does not know are at their default."""
        copied = deepcopy(message)
        self._forget(copied)
        return copied

    def _forget(self, struct: Struct) -> None:
        for field in struct.FIELDS:
            if not self.reads(type(struct), field):
                setattr(struct, field.name, field.new_default())
            value = getattr(struct, field.name)
            for inner in value if isinstance(value, list) else [value]:
                if isinstance(inner, Struct):
                    self._forget(inner)

    def reads(self, struct: type[Struct], field: Field) -> bool:
        """Whether Java knows a field."""
        return (struct.__name__, field.name) not in self._not_read

    def _fields(self, message: Struct, version: int) -> Iterator[tuple[Field, Any]]:
        for field in message.FIELDS:
            if self.reads(type(message), field) and (field.is_inline(version) or field.is_tagged(version)):
                yield field, getattr(message, field.name)

    def _name(self, message: Struct, field: Field) -> str:
        first, *others = (_WORDS.get(word, word) for word in field.name.split("_"))
        usual = first[0].lower() + first[1:] + "".join(word[0].upper() + word[1:] for word in others)
        return self._names.get((type(message).__name__, field.name), usual)

    def _value(self, inner: Callable[[Any, int], Any], field: Field, value: Any, version: int) -> Any:
        match field.kind:
            case _ if value is None:
                return None
            case "struct":
                return inner(value, version)
            case "array":
                assert field.element is not None
                return [self._value(inner, field.element, element, version) for element in value]
            case "uuid":
                return urlsafe_b64encode(value.bytes).decode().rstrip("=")
            case "records" if inner == self.shown:
                return ""
            case "bytes" | "records":
                return b64encode(value).decode()
        return value


def _is_left_out(field: Field, value: Any, version: int) -> bool:
    return field.is_tagged(version) and bool(value == field.new_default())


@cache
def examples(message: type[Message], version: int, count: int = scaled(10, 4)) -> list[Message]:
    """The same messages in every run: one with everything in it, one with nothing, and as many at random."""
    found = [filled(message, version), emptied(message, version)]

    @seed(crc32(f"{message.__name__} {version}".encode()))
    @settings(max_examples=count, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(messages(message, version))
    def collect(example: Message) -> None:
        found.append(example)

    collect()
    return found
