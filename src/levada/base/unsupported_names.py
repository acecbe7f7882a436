"""Names of methods and classes of other Kafka clients that levada does not have, each with the name to use instead.

`@lacks(PRODUCER)` on a class makes access to such a method raise an AttributeError with this advice; `hasattr` still returns False. If
levada gets a method of this name, its line has to be removed from this module. no_such_name() does the same for classes of a module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, TypeVar

C = TypeVar("C", bound=type)

_CLASSES = dict.fromkeys(("Producer", "SerializingProducer", "AIOKafkaProducer", "AIOProducer"), "KafkaProducer")
_CLASSES |= dict.fromkeys(("Consumer", "DeserializingConsumer", "AIOKafkaConsumer", "AIOConsumer"), "KafkaConsumer")
_CLASSES |= dict.fromkeys(("ShareConsumer",), "KafkaShareConsumer")
_CLASSES |= dict.fromkeys(("AdminClient", "KafkaAdminClient", "AIOKafkaAdminClient"), "KafkaAdmin")
_ON_ASYNCIO = "AIO"


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
    ours = _CLASSES.get(name)
    home = "levada.aio" if name.startswith(_ON_ASYNCIO) else module
    advice = "" if ours is None else f"; use {home}.{ours}"
    return AttributeError(f"module {module!r} has no attribute {name!r}{advice}", name=name)


def lacks(names: Mapping[str, str]) -> Callable[[C], C]:
    """Return a decorator for a class that lacks these methods. names: the advice for each name. Raises TypeError if the class has one.

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


_EVERY: Final[Mapping[str, str]] = {
    "start": "leave it out; a client connects when it is used",
    "stop": "use close(), or a with block (asyncio: async with)",
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
    "bootstrap_connected": "nothing is to be waited for; send() waits for metadata itself",
}
CONSUMER: Final[Mapping[str, str]] = {
    **_EVERY,
    "commit_sync": "use commit()",
    "store_offsets": "set enable.auto.commit=false, and commit(offsets)",
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
}
_NO_POSITIONS: Final = "a share group has no positions; its records are acknowledged, see acknowledge()"
SHARE_CONSUMER: Final[Mapping[str, str]] = {
    **_EVERY,
    **dict.fromkeys(("seek", "position", "committed", "pause", "resume"), _NO_POSITIONS),
    "assign": "the group assigns partitions; use subscribe()",
    "assignment": "several members share a partition; a record says where it is from",
    "commit_sync": "use commit()",
    "consume": "use poll(timeout, max_records)",
    "acquisition_lock_timeout_ms": "use acquisition_lock_timeout(), in seconds",
}
ADMIN: Final[Mapping[str, str]] = {
    **_EVERY,
    "alter_configs": "Kafka 4.0 has taken it away, as it forgets the settings that it is not given; use incremental_alter_configs()",
    "list_consumer_groups": 'use list_groups(protocol_types=["consumer", ""])',
    "describe_groups": "use describe_consumer_groups(), or describe_classic_groups() for groups whose members are no consumers",
    "delete_groups": "use delete_consumer_groups(), which deletes groups of every type",
    "delete_share_groups": "use delete_consumer_groups(), which deletes groups of every type",
    "list_group_offsets": "use list_consumer_group_offsets()",
    "alter_group_offsets": "use alter_consumer_group_offsets()",
    "remove_group_members": "use remove_members_from_consumer_group()",
    "describe_log_dir": "use describe_log_dirs()",
    "list_client_metrics_resources": 'use list_config_resources(["ClientMetrics"])',
    "force_terminate_transaction": "use fence_producers(), which ends what is open",
    "perform_leader_election": "use elect_leaders()",
}
ERROR: Final[Mapping[str, str]] = {
    "code": "only what a broker answered has a code: BrokerError.code, an attribute",
    "name": "use error.code.name, of a BrokerError",
    "str": "use str(error)",
    "txn_requires_abort": "use `except TransactionAbortableError`",
}
