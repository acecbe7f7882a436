"""Names of methods and classes of other Kafka clients that levada does not have, each with the name to use instead.

`@lacks(PRODUCER)` on a class makes access to such a method raise an AttributeError with this advice; `hasattr` still returns False. If
levada gets a method of this name, its line has to be removed from this module. no_such_name() does the same for classes of a module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final, NoReturn, TypeVar

C = TypeVar("C", bound=type)

_CLASSES = dict.fromkeys(("Producer", "SerializingProducer", "AIOKafkaProducer", "AIOProducer"), "KafkaProducer")
_CLASSES |= dict.fromkeys(("Consumer", "DeserializingConsumer", "AIOKafkaConsumer", "AIOConsumer"), "KafkaConsumer")
_CLASSES |= dict.fromkeys(("ShareConsumer",), "KafkaShareConsumer")
_CLASSES |= dict.fromkeys(("AdminClient", "KafkaAdminClient", "AIOKafkaAdminClient"), "KafkaAdmin")
_ON_ASYNCIO = "AIO"
_OF_BOTH_APIS = {"Message": "ConsumerRecord", "KafkaException": "KafkaError", "AIOKafkaError": "KafkaError"}
_OF_BOTH_APIS |= dict.fromkeys(("ConsumerRebalanceListener", "AbstractConsumerRebalanceListener"), "RebalanceListener")
_OTHER_NAMES: Final[Mapping[str, str]] = {
    "SchemaRegistryClient": "use levada.registry.SchemaRegistryClient",
    "OFFSET_BEGINNING": "use consumer.seek_to_beginning(), or auto.offset.reset=earliest",
    "OFFSET_END": "use consumer.seek_to_end(), or auto.offset.reset=latest",
    "OFFSET_STORED": "leave it out; a consumer begins at the group's committed offset",
    "OFFSET_INVALID": "a partition without a committed offset has None",
    "NewTopics": "use a list of NewTopic",
    "TopicCollection": "use a list of names; describe_topics_by_id() and delete_topics_by_id() take ids",
    "ConsumerGroupTopicPartitions": "use the group's id, and a mapping of offsets by TopicPartition",
}
_ERRORS: Final[Mapping[str, str]] = {
    "NoBrokersAvailable": "BootstrapError",
    "NodeNotReadyError": "ConnectError",
    "KafkaConnectionError": "ConnectError",
    "KafkaException": "KafkaError",
    "KafkaTimeoutError": "TimeoutError",
    "BrokerResponseError": "BrokerError",
    "ConsumerStoppedError": "ClosedError",
    "ProducerClosed": "ClosedError",
    "ProducerFenced": "ProducerFencedError",
    "MessageSizeTooLargeError": "RecordTooLargeError",
    "TopicAuthorizationFailedError": "TopicAuthorizationError",
    "GroupAuthorizationFailedError": "GroupAuthorizationError",
    "ClusterAuthorizationFailedError": "ClusterAuthorizationError",
    "AuthenticationFailedError": "AuthenticationError",
    "UnsupportedCodecError": "UnsupportedCompressionError",
    "CorruptRecordException": "CorruptRecordError",
    "ConsumeError": "KafkaError",
    "ProduceError": "KafkaError",
    "KeyDeserializationError": "RecordDeserializationError",
    "ValueDeserializationError": "RecordDeserializationError",
}


class Absent:
    """A descriptor that raises AttributeError when it is read. advice: the text after the name, such as "use commit()"."""

    def __init__(self, name: str, advice: str) -> None:
        self.name = name
        self.advice = advice

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(f"{owner.__name__} has no {self.name}(): {self.advice}", name=self.name, obj=instance)


def no_such_name(module: str, name: str) -> AttributeError:
    """Return the error for a name that a module of levada does not have.

    If the name is a class of another Kafka client, the error names levada's class.
    """
    advice = ""
    if name in _CLASSES:
        advice = f"; use {'levada.aio' if name.startswith(_ON_ASYNCIO) else module}.{_CLASSES[name]}"
    elif name in _OF_BOTH_APIS:
        advice = f"; use levada.{_OF_BOTH_APIS[name]}"
    elif name in _OTHER_NAMES:
        advice = f"; {_OTHER_NAMES[name]}"
    return AttributeError(f"module {module!r} has no attribute {name!r}{advice}", name=name)


def no_such_error(module: str, name: str) -> AttributeError:
    """Return the error for a name that levada.errors does not have. If it is an error of another Kafka client, levada's is named."""
    advice = f"; use {_ERRORS[name]}" if name in _ERRORS else ""
    return AttributeError(f"module {module!r} has no attribute {name!r}{advice}", name=name)


def no_such_attribute(instance: object, name: str, names: Mapping[str, str]) -> AttributeError:
    """Return the error for a name that an object of a compiled class does not have, because lacks() can add nothing to such a class.

    names: the advice for each name of another client.
    """
    kind = type(instance).__name__
    if name in names:
        return AttributeError(f"{kind} has no {name}(): {names[name]}", name=name, obj=instance)
    return AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=instance)


def lacks(names: Mapping[str, str]) -> Callable[[C], C]:
    """Return a decorator for a class that lacks these methods. names: the advice for each name. It raises TypeError if the class has one.

    Descriptors are used because a __getattr__ would slow down the access to all attributes.
    """

    def add(cls: C) -> C:
        for name, advice in names.items():
            present: Any = getattr(cls, name, None)
            if present is not None:
                raise TypeError(f"{cls.__name__} has {name}(); take it out of levada.base.unsupported_names")
            setattr(cls, name, Absent(name, advice))
        return cls

    return add


def asynchronous(cls: C) -> C:
    """Make `with` and `for` on a class of the asyncio API raise an error that says what to write. A decorator.

    isinstance() does not take the class for a context manager, because it has no __exit__().
    """
    made: Any = cls
    made.__enter__ = Absent("__enter__", "use `async with`")
    if hasattr(cls, "__aiter__"):
        # Python discards an error of a descriptor here, and would say only that the object is not iterable.
        made.__iter__ = _refuse_iteration
    return cls


def _refuse_iteration(self: object) -> NoReturn:
    raise TypeError(f"a {type(self).__name__} of asyncio is iterated with `async for`")


def explains_arguments(names: Mapping[str, str], of_more: str = "") -> Callable[[C], C]:
    """Return a decorator that adds advice to the TypeError with which the constructor of a named tuple refuses arguments of other clients.

    names: the advice for each keyword. of_more: the advice if there are more arguments than fields.
    """

    def add(cls: C) -> C:
        made: Any = cls
        construct, fields = made.__new__, made._fields

        @wraps(construct)
        def __new__(kind: Any, *given: Any, **named: Any) -> Any:
            try:
                return construct(kind, *given, **named)
            except TypeError:
                for name in named:
                    if name in names:
                        raise TypeError(f"{made.__name__}() has no argument {name!r}: {names[name]}") from None
                if of_more and len(given) > len(fields):
                    raise TypeError(f"{made.__name__}() takes {', '.join(fields)}; got {given!r}: {of_more}") from None
                raise

        made.__new__ = __new__
        return cls

    return add


_EVERY: Final[Mapping[str, str]] = {
    "start": "leave it out; a client connects when it is used",
    "stop": "use close(), or a with block (asyncio: async with)",
    "cluster_id": "use KafkaAdmin.describe_cluster()",
    "set_sasl_credentials": "make a new client with the new sasl.username and sasl.password",
}

PRODUCER: Final[Mapping[str, str]] = {
    **_EVERY,
    "produce": "use send(), which returns a handle on the record's outcome",
    "produce_batch": "use send_many(), or send_arrow() for columns",
    "purge": "use abort_pending()",
    "send_and_wait": "use send(...).result(); asyncio: await (await send(...))",
    "create_batch": "use send_many(topic, records, partition=n), or send_arrow() for columns",
    "send_batch": "use send_many(topic, records, partition=n), or send_arrow() for columns",
    "poll": "leave it out; callbacks run by themselves",
    "list_topics": "use partitions_for(topic), or KafkaAdmin.list_topics()",
    "partitions_for_topic": "use partitions_for()",
    "bootstrap_connected": "leave it out; send() waits for a broker and for metadata",
}
CONSUMER: Final[Mapping[str, str]] = {
    **_EVERY,
    "commit_sync": "use commit()",
    "store_offsets": "set enable.auto.commit=false, and call commit(offsets)",
    "consumer_group_metadata": "use group_metadata()",
    "consume": "use poll(timeout, max_records)",
    "getone": "iterate the consumer, or use poll(max_records=1)",
    "getmany": "use poll(timeout, max_records)",
    "topics": "use list_topics()",
    "partitions_for_topic": "use partitions_for()",
    "get_watermark_offsets": "use beginning_offsets() and end_offsets()",
    "highwater": "use end_offsets() or current_lag()",
    "last_stable_offset": "use end_offsets() of a consumer with isolation.level=read_committed",
    "incremental_assign": "use assign() with all partitions; those that were assigned before keep their positions",
    "incremental_unassign": "use assign() with the partitions that remain; they keep their positions",
    "unassign": "use unsubscribe(), which ends assign() too",
    "bootstrap": "leave it out; a call that needs a broker waits for it, and its error says what is wrong",
    "bootstrap_connected": "leave it out; a call that needs a broker waits for it, and its error says what is wrong",
    "memberid": "use group_metadata().member_id",
    "last_poll_timestamp": "use metrics(), which has last-poll-seconds-ago",
}
_BY_CALLBACK: Final = "give send() an on_delivery, a function of the metadata and the error"
DELIVERY: Final[Mapping[str, str]] = {
    "get": "use result(timeout); asyncio: await the delivery",
    "add_callback": _BY_CALLBACK,
    "add_errback": _BY_CALLBACK,
    "add_both": _BY_CALLBACK,
    "add_done_callback": _BY_CALLBACK,
    "succeeded": "use done() and exception() is None",
    "failed": "use done() and exception() is not None",
    "is_done": "use done()",
    "value": "use result(timeout)",
    "retriable": "use exception().retriable",
    "cancel": "use abort_pending() of the producer",
}
RECORD: Final[Mapping[str, str]] = {
    "error": "poll() raises errors; key, value, topic, partition, offset, timestamp and headers are attributes, not methods",
    "latency": "measure the time from send() to on_delivery",
    "set_value": "records do not change; use record._replace(value=...)",
    "set_key": "records do not change; use record._replace(key=...)",
    "set_headers": "records do not change; use record._replace(headers=...)",
    "set_topic": "records do not change; use record._replace(topic=...)",
    "set_error": "poll() raises errors, and records do not change",
    "deserialized_key": "use key, an attribute",
    "deserialized_value": "use value, an attribute",
    "delivery_count": "only records of KafkaShareConsumer have it",
    "checksum": "only a batch has a checksum, which is verified with check.crcs",
}
_IS_LIST: Final = "poll() returns a list of records: for record in consumer.poll(): ..."
RECORDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("items", "keys", "values"), f"{_IS_LIST}; .partitions and .records(tp) give them by partition"),
    **dict.fromkeys(("value", "key", "topic", "offset", "timestamp", "headers"), f"each record has it; {_IS_LIST}"),
    "error": f"poll() raises errors; {_IS_LIST}",
    "is_empty": "use `not records`",
    "isEmpty": "use `not records`",
}
_NO_OFFSET: Final = "an offset goes with seek(tp, offset), or with commit({tp: offset})"
TOPIC_PARTITION: Final[Mapping[str, str]] = {
    "offset": _NO_OFFSET,
    "metadata": "use commit({tp: OffsetAndMetadata(offset, metadata=...)})",
    "leader_epoch": "use OffsetAndMetadata(offset, leader_epoch)",
}
MORE_THAN_PARTITION: Final = _NO_OFFSET
NEW_TOPIC: Final[Mapping[str, str]] = {
    "topic": "it is called name",
    "num_partitions": "it is called partitions",
    "replica_assignment": "it is called assignment, brokers by the number of the partition",
    "replica_assignments": "it is called assignment",
    "topic_configs": "it is called config",
    "configs": "it is called config",
}
NEW_PARTITIONS: Final[Mapping[str, str]] = {
    "topic": "create_partitions() takes {topic: NewPartitions(total_count)}",
    "new_total_count": "it is called total_count, and the topic is a key: create_partitions({topic: NewPartitions(total_count)})",
    "new_assignments": "it is called assignment",
    "replica_assignment": "it is called assignment",
}
_NO_POSITIONS: Final = "a share group has no positions; its records are acknowledged, see acknowledge()"
SHARE_CONSUMER: Final[Mapping[str, str]] = {
    **_EVERY,
    **dict.fromkeys(("seek", "position", "committed", "pause", "resume"), _NO_POSITIONS),
    "assign": "the group assigns partitions; use subscribe()",
    "assignment": "several members share a partition; a record says where it is from",
    "commit_sync": "use commit()",
    "consume": "use poll(timeout, max_records)",
    "acknowledge_offset": "use acknowledge_offsets()",
    "acquisition_lock_timeout_ms": "use acquisition_lock_timeout(), in seconds",
}
ADMIN: Final[Mapping[str, str]] = {
    **_EVERY,
    "alter_configs": "Kafka 4.0 removed it, because it resets the settings that are not given; use incremental_alter_configs()",
    "list_consumer_groups": 'use list_groups(protocol_types=["consumer", ""])',
    "describe_groups": "use describe_consumer_groups(), or describe_classic_groups() for groups whose members are no consumers",
    "delete_groups": "use delete_consumer_groups(), which deletes groups of every type",
    "delete_share_groups": "use delete_consumer_groups(), which deletes groups of every type",
    "list_group_offsets": "use list_consumer_group_offsets()",
    "alter_group_offsets": "use alter_consumer_group_offsets()",
    "remove_group_members": "use remove_members_from_consumer_group()",
    "describe_log_dir": "use describe_log_dirs()",
    "list_client_metrics_resources": 'use list_config_resources(["ClientMetrics"])',
    "force_terminate_transaction": "use fence_producers(), which aborts the open transaction",
    "perform_leader_election": "use elect_leaders()",
    "poll": "leave it out; a call returns what the brokers answered",
    "delete_group_offsets": "use delete_consumer_group_offsets()",
    "reset_group_offsets": "use alter_consumer_group_offsets() with what list_offsets() returns",
    "list_partition_offsets": "use list_offsets()",
    "reset_configs": "use incremental_alter_configs(), where None restores the default",
    "describe_topic_partitions": "use describe_topics()",
    "wait_for_topics": "leave it out; producers and consumers wait for new topics",
    "find_hanging_transactions": "use the command `levada transactions find-hanging`, or describe_producers()",
    "find_coordinator": "use describe_consumer_groups() or describe_transactions(), which name it",
    "get_broker_version_data": "use api_versions()",
}
ERROR: Final[Mapping[str, str]] = {
    "code": "only an error that a broker answered has a code: BrokerError.code, an attribute",
    "name": "use error.code.name, of a BrokerError",
    "str": "use str(error)",
    "txn_requires_abort": "use `except TransactionAbortableError`",
}
