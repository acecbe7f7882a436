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
from levada.error_codes import ErrorCode
from levada.errors import ConnectError, KafkaError, TimeoutError, broker_error
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
    """The retries of one admin call. retries: the largest number for each topic, partition or id.

    answers_lost: requests that were sent and never answered, so that the cluster may have carried them out.
    """

    def __init__(self, metadata: Metadata, backoff: ExponentialBackoff, retries: int) -> None:
        super().__init__(metadata, backoff, retries)
        self.answers_lost = 0

    def controller(self) -> Peer | None:
        """Return the controller that metadata names, None for any node. In KRaft mode any broker forwards requests to the controller."""
        controller = self.metadata.snapshot.controller
        return None if controller is None else controller.id


K = TypeVar("K")
V = TypeVar("V")


_MAYBE_DONE = "(an earlier attempt of this call got no answer, and may have done it)"


class Doing(NamedTuple):
    """What a call does to each key. name: says it, for error messages. policy: the table of the API's error codes.

    api: the API's name, for the permission that an error is about; "" where errors are made elsewhere.
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
    """Ask about all keys, then again about those with retriable errors; raise the first error once no retry is left.

    spawn: asks all destinations at once; None asks one after the other. ask: sends one request to one of them, and sorts its response by
    take(). A TimeoutError has the outcomes too; keys without an outcome have a TimeoutError that says why.
    """
    asking: FanOut[K, V] = FanOut(doing.attempts, spawn, route=route, ask=ask)
    try:
        yield from asking.run(keys)
    except TimeoutError as over:
        over.outcomes = {key: _when_over(doing, asking, key) for key in keys}
        over.results = dict(asking.found)
        raise
    for key in keys:
        if key not in asking.found and key not in asking.errors:
            asking.errors[key] = broker_error(ErrorCode.UNKNOWN_SERVER_ERROR, f"{doing.name(key)}: the broker left it out of its answer")
    raise_first(doing.name, keys, asking.errors, asking.found)
    return {key: asking.found[key] for key in keys}


def _when_over(doing: Doing, asking: FanOut[K, Any], key: K) -> KafkaError | None:
    if key in asking.found:
        return None
    return asking.errors.get(key) or TimeoutError(f"{doing.name(key)}: not done in time ({asking.reasons.get(key, 'not answered yet')})")


def take(doing: Doing, answer: Answer[K, V], key: K, code: int, value: V, message: str | None = None) -> Reaction:
    """Add the result of one key to the answer, and return the reaction to its error code."""
    if code == ErrorCode.NONE:
        answer.found[key] = value
        return Reaction.NOTHING
    reaction = doing.policy.reaction(code)
    if reaction is Reaction.RAISE or not doing.attempts.may_go_on(key):
        text = doing.name(key) + (f": {message}" if message else "")
        answer.errors[key] = refused(doing.api, code, text, _named_by(key))
        return Reaction.RAISE
    answer.again[key] = ErrorCode.of(code).name
    answer.refresh = answer.refresh or reaction is Reaction.REFRESH
    return reaction


def after_lost_answers(attempts: Attempts, code: int, done_already: ErrorCode | None, message: str | None) -> str | None:
    """Return a broker's message. If an earlier attempt got no answer and may have led to this error, the message says so.

    done_already: the error which means that the request had been carried out already.
    """
    if attempts.answers_lost and code == done_already:
        return f"{message} {_MAYBE_DONE}" if message else _MAYBE_DONE
    return message


def _named_by(key: object) -> dict[ResourceType, str]:
    """Return the resource that a key names, by its type, for errors about permissions."""
    if isinstance(key, TopicPartition):
        return {ResourceType.TOPIC: key.topic}
    named = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
    return dict.fromkeys(named, key) if isinstance(key, str) else {}


def lost(doing: Doing, keys: Iterable[K], fault: ConnectError) -> Answer[K, Any]:
    """Return the answer for a request whose response was lost. Keys are asked about again where that is safe; of others this
    is the error.
    """
    answer: Answer[K, Any] = Answer()
    for key in keys:
        if doing.attempts.may_go_on(key):
            answer.again[key] = str(fault)
        else:
            answer.errors[key] = fault
    return answer
