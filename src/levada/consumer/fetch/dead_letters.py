"""Records that do not deserialize, on their way to a dead-letter topic (levada.dead_letter).

A letter is DUE when the decoder finds such a record, SENT while a producer has it, then WRITTEN or FAILED. Until it is WRITTEN, its record
blocks its partition: records before it are returned, but no position and no commit moves past it. A poll() that finds it first in line
waits for it. A letter is identified by the place and the content of its record. So a poll() that is interrupted or times out does not write
it twice: the next one finds the same letter. An error of a FAILED letter is raised once, and the next poll() makes a new letter.

meet() runs where records are decoded, without the engine's lock. It never runs at the same time as the other methods, except settle() and
announce(), which do not change the set of letters. To wait for results, take changed() before checking: records that are buffered behind
the letter are no reason to check again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto

from levada.base.promise import Promise
from levada.base.text import as_text
from levada.dead_letter import letter
from levada.errors import DeadLetterError, KafkaError, RecordDeserializationError
from levada.interceptors import ProducerRecord
from levada.types import AnyRecord, TopicPartition


class Progress(Enum):
    """The progress of a dead letter."""

    DUE = auto()
    SENT = auto()
    WRITTEN = auto()
    FAILED = auto()


class Letter:
    """The dead letter of one record. failure: the error with which the producer has failed to write it; else None."""

    __slots__ = ("error", "failure", "progress")

    def __init__(self, error: RecordDeserializationError) -> None:
        self.error = error
        self.progress = Progress.DUE
        self.failure: BaseException | None = None

    def settle(self, failure: BaseException | None) -> None:
        """Note the producer's result. failure: None if the letter was written."""
        self.failure = failure
        self.progress = Progress.WRITTEN if failure is None else Progress.FAILED


class AwaitsDeadLetterError(KafkaError):
    """The next record cannot be passed before its dead letter is written. Never raised to the program."""


class DeadLetters:
    """The dead letters of one consumer. topic: the dead-letter topic."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._letters: dict[tuple[TopicPartition, int], Letter] = {}
        self._due: list[Letter] = []
        self._changed: Promise[None] = Promise()

    def changed(self) -> Promise[None]:
        """Return a promise that is resolved by settle() or announce(). Under the engine's lock."""
        return self._changed

    def announce(self) -> None:
        """Wake a call that waits for the result of a dead letter. Under the engine's lock."""
        changed, self._changed = self._changed, Promise()
        changed.resolve(None)

    def settle(self, letter: Letter, failure: BaseException | None) -> None:
        """Note the producer's result for a letter. failure: None if it was written. Under the engine's lock."""
        letter.settle(failure)
        self.announce()

    def meet(self, given: AnyRecord, error: RecordDeserializationError) -> None:
        """Handle a record that does not deserialize (OnDecodeError): return None, so that it is skipped, once its dead letter is written.

        Raises AwaitsDeadLetterError until then; the first call for a record makes its letter. Raises DeadLetterError if writing has failed;
        the next call makes a new letter.
        """
        known = self.foresee(error)
        if known.progress is Progress.WRITTEN:
            return
        if known.progress is Progress.FAILED:
            del self._letters[_place(error)]
            raise self._error(error.record, error.part, known.failure)
        raise AwaitsDeadLetterError(str(error))

    def foresee(self, error: RecordDeserializationError) -> Letter:
        """Return the dead letter of a record that does not deserialize. If there is none yet, make one, which take_due() will return."""
        known = self._letters.get(_place(error))
        if known is None or known.error.record != error.record:
            known = self._letters[_place(error)] = Letter(error)
            self._due.append(known)
        return known

    def take_due(self) -> list[tuple[Letter, ProducerRecord]]:
        """Remove and return the dead letters to give to the producer now, each with its record, in the order in which they were made."""
        due, self._due = self._due, []
        for one in due:
            one.progress = Progress.SENT
        return [(one, letter(self.topic, one.error)) for one in due]

    def give_back(self, letters: Iterable[Letter]) -> None:
        """Put back letters of take_due(), because the call was interrupted before the producer had them."""
        self._due = [*letters, *self._due]
        for one in self._due:
            one.progress = Progress.DUE

    def forget_passed(self, position: Callable[[TopicPartition], int | None]) -> None:
        """Forget the letters of records before the positions, and of partitions that are not assigned.

        position: returns the position of a partition; None if it is not assigned.
        """
        for tp, offset in list(self._letters):
            at = position(tp)
            if at is None or at > offset:
                del self._letters[tp, offset]

    def _error(self, record: AnyRecord, part: str, failure: BaseException | None) -> DeadLetterError:
        where, onward = f"{record.topic}-{record.partition} at offset {record.offset}", record.offset + 1
        text = (
            f"{where}: the {part} does not deserialize, and the record could not be written to the dead-letter topic '{self.topic}': "
            f"{as_text(failure)}; poll again to try again, or seek to {onward} to skip the record"
        )
        error = DeadLetterError(text, record, part)
        error.__cause__ = failure
        return error


def _place(error: RecordDeserializationError) -> tuple[TopicPartition, int]:
    return TopicPartition(error.record.topic, error.record.partition), error.record.offset
