"""Writes log lines with structured fields, and escapes text from outside, so that it cannot look like another line.

Every line goes through a Log. A line of a client begins with its client.id. Known FIELDS become attributes of the LogRecord, like those of
`extra`, so that a JSON formatter shows them and a filter can use them. Their names begin with kafka_, because a program's own factory of
LogRecords may set `topic` or `client_id`, and logging raises an error if `extra` repeats such an attribute.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypedDict

from levada.base.text import as_text, escaped, shown
from levada.types import TopicPartition

if TYPE_CHECKING:
    from typing import Unpack

FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "kafka_client_id": "client.id of the client, its own or the one it was given",
        "kafka_group_id": "group.id of a consumer that has one",
        "kafka_transactional_id": "transactional.id of a producer that has one",
        "kafka_node_id": "the broker's node id, where it is known; not of bootstrap addresses",
        "kafka_address": "host:port of the broker",
        "kafka_topic": "the topic, of a line about one",
        "kafka_partition": "the partition, of a line about one, a number",
        "kafka_offset": "the offset, of a line about one",
    }
)
"""Every field that a line may have, with its meaning. docs/howto/monitoring.md has the same table."""

UNASKED = "not asked about"
"""Part of a producer's warning about failed records whose result the program never read. The command line filters by these words."""

SKIPPED = "skipped, as on.decode.error says"
"""The beginning of a consumer's warning about a record that does not deserialize. The command line filters by these words."""

NOTHING: Mapping[str, Any] = MappingProxyType({})


class About(TypedDict, total=False):
    """The topic, partition, offset, node or address that a line is about. Fields without a value are omitted."""

    tp: TopicPartition | None
    topic: str
    offset: int
    node_id: int | None
    address: str


def of_a_client(client_id: str, *, group_id: str | None, transactional_id: str | None) -> Mapping[str, Any]:
    """Return the fields that all lines of a client have."""
    return _present({"kafka_client_id": client_id, "kafka_group_id": group_id, "kafka_transactional_id": transactional_id})


class Log:
    """Writes lines to the logger of a module. client: the fields of all its lines, from of_a_client(); empty if there is no client.

    Messages are templates of logging, with or without arguments. Control characters in arguments are escaped.
    """

    def __init__(self, name: str, client: Mapping[str, Any] = NOTHING) -> None:
        self._logger = logging.getLogger(name)
        self._client = client
        self._begin = (client["kafka_client_id"],) if client else ()

    def log(self, level: int, message: str, *args: object, error: BaseException | None = None, **about: Unpack[About]) -> None:
        """Write a line. error: an exception whose traceback is added; None for none."""
        if not self._logger.isEnabledFor(level):
            return
        template = f"%s: {message}" if self._begin else message
        extra = {**self._client, **_fields(about)}
        # With stacklevel=3, logging names the caller of debug(), info(), warning() or error() as the source of the line.
        self._logger.log(level, template, *map(_shown, (*self._begin, *args)), exc_info=error, extra=extra, stacklevel=3)

    def debug(self, message: str, *args: object, **about: Unpack[About]) -> None:
        """Log at DEBUG."""
        self.log(logging.DEBUG, message, *args, **about)

    def info(self, message: str, *args: object, **about: Unpack[About]) -> None:
        """Log at INFO."""
        self.log(logging.INFO, message, *args, **about)

    def warning(self, message: str, *args: object, **about: Unpack[About]) -> None:
        """Log at WARNING."""
        self.log(logging.WARNING, message, *args, **about)

    def error(self, message: str, *args: object, error: BaseException | None = None, **about: Unpack[About]) -> None:
        """Log at ERROR. error: an error whose traceback is added."""
        self.log(logging.ERROR, message, *args, error=error, **about)


def _fields(about: About) -> dict[str, Any]:
    tp = about.get("tp")
    node_id = about.get("node_id")
    return _present(
        {
            "kafka_topic": about.get("topic") if tp is None else tp.topic,
            "kafka_partition": None if tp is None or tp.partition < 0 else tp.partition,
            "kafka_offset": about.get("offset"),
            "kafka_node_id": None if node_id is None or node_id < 0 else node_id,
            "kafka_address": about.get("address"),
        }
    )


def _present(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _shown(arg: object) -> object:
    return arg if arg is None or isinstance(arg, int | float) else _Shown(arg)


class _Shown:
    """An argument of a message. Its text is escaped when a handler formats the line."""

    __slots__ = ("_arg",)

    def __init__(self, arg: object) -> None:
        self._arg = arg

    def __str__(self) -> str:
        return escaped(as_text(self._arg))

    def __repr__(self) -> str:
        return escaped(shown(self._arg))
