"""What KafkaConsumer and Scan share: a consumer's core on a driver, and the loop that waits for records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, TypeVar

from levada.clock import NEVER_MS
from levada.config import ConsumerConfig
from levada.consumer.core import ConsumerCore
from levada.consumer.fetch_cursor import ColumnSink, ReadOptions
from levada.consumer.fetch_request import FetchSettings
from levada.consumer.position_resetter import PositionReset
from levada.errors import KafkaError, TimeoutError, WakeupError
from levada.face.arguments import deadline_ms
from levada.face.signals import DeferredSignals
from levada.flow import Flow, Wait
from levada.promise import Promise
from levada.sync.connect import connect
from levada.types import AnyRecord, IsolationLevel

T = TypeVar("T")

LOOK_AROUND_MS = 250
"""While nothing arrives, how often to look whether something is wrong."""
FAREWELL_S = 0.1


class Reader:
    """A consumer's core, its driver, and how to wait for it. One thread at a time, but for wakeup()."""

    def __init__(self, config: ConsumerConfig, kind: str, *, on_reset: Callable[[PositionReset], None]) -> None:
        self.config = config
        self._engine, self.driver = connect(config, kind, allow_auto_create_topics=config.allow_auto_create_topics)
        self.core = ConsumerCore(
            self._engine,
            lock=self.driver.lock,
            random=Random(),
            fetch=_fetch_settings(config),
            read=_read_options(config),
            auto_offset_reset=config.auto_offset_reset,
            key_deserializer=config.key_deserializer,
            value_deserializer=config.value_deserializer,
            retry_backoff_ms=config.retry_backoff_ms,
            retry_backoff_max_ms=config.retry_backoff_max_ms,
            default_api_timeout_ms=config.default_api_timeout_ms,
            on_reset=on_reset,
        )
        self._woken = False
        self._interruptible: Promise[Any] | None = None
        self._engine.add_poller(self)

    def records(self, timeout_s: float | None, limit: int) -> list[AnyRecord]:
        """Return up to `limit` records, [] when the time is over or positions moved without one."""
        return self._until_some(timeout_s, partial(self.core.collect_records, limit), [])

    def columns(self, timeout_s: float | None, sink: ColumnSink, limit: int | None, is_full: Callable[[], bool]) -> int:
        """Add records to columns until there are `limit` or they are full; return how many, as records() does."""
        return self._until_some(timeout_s, partial(self.core.collect_columns, sink, limit, is_full), 0)

    def _until_some(self, timeout_s: float | None, collect: Callable[[int], T], nothing: T) -> T:
        """Collect what is there; while there is nothing, wait for news, and look around for trouble."""
        self.driver.check_usable()
        over_ms = deadline_ms(self.driver.now_ms(), timeout_s)
        with DeferredSignals():
            return self._collect_until(over_ms, collect, nothing)

    def _collect_until(self, over_ms: int, collect: Callable[[int], T], nothing: T) -> T:
        with self.driver.lock:
            self._raise_if_woken()
            self.core.prepare()
        try:
            while True:
                found = collect(self.driver.now_ms())
                if found or self.core.has_moved:
                    return found
                now_ms = self.driver.now_ms()
                self._raise_trouble(now_ms, last_word=now_ms >= over_ms)
                if now_ms >= over_ms:
                    return nothing
                self._wait_for_news(min(over_ms - now_ms, LOOK_AROUND_MS))
        finally:
            # Room in the buffer, a position to be looked up, an error that was raised: a call that did not wait has changed things too.
            self.driver.wakeup()

    def _raise_trouble(self, now_ms: int, *, last_word: bool) -> None:
        with self.driver.lock:
            trouble = self.core.explain(now_ms, last_word=last_word)
        if trouble is not None:
            raise trouble

    def _wait_for_news(self, wait_ms: int) -> None:
        with self.driver.lock:
            self._raise_if_woken()
            news = self.core.news()
        # Nothing new is no error here: who waits looks around and waits on.
        with suppress(TimeoutError):
            self.driver.wait(news, wait_ms / 1000, "poll")

    def run(self, begin: Callable[[ConsumerCore, int], Flow[T]], timeout_s: float | None, what: str) -> T:
        """Run a conversation to its end. begin: makes it, under the lock and at a time. timeout_s: None for default.api.timeout.ms."""
        self.driver.check_usable()
        seconds = self.config.default_api_timeout_ms / 1000 if timeout_s is None else timeout_s
        with self.driver.lock:
            self._raise_if_woken()
            now_ms = self.driver.now_ms()
            done = self._engine.flows.start(begin(self.core, now_ms), now_ms, deadline_ms=deadline_ms(now_ms, seconds), describe=what)
            outcome = self._interruptible = _followed(done)
        try:
            result: T = self.driver.run(_awaited(outcome), seconds, what)
            return result
        finally:
            self._interruptible = None

    def change(self, change: Callable[[ConsumerCore, int], None]) -> None:
        """Change what is read, under the lock and at a time, and let the engine see it."""
        self.driver.check_usable()
        with self.driver.lock:
            change(self.core, self.driver.now_ms())
        self.driver.wakeup()

    def look(self, look: Callable[[ConsumerCore], T]) -> T:
        """Look at what is read, under the lock."""
        self.driver.check_usable()
        with self.driver.lock:
            return look(self.core)

    def wakeup(self) -> None:
        """End the running wait, or the next one, with WakeupError. From any thread, and from a signal handler.

        A handler runs between any two bytecodes of the main thread, which may hold any lock at that moment. So nothing is locked or
        settled here: whoever steps the engine next sees the flag.
        """
        self._woken = True
        self.driver.wakeup()

    def poll(self, now_ms: int) -> int:
        """End what waits when wakeup() was called: a conversation at once, a wait for news by having it look."""
        if self._woken:
            if self._interruptible is not None and self._interruptible.reject(_woken_up()):
                self._woken = False
            else:
                self.core.announce()
        return NEVER_MS

    def _raise_if_woken(self) -> None:
        if self._woken:
            self._woken = False
            raise _woken_up()

    def close(self, timeout_s: float | None) -> None:
        """Say goodbye to the brokers as far as they listen, and end the driver."""
        try:
            self.driver.check_usable()
        except KafkaError:
            self.driver.close(timeout_s)
            return
        with self.driver.lock:
            farewells = self.core.close(self.driver.now_ms())
        for farewell in farewells:
            try:
                self.driver.wait(farewell, FAREWELL_S, "close")
            except KafkaError:
                # The broker forgets the session by itself.
                break
        self.driver.close(timeout_s)


def _woken_up() -> WakeupError:
    return WakeupError("wakeup() was called")


def _followed(promise: Promise[T]) -> Promise[T]:
    """Return a promise that is settled as another one, unless it is settled before."""
    follower: Promise[T] = Promise()

    def follow(done: Promise[T]) -> None:
        follower.resolve(done.result()) if done.error is None else follower.reject(done.error)

    promise.on_done(follow)
    return follower


def _awaited(promise: Promise[T]) -> Flow[T]:
    result: T = yield Wait(promise)
    return result


def _fetch_settings(config: ConsumerConfig) -> FetchSettings:
    return FetchSettings(
        min_bytes=config.fetch_min_bytes,
        max_bytes=config.fetch_max_bytes,
        max_wait_ms=config.fetch_max_wait_ms,
        max_partition_bytes=config.max_partition_fetch_bytes,
        isolation_level=isolation_level(config),
        rack=config.client_rack,
        replica_lease_ms=config.metadata_max_age_ms,
    )


def _read_options(config: ConsumerConfig) -> ReadOptions:
    return ReadOptions(isolation_level(config), config.check_crcs, config.max_decompressed_bytes)


def isolation_level(config: ConsumerConfig) -> IsolationLevel:
    """Return the isolation level by its name in the configuration."""
    return IsolationLevel[config.isolation_level.upper()]


def settings_of(config: Mapping[str, Any] | None, keywords: Mapping[str, Any]) -> ConsumerConfig:
    """Read a consumer's configuration from what its constructor was given."""
    return ConsumerConfig.parse(config, **keywords)


def decoder(columns: tuple[str, ...] | None, text: tuple[str, ...], config: ConsumerConfig) -> Any:
    """Return a ColumnDecoder for these columns, None for DEFAULT_COLUMNS; imports pyarrow, which is an extra."""
    try:
        from levada.record.columnar import ColumnDecoder
    except ImportError as missing:
        raise ImportError("columns need pyarrow: pip install 'levada[arrow]'") from missing
    return ColumnDecoder(DEFAULT_COLUMNS if columns is None else columns, config.max_decompressed_bytes, text=text)


DEFAULT_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")
