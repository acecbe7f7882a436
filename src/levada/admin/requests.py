"""Admin requests about many keys that go to one node: the controller, any node, or for each key the node that it names.

A response has an outcome for each key. `carry_out` retries keys with retriable errors, and at the end raises the first error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, TypeVar

from levada.admin.per_key import ON_ADMIN_ERROR, Attempts, Doing, after_lost_answers, each, lost, take
from levada.base.flow import ANY_NODE, Call, Flow
from levada.client.requests.fan_out import Answer, Spawn, Whom
from levada.client.requests.retry import RetryPolicy
from levada.error_codes import ErrorCode
from levada.errors import ConnectError, DisconnectError
from levada.protocol.schema import Request

T = TypeVar("T")

EXISTENCE: Mapping[int, str] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "it does not exist",
    ErrorCode.TOPIC_ALREADY_EXISTS: "it exists already",
}
"""Texts that replace the brokers' own, which speak of partitions that a server hosts, or repeat the topic's name."""


class Outcome(NamedTuple):
    """The result for one key in a broker's response: an error code, or a value if the code is 0."""

    error_code: int
    message: str | None = None
    value: Any = None


class Asked(NamedTuple):
    """Describes a kind of admin request for carry_out().

    name: returns the text of the operation on a key, for error messages. request: makes the request for some keys. outcomes: reads the
    outcome of each key from a response; keys may be missing. done_already: the error code that a broker returns if the operation was
    executed before, perhaps by a request whose response was lost. min_version: the first version of the API that supports the operation.
    """

    name: Callable[[Any], str]
    request: Callable[[list[Any]], Request[Any]]
    outcomes: Callable[[Any], Mapping[Any, Outcome]]
    done_already: ErrorCode | None = None
    min_version: int = 0
    max_version: int = 32767
    policy: RetryPolicy = ON_ADMIN_ERROR


def carry_out(
    asked: Asked,
    things: Collection[Any],
    attempts: Attempts,
    *,
    route: Callable[[Any], Whom] | None = None,
    spawn: Spawn | None = None,
) -> Flow[dict[Any, Any]]:
    """Send the request for all keys, and repeat it for keys with a retriable error. Return the value of each key.

    things: the keys. route: returns the node to which the request about a key goes; without `route` it goes to the controller. spawn: asks
    several nodes at the same time.
    """
    doing = Doing(asked.name, asked.policy, attempts)

    def ask(node: Whom, wanted: list[Any]) -> Flow[Answer[Any, Any]]:
        return _ask(asked, wanted, node, doing)

    return each(doing, things, spawn, route=route or (lambda thing: attempts.controller()), ask=ask)


def of_all(asked: Asked, attempts: Attempts, *, route: Callable[[Any], Whom] | None = None) -> Flow[Any]:
    """Send a request that has no keys, such as "list all", and return its value. route: see carry_out()."""
    found = yield from carry_out(asked, [None], attempts, route=route)
    return found[None]


def from_any(what: str, attempts: Attempts, ask: Callable[[], Flow[T]]) -> Flow[T]:
    """Ask any node, and repeat this if the connection is lost. Return the result of `ask`.

    ask: sends the requests to a node. what: the text of the operation, for error messages.
    """
    doing = Doing(lambda _: what, ON_ADMIN_ERROR, attempts, "")

    def once(_: Whom, wanted: list[None]) -> Flow[Answer[None, T]]:
        try:
            return Answer(found={None: (yield from ask())}, refresh=False)
        except ConnectError as fault:
            return lost(doing, wanted, fault)

    found: dict[None, T] = yield from each(doing, [None], None, route=lambda _: ANY_NODE, ask=once)
    return found[None]


def _ask(asked: Asked, wanted: list[Any], node: Whom, doing: Doing) -> Flow[Answer[Any, Any]]:
    """Send one request about the keys `wanted` to a node, and return what take() makes of the response."""
    request = asked.request(wanted)
    doing = doing._replace(api=request.NAME)
    try:
        response = yield Call(request, node, min_version=asked.min_version, max_version=asked.max_version)
    except ConnectError as fault:
        doing.attempts.answers_lost += isinstance(fault, DisconnectError)
        return lost(doing, wanted, fault)
    said = asked.outcomes(response)
    answer: Answer[Any, Any] = Answer(refresh=False)
    for thing in wanted:
        if thing in said:
            outcome = said[thing]
            message = EXISTENCE.get(outcome.error_code, outcome.message)
            message = after_lost_answers(doing.attempts, outcome.error_code, asked.done_already, message)
            take(doing, answer, thing, outcome.error_code, outcome.value, message)
    return answer
