"""Retries: a table per API says what to do about an error code; one place decides how long to wait and how often to try.

A table lists the codes that are special to its API, and what all others mean there. Kafka's own list of retriable codes is not enough: a
topic that does not exist is a result for an admin client, whereas for a consumer it may be one that is not known everywhere yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from enum import Enum

from levada.base.clock import ExponentialBackoff
from levada.base.flow import Flow, Sleep, Wait
from levada.client.metadata.metadata import Metadata
from levada.error_codes import ErrorCode


class Reaction(Enum):
    """The reaction to the error code of one key."""

    AT_ONCE = "ask again at once"
    RETRY = "ask again after a pause"
    REFRESH = "ask again after a pause, the node that fresh metadata names"
    REFIND = "ask again after a pause, the coordinator of that time"
    RESET = "the log has no such offset: the position has to be looked up anew"
    NOTHING = "an answer: there is no such thing"
    RAISE = "the caller must see it"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The reactions of one API to error codes. otherwise: the reaction to codes that the table does not list."""

    on_error: Mapping[ErrorCode, Reaction]
    otherwise: Reaction = Reaction.RAISE

    def reaction(self, code: int) -> Reaction:
        """Return the reaction to a code."""
        return self.on_error.get(ErrorCode.of(code), self.otherwise)


class Retries:
    """The retries of one operation. limit: the maximum number of retries for each key; None retries until the operation's time is over."""

    def __init__(self, metadata: Metadata, backoff: ExponentialBackoff, limit: int | None = None) -> None:
        self.metadata = metadata
        self._backoff = backoff
        self._limit = limit
        self._used: Counter[Hashable] = Counter()

    def may_go_on(self, subject: Hashable) -> bool:
        """Count one retry of a key. Return False if the limit is exceeded."""
        self._used[subject] += 1
        return self._limit is None or self._used[subject] <= self._limit

    def pause(self, attempts: int, *, refresh: bool) -> Flow[None]:
        """Wait for the back-off after this number of attempts. refresh: whether to wait for a metadata update, too."""
        version = self.metadata.request_update() if refresh else 0
        yield Sleep(self._backoff.delay_ms(attempts))
        if refresh:
            yield Wait(self.metadata.await_update(version))
