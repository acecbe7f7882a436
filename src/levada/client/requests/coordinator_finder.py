"""Finds coordinators: the broker that coordinates a group, a transactional id or a share partition (FindCoordinator).

A coordinator is remembered until the connection to it is lost, or until a caller forgets it, for example because it answers that it is not
the coordinator (any more). Callers that look for the same key share one look-up. Keys that are wanted while a look-up is in flight are
asked for together in the next one (since version 4; older brokers are asked for one key at a time). A look-up that fails with a retriable
error is repeated with back-off as long as a caller waits for it.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from typing import NamedTuple

from levada.acls import ResourceType
from levada.base.clock import ExponentialBackoff, Now
from levada.base.flow import ANY_NODE, Call, Flow, Sleep, Wait, WaitAny
from levada.base.permissions import refused
from levada.base.promise import Promise
from levada.client.network.connection_key import ConnectionKey, Purpose
from levada.client.network.network_client import NetworkClient
from levada.client.requests.flow_runner import FlowRunner
from levada.error_codes import ErrorCode
from levada.errors import KafkaError, UnsupportedVersionError
from levada.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from levada.types import Node


class CoordinatorKind(IntEnum):
    """The types of coordinator keys, with their numbers in FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


FIRST_BATCHED_VERSION = 4
_FIRST_VERSION_WITH = {CoordinatorKind.GROUP: 0, CoordinatorKind.TRANSACTION: 1, CoordinatorKind.SHARE: 6}

_PROTECTED_AS = {
    CoordinatorKind.GROUP: ResourceType.GROUP,
    CoordinatorKind.TRANSACTION: ResourceType.TRANSACTIONAL_ID,
    CoordinatorKind.SHARE: ResourceType.CLUSTER,
}

FORGET_ON = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""Error codes of a node that is not the coordinator, or not yet: it has to be looked up again."""


class _Known(NamedTuple):
    key: ConnectionKey
    losses: int


class CoordinatorFinder:
    """Finds coordinators for one client, and remembers them."""

    def __init__(self, network: NetworkClient, flows: FlowRunner, now: Now, backoff: ExponentialBackoff) -> None:
        self._network = network
        self._flows = flows
        self._now = now
        self._backoff = backoff
        self._known: dict[tuple[CoordinatorKind, str], _Known] = {}
        self._wanted: dict[CoordinatorKind, dict[str, Promise[ConnectionKey]]] = {kind: {} for kind in CoordinatorKind}
        self._under_way: set[CoordinatorKind] = set()

    def find(self, kind: CoordinatorKind, key: str) -> Flow[ConnectionKey]:
        """Return the connection to a coordinator. Raises the error of the look-up, such as GROUP_AUTHORIZATION_FAILED."""
        known = self._connection(kind, key)
        if known is not None:
            return known
        found: ConnectionKey = yield Wait(self._look_for(kind, key))
        return found

    def find_all(self, kind: CoordinatorKind, keys: Collection[str]) -> Flow[dict[str, ConnectionKey | KafkaError]]:
        """Return the connections to the coordinators of several groups or transactional ids, by key. They are looked up together.

        If a look-up was refused, its value is the error.
        """
        found: dict[str, ConnectionKey | KafkaError] = {}
        promises = {}
        for key in keys:
            known = self._connection(kind, key)
            if known is None:
                promises[key] = self._look_for(kind, key)
            else:
                found[key] = known
        while pending := [promise for promise in promises.values() if not promise.done]:
            yield WaitAny(pending)
        return found | {key: _outcome(promise) for key, promise in promises.items()}

    def knows(self, kind: CoordinatorKind, key: str) -> bool:
        """Whether a coordinator was found, and since then was not forgotten, and its connection was not lost."""
        return self._connection(kind, key) is not None

    def forget(self, kind: CoordinatorKind, key: str) -> None:
        """Forget a coordinator: it may have moved, or cannot be reached. The next request looks it up again."""
        self._known.pop((kind, key), None)

    def answered(self, kind: CoordinatorKind, key: str, error_code: int) -> bool:
        """Forget a coordinator if the error code of its response is one of FORGET_ON. Return whether it has to be looked up again.

        key: the group or transactional id.
        """
        if error_code not in FORGET_ON:
            return False
        self.forget(kind, key)
        return True

    def _connection(self, kind: CoordinatorKind, key: str) -> ConnectionKey | None:
        """Return the connection to a coordinator that was found; None if none was found, or if the connection was lost since."""
        known = self._known.get((kind, key))
        if known is not None and self._network.knows(known.key) and self._network.losses(known.key) == known.losses:
            return known.key
        return None

    def _look_for(self, kind: CoordinatorKind, key: str) -> Promise[ConnectionKey]:
        promise = self._wanted[kind].setdefault(key, Promise())
        if kind not in self._under_way:
            self._under_way.add(kind)
            self._flows.start(self._look_up(kind), self._now.ms, describe="FindCoordinator")
        return promise

    def _look_up(self, kind: CoordinatorKind) -> Flow[None]:
        attempts = 0
        try:
            while wanted := self._awaited(kind):
                for answer in (yield from self._ask(kind, wanted)):
                    self._take(kind, answer)
                if self._wanted[kind].keys().isdisjoint(wanted):
                    attempts = 0
                else:
                    yield Sleep(self._backoff.delay_ms(attempts))
                    attempts += 1
        except KafkaError as error:
            self._reject(kind, error)
        finally:
            self._under_way.discard(kind)

    def _awaited(self, kind: CoordinatorKind) -> list[str]:
        """Drop the keys that no caller waits for any more; return the other keys."""
        wanted = self._wanted[kind] = {key: promise for key, promise in self._wanted[kind].items() if promise.is_awaited}
        return list(wanted)

    def _ask(self, kind: CoordinatorKind, keys: Collection[str]) -> Flow[list[Coordinator]]:
        """Send FindCoordinator to any broker. Return an empty list after a retriable failure; raise any other error."""
        first_version = max(_FIRST_VERSION_WITH[kind], FIRST_BATCHED_VERSION)
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
        try:
            reply: FindCoordinatorResponse = yield Call(request, self._whom(), min_version=first_version)
            return reply.coordinators
        except UnsupportedVersionError:
            if _FIRST_VERSION_WITH[kind] >= FIRST_BATCHED_VERSION:
                raise
            return (yield from self._ask_one_by_one(kind, keys))
        except KafkaError as error:
            if not error.retriable:
                raise
            return []

    def _ask_one_by_one(self, kind: CoordinatorKind, keys: Collection[str]) -> Flow[list[Coordinator]]:
        found: list[Coordinator] = []
        for key in keys:
            request = FindCoordinatorRequest(key=key, key_type=kind)
            try:
                reply: FindCoordinatorResponse = yield Call(
                    request, self._whom(), min_version=_FIRST_VERSION_WITH[kind], max_version=FIRST_BATCHED_VERSION - 1
                )
            except KafkaError as error:
                if not error.retriable:
                    raise
                return found
            answer = Coordinator(key=key, node_id=reply.node_id, host=reply.host, port=reply.port)
            answer.error_code, answer.error_message = reply.error_code, reply.error_message
            found.append(answer)
        return found

    def _whom(self) -> ConnectionKey | None:
        """Return the node to ask. Any node will do, but the request must not wait behind a Fetch: a busy node is asked over another
        connection.

        Bootstrap addresses have no fetches, and are no longer nodes once metadata has come. A second connection to one would be closed
        then.
        """
        node = self._network.least_loaded_node(self._now.ms)
        if node is None or node.id < 0 or not self._network.in_flight_count(node.id):
            return ANY_NODE
        return ConnectionKey(node.id, Purpose.COORDINATOR)

    def _take(self, kind: CoordinatorKind, answer: Coordinator) -> None:
        """Handle the result for one key. If the look-up has to be repeated, the key stays in the list."""
        code = ErrorCode.of(answer.error_code)
        if code and (code in FORGET_ON or code.retriable):
            return
        promise = self._wanted[kind].pop(answer.key, None)
        if promise is None:
            return
        if code:
            text = f"coordinator of {kind.name.lower()} {answer.key!r}: {answer.error_message or code.name}"
            promise.reject(refused(FindCoordinatorRequest.NAME, answer.error_code, text, {_PROTECTED_AS[kind]: answer.key}))
            return
        key = ConnectionKey(answer.node_id, Purpose.COORDINATOR)
        self._network.learn_endpoint(key, Node(answer.node_id, answer.host, answer.port))
        self._known[kind, answer.key] = _Known(key, self._network.losses(key))
        promise.resolve(key)

    def _reject(self, kind: CoordinatorKind, error: KafkaError) -> None:
        wanted, self._wanted[kind] = self._wanted[kind], {}
        for promise in wanted.values():
            promise.reject(error)


def _outcome(promise: Promise[ConnectionKey]) -> ConnectionKey | KafkaError:
    try:
        return promise.result()
    except KafkaError as error:
        return error
