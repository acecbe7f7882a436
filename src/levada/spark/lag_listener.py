"""Reports the lag of streaming queries. A Python source cannot report it in the query's progress.

A listener reads the offsets that a query has reached from its progress. It asks the brokers for the ends of the logs, and for the
timestamp of the next unread record of each partition that is not at its end.
"""

from __future__ import annotations

import logging
import shutil
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TextIO

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from levada.base.clock import SystemClock
from levada.config import ConsumerConfig
from levada.errors import ConfigError, KafkaError
from levada.spark.options.keywords import as_text, texts
from levada.spark.source.cluster import Cluster, KafkaCluster, Selection
from levada.spark.source.lag import Lag, behind, positions, still_there, unread
from levada.spark.source.offsets import Offsets
from levada.types import TopicPartition

if TYPE_CHECKING:
    from levada.config.typed import ConsumerSettings

logger = logging.getLogger(__name__)

SETTINGS = {"default.api.timeout.ms": "10000", "max.partition.fetch.bytes": "16384"}
"""Short timeouts: Spark calls its listeners one after another. Small fetches: one record of each partition is enough."""
NEXT_RECORD_S = 5.0
PAUSE_S = 60.0
"""Seconds without requests after one has failed. Without this pause each micro-batch would wait for a timeout."""
NEVER = float("-inf")
MOST_ENDED = 1000
"""How many ended runs are remembered. Late events of these runs are ignored."""


class LagCluster(Cluster, Protocol):
    """The requests that LagListener sends."""

    def next_times(self, begin: Offsets, end: Offsets, timeout_s: float) -> dict[TopicPartition, int | None]:
        """Return the timestamp in ms of the first record from `begin` on, by partition. See KafkaCluster.next_times()."""
        ...


class Reached(NamedTuple):
    """The query's last progress. positions: the next offset to read, by partition."""

    query_id: str
    run_id: str
    name: str | None
    batch_id: int
    positions: Offsets


class LagListener(StreamingQueryListener):
    """Reports the lag of a session's streaming queries, after each micro-batch and while they are idle.

    ```python
    spark.streams.addListener(LagListener("host:9092"))
    ```

    Each Lag is logged by levada.spark.lag_listener (INFO: the total; DEBUG: each partition as well), passed to on_lag if given, and shown
    as a line in the terminal or notebook. The listener works with queries of levada and of Spark's own connector. A query that reads from
    several clusters needs a listener for each cluster; a listener ignores topics that its cluster does not have.

    bootstrap_servers, kafka: as for read_kafka(); use the isolation.level of the queries. on_lag: called on one of PySpark's threads.
    line: whether to show a progress line; default: yes if standard error is a terminal, and in notebooks. Raises ConfigError
    for a wrong setting, and for line=True with neither terminal nor notebook.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        kafka: ConsumerSettings[Any, Any] | None = None,
        on_lag: Callable[[Lag], object] | None = None,
        line: bool | None = None,
        _connect: Callable[[Mapping[str, str]], LagCluster] = KafkaCluster,
    ) -> None:
        servers = as_text("bootstrap_servers", bootstrap_servers)
        self._settings = {**SETTINGS, **texts(kafka or {}), "bootstrap.servers": servers}
        ConsumerConfig.parse(self._settings)
        self._connect = _connect
        self._on_lag = on_lag
        self._line = _line(line)
        # PySpark calls a listener on more than one thread.
        self._lock = threading.Lock()
        self._cluster: LagCluster | None = None
        self._reached: dict[str, Reached] = {}
        self._lags: dict[str, Lag] = {}
        self._ended: deque[str] = deque(maxlen=MOST_ENDED)
        self._failed_at = NEVER

    @property
    def lags(self) -> list[Lag]:
        """The last measured lag of each running query."""
        with self._lock:
            return list(self._lags.values())

    def close(self) -> None:
        """Close the connections. The next event of a query opens them again. The end of the last query closes them as well."""
        with self._lock:
            self._close()

    # Called by PySpark

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: no offsets are known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Report the lag at the end of a micro-batch."""
        progress = event.progress
        found = positions(source.endOffset for source in progress.sources)
        if found:
            self._look(Reached(str(progress.id), str(progress.runId), progress.name, progress.batchId, found))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Report the lag again: it grows while a query waits, for example for minOffsetsPerTrigger."""
        reached = self._reached.get(str(event.runId))
        if reached is not None:
            self._look(reached)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Remove the query from `lags`, and ignore its later events."""
        with self._lock:
            self._ended.append(str(event.runId))
            self._reached.pop(str(event.runId), None)
            self._lags.pop(str(event.runId), None)
            if not self._reached:
                self._close()

    # Measuring and reporting

    def _look(self, reached: Reached) -> None:
        with self._lock:
            if reached.run_id in self._ended:
                # Events may arrive after the end of the query; they must not add it to the running ones again.
                return
            self._reached[reached.run_id] = reached
            if time.monotonic() < self._failed_at + PAUSE_S:
                return
            try:
                lag = self._lag(reached)
            except KafkaError as error:
                self._failed_at = time.monotonic()
                text = "%s: its lag is not known: %s; the brokers are asked again in %.0f s"
                logger.warning(text, _title(reached), error, PAUSE_S, extra=_ids(reached))
                return
            self._lags[reached.run_id] = lag
            self._log(lag)
            if self._line is not None:
                self._line.show(" | ".join(f"{shown.name or shown.query_id}: {shown}" for shown in self._lags.values()))
        if self._on_lag is not None:
            self._on_lag(lag)

    def _lag(self, reached: Reached) -> Lag:
        if self._cluster is None:
            self._cluster = self._connect(self._settings)
        topics = tuple({tp.topic for tp in reached.positions})
        there = self._cluster.view(Selection(topics=topics)).partitions
        next_offsets = {tp: offset for tp, offset in reached.positions.items() if tp in there}
        latest = self._cluster.latest(next_offsets)
        waiting = unread(next_offsets, latest)
        begin = still_there(next_offsets, self._cluster.earliest(waiting) if waiting else {})
        first = unread(begin, latest)
        times = self._cluster.next_times(first, {tp: latest[tp] for tp in first}, NEXT_RECORD_S) if first else {}
        lags = behind(begin, latest, times, SystemClock().wall_ms())
        return Lag(reached.query_id, reached.run_id, reached.name, reached.batch_id, lags)

    def _log(self, lag: Lag) -> None:
        logger.info("%s: %s", _title(lag), lag, extra=_ids(lag))
        for tp, (offsets, seconds) in lag.partitions.items():
            logger.debug("%s: %s is %d offsets and %s s behind", _title(lag), tp, offsets, seconds, extra=_ids(lag))

    def _close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None
        if self._line is not None:
            self._line.end()


def _line(wanted: bool | None) -> ProgressLine | None:
    if wanted is False:
        return None
    line = progress_line()
    if line is None and wanted:
        raise ConfigError("line=True: standard error is not a terminal, and this is not a notebook; leave it out, or use on_lag")
    return line


def _title(query: Reached | Lag) -> str:
    name = f"{query.name} " if query.name else ""
    return f"query {name}{query.query_id}, batch {query.batch_id}"


def _ids(query: Reached | Lag) -> dict[str, dict[str, str]]:
    return {"context": {"query_id": query.query_id, "run_id": query.run_id, "batch_id": str(query.batch_id)}}


class ProgressLine:
    """Shows the newest text on one line. width: columns of the terminal; longer text is cut off."""

    def __init__(self, stream: TextIO, width: int) -> None:
        self._stream = stream
        self._width = width
        self._shown = ""

    def show(self, text: str) -> None:
        """Overwrite the previous text."""
        fitting = text if len(text) < self._width else text[: self._width - 2] + "…"
        self._stream.write("\r" + fitting.ljust(len(self._shown)))
        self._stream.flush()
        self._shown = fitting

    def end(self) -> None:
        """End the line, so that the last text remains."""
        if self._shown:
            self._stream.write("\n")
            self._stream.flush()
            self._shown = ""


def progress_line() -> ProgressLine | None:
    """Return a line on the terminal's standard error or in the notebook's output. None if there is neither terminal nor notebook."""
    if "ipykernel" in sys.modules:
        return ProgressLine(sys.stdout, width=120)
    if sys.stderr is not None and sys.stderr.isatty():
        return ProgressLine(sys.stderr, shutil.get_terminal_size().columns)
    return None
