"""Admin calls about groups and transactional ids, which have to be sent to each one's coordinator."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

from levada.admin.per_key import Doing, each, lost, take
from levada.base.flow import ANY_NODE, Flow
from levada.client.network.connection_key import ConnectionKey
from levada.client.requests.coordinator_finder import CoordinatorFinder, CoordinatorKind
from levada.client.requests.fan_out import Answer, Spawn, Whom
from levada.client.requests.retry import Reaction, RetryPolicy
from levada.error_codes import ErrorCode
from levada.errors import ConnectError, KafkaError

V = TypeVar("V")

ON_GROUP_ERROR = RetryPolicy(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
        ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction.REFIND,
        ErrorCode.NOT_COORDINATOR: Reaction.REFIND,
    }
)

AskCoordinator = Callable[[ConnectionKey, list[str]], Flow[Answer[str, V]]]


def each_at_its_coordinator(
    doing: Doing,
    keys: Collection[str],
    finder: CoordinatorFinder,
    spawn: Spawn,
    ask: AskCoordinator[V],
    *,
    kind: CoordinatorKind = CoordinatorKind.GROUP,
) -> Flow[dict[str, V]]:
    """Ask all coordinators of some groups or transactional ids, at the same time. Return the value for each key.

    keys: the groups or ids. kind: whether they are groups or transactional ids. ask: sends one request to one coordinator. Before a
    request about a key is repeated, the coordinator of the key is looked up again.
    """
    coordinators: dict[str, ConnectionKey] = {}

    def ask_one(whom: Whom, wanted: list[str]) -> Flow[Answer[str, V]]:
        if not isinstance(whom, ConnectionKey):
            return (yield from _find(finder, kind, wanted, coordinators))
        try:
            answer = yield from ask(whom, wanted)
        except ConnectError as fault:
            answer = lost(doing, wanted, fault)
        for key in answer.again:
            coordinators.pop(key, None)
        return answer

    return each(doing, keys, spawn, route=lambda key: coordinators.get(key, ANY_NODE), ask=ask_one)


def _find(
    finder: CoordinatorFinder, kind: CoordinatorKind, keys: list[str], coordinators: dict[str, ConnectionKey]
) -> Flow[Answer[str, Any]]:
    answer: Answer[str, Any] = Answer()
    for key, found in (yield from finder.find_all(kind, keys)).items():
        if isinstance(found, KafkaError):
            answer.errors[key] = found
        else:
            coordinators[key] = found
            answer.located.append(key)
    return answer


def take_group(
    doing: Doing, finder: CoordinatorFinder, answer: Answer[str, V], group: str, code: int, value: V, message: str | None = None
) -> None:
    """Add a coordinator's result about one group to the answer. If the error code requires it, the coordinator is looked up again.

    code: the error code. value: the result if there is no error. message: the broker's error text.
    """
    if take(doing, answer, group, code, value, message) is Reaction.REFIND:
        finder.forget(CoordinatorKind.GROUP, group)
