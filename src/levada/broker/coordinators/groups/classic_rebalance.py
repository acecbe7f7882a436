"""Rebalances of classic groups: waiting requests, timeouts and sessions.

A rebalance of an empty group waits group.initial.rebalance.delay.ms for more members, and again whenever a member has joined, up to the
rebalance timeout. Other rebalances wait for all known members, up to the same timeout. A member's session expires when nothing was received
from it for the session timeout; it does not expire while one of its requests waits. Whether a member whose first JoinGroup waits is still
there cannot be known, so that wait has a time limit of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from levada.broker.config.settings import BrokerSettings
from levada.broker.coordinators.groups.classic_group import NO_MEMBER_ID, ClassicGroup, ClassicMember, JoinRefusedError
from levada.broker.coordinators.groups.group_states import Event, State
from levada.broker.node.purgatory import Timers
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.logs import Log

_log = Log("levada.broker")

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000

CAN_REBALANCE = frozenset({State.EMPTY, State.COMPLETING_REBALANCE, State.STABLE})


class Rebalances:
    """Runs the rebalances of a node's classic groups. store: stores the present state of a group; it gets the group and the node's time."""

    def __init__(self, settings: BrokerSettings, timers: Timers, store: Callable[[ClassicGroup, int], None]) -> None:
        self._settings = settings
        self._timers = timers
        self._store = store

    # Rebalances

    def start_or_continue(self, group: ClassicGroup, reason: str, now_ms: int) -> None:
        """Start a rebalance. If members are joining one already, call complete_if_joined() instead."""
        if group.state in CAN_REBALANCE:
            self._prepare(group, reason, now_ms)
        else:
            self.complete_if_joined(group, now_ms)

    def complete_if_joined(self, group: ClassicGroup, now_ms: int) -> None:
        """Complete the join phase of a rebalance if all members have joined. The rebalance of a group that was empty goes on until the
        initial rebalance delay has passed.
        """
        if group.state is State.PREPARING_REBALANCE and group.all_joined and group.before is not State.EMPTY:
            self._complete_join(group, now_ms)

    def take_assignment(self, group: ClassicGroup, assignments: Iterable[tuple[str, bytes]], now_ms: int) -> None:
        """Make the group stable with the assignments that the leader has sent, store it, and answer the waiting SyncGroup requests.

        assignments: pairs of member id and bytes. A member without an entry gets an empty assignment.
        """
        given = dict(assignments)
        for member in group.members.values():
            member.assignment = given.get(member.id, b"")
        group.move(Event.ASSIGN)
        self._store(group, now_ms)
        for member in group.members.values():
            self._answer_sync(group, member, now_ms)

    def synced(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Note that a member has sent SyncGroup in this generation."""
        group.unsynced.discard(member.id)
        if not group.unsynced:
            self._timers.cancel(_sync_key(group))

    def _prepare(self, group: ClassicGroup, reason: str, now_ms: int) -> None:
        _log.debug("group '%s': rebalance after generation %d: %s", group.id, group.generation, reason)
        if group.state is State.COMPLETING_REBALANCE:
            self._cancel_syncs(group, now_ms)
        self._timers.cancel(_sync_key(group))
        is_first = group.state is State.EMPTY
        group.move(Event.PREPARE)
        if is_first:
            delay_ms = self._settings.group_initial_rebalance_delay_ms
            self._wait_for_more(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0), now_ms)
        elif group.all_joined:
            self._complete_join(group, now_ms)
        else:
            self._complete_join_later(group, now_ms)

    def _wait_for_more(self, group: ClassicGroup, delay_ms: int, left_ms: int, now_ms: int) -> None:
        def after_delay(at_ms: int) -> None:
            if not group.member_added or not left_ms:
                self._complete_join(group, at_ms)
                return
            group.member_added = False
            next_delay_ms = min(self._settings.group_initial_rebalance_delay_ms, left_ms)
            self._wait_for_more(group, next_delay_ms, max(left_ms - delay_ms, 0), at_ms)

        self._timers.schedule(_join_key(group), now_ms + delay_ms, after_delay)

    def _complete_join_later(self, group: ClassicGroup, now_ms: int) -> None:
        at_ms = now_ms + group.rebalance_timeout_ms
        self._timers.schedule(_join_key(group), at_ms, lambda late_ms: self._complete_join(group, late_ms))

    def _complete_join(self, group: ClassicGroup, now_ms: int) -> None:
        self._timers.cancel(_join_key(group))
        for member in [member for member in group.members.values() if member.joining is None and member.instance_id is None]:
            self._forget(group, member.id)
        if not group.elect_joined_leader() and group.members:
            # Only static members are left, and none has joined again. They stay until their sessions expire.
            self._complete_join_later(group, now_ms)
            return
        group.begin_generation()
        if group.state is State.EMPTY:
            self._store(group, now_ms)
            return
        for member in group.members.values():
            member.settle_join(group.joined(member))
            member.is_new = False
            self.restart_session(group, member, now_ms)
        generation = group.generation
        at_ms = now_ms + group.rebalance_timeout_ms
        self._timers.schedule(_sync_key(group), at_ms, lambda late_ms: self._end_waiting_for_syncs(group, generation, late_ms))

    def _end_waiting_for_syncs(self, group: ClassicGroup, generation: int, now_ms: int) -> None:
        if group.generation != generation or group.state not in CAN_REBALANCE or not group.unsynced:
            return
        missing = sorted(group.unsynced)
        for member_id in missing:
            self._forget(group, member_id)
        self._prepare(group, f"{', '.join(missing)} did not ask for the assignment in time", now_ms)

    def _cancel_syncs(self, group: ClassicGroup, now_ms: int) -> None:
        for member in group.members.values():
            member.assignment = b""
            if member.syncing is not None:
                member.settle_sync(BrokerError(f"group '{group.id}' is rebalancing", code=ErrorCode.REBALANCE_IN_PROGRESS))
                self.restart_session(group, member, now_ms)

    def _answer_sync(self, group: ClassicGroup, member: ClassicMember, now_ms: int) -> None:
        if member.syncing is not None:
            member.settle_sync(group.synced(member))
            self.restart_session(group, member, now_ms)

    # Sessions

    def restart_session(self, group: ClassicGroup, member: ClassicMember, now_ms: int) -> None:
        """Restart the session timeout of a member. It is NEW_MEMBER_JOIN_TIMEOUT_MS while the member's first JoinGroup request waits."""
        timeout_ms = NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else member.session_timeout_ms
        self._timers.schedule(_session_key(group, member.id), now_ms + timeout_ms, lambda at_ms: self._end_session(group, member, at_ms))

    def expect(self, group: ClassicGroup, member_id: str, session_timeout_ms: int, now_ms: int) -> None:
        """Let rebalances wait for a client that was given this member id, until it joins or its session timeout has passed."""
        group.pending.add(member_id)
        at_ms = now_ms + session_timeout_ms
        self._timers.schedule(_session_key(group, member_id), at_ms, lambda late_ms: self._end_pending(group, member_id, late_ms))

    def remove(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Remove a member from its group. Its waiting requests get UNKNOWN_MEMBER_ID. The caller has to start a rebalance."""
        gone = f"member {member.id!r} is no longer in group '{group.id}'"
        member.settle_join(JoinRefusedError(gone, ErrorCode.UNKNOWN_MEMBER_ID, NO_MEMBER_ID))
        member.settle_sync(BrokerError(gone, code=ErrorCode.UNKNOWN_MEMBER_ID))
        self._forget(group, member.id)

    def replace_static(self, group: ClassicGroup, old: ClassicMember, new_id: str) -> ClassicMember:
        """Replace a static member whose process was restarted; return the new member."""
        self._timers.cancel(_session_key(group, old.id))
        return group.replace_static(old, new_id)

    def forget_pending(self, group: ClassicGroup, member_id: str) -> None:
        """Remove a pending member id, or the member with this id, so that rebalances do not wait for it any more."""
        self._forget(group, member_id)

    def _end_session(self, group: ClassicGroup, member: ClassicMember, now_ms: int) -> None:
        if not member.is_waiting:
            self.remove(group, member)
            self.start_or_continue(group, f"the session of member {member.id!r} has ended", now_ms)

    def _end_pending(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        self._forget(group, member_id)
        self.complete_if_joined(group, now_ms)

    def _forget(self, group: ClassicGroup, member_id: str) -> None:
        self._timers.cancel(_session_key(group, member_id))
        group.remove(member_id)

    # Loading and unloading

    def resume(self, group: ClassicGroup, now_ms: int) -> None:
        """Begin the sessions of all members, because their group was loaded or converted."""
        for member in group.members.values():
            self.restart_session(group, member, now_ms)

    def end(self, group: ClassicGroup, event: Event, refusal: BrokerError) -> None:
        """End all timers and waiting requests of a group, and change its state. event: the event for its state. refusal: the error for its
        waiting requests.
        """
        for member_id in group.pending:
            self._timers.cancel(_session_key(group, member_id))
        for member in group.members.values():
            member.settle_join(refusal)
            member.settle_sync(refusal)
            self._timers.cancel(_session_key(group, member.id))
        self._timers.cancel(_join_key(group))
        self._timers.cancel(_sync_key(group))
        group.move(event)


def _session_key(group: ClassicGroup, member_id: str) -> tuple[str, str, str]:
    return "session", group.id, member_id


def _join_key(group: ClassicGroup) -> tuple[str, str]:
    return "join", group.id


def _sync_key(group: ClassicGroup) -> tuple[str, str]:
    return "sync", group.id
