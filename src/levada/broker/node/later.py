"""Answering a request when what it waits for has happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from levada.base.promise import Promise
from levada.broker.node.state import Answer
from levada.errors import BrokerError
from levada.protocol.schema import Response

R = TypeVar("R", bound=Response)


def answer_later(ask: Callable[[], Promise[R]], refuse: Callable[[BrokerError], Response]) -> Answer:
    """Return the answer of `ask`, and what `refuse` makes of a BrokerError that it raises or that its promise is rejected with."""
    try:
        asked = ask()
    except BrokerError as error:
        return refuse(error)
    answer: Promise[Response] = Promise()

    def settle(settled: Promise[R]) -> None:
        answer.resolve(refuse(settled.error) if isinstance(settled.error, BrokerError) else settled.result())

    asked.on_done(settle)
    return answer
