"""Records that do not deserialize, on their way to another topic (levada.dead_letter).

A letter is DUE when the decoder meets such a record, SENT while a producer has it, then WRITTEN or FAILED. Until it is WRITTEN its record
stands in line like one whose error is raised: records before it are handed out, and no position moves past it, so no commit does. A call
for records that meets it first waits for it. A letter is known by the record's place and content, so a call that is broken off or runs out
of time does not write it twice: the next call meets the same letter. One that FAILED is raised once, and is DUE again with the next call.

meet() runs where records are decoded, without the engine's lock, and never at the same time as the other methods but settle(), which only
notes an outcome. Who waits for outcomes waits for changed(), taken before it looks: what is buffered behind the record is no reason to look
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto

from levada.base.promise import Promise
from levada.base.shown import as_text
from levada.dead_letter import letter
from levada.errors import DeadLetterError, KafkaError, RecordDeserializationError
from levada.interceptors import ProducerRecord
from levada.types import AnyRecord, TopicPartition


class Progress(Enum):
    """See the module's theory."""

    DUE = auto()
    SENT = auto()
    WRITTEN = auto()
    FAILED = auto()


class Letter:
    """One record on its way. failure: why it was not written."""

    __slots__ = ("error", "failure", "progress")

    def __init__(self, error: RecordDeserializationError) -> None:
        self.error = error
        self.progress = Progress.DUE
        self.failure: BaseException | None = None

    def settle(self, failure: BaseException | None) -> None:
        """Note what the producer says of it."""
        self.failure = failure
        self.progress = Progress.WRITTEN if failure is None else Progress.FAILED


class AwaitsDeadLetterError(KafkaError):
    """A record stands first in line whose letter is not written yet. Never leaves the consumer."""


class DeadLetters:
    """The letters of one consumer. topic: where they go."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._letters: dict[tuple[TopicPartition, int], Letter] = {}
        self._due: list[Letter] = []
        self._changed: Promise[None] = Promise()

    def changed(self) -> Promise[None]:
        """Return a promise that is resolved when an outcome is noted, or by announce(). Under the engine's lock."""
        return self._changed

    def announce(self) -> None:
        """Wake who waits for an outcome. Under the engine's lock."""
        changed, self._changed = self._changed, Promise()
        changed.resolve(None)

    def settle(self, letter: Letter, failure: BaseException | None) -> None:
        """Note what the producer says of a letter. Under the engine's lock."""
        letter.settle(failure)
        self.announce()

    def meet(self, given: AnyRecord, error: RecordDeserializationError) -> None:
        """Return None for a record that is written, so that it is passed over (OnDecodeError).

        Raises AwaitsDeadLetterError while it is not, and DeadLetterError where it could not be.
        """
        known = self.foresee(error)
        if known.progress is Progress.WRITTEN:
            return
        if known.progress is Progress.FAILED:
            del self._letters[_place(error)]
            raise self._error(error.record, error.part, known.failure)
        raise AwaitsDeadLetterError(str(error))

    def foresee(self, error: RecordDeserializationError) -> Letter:
        """Return the letter of a record, a new one where there is none."""
        known = self._letters.get(_place(error))
        if known is None or known.error.record != error.record:
            known = self._letters[_place(error)] = Letter(error)
            self._due.append(known)
        return known

    def take_due(self) -> list[tuple[Letter, ProducerRecord]]:
        """Return what is to be given to the producer now, in order."""
        due, self._due = self._due, []
        for one in due:
            one.progress = Progress.SENT
        return [(one, letter(self.topic, one.error)) for one in due]

    def give_back(self, letters: Iterable[Letter]) -> None:
        """Letters were taken, and the program was interrupted before the producer had them."""
        self._due = [*letters, *self._due]
        for one in self._due:
            one.progress = Progress.DUE

    def forget_passed(self, position: Callable[[TopicPartition], int | None]) -> None:
        """Forget the letters of records that will not be met again. position: None for a partition that is not assigned."""
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
