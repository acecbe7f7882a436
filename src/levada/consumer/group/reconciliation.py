"""What a member of a consumer group does in its program's thread or task: revoke partitions, take new ones, and join.

This is maybeReconcile() of Java's ConsumerMembershipManager. The work may be interrupted wherever it waits: by the end of the call's time,
by Ctrl-C or by a cancelled task. The next call continues it. A listener is called once, even if it raises. Its error is raised when
the target assignment is taken, or at once if all partitions are given up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol
from uuid import UUID

from levada.base.flow import CallerFlow
from levada.consumer.group.listener_calls import Caller, PendingWork
from levada.consumer.group.membership import Holdings
from levada.errors import KafkaError
from levada.types import TopicPartition


class Reconciled(Protocol):
    """The part of a member that the program's thread or task reads and changes, under the engine's lock."""

    @property
    def is_member(self) -> bool:
        """Whether the member has an epoch that it does not know to be lost."""
        ...

    @property
    def has_lost(self) -> bool:
        """Whether the program still has partitions that the member has lost."""
        ...

    @property
    def wants_to_join(self) -> bool:
        """Whether poll() has to begin to join."""
        ...

    @property
    def taking(self) -> Mapping[TopicPartition, UUID] | None:
        """The assignment that the program is reconciling. None if it reconciles nothing."""
        ...

    @property
    def error(self) -> KafkaError | None:
        """The error that the next poll() raises. None if there is none."""
        ...

    def take_error(self) -> KafkaError | None:
        """Return the error to raise; None if there is none. Only the error of a permanent refusal is returned again."""
        ...

    def begin_join(self, now_ms: int) -> None:
        """Send the first heartbeat. Before that, the program must have given up all partitions."""
        ...

    def begin_taking(self) -> Mapping[TopicPartition, UUID] | None:
        """Begin to reconcile; return the assignment that the program is to have afterwards. None if there is no such assignment."""
        ...

    def finish_taking(self, now_ms: int) -> None:
        """Make the reconciled assignment the current one, and report it with a heartbeat at once."""
        ...

    def prepare_leave(self) -> None:
        """Note that the program is about to revoke its partitions and to leave."""
        ...


class Reconciliation:
    """The pending work of a ConsumerGroupMember, run by poll()."""

    def __init__(self, member: Reconciled, holdings: Holdings) -> None:
        self._member = member
        self._holdings = holdings

    def run(self, caller: Caller, deadline_ms: int) -> CallerFlow[bool]:
        """Do the pending work, one step after the other. Return False if work is left, as Membership.do_pending_work() does."""
        return caller.do_all(self._next, deadline_ms)

    def _next(self, caller: Caller) -> PendingWork | None:
        member = self._member
        with caller.host.lock:
            if member.has_lost:
                return self._lose
            if member.error is not None:
                return self._raise
            if member.taking is not None:
                return self._take
            return self._join if member.wants_to_join else None

    # Giving up

    def _lose(self, caller: Caller, deadline_ms: int) -> CallerFlow[bool]:
        """Tell the listener that partitions are lost, because other members may own them already, and remove them."""
        caller.forget_commit()
        yield from self._give_up_all(caller)
        return True

    def give_up_for_good(self, caller: Caller) -> CallerFlow[None]:
        """Revoke all partitions, because the member is about to leave."""
        with caller.host.lock:
            self._member.prepare_leave()
        yield from self._give_up_all(caller)

    def _give_up_all(self, caller: Caller) -> CallerFlow[None]:
        member = self._member
        with caller.host.lock:
            held, is_lost = self._holdings.held(), not member.is_member
        try:
            if held:
                yield from caller.call_revoked_or_lost(held, is_lost=is_lost)
        finally:
            with caller.host.lock:
                self._holdings.assign((), caller.host.now_ms())

    def _raise(self, caller: Caller, deadline_ms: int) -> CallerFlow[bool]:
        with caller.host.lock:
            error = self._member.take_error()
        if error is not None:
            raise error
        return True
        yield  # makes it a flow

    def _join(self, caller: Caller, deadline_ms: int) -> CallerFlow[bool]:
        member = self._member
        with caller.host.lock:
            if member.wants_to_join:
                member.begin_join(caller.host.now_ms())
        caller.host.due_now()
        return True
        yield  # makes it a flow

    # Taking

    def _take(self, caller: Caller, deadline_ms: int) -> CallerFlow[bool]:
        """Auto-commit and revoke the partitions that are not in the target assignment, and take the new ones.

        Return False if Caller.settle() is not done yet.
        """
        member = self._member
        with caller.host.lock:
            taking = member.begin_taking()
            revoked = frozenset[TopicPartition]() if taking is None else self._holdings.held() - taking.keys()
        if taking is None:
            return True
        failed: list[Exception] = []
        if revoked:
            if not (yield from caller.settle(revoked, deadline_ms)):
                return False
            yield from self._revoke(caller, revoked, failed)
        yield from self._adopt(caller, taking, failed)
        caller.host.due_now()
        if failed:
            raise failed[0]
        return True

    def _revoke(self, caller: Caller, revoked: frozenset[TopicPartition], failed: list[Exception]) -> CallerFlow[None]:
        member = self._member
        with caller.host.lock:
            # The membership may have been lost during the commit.
            is_lost = not member.is_member
        try:
            yield from caller.call_revoked_or_lost(revoked, is_lost=is_lost)
        except Exception as error:
            failed.append(error)
        finally:
            with caller.host.lock:
                self._holdings.assign(self._holdings.held() - revoked, caller.host.now_ms())

    def _adopt(self, caller: Caller, taking: Mapping[TopicPartition, UUID], failed: list[Exception]) -> CallerFlow[None]:
        member = self._member
        with caller.host.lock:
            if member.taking is not taking:
                # The membership was lost while a listener was running.
                return
            added = taking.keys() - self._holdings.held()
            member.finish_taking(caller.host.now_ms())
        try:
            yield from caller.call_assigned(added)
        except Exception as error:
            failed.append(error)
