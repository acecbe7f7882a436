"""The program of a simulated run: what a careful user of a producer, transactional or not, does about each error."""

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
    """is_open: a transaction is to be ended. is_dead: its producer cannot go on."""

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
        """Whether it is ready to write; False to call it again, unless it is dead."""
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
        """Commit an offset of a group within the transaction."""
        if self.is_open:
            try:
                self.producer.send_offsets_to_transaction({TopicPartition(TOPIC, 0): offset}, GROUP)
            except KafkaError as error:
                self._take(error)

    def end(self, *, commits: bool, repeats: int) -> None:
        """End the transaction. repeats: how often to ask again after an unknown outcome."""
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
        """Write one record, in a transaction of its own; return what kept it from that."""
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
        """What a producer may not be like when all is well again."""
        pool = self.producer._core.pool
        if pool.available != pool.total:
            yield Finding("K13", f"{pool.total - pool.available} bytes of buffer.memory did not come back")
        if self._last_error is not None:
            yield Finding("K12", f"nothing can be written although nothing is broken any more: {self._last_error!r}")

    def _take(self, error: KafkaError) -> None:
        self.is_dead |= error.fatal
        self.is_open &= not error.fatal
