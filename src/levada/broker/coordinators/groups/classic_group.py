"""One classic group: its members, its generation, and which assignor the members agree on.

Members keep the order in which they joined. Every change of state goes through move(), which knows no transition that TRANSITIONS lacks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from levada.base.promise import Promise
from levada.broker.coordinators.groups.group_states import Event, State, after
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, ProtocolError
from levada.protocol.embedded.consumer_protocol_subscription import ConsumerProtocolSubscription
from levada.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from levada.protocol.messages.sync_group import SyncGroupResponse
from levada.protocol.prefixed import decode_prefixed

T = TypeVar("T")

CONSUMER = "consumer"
"""The protocol type of groups of consumers; others, as Kafka Connect's, have metadata that only they understand."""

NO_MEMBER_ID = ""


class JoinRefusedError(BrokerError):
    """A member may not join. member_id: what its answer says, "" for a member that has to come again as a new one."""

    def __init__(self, message: str, code: ErrorCode, member_id: str) -> None:
        super().__init__(message, code=code)
        self.member_id = member_id


class ClientOrigin(NamedTuple):
    """Who a member's client is, as DescribeGroups tells. host: its address as Java writes it, with a slash in front."""

    client_id: str
    host: str


class Protocol(NamedTuple):
    """An assignor that a member offers, and what the member tells it."""

    name: str
    metadata: bytes


class StoredMember(NamedTuple):
    """What is kept of a member when its coordinator changes."""

    id: str
    instance_id: str | None
    origin: ClientOrigin
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol: Protocol
    assignment: bytes


class StoredGroup(NamedTuple):
    """What is kept of a classic group when its coordinator changes, as Kafka's GroupMetadata record does.

    since_ms: when it was stored, in milliseconds since the epoch.
    """

    protocol_type: str | None
    generation: int
    protocol_name: str | None
    leader: str | None
    members: tuple[StoredMember, ...]
    since_ms: int


class ClassicMember:
    """A member. joining, syncing: its requests that wait. is_new: it joins for the first time and cannot send heartbeats yet."""

    def __init__(self, member_id: str, instance_id: str | None, origin: ClientOrigin) -> None:
        self.id = member_id
        self.instance_id = instance_id
        self.origin = origin
        self.rebalance_timeout_ms = 0
        self.session_timeout_ms = 0
        self.protocols: tuple[Protocol, ...] = ()
        self.assignment = b""
        self.is_new = False
        self.joining: Promise[JoinGroupResponse] | None = None
        self.syncing: Promise[SyncGroupResponse] | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether a request of it waits, which is as good as a heartbeat, unless it joins for the first time."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """Return what it told an assignor, nothing if it does not offer it."""
        return next((offered.metadata for offered in self.protocols if offered.name == protocol), b"")

    def settle_join(self, answer: JoinGroupResponse | BrokerError) -> None:
        """Answer its join, if one waits."""
        waiting, self.joining = self.joining, None
        if waiting is not None:
            _settle(waiting, answer)

    def settle_sync(self, answer: SyncGroupResponse | BrokerError) -> None:
        """Answer its request for the assignment, if one waits."""
        waiting, self.syncing = self.syncing, None
        if waiting is not None:
            _settle(waiting, answer)

    def stored(self, protocol: str) -> StoredMember:
        """Return what is kept of it. Of the assignors only the chosen one is."""
        chosen = Protocol(protocol, self.metadata(protocol))
        return StoredMember(
            self.id, self.instance_id, self.origin, self.rebalance_timeout_ms, self.session_timeout_ms, chosen, self.assignment
        )

    @classmethod
    def restored(cls, stored: StoredMember) -> ClassicMember:
        """Return a member as it was stored."""
        member = cls(stored.id, stored.instance_id, stored.origin)
        member.rebalance_timeout_ms = stored.rebalance_timeout_ms
        member.session_timeout_ms = stored.session_timeout_ms
        member.protocols = (stored.protocol,)
        member.assignment = stored.assignment
        return member


class ClassicGroup:
    """A group. before: its previous state. pending: ids that were given to members that have not joined with them yet.

    unsynced: the members of the generation that have not asked for their assignment. member_added: one joined since the delay of the first
    rebalance began. subscribed: the topics of a group of consumers, None where they cannot be told.
    """

    TYPE = "classic"

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.state = State.EMPTY
        self.before = State.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.pending: set[str] = set()
        self.unsynced: set[str] = set()
        self.member_added = False
        self.subscribed: frozenset[str] | None = None

    def move(self, event: Event) -> None:
        """Change the state. IllegalStateError for what can never be."""
        self.state, self.before = after(self.state, event), self.state

    # Members

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long a rebalance waits for members: the longest that any of them needs."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def all_joined(self) -> bool:
        """Whether all members have joined: each has a JoinGroup request waiting, and every member id that was given out is in use."""
        return not self.pending and all(member.joining is not None for member in self.members.values())

    def static_member(self, instance_id: str | None) -> ClassicMember | None:
        """Return the member of an instance id."""
        return next((member for member in self.members.values() if instance_id is not None and member.instance_id == instance_id), None)

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """Return a member. Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID when another member has the instance id now."""
        static = self.static_member(instance_id)
        if static is not None and static.id != member_id:
            raise BrokerError(f"group '{self.id}': {instance_id!r} is member {static.id!r} now", code=ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None or (instance_id is not None and static is None):
            raise BrokerError(f"group '{self.id}' has no member {member_id!r}", code=ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def check_generation(self, generation: int) -> None:
        """Raise ILLEGAL_GENERATION for one that is not the group's."""
        if generation != self.generation:
            raise BrokerError(f"group '{self.id}' is at generation {self.generation}, not {generation}", code=ErrorCode.ILLEGAL_GENERATION)

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Let somebody become a member. The first one is the leader, and its protocol type that of the group."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.id
        self.members[member.id] = member
        self.pending.discard(member.id)

    def remove(self, member_id: str) -> None:
        """Forget a member or an id that was given out. The next one in order leads if it was the leader."""
        self.members.pop(member_id, None)
        self.pending.discard(member_id)
        self.unsynced.discard(member_id)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def replace_static(self, old: ClassicMember, new_id: str) -> ClassicMember:
        """Give an instance id to its next process; what the one before waits for is answered with FENCED_INSTANCE_ID."""
        fenced = BrokerError(f"group '{self.id}': {old.instance_id!r} is member {new_id!r} now", code=ErrorCode.FENCED_INSTANCE_ID)
        old.settle_join(fenced)
        old.settle_sync(fenced)
        leads = self.leader == old.id
        new = ClassicMember(new_id, old.instance_id, old.origin)
        new.assignment = old.assignment
        self.remove(old.id)
        self.members[new_id] = new
        if leads:
            self.leader = new_id
        return new

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is a member that has joined; False if no member has."""
        leader = self.members.get(self.leader or NO_MEMBER_ID)
        if leader is None or leader.joining is None:
            self.leader = next((member.id for member in self.members.values() if member.joining is not None), self.leader)
        return any(member.joining is not None for member in self.members.values())

    # Protocols

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these assignors can join: all members offer at least one of them, too.

        A group that is being rebalanced may have lost all of its members, and wait for one that was given an id and has not joined yet.
        """
        offered = set(names)
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(offered)
        return protocol_type == self.protocol_type and bool(offered & self._common_protocols() if self.members else offered)

    def choose_protocol(self) -> str:
        """Return the assignor that most members prefer among those that all offer (G26)."""
        common = self._common_protocols()
        votes = Counter(next(offered.name for offered in member.protocols if offered.name in common) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def begin_generation(self) -> None:
        """Go on to the next generation, with the members that are there."""
        self.generation += 1
        self.unsynced = set(self.members)
        self.protocol_name = self.choose_protocol() if self.members else None
        self.subscribed = self._subscribed_topics()
        self.move(Event.ALL_JOINED if self.members else Event.ALL_LEFT)

    @property
    def expires_offsets(self) -> bool:
        """Whether offsets may expire that no member needs: not during a rebalance, nor if the subscriptions are not known."""
        return self.state is State.EMPTY or (self.state is State.STABLE and self.subscribed is not None)

    def is_subscribed(self, topic: str) -> bool:
        """Whether members read a topic, as far as can be told; every topic counts where it cannot."""
        return self.protocol_type == CONSUMER if self.subscribed is None else topic in self.subscribed

    def _common_protocols(self) -> set[str]:
        offers = [{offered.name for offered in member.protocols} for member in self.members.values()]
        return set.intersection(*offers) if offers else set()

    def _subscribed_topics(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER:
            return None
        try:
            told = [decode_prefixed(ConsumerProtocolSubscription, member.metadata(self.protocol_name)) for member in self.members.values()]
        except ProtocolError:
            return None
        return frozenset(topic for subscription in told for topic in subscription.topics)

    # What members are told

    def joined(self, member: ClassicMember, *, leader: str | None = None, skip_assignment: bool = False) -> JoinGroupResponse:
        """Return what a member learns of the generation. leader: who it is told to lead, by default who does."""
        told = self.leader if leader is None else leader
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=told or NO_MEMBER_ID,
            skip_assignment=skip_assignment,
            member_id=member.id,
            members=self.subscriptions() if told == member.id else [],
        )

    def subscriptions(self) -> list[JoinGroupResponseMember]:
        """Return what the leader assigns by: what each member told the chosen assignor."""
        return [
            JoinGroupResponseMember(member_id=member.id, group_instance_id=member.instance_id, metadata=member.metadata(self.protocol_name))
            for member in self.members.values()
        ]

    def synced(self, member: ClassicMember) -> SyncGroupResponse:
        """Return a member's assignment."""
        return SyncGroupResponse(protocol_type=self.protocol_type, protocol_name=self.protocol_name, assignment=member.assignment)

    # What is stored

    def stored(self, wall_ms: int) -> StoredGroup:
        """Return what is kept of the group."""
        members = tuple(member.stored(self.protocol_name or "") for member in self.members.values())
        return StoredGroup(self.protocol_type, self.generation, self.protocol_name, self.leader, members, wall_ms)

    @classmethod
    def restored(cls, group_id: str, stored: StoredGroup) -> ClassicGroup:
        """Return a group as it was stored: stable with the members it had then, or empty."""
        group = cls(group_id)
        group.protocol_type, group.generation = stored.protocol_type, stored.generation
        group.protocol_name, group.leader = stored.protocol_name, stored.leader
        group.members = {member.id: ClassicMember.restored(member) for member in stored.members}
        group.subscribed = group._subscribed_topics()
        if group.members:
            group.move(Event.RESTORE)
        return group


def protocols_of(offered: Sequence[tuple[str, bytes]]) -> tuple[Protocol, ...]:
    """Return the assignors that a request names, in their order."""
    return tuple(Protocol(name, bytes(metadata)) for name, metadata in offered)


def _settle(waiting: Promise[T], answer: T | BrokerError) -> None:
    if isinstance(answer, BrokerError):
        waiting.reject(answer)
    else:
        waiting.resolve(answer)
