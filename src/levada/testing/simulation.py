"""Kafka in virtual time: clients and servers on a network in memory, with a clock that jumps to the next time at which work is due.

Minutes of timeouts take a millisecond, and the same seed gives the same run. A Simulation is a context manager. An exception that leaves it
has a note with the seed that replays the run.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from levada.api.engine_setup import Connector, client_name, engine_for
from levada.api.logins import finish_nothing, login_for, run_here
from levada.api.waiting import not_awaitable, result_of, run_flow
from levada.base.clock import NEVER_MS
from levada.base.flow import CallerFlow, CallUser, Compute, Flow, Until
from levada.base.promise import Promise
from levada.client.driver_interface import closed
from levada.client.engine import Engine
from levada.config import ClientConfig
from levada.errors import ClosedError, IllegalStateError
from levada.serialization import K_in, V_in
from levada.sync.admin import KafkaAdmin
from levada.sync.client import KafkaClient
from levada.sync.consumer import KafkaConsumer
from levada.sync.producer import KafkaProducer
from levada.sync.scan import Scan, scan
from levada.sync.share_consumer import KafkaShareConsumer
from levada.testing.sim_network import SimNetwork, SimSelectable
from levada.types import K, V

if TYPE_CHECKING:
    from typing import Unpack

    from levada.config.typed import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings, ShareConsumerSettings

log = logging.getLogger(__name__)

T = TypeVar("T")

START_MS = 1_000_000
EPOCH_MS = 1_700_000_000_000
"""What the wall clock shows at virtual time 0, in ms since the epoch."""

LONGEST_WAIT_MS = 24 * 3_600_000
"""The most virtual time that a call waits, in ms, also without a timeout."""

MAX_ROUNDS = 10_000
"""The most rounds at one virtual time. More are treated as a busy loop, which is an error."""


class Simulation:
    """A simulation of clients in virtual time, in one thread. At the end of its `with` block, all clients are closed without waiting.

    seed: the same seed gives the same run. latency_ms: the shortest and the longest delay of a delivery. network: the simulated network, to
    which servers and faults are added.
    """

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
        """Return a new driver, which runs an engine in this simulation. name: the name of the client for error messages."""
        driver = SimDriver(self, engine, selectable, name)
        self._drivers.append(driver)
        return driver

    def connect(self, config: ClientConfig, kind: str) -> tuple[Engine, SimDriver]:
        """Create the engine and the driver of a client in this simulation, as a Connector of levada.api.engine_setup."""
        name = client_name(config, kind)
        login = login_for(config, run_here, finish_nothing)
        selectable = self.network.selectable()
        engine = engine_for(config, name, selectable, self.random)
        login(engine, selectable)
        return engine, self.driver(engine, selectable, name=f"{kind} '{name}'")

    def client(self, config: Mapping[str, Any] | None = None, /, **settings: Unpack[ClientSettings]) -> KafkaClient:
        """Return a KafkaClient that runs in virtual time."""
        return KafkaClient(config, _connect=self._connector, **settings)

    def admin(self, config: Mapping[str, Any] | None = None, /, **settings: Unpack[AdminSettings]) -> KafkaAdmin:
        """Return a KafkaAdmin that runs in virtual time."""
        return KafkaAdmin(config, _connect=self._connector, **settings)

    def producer(
        self, config: Mapping[str, Any] | None = None, /, **settings: Unpack[ProducerSettings[K_in, V_in]]
    ) -> KafkaProducer[K_in, V_in]:
        """Return a KafkaProducer that runs in virtual time. While it waits, virtual time passes."""
        return KafkaProducer(config, _connect=self._connector, **settings)

    def consumer(
        self, config: Mapping[str, Any] | str | None = None, /, *topics: str, **settings: Unpack[ConsumerSettings[K, V]]
    ) -> KafkaConsumer[K, V]:
        """Return a KafkaConsumer that runs in virtual time. While it waits, virtual time passes."""
        return KafkaConsumer(config, *topics, _connect=self._connector, **settings)

    def share_consumer(
        self, config: Mapping[str, Any] | None = None, /, **settings: Unpack[ShareConsumerSettings[K, V]]
    ) -> KafkaShareConsumer[K, V]:
        """Return a KafkaShareConsumer that runs in virtual time. While it waits, virtual time passes."""
        return KafkaShareConsumer(config, _connect=self._connector, **settings)

    def scan(self, topics: Any = None, config: Mapping[str, Any] | None = None, /, **arguments: Any) -> Scan:
        """Return a Scan for the arguments of levada.scan(). It is read in virtual time."""
        return scan(topics, config, _connect=self._connector, **arguments)

    @property
    def _connector(self) -> Connector[Any]:
        return self.connect

    def advance(self, ms: int) -> None:
        """Let virtual time pass, and do all work that becomes due. ms: how long."""
        self._run(self.now_ms + ms, lambda: False)

    def run_until(self, promise: Promise[T], within_ms: int) -> bool:
        """Let virtual time pass until a promise is settled, but at most for `within_ms`. Returns whether the promise is settled."""
        self._run(self.now_ms + within_ms, lambda: promise.done)
        return promise.done

    def forget(self, driver: SimDriver) -> None:
        """Remove a closed driver from the simulation."""
        if driver in self._drivers:
            self._drivers.remove(driver)

    def _run(self, end_ms: int, finished: Callable[[], bool]) -> None:
        # A test may have changed an engine since the last run without its driver.
        for driver in self._drivers:
            driver.wakeup()
        while True:
            next_ms = self._settle_now()
            if finished():
                return
            if next_ms > end_ms:
                self.now_ms = max(self.now_ms, end_ms)
                return
            self.now_ms = next_ms

    def _settle_now(self) -> int:
        """Do all work that is due now. Returns when the next work is due, in ms."""
        for _ in range(MAX_ROUNDS):
            self.network.deliver_due()
            deadlines = [driver.step() for driver in list(self._drivers)]
            deadlines.append(self.network.advance_servers())
            deadlines.append(self.network.next_ms())
            if min(deadlines) > self.now_ms and not any(driver.is_due for driver in self._drivers):
                return min(deadlines)
        raise IllegalStateError(f"something is due again and again at {self.now_ms} ms: a busy loop")


class SimDriver:
    """A driver that runs an engine in virtual time, in the thread of the simulation. It takes the place of sync.driver.Driver. While it
    waits, virtual time passes.
    """

    def __init__(self, simulation: Simulation, engine: Engine, selectable: SimSelectable, name: str) -> None:
        self.lock = threading.RLock()
        self._simulation = simulation
        self._engine = engine
        self._selectable = selectable
        self._name = name
        self._closed = False
        self._abandoned = False
        self._calling_back = False
        self._due_ms = NEVER_MS
        self._was_called = True

    @property
    def is_due(self) -> bool:
        """Whether the next step() has work: a call was made, the network has events, or the time of a deadline has come."""
        return self._was_called or self._selectable.has_events or self._due_ms <= self.now_ms()

    def start(self) -> None:
        """Do nothing: there is no thread to start."""

    def now_ms(self) -> int:
        """Return the virtual time in ms."""
        return self._simulation.now_ms

    def wall_ms(self) -> int:
        """Return the virtual time in ms since the epoch."""
        return EPOCH_MS + self._simulation.now_ms

    def check_usable(self) -> None:
        """Raise ClosedError after close()."""
        if self._closed:
            raise ClosedError(f"{self._name} is closed")

    def check_open(self) -> None:
        """Raise ClosedError after close()."""
        self.check_usable()

    @property
    def in_callback(self) -> bool:
        """Whether a user's callback is running."""
        return self._calling_back

    def wakeup(self) -> None:
        """Make the next step() do its work."""
        self._was_called = True

    def due_now(self) -> None:
        """Make the next step() do its work."""
        self._was_called = True

    def undisturbed(self) -> AbstractContextManager[object]:
        """Return a context that does nothing: a simulation does not delay signal handlers."""
        return nullcontext()

    def user_code(self) -> AbstractContextManager[object]:
        """Return a context that does nothing: a simulation does not delay signal handlers."""
        return nullcontext()

    def run_handlers(self) -> None:
        """Do nothing: a simulation does not delay signal handlers."""

    def is_within(self) -> bool:
        """Return False: in a simulation, code of the program runs only between the engine's steps."""
        return False

    def look(self) -> None:
        """Make the next step() do its work."""
        self._was_called = True

    def change(self, change: Callable[[int], T]) -> T:
        """Call a function that changes the engine, and return its result. The engine acts on the change in the next step(). Raises
        ClosedError after close().

        change: gets the present virtual time in ms.
        """
        self.check_usable()
        self._was_called = True
        return change(self.now_ms())

    def call(self, steps: CallerFlow[T]) -> T:
        """Run a caller's flow to its end; return its result. While the flow waits, virtual time passes."""
        resume: Callable[[Any], Any] = steps.send
        outcome: Any = None
        try:
            while True:
                step = resume(outcome)
                resume = steps.send
                try:
                    outcome = step.run() if isinstance(step, Compute) else self._take_step(step)
                except BaseException as error:
                    resume, outcome = steps.throw, error
        except StopIteration as done:
            result: T = done.value
            return result

    def _take_step(self, step: Until | CallUser) -> Any:
        return self._wait_until(step) if isinstance(step, Until) else not_awaitable(step.run(), step.what)

    def _wait_until(self, step: Until) -> bool:
        left_ms = max(step.deadline_ms - self.now_ms(), 0)
        settled = self._simulation.run_until(step.promise, min(left_ms, LONGEST_WAIT_MS))
        if not settled:
            self.check_usable()
        return settled

    def wait(self, promise: Promise[T], timeout_s: float | None, what: str) -> T:
        """Let virtual time pass until a promise is settled; return its value or raise its error.

        timeout_s: the maximum time in seconds, None for no limit. what: the name of the operation for the timeout's message. Raises
        TimeoutError, or its subclass BootstrapError if no broker was ever reached.
        """
        return self.call(result_of(self, self._engine, promise, timeout_s, what))

    def run(self, flow: Flow[T], timeout_s: float | None, what: str) -> T:
        """Run a flow on the engine to its end, and return or raise as wait() does. The arguments are those of wait()."""
        return self.call(run_flow(self, self._engine, flow, timeout_s, what))

    def abandon(self) -> None:
        """Let the next step() close the engine, because the client object was garbage collected."""
        self._abandoned = self._was_called = True

    def close(self, timeout_s: float | None = None) -> None:
        """Close the engine, call its deferred callbacks, and leave the simulation. Further calls have no effect. timeout_s: not used."""
        if not self._closed:
            self._closed = True
            self._engine.close(self.now_ms(), closed)
            self._selectable.shutdown()
            self._run_deferred()
            self._simulation.forget(self)

    def step(self) -> int:
        """Pass the network's events to the engine, advance it and call its deferred callbacks, if there is work; after abandon(), close.

        Returns when the next step is due, in ms; NEVER_MS if there is none.
        """
        if not self.is_due:
            return self._due_ms
        if self._abandoned:
            self.close()
            return NEVER_MS
        now_ms, self._was_called = self.now_ms(), False
        self._engine.complete(self._selectable.process(None, now_ms), now_ms)
        self._due_ms = self._engine.advance(now_ms)
        self._run_deferred()
        return self._due_ms

    def _run_deferred(self) -> None:
        deferred = self._engine.deferred
        while deferred:
            callback = deferred.popleft()
            self._calling_back = True
            try:
                callback()
            except Exception:
                log.exception("%s: a callback raised", self._name)
            finally:
                self._calling_back = False
