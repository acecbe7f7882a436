"""What metadata says of the topics that a consumer is subscribed to: which it will never be given, and which are not there.

A topic that may not be read, or whose name none can have, is an error for each call. One that does not exist may yet be created, and a
pattern may yet match one, so that is no error; a warning says it, once until it is there.
"""

from __future__ import annotations

from collections.abc import Callable

from levada.client.host import Deferred
from levada.client.metadata.known_topics import FINAL_TOPIC_ERRORS, UNKNOWN_GRACE_MS, topic_error
from levada.client.metadata.metadata import Metadata
from levada.client.metadata.snapshot import ClusterSnapshot
from levada.consumer.unreachable import LAST_WORD_GRACE_MS
from levada.error_codes import ErrorCode
from levada.errors import KafkaError


class SubscribedTopics:
    """See the module's text. Used under the engine's lock.

    topics: gives those that are subscribed to by name, or match a pattern here, the same set as long as they are the same. pattern: gives
    the pattern, None where there is none.
    """

    def __init__(
        self,
        metadata: Metadata,
        deferred: Deferred,
        topics: Callable[[], frozenset[str]],
        pattern: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._metadata = metadata
        self._log = deferred.log(__name__)
        self._topics = topics
        self._pattern = pattern
        self._compared: tuple[ClusterSnapshot, frozenset[str]] | None = None
        self._refused: tuple[str, ErrorCode] | None = None
        self._absent: dict[str, int] = {}
        """What is not there, in words, and since when that is known."""
        self._told: set[str] = set()

    def explain(self, now_ms: int, *, last_word: bool) -> KafkaError | None:
        """Return the error of a topic that will never be given, and write what is not there. last_word: the call would return nothing."""
        self._compare(now_ms)
        grace_ms = LAST_WORD_GRACE_MS if last_word else UNKNOWN_GRACE_MS
        due = [text for text, since_ms in self._absent.items() if text not in self._told and now_ms - since_ms >= grace_ms]
        if due:
            self._told.update(due)
            self._log.warning("%s; nothing is read of it before it is there: create it, or check the name", ", ".join(due))
        return None if self._refused is None else topic_error(self._refused[1], self._refused[0])

    @property
    def has_untold(self) -> bool:
        """Whether something is not there that no warning says yet."""
        return self._absent.keys() != self._told

    def absent(self, now_ms: int) -> tuple[str, ...]:
        """Return what is not there, in words."""
        self._compare(now_ms)
        return tuple(self._absent)

    def _compare(self, now_ms: int) -> None:
        topics, snapshot = self._topics(), self._metadata.snapshot
        if self._compared is not None and self._compared[0] is snapshot and self._compared[1] is topics:
            return
        self._compared = snapshot, topics
        errors = [(name, snapshot.topics[name].error) for name in sorted(topics & snapshot.topics.keys())]
        self._refused = next(((name, code) for name, code in errors if code in FINAL_TOPIC_ERRORS), None)
        absent = [f"topic '{name}' does not exist" for name, code in errors if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        pattern = self._pattern()
        if pattern is not None and not topics and self._metadata.version:
            absent.append(f"no topic's whole name matches '{pattern}'")
        self._absent = {text: self._absent.get(text, now_ms) for text in absent}
        self._told &= self._absent.keys()
