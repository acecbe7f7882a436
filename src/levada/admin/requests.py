"""Administrative requests that name many things and go to one node: the controller, any node, or for each thing the node that it names.

What the answer says of each thing is an outcome of its own: `carry_out` retries those that may yet succeed, and raises the first error once
nothing is left to try.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, TypeVar

from levada.admin.each import ON_ADMIN_ERROR, Attempts, Doing, after_lost_answers, each, lost, take
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
"""What is said instead of the brokers' own words, which speak of partitions that a server hosts, or name the topic again."""


class Outcome(NamedTuple):
    """What a broker said about one thing: an error, or a value."""

    error_code: int
    message: str | None = None
    value: Any = None


class Asked(NamedTuple):
    """One kind of request.

    name: what is asked for one thing, in an error's words. request: asks for some things at once. outcomes: reads an answer, which need not
    have all of them. done_already: the error that may mean that an attempt before, whose answer was lost, has done it. min_version: below
    which the request does not say what is meant.
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
    """Ask for all things, then again for those that may yet succeed; return the value of each.

    route: who is asked about a thing; None is the controller as metadata names it. spawn: has several nodes asked at once.
    """
    doing = Doing(asked.name, asked.policy, attempts)

    def ask(node: Whom, wanted: list[Any]) -> Flow[Answer[Any, Any]]:
        return _ask(asked, wanted, node, doing)

    return each(doing, things, spawn, route=route or (lambda thing: attempts.controller()), ask=ask)


def of_all(asked: Asked, attempts: Attempts, *, route: Callable[[Any], Whom] | None = None) -> Flow[Any]:
    """Carry out a request that is about one thing; return its value."""
    found = yield from carry_out(asked, [None], attempts, route=route)
    return found[None]


def from_any(what: str, attempts: Attempts, ask: Callable[[], Flow[T]]) -> Flow[T]:
    """Ask any node, and again where its connection is lost. ask: asks once, in as many requests as it takes. what: in an error's words."""
    doing = Doing(lambda _: what, ON_ADMIN_ERROR, attempts, "")

    def once(_: Whom, wanted: list[None]) -> Flow[Answer[None, T]]:
        try:
            return Answer(found={None: (yield from ask())}, refresh=False)
        except ConnectError as fault:
            return lost(doing, wanted, fault)

    found: dict[None, T] = yield from each(doing, [None], None, route=lambda _: ANY_NODE, ask=once)
    return found[None]


def _ask(asked: Asked, wanted: list[Any], node: Whom, doing: Doing) -> Flow[Answer[Any, Any]]:
    """Ask once."""
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
