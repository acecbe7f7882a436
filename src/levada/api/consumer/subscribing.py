"""The membership of a KafkaConsumer in its group: subscribe(), unsubscribe(), enforce_rebalance() and listeners, in both APIs."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from levada.api.arguments import topic_names
from levada.base.flow import CallerFlow, Until
from levada.base.promise import Promise
from levada.client.driver_interface import Host
from levada.consumer.consumer_flows import ConsumerFlows
from levada.consumer.core import ConsumerCore
from levada.consumer.group.listener_calls import Caller, Listener
from levada.consumer.group.membership import Membership, Subscribed
from levada.errors import IllegalStateError
from levada.groups import RebalanceListener, SubscriptionPattern
from levada.types import TopicPartition

Pattern: TypeAlias = str | re.Pattern[str] | SubscriptionPattern
OnRebalance: TypeAlias = Callable[[list[TopicPartition]], Awaitable[None] | None]

FIND_MS = 500
"""How long close() looks for the group's coordinator, so that the group need not wait for session.timeout.ms if it has just moved."""


class Subscribing:
    """The subscription and group membership of one consumer.

    caller: runs the listener and other functions of the program during a rebalance. The engine refers neither to `caller` nor to the
    listener.
    """

    def __init__(self, core: ConsumerCore, reading: ConsumerFlows, host: Host) -> None:
        self._core = core
        self._reading = reading
        self._host = host
        self.caller = Caller(host, core.commits.begin_last, self._within)

    def _within(self, is_within: bool) -> None:
        if self._core.member is not None:
            (self._core.member.entered if is_within else self._core.member.returned)(self._host.now_ms())

    def subscribe(self, subscribed: Subscribed, listener: Listener | None) -> None:
        """Subscribe to topics or to a pattern: the group assigns their partitions. listener: None for no listener."""

        def begin(core: ConsumerCore, now_ms: int) -> None:
            core.subscribe(subscribed, now_ms)
            # In here: a signal's handler may raise as soon as change() is over.
            self.caller.listener = listener

        self._reading.change(begin)

    def subscription(self) -> set[str]:
        """Return the topics that are subscribed to, or match the pattern."""
        return set(self._reading.look(lambda core: core.member.topics if core.member is not None else ()))

    def enforce_rebalance(self, reason: str) -> None:
        """Request a rebalance of the group. reason: a text for the coordinator's log."""
        self._reading.change(lambda core, _: self._subscribed_member(core).enforce_rebalance(reason))

    def _subscribed_member(self, core: ConsumerCore) -> Membership:
        if core.member is None or not core.is_subscribed:
            raise IllegalStateError("the consumer is not subscribed; subscribe() makes it a member of its group")
        return core.member

    def unsubscribe(self) -> CallerFlow[None]:
        """Commit, revoke all partitions and leave the group, without waiting for the coordinator's answer. Without a subscription, clear
        the assignment.
        """
        if not self._reading.look(lambda core: core.is_subscribed):
            self._reading.change(lambda core, now_ms: core.assign((), {}, now_ms))
            return
        commit_ms = self._host.now_ms() + self._reading.default_api_timeout_ms
        try:
            yield from self.caller.commit(commit_ms)
        finally:
            # If this is interrupted, the consumer reads on, and needs another commit for what it reads then.
            self.caller.forget_commit()
        try:
            yield from self._give_up()
        finally:
            self._begin_leave("the consumer has unsubscribed", tells=None)

    def leave_at_close(self, deadline_ms: int, tells: bool | None) -> CallerFlow[None]:
        """Revoke all partitions, and wait until the coordinator has answered the request to leave the group. Raises the errors of a
        listener.

        deadline_ms: when to stop waiting. A coordinator that is not known is looked for at most for FIND_MS: it is probably not there, and
        Java's consumer does not look for it at all. tells: see Membership.leave().
        """
        if not self._reading.look(lambda core: core.is_subscribed):
            return
        failed: Exception | None = None
        try:
            yield from self._give_up()
        except Exception as error:
            failed = error
        finally:
            left = self._begin_leave("the consumer was closed", tells=tells)
        knows = self._reading.look(lambda core: core.knows_coordinator)
        yield Until(left, deadline_ms if knows else min(deadline_ms, self._host.now_ms() + FIND_MS))
        if failed is not None:
            raise failed

    def _give_up(self) -> CallerFlow[None]:
        member = self._reading.look(self._subscribed_member)
        yield from member.give_up(self.caller)

    def _begin_leave(self, reason: str, *, tells: bool | None) -> Promise[None]:
        return self._host.change(lambda now_ms: self._core.begin_leave(reason, now_ms, tells=tells))

    def check_not_telling(self) -> None:
        """Raise IllegalStateError if a rebalance listener is running: the assignment is being changed."""
        if self.caller.is_in_listener:
            raise IllegalStateError("a RebalanceListener may not ask for records; poll() after it has returned")


def subscribed_to(topics: Iterable[str] | None, pattern: Pattern | None) -> Subscribed:
    """Return the subscription for the arguments of subscribe(), of which exactly one must be given. Raises TypeError and ValueError."""
    if (topics is None) == (pattern is None):
        raise TypeError("subscribe() takes a list of topics, or pattern=, a regular expression for whole names")
    if topics is not None:
        names = frozenset(topic_names(topics))
        if not names:
            raise ValueError("subscribe() takes one topic at least; unsubscribe() ends a subscription")
        if any(not name.strip() for name in names):
            raise ValueError("a topic's name is not empty")
        return Subscribed(names)
    if isinstance(pattern, SubscriptionPattern):
        if not isinstance(pattern.pattern, str) or not pattern.pattern:
            raise ValueError(f"a SubscriptionPattern is made with a regular expression for whole names; got {pattern!r}")
        return Subscribed(broker_pattern=pattern.pattern)
    if not isinstance(pattern, str | re.Pattern) or not isinstance(getattr(pattern, "pattern", pattern), str):
        raise TypeError(f"a pattern is a str, or what re.compile() returns for one; got {pattern!r}")
    try:
        return Subscribed(pattern=re.compile(pattern))
    except re.error as fault:
        raise ValueError(f"pattern {pattern!r} is no regular expression: {fault}") from None


def listener_of(
    listener: RebalanceListener | None, on_assigned: OnRebalance | None, on_revoked: OnRebalance | None, on_lost: OnRebalance | None
) -> Listener | None:
    """Return the listener for rebalances. Without on_lost, lost partitions go to on_revoked.

    Return None if neither a listener nor a function is given.
    """
    functions = {"on_assigned": on_assigned, "on_revoked": on_revoked, "on_lost": on_lost}
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise TypeError(f"{name} is called with a list of TopicPartition, got {function!r}")
    if listener is not None:
        if not isinstance(listener, RebalanceListener):
            raise TypeError(f"a listener is an object of a class derived from levada.RebalanceListener, got {listener!r}")
        if any(functions.values()):
            raise TypeError("give a listener, or on_assigned, on_revoked and on_lost, not both")
        return Listener(listener.on_partitions_assigned, listener.on_partitions_revoked, listener.on_partitions_lost)
    if not any(functions.values()):
        return None
    revoked = on_revoked or _nothing
    return Listener(on_assigned or _nothing, revoked, on_lost or revoked)


def _nothing(partitions: list[TopicPartition]) -> None:
    """A listener that does nothing."""
