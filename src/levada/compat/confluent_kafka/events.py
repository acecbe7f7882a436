"""What waits for the program's next poll(): callbacks with their arguments, errors for error_cb, and statistics for stats_cb."""

from __future__ import annotations

import json
import logging
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from itertools import count
from threading import Condition
from time import monotonic, time
from typing import Any

from levada.compat.confluent_kafka.configuration import LevadaLines
from levada.compat.confluent_kafka.error import ErrorCodes, KafkaError
from levada.error_codes import ErrorCode
from levada.errors import ClosedError

_numbers = count(1)


class Events:
    """Callbacks that any thread may add, and that run in the thread that serves them. A callback that raises ends serve()."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], object]] = deque()
        self._arrived = Condition()

    def add(self, event: Callable[[], object]) -> None:
        """Let a callback wait for serve()."""
        with self._arrived:
            self._waiting.append(event)
            self._arrived.notify_all()

    def serve(self) -> int:
        """Run the callbacks that were waiting when it was called; return their number."""
        served = 0
        for _ in range(len(self._waiting)):
            try:
                event = self._waiting.popleft()
            except IndexError:
                # Another thread serves, too.
                break
            served += 1
            event()
        return served

    def wait(self, timeout_s: float) -> None:
        """Wait until a callback is there, at most `timeout_s`."""
        with self._arrived:
            if not self._waiting:
                self._arrived.wait(timeout_s)


class ClientEvents:
    """error_cb, stats_cb and logger of one client. own: the settings that this package acts on. kind: the client's type in statistics."""

    def __init__(self, events: Events, own: Mapping[str, Any], client_id: str, kind: str) -> None:
        self._events = events
        self._own = own
        self._client_id = client_id
        self._kind = kind
        self._client: weakref.ref[Any] | None = None
        self._began_s = monotonic()
        self._interval_s = own["statistics.interval.ms"] / 1000 if own["stats.cb"] is not None else 0.0
        self._due_s = self._began_s + self._interval_s
        self._handlers: list[LevadaLines] = []
        if own["error.cb"] is not None:
            # The list of handlers must not keep the client alive: programs drop producers without closing them.
            weak = weakref.WeakMethod(self._take_error)
            self._handlers.append(LevadaLines(client_id, lambda line: (take := weak()) and take(line)))
            self._handlers[-1].setLevel(logging.WARNING)
        if own["logger"] is not None:
            self._handlers.append(LevadaLines(client_id, own["logger"].handle))
        for handler in self._handlers:
            logging.getLogger("levada").addHandler(handler)

    def watch(self, client: Any, owner: object) -> None:
        """Set the client of levada whose metrics are reported. owner: when it is dropped, no more log lines are taken."""
        self._client = weakref.ref(client)
        weakref.finalize(owner, _remove, self._handlers)

    def close(self) -> None:
        """Take no more log lines. The client is closed, so errors that wait are reported without a look at its connections."""
        _remove(self._handlers)
        self._client = None

    def due_s(self) -> float:
        """Return the seconds until statistics are due; infinity without stats_cb, or if statistics.interval.ms is 0."""
        return self._due_s - monotonic() if self._interval_s else float("inf")

    def serve(self, counts: Callable[[], Mapping[str, int]] = dict) -> int:
        """Call stats_cb if it is due; return the number of calls, 0 or 1. counts: what the client counts itself, by librdkafka's names."""
        if not self._interval_s or self.due_s() > 0:
            return 0
        self._due_s = monotonic() + self._interval_s
        self._own["stats.cb"](self._statistics(counts()))
        return 1

    def _take_error(self, line: logging.LogRecord) -> None:
        # Runs on the thread that logs. The number of connections is looked up where the callback runs.
        about_a_broker = hasattr(line, "kafka_address")
        if not about_a_broker and line.levelno < logging.ERROR:
            return
        text = line.getMessage()
        code = ErrorCodes._TRANSPORT if about_a_broker else ErrorCodes._FAIL
        if ErrorCode.SASL_AUTHENTICATION_FAILED.name in text:
            code = ErrorCodes._AUTHENTICATION
        self._events.add(lambda: self._report(KafkaError(code, text)))

    def _report(self, error: KafkaError) -> None:
        callback = self._own["error.cb"]
        callback(error)
        if error != ErrorCodes._FAIL and self._client is not None and not self._metric("connection-count"):
            callback(KafkaError(ErrorCodes._ALL_BROKERS_DOWN, "no broker is connected"))

    def _metric(self, name: str) -> int:
        client = None if self._client is None else self._client()
        try:
            return 0 if client is None else int(client.metrics().value(name))
        except (KeyError, ValueError, ClosedError):
            # The client has no such metric, there is no value yet (nan), or another thread has closed it.
            return 0

    def _statistics(self, counts: Mapping[str, int]) -> str:
        """Return JSON with the totals of librdkafka's statistics. Brokers and topics are empty: levada's metrics() has them."""
        now_s = time()
        found: dict[str, Any] = {
            "name": self._client_id,
            "client_id": self._client_id,
            "type": self._kind,
            "ts": int(monotonic() * 1_000_000),
            "time": int(now_s),
            "age": int((monotonic() - self._began_s) * 1_000_000),
            "tx": self._metric("request-total"),
            "tx_bytes": self._metric("outgoing-byte-total"),
            "rx": self._metric("response-total"),
            "rx_bytes": self._metric("incoming-byte-total"),
            "txmsgs": self._metric("record-send-total"),
            "rxmsgs": self._metric("records-consumed-total"),
            "brokers": {},
            "topics": {},
            **counts,
        }
        return json.dumps(found)


def _remove(handlers: list[LevadaLines]) -> None:
    for handler in handlers:
        logging.getLogger("levada").removeHandler(handler)


def client_id_of(settings: dict[str, Any], kind: str) -> str:
    """Return the client.id of the settings. If the program has set none, a new one is set there: log lines are found by it."""
    return str(settings.setdefault("client.id", f"rdkafka-{kind}-{next(_numbers)}"))
