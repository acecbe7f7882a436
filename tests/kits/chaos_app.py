"""The program of a simulated run: it uses a producer, transactional or not, and reacts to each error as a correct program should."""

from __future__ import annotations

from collections.abc import Iterator

from chaos_plan import NODES, Plan
from levada.errors import KafkaError, TransactionOutcomeUnknownError
from levada.testing import Simulation
from levada.testing.history import Finding, Op, Recorder, RecordingProducer, Type
from levada.types import TopicPartition

TOPIC = "t"
TRANSACTIONAL_ID = "tx"
GROUP = "g"
PORT = 9092
SERVERS = ",".join(f"b{number}:{PORT}" for number in range(1, NODES + 1))


class App:
    """The program. is_open: whether a transaction was begun and must be ended. is_dead: whether its producer had a fatal error."""

    def __init__(self, sim: Simulation, plan: Plan, recorder: Recorder) -> None:
        settings = dict(plan.settings)
        self.producer = sim.producer(bootstrap_servers=SERVERS, retry_backoff_ms=20, **settings)
        self.is_open = self.is_dead = False
        self._last_error: KafkaError | None = None
        self._is_transactional = plan.is_transactional
        self._recorder = recorder
        send_within_ms = settings["max_block_ms"] + settings["delivery_timeout_ms"]
        # begin_transaction() may have to do two things, each with a time-out of its own.
        self._recording = RecordingProducer(
            self.producer, recorder, send_within_ms=send_within_ms, end_within_ms=2 * settings["max_block_ms"]
        )

    def started(self) -> bool:
        """Initialize transactions, and return whether the program can write. If False and not is_dead, call it again."""
        if not self._is_transactional:
            return True
        try:
            self.producer.init_transactions()
        except KafkaError as error:
            self._take(error)
            return False
        return True

    def send(self, partition: int, size: int) -> None:
        if self.is_open or not self._is_transactional:
            try:
                self._recording.send(TOPIC, payload=b"x" * size, partition=partition)
            except KafkaError as error:
                self._take(error)

    def begin(self) -> None:
        if self.is_open or self.is_dead:
            return
        try:
            self._recording.begin_transaction()
            self.is_open = True
        except KafkaError as error:
            self._take(error)

    def offsets(self, offset: int) -> None:
        """Send an offset of a group to the open transaction."""
        if self.is_open:
            try:
                self.producer.send_offsets_to_transaction({TopicPartition(TOPIC, 0): offset}, GROUP)
            except KafkaError as error:
                self._take(error)

    def end(self, *, commits: bool, repeats: int) -> None:
        """Commit or abort the open transaction. repeats: how often to try again after an error or an unknown outcome."""
        while self.is_open:
            try:
                (self._recording.commit_transaction if commits else self._recording.abort_transaction)()
                self.is_open = False
            except TransactionOutcomeUnknownError:
                self.is_open = repeats > 0
                repeats -= 1
            except KafkaError as error:
                self._take(error)
                commits = False
                if self.is_dead or repeats < 0:
                    return
                repeats -= 1

    def close(self) -> None:
        self.producer.close()
        self._recorder.tell(Op.PROCESS, Type.OK)

    def last_write(self) -> KafkaError | None:
        """Write one record; a transactional producer in its own transaction. Returns the error, or None."""
        self._last_error = None
        try:
            if self._is_transactional:
                self._recording.begin_transaction()
            self._recording.send(TOPIC, partition=0).result()
            if self._is_transactional:
                self._recording.commit_transaction()
        except KafkaError as error:
            self._last_error = error
            self._take(error)
        return self._last_error

    def left_behind(self) -> Iterator[Finding]:
        """Yield findings about a producer after all faults have ended: buffer memory that was not released, or a failed last write."""
        pool = self.producer._core.pool
        if pool.available != pool.total:
            yield Finding("K13", f"{pool.total - pool.available} bytes of buffer.memory did not come back")
        if self._last_error is not None:
            yield Finding("K12", f"nothing can be written although nothing is broken any more: {self._last_error!r}")

    def _take(self, error: KafkaError) -> None:
        self.is_dead |= error.fatal
        self.is_open &= not error.fatal
