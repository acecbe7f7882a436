"""Kafka in virtual time: engines and servers on a network in memory, whose clock jumps to the next thing that is due.

Minutes of time-outs take a millisecond, and the same seed gives the same run. A Simulation is a context manager; an exception that
leaves it carries a note with the seed that replays it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from random import Random
from types import TracebackType
from typing import TypeVar

from levada.client.engine import Engine
from levada.client.timeouts import timeout_error
from levada.errors import ClosedError, IllegalStateError, TimeoutError
from levada.flow import Flow
from levada.promise import Promise
from levada.sync.arguments import deadline_ms
from levada.testing.sim_network import SimNetwork, SimSelectable

log = logging.getLogger(__name__)

T = TypeVar("T")

START_MS = 1_000_000
EPOCH_MS = 1_700_000_000_000
"""What the wall clock shows when virtual time is 0."""

LONGEST_WAIT_MS = 24 * 3_600_000
"""How long a wait without a time-out goes on before it fails."""

MAX_ROUNDS = 10_000
"""Rounds without time passing before the simulation calls it a busy loop."""


class Simulation:
    """A clock, a network and the clients on it. network: add servers and faults there."""

    def __init__(self, seed: int = 0, latency_ms: tuple[int, int] = (1, 1)) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.now_ms = START_MS
        self.network = SimNetwork(self.random, lambda: self.now_ms, latency_ms)
        self._drivers: list[SimDriver] = []

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            error.add_note(f"simulated with seed {self.seed}: Simulation(seed={self.seed}) replays it")
        for driver in list(self._drivers):
            driver.close()

    def driver(self, engine: Engine, selectable: SimSelectable, *, name: str = "sim") -> SimDriver:
        """Drive an engine in this simulation."""
        driver = SimDriver(self, engine, selectable, name)
        self._drivers.append(driver)
        return driver

    def advance(self, ms: int) -> None:
        """Let time pass."""
        self._run(self.now_ms + ms, lambda: False)

    def run_until(self, promise: Promise[T], within_ms: int) -> bool:
        """Let time pass until a promise is settled, at most so long; True when it is."""
        self._run(self.now_ms + within_ms, lambda: promise.done)
        return promise.done

    def forget(self, driver: SimDriver) -> None:
        """A driver was closed."""
        if driver in self._drivers:
            self._drivers.remove(driver)

    def _run(self, end_ms: int, finished: Callable[[], bool]) -> None:
        while True:
            next_ms = self._settle_now()
            if finished():
                return
            if next_ms > end_ms:
                self.now_ms = max(self.now_ms, end_ms)
                return
            self.now_ms = next_ms

    def _settle_now(self) -> int:
        """Let everything happen that is due at this moment; return when the next thing is."""
        for _ in range(MAX_ROUNDS):
            self.network.deliver_due()
            deadlines = [driver.step() for driver in list(self._drivers)]
            deadlines.append(self.network.advance_servers())
            deadlines.append(self.network.next_ms())
            if min(deadlines) > self.now_ms and not any(driver.has_events for driver in self._drivers):
                return min(deadlines)
        raise IllegalStateError(f"something is due again and again at {self.now_ms} ms: a busy loop")


class SimDriver:
    """Stands where sync.driver.Driver stands, in virtual time and on one thread: waiting is letting time pass."""

    def __init__(self, simulation: Simulation, engine: Engine, selectable: SimSelectable, name: str) -> None:
        self.lock = threading.RLock()
        self._simulation = simulation
        self._engine = engine
        self._selectable = selectable
        self._name = name
        self._closed = False

    @property
    def has_events(self) -> bool:
        """Whether the network has news for the engine."""
        return self._selectable.has_events

    def start(self) -> None:
        """Nothing needs to be started."""

    def now_ms(self) -> int:
        """Virtual time."""
        return self._simulation.now_ms

    def wall_ms(self) -> int:
        """Virtual time since the epoch."""
        return EPOCH_MS + self._simulation.now_ms

    def check_usable(self) -> None:
        """Raise ClosedError after close()."""
        if self._closed:
            raise ClosedError(f"{self._name} is closed")

    def wakeup(self) -> None:
        """The next step sees every change anyway."""

    def wait(self, promise: Promise[T], timeout_s: float | None, what: str) -> T:
        """Let time pass until a promise is settled; return its value or raise its error."""
        if not promise.done:
            self.check_usable()
            if not self._simulation.run_until(promise, min(deadline_ms(0, timeout_s), LONGEST_WAIT_MS)):
                raise timeout_error(self._engine.network, TimeoutError(f"{what}: not done in time"), timeout_s)
        return promise.result()

    def run(self, flow: Flow[T], timeout_s: float | None, what: str) -> T:
        """Run a flow to its end, as wait() does."""
        self.check_usable()
        now_ms = self.now_ms()
        promise = self._engine.flows.start(flow, now_ms, deadline_ms=deadline_ms(now_ms, timeout_s), describe=what)
        try:
            return self.wait(promise, timeout_s, what)
        except TimeoutError as error:
            if error is not promise.error:
                raise
            raise timeout_error(self._engine.network, error, timeout_s) from None

    def close(self, timeout_s: float | None = None) -> None:
        """Close the engine and leave the simulation."""
        if not self._closed:
            self._closed = True
            self._engine.close(self.now_ms())
            self._selectable.shutdown()
            self._run_deferred()
            self._simulation.forget(self)

    def step(self) -> int:
        """Hand the engine its news and its turn; return when it wants the next."""
        now_ms = self.now_ms()
        self._engine.complete(self._selectable.process(None, now_ms), now_ms)
        deadline_ms = self._engine.advance(now_ms)
        self._run_deferred()
        return deadline_ms

    def _run_deferred(self) -> None:
        deferred = self._engine.deferred
        while deferred:
            callback = deferred.popleft()
            try:
                callback()
            except Exception:
                log.exception("%s: a callback raised", self._name)
