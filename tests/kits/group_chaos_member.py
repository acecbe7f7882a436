"""A program that reads as a group member and commits its offsets, or writes records and commits the offsets in transactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from group_chaos_plan import NODES, OUT_PARTITIONS
from levada.error_codes import ErrorCode
from levada.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    GroupError,
    KafkaError,
    RebalanceInProgressError,
    RetriableCommitError,
    TimeoutError,
    TransactionOutcomeUnknownError,
)
from levada.sync.consumer import KafkaConsumer
from levada.testing import Simulation
from levada.testing.history import Found, Op, Recorder, RecordingMember, RecordingProducer, Type
from levada.types import TopicPartition

GROUP = "g"
OUT = "out"
PORT = 9092
SERVERS = ",".join(f"b{number}:{PORT}" for number in range(1, NODES + 1))
EXPECTED = (CommitFailedError, RebalanceInProgressError, RetriableCommitError, TimeoutError)
"""Errors of commits that are expected. The next owner of the partition reads records again that were not committed."""
INSTANCE_ID_IS_ANOTHERS = (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID)
"""Errors if two members have one group.instance.id: a classic group keeps the newer member, a consumer group the older one."""
SESSION_TIMEOUT_MS = 10_000
SETTINGS: Mapping[str, Any] = {
    "auto_offset_reset": "earliest",
    "max_poll_interval_ms": 20_000,
    "request_timeout_ms": 3_000,
    "default_api_timeout_ms": 8_000,
}
OF_PROTOCOL: Mapping[str, Mapping[str, Any]] = {"classic": {"session_timeout_ms": SESSION_TIMEOUT_MS}, "consumer": {}}
"""Consumer groups have no setting for it: the brokers set the session timeout."""


class ToldMember(RecordingMember):
    """Asserts after each poll that the listener calls agree with the consumer's assignment."""

    def __init__(self, consumer: KafkaConsumer[Any, Any], recorder: Recorder, **options: Any) -> None:
        super().__init__(consumer, recorder, **options)
        self._told: set[TopicPartition] = set()

    def poll(self, *arguments: Any) -> list[Found]:
        found = super().poll(*arguments)
        assert self._consumer.assignment() == self._told
        return found

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        assert self._told.isdisjoint(partitions)
        self._told.update(partitions)
        super().on_partitions_assigned(partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        assert self._told.issuperset(partitions)
        self._told.difference_update(partitions)
        super().on_partitions_lost(partitions)


class Program:
    """The program. is_over: whether it has closed its consumer and producer, by close() or after an error."""

    def __init__(
        self,
        sim: Simulation,
        plan_settings: Mapping[str, Any],
        recorder: Recorder,
        instance_id: str | None,
        pause: Callable[[Program, int], None],
    ) -> None:
        """pause: called within a transaction, with a time in milliseconds."""
        settings = {**SETTINGS, **OF_PROTOCOL[plan_settings.get("group_protocol", "classic")], **plan_settings}
        pause_ms, transaction_timeout_ms = settings.pop("pause_ms"), settings.pop("transaction_timeout_ms")
        self._pause: Callable[[], None] = lambda: pause(self, pause_ms)
        transactional, commits_revoked = settings.pop("transactional"), settings.pop("commits_revoked")
        self.is_over = False
        self.recorder = recorder
        self.consumer = sim.consumer(bootstrap_servers=SERVERS, group_id=GROUP, group_instance_id=instance_id, **settings)
        self._commits = not transactional and not settings["enable_auto_commit"]
        self.member = ToldMember(
            self.consumer, recorder, instance_id=instance_id, commits_revoked=commits_revoked and self._commits
        )  # fmt: skip
        self.member.subscribe(["t", "u"])
        self._is_behind = False
        self._writing: RecordingProducer | None = None
        self._is_initialized = False
        if transactional:
            name = f"tx-{recorder.process}"
            self._producer = sim.producer(
                bootstrap_servers=SERVERS, transactional_id=name, transaction_timeout_ms=transaction_timeout_ms, max_block_ms=8_000,
                request_timeout_ms=3_000, delivery_timeout_ms=8_000,
            )  # fmt: skip
            self._writing = RecordingProducer(self._producer, recorder)

    def poll(self, timeout_ms: int) -> None:
        self._tolerate(lambda: self._round(timeout_ms / 1000))

    def commit(self) -> None:
        if self._commits:
            self._tolerate(self.member.commit)

    def close(self, leave_group: bool | None = None) -> None:
        """Close consumer and producer. If the last commit fails, another member reads its records again."""
        try:
            self.consumer.close(leave_group=leave_group)
        except (*EXPECTED, FencedInstanceIdError):
            pass
        self._end()

    def die(self) -> None:
        """End without leaving the group or a commit, like kill -9."""
        self.recorder.crashed(self.recorder.process)
        self.consumer._driver.close()
        if self._writing is not None:
            self._producer._driver.close()

    def _tolerate(self, act: Callable[[], object]) -> None:
        try:
            act()
        except EXPECTED:
            pass
        except GroupError as error:
            if error.code not in INSTANCE_ID_IS_ANOTHERS:
                raise
            self.close()

    def _end(self) -> None:
        self.is_over = True
        if self._writing is not None:
            self._producer.close()
        self.recorder.tell(Op.PROCESS, Type.OK)

    def _round(self, timeout_s: float) -> None:
        if self._is_behind:
            self.member.rewind()
            self._is_behind = False
        found = self.member.poll(timeout_s)
        if self._writing is not None and found:
            self._write_on(self._writing, found)

    def _write_on(self, writing: RecordingProducer, read: list[Found]) -> None:
        """Write one record for each record that was read, in a transaction with the offsets. Without a commit they are polled again."""
        self._is_behind = True
        try:
            if not self._is_initialized:
                self._producer.init_transactions()
                self._is_initialized = True
            writing.begin_transaction()
        except KafkaError as error:
            self._give_up(error)
            return
        try:
            for found in read:
                writing.send(OUT, partition=found.partition % OUT_PARTITIONS, source=found.value)
            self._pause()
            writing.send_offsets_to_transaction(self.consumer.consumed_offsets(), self.consumer.group_metadata())
            _until_known(writing.commit_transaction)
            self._is_behind = False
        except KafkaError as error:
            self._give_up(error, writing)

    def _give_up(self, error: KafkaError, writing: RecordingProducer | None = None) -> None:
        """Abort the transaction. Close the program if the producer cannot continue."""
        try:
            if writing is not None and not error.fatal and not isinstance(error, TransactionOutcomeUnknownError):
                _until_known(writing.abort_transaction)
                return
        except KafkaError as failed:
            error = failed
        if writing is not None or error.fatal:
            self.close()


def _until_known(end: Callable[[], None]) -> None:
    """End a transaction. If the outcome is unknown, try once more."""
    try:
        end()
    except TransactionOutcomeUnknownError:
        end()
