"""What a member of a classic group does in its program's thread or task: revoke partitions before it joins, and take its new assignment.

These are onJoinPrepare() and onJoinComplete() of Java's ConsumerCoordinator. The work may be interrupted wherever it waits: by the end of
the call's time, by Ctrl-C or by a cancelled task. The next call continues it. A listener is called once, even if it raises. An error from a
listener that is called before the join is raised at once. One from a listener that is called after it, for revoked or new partitions, is
raised when the assignment is complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from levada.base.flow import CallerFlow, CallUser
from levada.consumer.group.assignors import common_protocol
from levada.consumer.group.joining import Received
from levada.consumer.group.listener_calls import Caller, PendingWork
from levada.consumer.group.membership import Holdings
from levada.consumer.group.requests import Generation
from levada.groups import PartitionAssignor, RebalanceProtocol
from levada.types import TopicPartition


class Rebalanced(Protocol):
    """The part of a member that the program's thread or task reads and changes, under the engine's lock."""

    is_prepared: bool
    """Whether the program has revoked the partitions that it must revoke before the next join."""

    @property
    def generation(self) -> Generation:
        """The generation that the coordinator has given; with the number -1 if it has given none, or if the member has lost it."""
        ...

    @property
    def topics(self) -> frozenset[str]:
        """The topics that are subscribed to by name, or that match the pattern."""
        ...

    @property
    def received(self) -> Received | None:
        """An assignment that the program has not taken yet. None if there is none."""
        ...

    @property
    def has_generation(self) -> bool:
        """Whether the member has a generation that it does not know to be lost."""
        ...

    @property
    def may_commit(self) -> bool:
        """Whether the coordinator would accept a commit now."""
        ...

    @property
    def holds_partitions(self) -> bool:
        """Whether the program has partitions that it has not revoked."""
        ...

    @property
    def has_pending_work(self) -> bool:
        """Whether the member has work that poll() must do before it returns records."""
        ...

    def take_error(self) -> BaseException | None:
        """Return the error because of which the member cannot be in its group; None without one. Only a fatal one is returned again."""
        ...

    def begin_join(self, user_data: Mapping[str, bytes | None]) -> None:
        """Let the engine send JoinGroup. user_data: the user data in this member's subscription, by the name of the assignor."""
        ...

    def rejoin(self, reason: str) -> None:
        """Request that the next poll() joins again, after the program has revoked the partitions that it must revoke.

        reason: a text for the coordinator, in JoinGroup (KIP-800). Of several reasons before a join, the first one is sent.
        """
        ...

    def checked_assignment(self) -> Received | None:
        """Return the received assignment; None without one.

        If it has a topic that is not subscribed to any more, drop it, request another rebalance, and return None.
        """
        ...

    def adopt(self, now_ms: int) -> None:
        """Make the received assignment the program's assignment."""
        ...


class ClassicRebalance:
    """The pending work of a ClassicMember, run by poll()."""

    def __init__(self, member: Rebalanced, assignors: Sequence[PartitionAssignor], holdings: Holdings) -> None:
        self._member = member
        self._assignors = assignors
        self._protocol = common_protocol(assignors)
        self._holdings = holdings

    def run(self, caller: Caller, deadline_ms: int) -> CallerFlow[bool]:
        """Do the pending work, one step after the other. Return False if work is left, as Membership.do_pending_work() does."""
        return caller.do_all(self._next, deadline_ms)

    def _next(self, caller: Caller) -> PendingWork | None:
        member = self._member
        with caller.host.lock:
            if not member.has_pending_work:
                return None
            if member.received is not None:
                return self._take
            return self._join if member.is_prepared else self._prepare

    # Giving up

    def _prepare(self, caller: Caller, deadline_ms: int) -> CallerFlow[bool]:
        """Auto-commit, and revoke the partitions that have to be revoked before a join (onJoinPrepare in Java).

        Return False if _settle() is not done yet. Raises the errors of the listener.
        """
        with caller.host.lock:
            given_up = self._holdings.held() - self._kept()
        if not (yield from self._settle(caller, given_up, deadline_ms)):
            return False
        with caller.host.lock:
            kept = self._kept()
        yield from self._give_up(caller, kept)
        return True

    def _kept(self) -> frozenset[TopicPartition]:
        """Return the partitions that stay assigned during a rebalance: none without a generation or with an eager assignor, else those of
        subscribed topics.
        """
        member = self._member
        if not member.has_generation or self._protocol is RebalanceProtocol.EAGER:
            return frozenset()
        return frozenset(tp for tp in self._holdings.held() if tp.topic in member.topics)

    def give_up_all(self, caller: Caller) -> CallerFlow[None]:
        """Revoke all partitions before unsubscribe() or close(). If the member may not commit, the listener hears that they are lost."""
        return self._give_up(caller, frozenset())

    def _give_up(self, caller: Caller, kept: frozenset[TopicPartition]) -> CallerFlow[None]:
        with caller.host.lock:
            given_up = self._holdings.held() - kept
            # No commit is possible for them, because the member is not in the group or the group is rebalancing.
            is_lost = not self._member.may_commit
        try:
            if given_up:
                yield from caller.call_revoked_or_lost(given_up, is_lost=is_lost)
        finally:
            with caller.host.lock:
                # The listener may have called unsubscribe().
                self._holdings.assign(self._holdings.held() & kept, caller.host.now_ms())
                self._member.is_prepared = True

    def _join(self, caller: Caller, deadline_ms: int) -> CallerFlow[bool]:
        """Let the engine begin to join the group, with the user data of the assignors; do not wait for the result.

        Raises the error of the last attempt instead, if there is one.
        """
        member = self._member
        user_data = {}
        for assignor in self._assignors:
            user_data[assignor.NAME] = yield CallUser(partial(assignor.user_data, member.topics), "user_data")
        with caller.host.lock:
            error = member.take_error()
            if error is None and member.has_pending_work and member.is_prepared:
                member.begin_join(user_data)
        if error is not None:
            raise error
        caller.host.due_now()
        return True

    # Taking

    def _take(self, caller: Caller, deadline_ms: int) -> CallerFlow[bool]:
        """Take the assignment of the leader (onJoinComplete in Java).

        A cooperative member first revokes the partitions that move to other members, and then requests to join again. Return False if
        _settle() is not done yet.
        """
        member = self._member
        with caller.host.lock:
            received = member.checked_assignment()
            revoked = frozenset[TopicPartition]()
            if received is not None:
                revoked = self._holdings.held() - set(received.assignment.partitions)
        if received is None:
            return True
        failed: list[BaseException] = []
        if revoked:
            if not (yield from self._settle(caller, revoked, deadline_ms)):
                return False
            yield from self._hand_over(caller, revoked, failed)
        yield from self._adopt(caller, received, failed)
        if failed:
            raise failed[0]
        return True

    def _hand_over(self, caller: Caller, revoked: frozenset[TopicPartition], failed: list[BaseException]) -> CallerFlow[None]:
        member = self._member
        try:
            yield from caller.call_revoked_or_lost(revoked, is_lost=not member.has_generation)
        except Exception as error:
            failed.append(error)
        finally:
            with caller.host.lock:
                self._holdings.assign(self._holdings.held() - revoked, caller.host.now_ms())
                member.rejoin("the member has given up partitions that others wait for")

    def _adopt(self, caller: Caller, received: Received, failed: list[BaseException]) -> CallerFlow[None]:
        member = self._member
        wanted = received.assignment.partitions
        with caller.host.lock:
            if member.received is not received:
                # The membership was lost while a listener was running.
                return
            added = set(wanted) - self._holdings.held()
            member.adopt(caller.host.now_ms())
            generation = member.generation.number
        try:
            yield from caller.call(lambda: received.assignor.on_assignment(received.assignment, generation), "on_assignment")
        except GeneratorExit:
            raise
        except BaseException as error:
            # Ctrl-C is raised after the listener was called, too: the partitions are assigned already.
            failed.append(error)
        try:
            yield from caller.call_assigned(added)
        except Exception as error:
            failed.append(error)

    # Steps

    def _settle(self, caller: Caller, given_up: frozenset[TopicPartition], deadline_ms: int) -> CallerFlow[bool]:
        """Before these partitions are revoked: finish their records and commit, see Caller.settle(). Return False if that is not done yet.

        Nothing is committed if the member may not commit.
        """
        with caller.host.lock:
            is_needed = self._member.holds_partitions and self._member.may_commit
        if not is_needed:
            caller.forget_commit()
            return True
        return (yield from caller.settle(given_up, deadline_ms))
