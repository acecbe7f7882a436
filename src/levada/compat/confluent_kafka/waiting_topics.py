"""Messages of topics whose partitions are not known yet. produce() never waits; a thread waits for the metadata instead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock, Thread
from typing import NamedTuple

from levada import errors
from levada.compat.confluent_kafka.error import ErrorCodes, KafkaError, to_kafka_error
from levada.compat.confluent_kafka.message import Outgoing

_ROUND_S = 0.25
"""How long to wait for the metadata of one topic before that of the next one, in seconds."""


class Hooks(NamedTuple):
    """What WaitingTopics needs of the producer.

    partitions: returns the number of a topic's partitions, waiting up to some seconds. send: sends a message, given that number. fail:
    reports a message as failed.
    """

    partitions: Callable[[str, float], int]
    send: Callable[[Outgoing, int], None]
    fail: Callable[[Outgoing, KafkaError], None]


class WaitingTopics:
    """Keeps messages in order, per topic, until metadata has the topic or the messages have expired.

    known: the number of partitions of each topic that has no waiting messages. A topic is added once, by the thread, after its messages
    were sent; so a topic in `known` needs no lock. message_timeout_s: the age at which a message expires. unknown_timeout_s: the age at
    which it fails if the topic does not exist.
    """

    def __init__(self, hooks: Hooks, message_timeout_s: float, unknown_timeout_s: float) -> None:
        self.known: dict[str, int] = {}
        self._hooks = hooks
        self._message_timeout_s = message_timeout_s
        self._unknown_timeout_s = unknown_timeout_s
        self._messages: dict[str, deque[Outgoing]] = {}
        self._lock = Lock()
        self._thread: Thread | None = None
        self._closed = False

    def add(self, message: Outgoing) -> None:
        """Let a message wait, or send it if its topic has become known meanwhile."""
        with self._lock:
            count = self.known.get(message.topic)
            if count is not None:
                self._hooks.send(message, count)
                return
            self._messages.setdefault(message.topic, deque()).append(message)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="confluent-kafka-topics", daemon=True)
                self._thread.start()

    def is_empty(self) -> bool:
        """Return whether no message waits."""
        return not self._messages

    def purge(self) -> None:
        """Fail every message that waits."""
        self._fail_all(lambda message: KafkaError(ErrorCodes._PURGE_QUEUE))

    def close(self) -> None:
        """End the thread soon. Messages that still wait are neither sent nor reported."""
        self._closed = True

    def _run(self) -> None:
        while True:
            with self._lock:
                topics = list(self._messages)
                if not topics or self._closed:
                    self._thread = None
                    return
            for topic in topics:
                self._await(topic)

    def _await(self, topic: str) -> None:
        try:
            count = self._hooks.partitions(topic, _ROUND_S)
        except errors.UnknownTopicOrPartitionError as error:
            unknown = to_kafka_error(error)
            self._fail_all(lambda message: unknown if message.age_s() > self._unknown_timeout_s else None, topic)
        except errors.ClosedError:
            # The producer was closed or dropped.
            self._closed = True
            return
        except (errors.ConnectError, errors.TimeoutError, errors.AuthenticationError):
            # librdkafka goes on trying to log in, too.
            pass
        except errors.KafkaError as error:
            refused = to_kafka_error(error)
            if not error.retriable:
                self._fail_all(lambda message: refused, topic)
        else:
            self._send_all(topic, count)
            return
        expired = KafkaError(ErrorCodes._MSG_TIMED_OUT)
        self._fail_all(lambda message: expired if message.age_s() > self._message_timeout_s else None)

    def _send_all(self, topic: str, count: int) -> None:
        with self._lock:
            for message in self._messages.pop(topic, ()):
                if message.partition is not None and message.partition >= count:
                    self._hooks.fail(message, KafkaError(ErrorCodes._UNKNOWN_PARTITION))
                else:
                    self._hooks.send(message, count)
            self.known[topic] = count

    def _fail_all(self, judge: Callable[[Outgoing], KafkaError | None], topic: str | None = None) -> None:
        """Fail the messages for which `judge` returns an error. topic: None for all topics."""
        with self._lock:
            for name in [topic] if topic is not None else list(self._messages):
                kept: deque[Outgoing] = deque()
                for message in self._messages.pop(name, ()):
                    error = judge(message)
                    if error is None:
                        kept.append(message)
                    else:
                        self._hooks.fail(message, error)
                if kept:
                    self._messages[name] = kept
