"""Checks the arguments of public calls before they reach the engine, where a wrong type would look like a bug of levada.

The functions raise TypeError for a wrong type and ValueError for a wrong value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from enum import StrEnum
from numbers import Real
from operator import index
from typing import Any, TypeVar

from levada.base.clock import NEVER_MS
from levada.client.metadata.known_topics import TOPIC_NAME_RULE
from levada.client.requests.request import CONTROLLER, Destination
from levada.errors import InvalidTopicError, not_written
from levada.protocol.schema import Request
from levada.types import (
    AbortTransactionSpec,
    ConsumerGroupMetadata,
    HeadersIn,
    NewTopic,
    PartitionInfo,
    TopicPartition,
    TransactionHandle,
    setting_text,
)

Word = TypeVar("Word", bound=StrEnum)

FOR_EVER_S = NEVER_MS / 1000
MAX_TOPIC_NAME = 249


def deadline_ms(now_ms: int, timeout_s: float | None) -> int:
    """Return the time, in ms, at which a timeout in seconds ends; NEVER_MS for None and infinity. Raises TypeError, ValueError for an
    invalid timeout.
    """
    if timeout_s is None:
        return NEVER_MS
    if type(timeout_s) is not float and not isinstance(timeout_s, Real):
        raise TypeError(f"a timeout is a number of seconds or None, got {timeout_s!r}")
    if timeout_s != timeout_s:
        raise ValueError("a timeout is a number of seconds or None, got nan")
    if timeout_s < 0:
        raise ValueError(f"a timeout must not be negative, got {timeout_s!r} seconds")
    return now_ms + int(timeout_s * 1000) if timeout_s < FOR_EVER_S else NEVER_MS


def checked_timeout(timeout_s: float) -> float:
    """Check a timeout in seconds and return it. Raises TypeError and ValueError as deadline_ms() does."""
    deadline_ms(0, timeout_s)
    return timeout_s


def topic_name(topic: Any) -> str:
    """Check the name of a topic and return it. Raises InvalidTopicError if no request can contain the name, or if it is too long for any
    broker.

    Brokers report all other illegal names. But a single name that cannot be encoded would prevent requests for the metadata of the client's
    other topics.
    """
    if not isinstance(topic, str):
        raise TypeError(f"a topic is named by a str, got {topic!r}")
    if len(topic) > MAX_TOPIC_NAME:
        raise _invalid_topic(f"{topic[:20]!r}..., {len(topic)} characters long")
    try:
        topic.encode()
    except UnicodeEncodeError:
        raise _invalid_topic(repr(topic)) from None
    return topic


def _invalid_topic(shown: str) -> InvalidTopicError:
    return not_written(InvalidTopicError(f"topic {shown}: {TOPIC_NAME_RULE}"))


def topic_names(names: Any) -> list[str]:
    """Return topic names as a list. Raises TypeError for a single str, which would be read as a list of letters."""
    _refuse_lone(names, str, "topic names")
    return [topic_name(name) for name in names]


def topic_partition(tp: Any) -> TopicPartition:
    """Return a TopicPartition. A PartitionInfo is accepted, too, and any pair of a topic name and a number."""
    if isinstance(tp, PartitionInfo):
        return TopicPartition(tp.topic, tp.partition)
    if isinstance(tp, str):
        raise TypeError(
            f"expected TopicPartition(topic, partition), got {tp!r}; write TopicPartition({tp!r}, 0), or take partitions_for({tp!r})"
        )
    if not isinstance(tp, tuple) or len(tp) != 2:
        raise TypeError(f"expected TopicPartition(topic, partition), got {tp!r}")
    return TopicPartition(topic_name(tp[0]), whole("partition", tp[1]))


def topic_partitions(partitions: Any) -> list[TopicPartition]:
    """Return partitions as a list of TopicPartition."""
    if isinstance(partitions, str):
        raise TypeError(
            f"expected a list of TopicPartition, got {partitions!r}; write partitions_for({partitions!r}) for all partitions of the topic, "
            f"[TopicPartition({partitions!r}, 0)] for one; or subscribe([{partitions!r}]) to share them in a group"
        )
    _refuse_lone(partitions, (TopicPartition, PartitionInfo), "TopicPartition")
    return [topic_partition(tp) for tp in partitions]


def end_offsets(ends: Any, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Check the offsets at which to stop reading partitions, and return them. Raises ValueError for a partition that is not in
    `partitions`.
    """
    if not isinstance(ends, Mapping):
        raise TypeError(f"ends are a mapping of TopicPartition to offset, such as end_offsets() returns; got {ends!r}")
    checked = {topic_partition(tp): whole(f"the end of {tp}", offset) for tp, offset in ends.items()}
    if others := sorted(checked.keys() - set(partitions)):
        raise ValueError(f"an end was given for {others[0]}, which is not among the partitions to be read")
    if negative := [tp for tp, offset in checked.items() if offset < 0]:
        raise ValueError(f"the end of {negative[0]} must be an offset, got {checked[negative[0]]}")
    return checked


def ids(given: Any, what: str) -> list[str]:
    """Check that names are not empty, and return each once. what: describes the names in error messages."""
    _refuse_lone(given, str, what)
    for one in (found := list(dict.fromkeys(given))):
        if not isinstance(one, str) or not one:
            raise TypeError(f"expected a list of {what}, each a str that is not empty; got {one!r}")
    return found


def texts(given: Any, what: str) -> list[str]:
    """Return a list of str, which may be empty. what: describes the texts in error messages."""
    _refuse_lone(given, str, what)
    for one in (found := list(given)):
        if not isinstance(one, str):
            raise TypeError(f"expected a list of {what}, each a str; got {one!r}")
    return found


def group_id(given: Any) -> str:
    """Check the id of a group and return it."""
    if not isinstance(given, str) or not given:
        raise TypeError(f"a group is named by a str that is not empty, got {given!r}")
    return given


def named(kind: type[Word], given: Any, what: str) -> list[Word]:
    """Return members of an enumeration. Each may be given by its name in Kafka. what: describes a member in error messages."""
    _refuse_lone(given, str, f"words, each a {what}")
    for word in (found := list(given)):
        if kind(word) is kind("Unknown"):
            known = [known.value for known in kind if known is not kind("Unknown")]
            raise ValueError(f"{word!r} is no {what}; they are {', '.join(known)}")
    return [kind(word) for word in found]


def abort_spec(spec: Any) -> AbortTransactionSpec:
    """Return the transaction to abort and its partition."""
    if not isinstance(spec, AbortTransactionSpec):
        raise TypeError(f"expected AbortTransactionSpec(partition, producer_id, producer_epoch, coordinator_epoch), got {spec!r}")
    numbers = {name: whole(name, getattr(spec, name)) for name in ("producer_id", "producer_epoch", "coordinator_epoch")}
    if negative := [name for name, number in numbers.items() if number < 0]:
        raise ValueError(f"{negative[0]} must not be negative, got {numbers[negative[0]]}")
    return AbortTransactionSpec(topic_partition(spec.partition), **numbers)


def group_metadata(group: Any) -> ConsumerGroupMetadata:
    """Return the group whose offsets are committed: a consumer's group_metadata(), or the id of a group without members."""
    if isinstance(group, str):
        group = ConsumerGroupMetadata(group)
    if not isinstance(group, ConsumerGroupMetadata):
        raise TypeError(f"expected a group's id, or the group_metadata() of a consumer, got {group!r}")
    if not group.group_id:
        raise ValueError("the id of the group whose offsets are committed must not be empty")
    return group


def transaction_handle(handle: Any) -> TransactionHandle:
    """Return a handle of detach_transaction(). It may have been stored as a plain tuple, or as a list in JSON."""
    if isinstance(handle, list | tuple) and len(handle) == len(TransactionHandle._fields):
        name, producer_id, epoch, version, partitions, groups = handle
        if isinstance(name, str):
            tps = tuple(topic_partition(tuple(tp)) for tp in partitions)
            numbers = whole("producer_id", producer_id), whole("producer_epoch", epoch), whole("end_version", version)
            return TransactionHandle(name, *numbers, tps, tuple(groups))
    raise TypeError(f"expected the TransactionHandle that detach_transaction() returns, got {handle!r}")


def transaction_handles(handles: Any) -> list[TransactionHandle]:
    """Return several handles of detach_transaction(), each once."""
    _refuse_lone(handles, (str, TransactionHandle), "TransactionHandle")
    return list(dict.fromkeys(transaction_handle(handle) for handle in handles))


def column_names(names: Any, what: str = "columns") -> tuple[str, ...]:
    """Return names of columns as a tuple. The decoder checks whether they exist. what: the plural noun for errors."""
    _refuse_lone(names, str, f"{what}, such as ['key', 'value']")
    return tuple(names)


def text_columns(names: Any) -> tuple[str, ...]:
    """Return, as a tuple, the names of the columns that hold text."""
    return column_names(names, "columns that hold text")


def new_topics(topics: Any) -> list[NewTopic]:
    """Return the topics to create. Settings may be given as numbers and bools; they are converted to text."""
    if isinstance(topics, str):
        raise TypeError(f"expected a list of NewTopic, got {topics!r}; write [NewTopic({topics!r})]")
    _refuse_lone(topics, NewTopic, "NewTopic")
    return [_new_topic(topic) for topic in topics]


def _new_topic(topic: Any) -> NewTopic:
    if not isinstance(topic, NewTopic):
        advice = f"; write NewTopic({topic!r})" if isinstance(topic, str) else ""
        raise TypeError(f"expected NewTopic(name, ...), got {topic!r}{advice}")
    config = None if topic.config is None else {name: setting_text(value) for name, value in topic.config.items()}
    name, count, factor = (
        topic_name(topic.name),
        whole("partitions", topic.partitions),
        whole("replication_factor", topic.replication_factor),
    )
    return NewTopic(name, count, factor, config, _assignment(name, topic.assignment))


def _assignment(name: str, given: Any) -> Mapping[int, list[int]] | None:
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise TypeError(f"the assignment of topic '{name}' is a mapping of a partition's number to the ids of its brokers, got {given!r}")
    return {whole("partition", index): [whole("a broker's id", one) for one in brokers] for index, brokers in given.items()}


def _refuse_lone(items: Any, single: type | tuple[type, ...], what: str) -> None:
    if isinstance(items, single):
        raise TypeError(f"expected a list of {what}, got {items!r}; write [{items!r}]")
    if not isinstance(items, Iterable):
        raise TypeError(f"expected a list of {what}, got {items!r}")


def whole(name: str, number: Any) -> int:
    """Return an argument as an int. numpy's integer types are accepted, too. Raises TypeError, which names the argument."""
    try:
        return index(number)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, got {number!r}") from None


def message(request: Any) -> Request:
    """Check that an argument is a request message, and return it unchanged."""
    if not isinstance(request, Request):
        given = f"the class {request.__name__}; call it" if isinstance(request, type) else repr(request)
        raise TypeError(f"expected a request, such as DescribeClusterRequest() of levada.protocol.messages, got {given}")
    return request


def destination(node: Any) -> Destination:
    """Return the destination of a request."""
    if node is None or node == CONTROLLER:
        return node  # type: ignore[no-any-return]
    try:
        return index(node)
    except TypeError:
        raise TypeError(f"node must be a node id, {CONTROLLER!r} or None, got {node!r}") from None


def header_pairs(headers: HeadersIn) -> list[tuple[str, bytes | None]]:
    """Return headers as pairs of a str and of bytes or None. Objects of subclasses are copied: encoding a pair runs none of their code."""
    given: Iterable[Any] = headers.items() if isinstance(headers, Mapping) else headers
    return [_header_pair(pair) for pair in given]


def _header_pair(pair: Any) -> tuple[str, bytes | None]:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(f"headers are pairs of a name and a value, or a mapping; got {pair!r}")
    name, value = pair
    if not isinstance(name, str):
        raise TypeError(f"header {name!r} has a name of type {type(name).__name__}; names are str")
    if type(name) is not str:
        name = str.__str__(name)
    if value is None or type(value) is bytes:
        return name, value
    if isinstance(value, str):
        return name, str.encode(value)
    if isinstance(value, bytes):
        return name, bytes(memoryview(value))
    raise TypeError(f"header {name!r} has a value of type {type(value).__name__}; values are bytes, str (sent in UTF-8) or None")


@contextmanager
def saying_how_many(sent: Sized) -> Iterator[None]:
    """Return a context around the loop of send_many(). It adds a note to an exception, with the number of records sent before."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"send_many(): the {len(sent)} records before this one were sent")
        raise


def plain_records(records: Any, headers: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield value, key and headers of each record of send_many(). A record is a value, (key, value) or (key, value, headers).

    headers: the headers for records without their own.
    """
    _refuse_lone(records, (str, bytes, bytearray, memoryview, Mapping), "records")
    for number, record in enumerate(records):
        if type(record) is not tuple:
            fields = (record, None, headers)
        elif len(record) == 2:
            fields = (record[1], record[0], headers)
        elif len(record) == 3:
            fields = (record[1], record[0], record[2])
        else:
            raise TypeError(
                f"record {number} of send_many() is a value, (key, value) or (key, value, headers); got a tuple of {len(record)}"
            )
        yield fields


def positive(name: str, number: Any) -> int:
    """Check that an argument is a whole number of at least 1, and return it. name: the argument, for error messages."""
    if whole(name, number) < 1:
        raise ValueError(f"{name} must be at least 1, got {number}")
    return whole(name, number)
