"""The core of every client: metadata, connections, flows and pollers. A driver runs it.

Under its lock a driver calls advance(now_ms) and complete(events, now_ms) by turns. Between them it waits in Selectable.select(), without
the lock; everything else of the Selectable runs under the lock, too. advance() polls every part of the client and returns the time at which
it has to be called again if nothing happens before. complete() takes what the network did.

advance() is called for every event and for many calls of a user. So a poller that has nothing to do must cost next to nothing: it looks at
what has changed, not at everything. No user code runs in here. Callbacks and log lines go to `deferred`, and the driver runs them without
the lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from levada.base.clock import NEVER_MS, ExponentialBackoff, Now
from levada.client.driver_interface import Deferred, DeferredLog, Ended, LoopTime
from levada.client.failures import Failures
from levada.client.metadata.metadata import Metadata
from levada.client.metadata.metadata_source import MetadataSource
from levada.client.metadata.metadata_updater import MetadataUpdater
from levada.client.network.api_versions import BrokerVersions
from levada.client.network.connection_states import ConnectionStates
from levada.client.network.in_flight import InFlightRequests
from levada.client.network.network_client import NetworkClient
from levada.client.requests.coordinator_finder import CoordinatorFinder
from levada.client.requests.destination import Destinations
from levada.client.requests.flow_runner import FlowRunner
from levada.client.setup.flow import Setups
from levada.logs import Log
from levada.net.selectable import NetEvents, Selectable


class Poller(Protocol):
    """A part of a client that the engine polls in every step, such as Sender or Fetcher."""

    def poll(self, now_ms: int) -> int:
        """Do all that can be done now. Return the time, in ms, of the next poll; NEVER_MS if only an event can change anything."""
        ...


class Holder(Protocol):
    """A part of a client that holds records or requests of the program which are not sent yet."""

    def close(self, ended: Ended) -> None:
        """Refuse new records or requests from now on. ended: returns the error for a refused call; its argument names the call."""
        ...

    def give_up(self, ended: Ended) -> None:
        """Fail the remaining records or requests. All other parts of the client have ended before.

        ended: returns the error for a record or request; its argument names the call.
        """
        ...


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The settings of an Engine, which levada.api.engine_setup makes from the configuration.

    Most fields are named after their options; times are in milliseconds.
    """

    bootstrap: Sequence[tuple[str, int]]
    source: MetadataSource
    client_id: str
    request_timeout_ms: int
    max_in_flight: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    metadata_max_age_ms: int
    metadata_max_idle_ms: int
    connection_setup_timeout_ms: int
    connection_setup_timeout_max_ms: int
    allow_auto_create_topics: bool
    rebootstrap: bool
    rebootstrap_trigger_ms: int
    bootstrap_wait: bool
    security_protocol: str
    proxy: str
    """The proxy of all connections, for error messages; "" for none."""
    fallback: BrokerVersions | None
    """The API versions of broker.version.fallback; None where each broker is asked."""


class Engine:
    """The metadata, connections, flows and pollers of one client. log_fields: the fields of all its log lines."""

    def __init__(self, settings: EngineSettings, *, selectable: Selectable, random: Random, log_fields: Mapping[str, Any]) -> None:
        self.now, self.random, self.loop_time, self.deferred = Now(), random, LoopTime(), Deferred(log_fields)
        self.metadata = _metadata(settings, random)
        log = self.deferred.log(NetworkClient.__module__)
        self.network = NetworkClient(
            selectable=selectable,
            metadata=self.metadata,
            states=_connection_states(settings, random),
            in_flight=InFlightRequests(settings.max_in_flight),
            setups=Setups(settings.fallback, settings.request_timeout_ms),
            failures=_failures(settings, log),
            random=random,
            client_id=settings.client_id,
            log=log,
            request_timeout_ms=settings.request_timeout_ms,
        )
        self.flows = FlowRunner(self.network)
        self.coordinators = self._add_router(ExponentialBackoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms, random))
        self._updater = MetadataUpdater(
            self.metadata,
            settings.source,
            self.network,
            rebootstrap=settings.rebootstrap,
            trigger_ms=settings.rebootstrap_trigger_ms,
        )
        self._pollers, self.holders = list[Poller](), list[Holder]()
        self._closed = False

    def _add_router(self, backoff: ExponentialBackoff) -> CoordinatorFinder:
        finder = CoordinatorFinder(self.network, self.flows, self.now, backoff)
        self.flows.router = Destinations(self.metadata, finder)
        return finder

    def add_poller(self, poller: Poller) -> None:
        """Add a part of the client that every advance() polls, after the flows."""
        self._pollers.append(poller)

    def log(self, name: str) -> Log:
        """Return a logger for code that runs without the lock. Code that holds the lock logs through `deferred`."""
        return Log(name, self.deferred.client)

    @property
    def now_ms(self) -> int:
        """The time of the last step, in ms."""
        return self.now.ms

    def advance(self, now_ms: int) -> int:
        """Poll every part of the client; return the time, in ms, of the next advance() at the latest."""
        if self._closed:
            return NEVER_MS
        self.now.ms = now_ms
        self.network.expire(now_ms)
        if not self.network.ever_answered and self.network.unrecoverable:
            self._give_up()
        self.network.held_back = False
        deadline_ms = min(self._updater.poll(now_ms), self._poll_all(now_ms))
        # A poller may have requested metadata, perhaps such that must not be asked for before the back-off is over.
        update_due_ms = self._updater.due_at_ms(now_ms)
        if update_due_ms > now_ms:
            deadline_ms = min(deadline_ms, update_due_ms)
        else:
            # Other requests wait until that request is sent, and are sent then.
            deadline_ms = min(self._updater.poll(now_ms), deadline_ms)
            if self.network.held_back and not self._updater.update_due(now_ms):
                self.flows.retry_blocked()
                deadline_ms = min(self._poll_all(now_ms), deadline_ms)
        return now_ms if self.flows.can_go_on else min(deadline_ms, self.network.next_deadline_ms())

    def _poll_all(self, now_ms: int) -> int:
        deadline_ms = self.flows.poll(now_ms)
        for poller in self._pollers:
            deadline_ms = min(deadline_ms, poller.poll(now_ms))
        return deadline_ms

    def _give_up(self) -> None:
        error = self.network.bootstrap_error(0)
        self.metadata.fail(error)
        self.flows.fail(error)

    def complete(self, events: NetEvents, now_ms: int) -> None:
        """Handle network events."""
        if not self._closed:
            self.now.ms = now_ms
            self.network.complete(events, now_ms)

    def stop_taking(self, ended: Ended) -> None:
        """Refuse new records and requests, because they would never be sent: the client is being closed, or a bug has stopped it."""
        for holder in self.holders:
            holder.close(ended)

    def close(self, now_ms: int, ended: Ended) -> None:
        """Close every connection, and reject everything that still waits. ended: makes the error."""
        self._closed = True
        # ExitStack runs these in reverse order. If a bug makes one of them raise, the others still run.
        with ExitStack() as parts:
            for holder in self.holders:
                parts.callback(holder.give_up, ended)
            parts.callback(self.metadata.close, ended)
            parts.callback(self.network.close, ended)
            parts.callback(self.flows.close, ended)
            parts.callback(self.stop_taking, ended)


def _metadata(settings: EngineSettings, random: Random) -> Metadata:
    return Metadata(
        settings.bootstrap,
        random,
        retry_backoff_ms=settings.retry_backoff_ms,
        retry_backoff_max_ms=settings.retry_backoff_max_ms,
        max_age_ms=settings.metadata_max_age_ms,
        max_idle_ms=settings.metadata_max_idle_ms,
        allow_auto_create_topics=settings.allow_auto_create_topics,
    )


def _connection_states(settings: EngineSettings, random: Random) -> ConnectionStates:
    return ConnectionStates(
        random=random,
        reconnect_backoff_ms=settings.reconnect_backoff_ms,
        reconnect_backoff_max_ms=settings.reconnect_backoff_max_ms,
        setup_timeout_ms=settings.connection_setup_timeout_ms,
        setup_timeout_max_ms=settings.connection_setup_timeout_max_ms,
    )


def _failures(settings: EngineSettings, log: DeferredLog) -> Failures:
    has_fallback = settings.fallback is not None
    return Failures(log, settings.security_protocol, settings.proxy, has_fallback=has_fallback, waits=settings.bootstrap_wait)
