"""Admin calls about many keys (topics, groups, ...): each key has its own destination, its own retries and its own outcome.

A call tries all keys, and then raises the first error in the order given, with the outcomes of all (ADR 54).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple, TypeVar

from levada.acls import ResourceType
from levada.base.clock import ExponentialBackoff
from levada.base.flow import Flow
from levada.base.permissions import refused
from levada.client.metadata.metadata import Metadata
from levada.client.network.connection_key import Peer
from levada.client.requests.fan_out import Answer, FanOut, Spawn, Whom, raise_first
from levada.client.requests.retry import Reaction, Retries, RetryPolicy
from levada.error_codes import ErrorCode, described
from levada.errors import BootstrapError, ConnectError, KafkaError, TimeoutError, broker_error
from levada.types import TopicPartition

ON_ADMIN_ERROR = RetryPolicy(
    {
        ErrorCode.NOT_CONTROLLER: Reaction.REFRESH,
        ErrorCode.NETWORK_EXCEPTION: Reaction.REFRESH,
        ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction.RETRY,
        ErrorCode.LEADER_NOT_AVAILABLE: Reaction.RETRY,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED: Reaction.RETRY,
    }
)
"""The retriable error codes. All others are raised: for an admin client, a topic that does not exist is an answer, not a
temporary failure.
"""


class Attempts(Retries):
    """Counts the retries of one admin call. retries: the maximum number for each topic, partition or id.

    answers_lost: the number of requests that were sent but not answered. The cluster may have executed them.
    """

    def __init__(self, metadata: Metadata, backoff: ExponentialBackoff, retries: int) -> None:
        super().__init__(metadata, backoff, retries)
        self.answers_lost = 0

    def controller(self) -> Peer | None:
        """Return the id of the controller that the metadata name, or None if they name none; then any broker is asked.

        In KRaft mode the metadata name some broker, because every broker forwards requests to the controller.
        """
        controller = self.metadata.snapshot.controller
        return None if controller is None else controller.id


K = TypeVar("K")
V = TypeVar("V")


_MAYBE_DONE = "(an earlier attempt of this call got no answer, and may have done it)"


class Doing(NamedTuple):
    """The operation of an admin call on its keys, such as topics or partitions.

    name: returns the text of the operation on a key, for error messages. policy: maps the API's error codes to reactions. api: the name of
    the API, from which an authorization error derives the missing permission; "" if other code makes the errors.
    """

    name: Callable[[Any], str]
    policy: RetryPolicy
    attempts: Attempts
    api: str = ""


def each(
    doing: Doing,
    keys: Collection[K],
    spawn: Spawn | None,
    *,
    route: Callable[[K], Whom],
    ask: Callable[[Whom, list[K]], Flow[Answer[K, V]]],
) -> Flow[dict[K, V]]:
    """Send requests about all keys, and repeat them for keys with a retriable error. Return the value for each key.

    route: returns the node to ask about a key. ask: sends one request to one node, and reads the response with take(). spawn: asks several
    nodes at the same time; None asks one node after the other. If keys have failed for good, raises the error of the first of
    these keys. An error has the outcomes of all keys; after a TimeoutError, keys without an outcome have a TimeoutError with the reason.
    """
    asking: FanOut[K, V] = FanOut(doing.attempts, spawn, route=route, ask=ask)
    try:
        yield from asking.run(keys)
    except TimeoutError as over:
        over.outcomes = {key: _when_over(doing, asking, key) for key in keys}
        over.results = dict(asking.found)
        if not isinstance(over, BootstrapError):  # Its text has the reason already.
            over.args = (f"{over}{_first_reason(doing, asking)}",)
        raise
    for key in keys:
        if key not in asking.found and key not in asking.errors:
            asking.errors[key] = broker_error(ErrorCode.UNKNOWN_SERVER_ERROR, f"{doing.name(key)}: the broker left it out of its answer")
    raise_first(doing.name, keys, asking.errors, asking.found)
    return {key: asking.found[key] for key in keys}


def _first_reason(doing: Doing, asking: FanOut[K, Any]) -> str:
    """Return what the first key without a result still waits for, for the text of an error."""
    return next((f" ({doing.name(key)}: {reason})" for key, reason in asking.reasons.items()), "")


def _when_over(doing: Doing, asking: FanOut[K, Any], key: K) -> KafkaError | None:
    if key in asking.found:
        return None
    return asking.errors.get(key) or TimeoutError(f"{doing.name(key)}: not done in time ({asking.reasons.get(key, 'not answered yet')})")


def take(doing: Doing, answer: Answer[K, V], key: K, code: int, value: V, message: str | None = None) -> Reaction:
    """Add the result of one key to the answer, and count a retry for a retriable error. Return the reaction: RAISE if no retry is left.

    value: the result if there is no error. message: the broker's error text.
    """
    if code == ErrorCode.NONE:
        answer.found[key] = value
        return Reaction.NOTHING
    reaction = doing.policy.reaction(code)
    if reaction is Reaction.RAISE or not doing.attempts.may_go_on(key):
        text = doing.name(key) + (f": {message}" if message else "")
        answer.errors[key] = refused(doing.api, code, text, _named_by(key))
        return Reaction.RAISE
    answer.again[key] = described(code)
    answer.refresh = answer.refresh or reaction is Reaction.REFRESH
    return reaction


def after_lost_answers(attempts: Attempts, code: int, done_already: ErrorCode | None, message: str | None) -> str | None:
    """Return a broker's error message, with a remark if an earlier request got no answer but may have caused this error.

    done_already: the error code that a broker returns if the operation was executed before. Return None if there is neither a message nor a
    remark.
    """
    if attempts.answers_lost and code == done_already:
        return f"{message} {_MAYBE_DONE}" if message else _MAYBE_DONE
    return message


def _named_by(key: object) -> dict[ResourceType, str]:
    """Return the possible resource types of a key, each with the resource's name, for authorization errors."""
    if isinstance(key, TopicPartition):
        return {ResourceType.TOPIC: key.topic}
    named = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
    return dict.fromkeys(named, key) if isinstance(key, str) else {}


def lost(doing: Doing, keys: Iterable[K], fault: ConnectError) -> Answer[K, Any]:
    """Return the answer for a request whose connection was lost before the response. The request is repeated for keys that have retries
    left. Other keys get `fault` as their error.
    """
    answer: Answer[K, Any] = Answer()
    for key in keys:
        if doing.attempts.may_go_on(key):
            answer.again[key] = str(fault)
        else:
            answer.errors[key] = fault
    return answer
