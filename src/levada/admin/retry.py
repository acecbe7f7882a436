"""How an administrative conversation goes on after trouble (behaviour X1, X2).

Requests that change a cluster go to the controller as metadata names it. In today's clusters any broker passes them on, so where no
controller is known any broker will do.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from levada.client.backoff import ExponentialBackoff
from levada.client.metadata import Metadata
from levada.error_codes import ErrorCode
from levada.flow import ANY_NODE, Call, Flow, Sleep, Wait
from levada.protocol.schema import Request


class OnError(Enum):
    """What to do about one subject's error code."""

    NEW_CONTROLLER = "learn who the controller is, and ask it"
    RETRY = "ask again a little later"
    RAISE = "the caller must see it"


ON_ADMIN_ERROR: Mapping[ErrorCode, OnError] = {
    ErrorCode.NOT_CONTROLLER: OnError.NEW_CONTROLLER,
    ErrorCode.NETWORK_EXCEPTION: OnError.NEW_CONTROLLER,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: OnError.RETRY,
    ErrorCode.LEADER_NOT_AVAILABLE: OnError.RETRY,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: OnError.RETRY,
}
"""Codes that are not listed are raised: for an administrator, a topic that does not exist is an answer, not a passing trouble."""


class Attempts:
    """Asks the controller, again where that may help. retries: how often at most."""

    def __init__(self, metadata: Metadata, backoff: ExponentialBackoff, retries: int) -> None:
        self._metadata = metadata
        self._backoff = backoff
        self._left = retries
        self._made = 0
        self.answers_lost = 0
        """Requests that were sent and never answered: the cluster may have done what they asked for."""

    def ask_controller(self, request: Request, *, min_version: int, max_version: int) -> Flow[Any]:
        """Send a request to the controller and return the response."""
        controller = self._metadata.snapshot.controller
        node = ANY_NODE if controller is None else controller.id
        return (yield Call(request, node=node, min_version=min_version, max_version=max_version))

    def may_go_on(self) -> bool:
        """Take one retry from the allowance; False when there is none left."""
        self._left -= 1
        return self._left >= 0

    def pause(self, *, learn: bool) -> Flow[None]:
        """Let some time pass; with `learn`, until there is fresh metadata too."""
        version = self._metadata.request_update() if learn else 0
        yield Sleep(self._backoff.delay_ms(self._made))
        self._made += 1
        if learn:
            yield Wait(self._metadata.await_update(version))
