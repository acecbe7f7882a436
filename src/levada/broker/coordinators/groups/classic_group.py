"""A group of the classic protocol: its members, its generation, and the assignor that the members agree on.

Members are in the order in which they joined. Every change of state goes through move(), which allows only what TRANSITIONS has.
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
"""The protocol type of consumers. Groups of other types, such as Kafka Connect's, have metadata that only their members understand."""

NO_MEMBER_ID = ""


class JoinRefusedError(BrokerError):
    """A member may not join. member_id: the one in the response, "" for a member that has to join again as a new one."""

    def __init__(self, message: str, code: ErrorCode, member_id: str) -> None:
        super().__init__(message, code=code)
        self.member_id = member_id


class ClientOrigin(NamedTuple):
    """A member's client, as DescribeGroups returns it. host: its address in Java's form, with a slash in front."""

    client_id: str
    host: str


class Protocol(NamedTuple):
    """An assignor that a member offers, and the member's metadata for it."""

    name: str
    metadata: bytes


class StoredMember(NamedTuple):
    """The part of a member that is stored."""

    id: str
    instance_id: str | None
    origin: ClientOrigin
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol: Protocol
    assignment: bytes


class StoredGroup(NamedTuple):
    """The part of a classic group that is stored, in Kafka's record GroupMetadata.

    since_ms: when it was stored, in milliseconds since the epoch.
    """

    protocol_type: str | None
    generation: int
    protocol_name: str | None
    leader: str | None
    members: tuple[StoredMember, ...]
    since_ms: int


class ClassicMember:
    """A member. joining, syncing: its waiting JoinGroup and SyncGroup. is_new: its first JoinGroup waits, so it cannot send heartbeats
    yet.
    """

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
        """Whether a request of the member waits, which counts as a heartbeat; not so for a new member."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for an assignor, empty if it does not offer that."""
        return next((offered.metadata for offered in self.protocols if offered.name == protocol), b"")

    def settle_join(self, answer: JoinGroupResponse | BrokerError) -> None:
        """Answer the member's JoinGroup, if one waits."""
        waiting, self.joining = self.joining, None
        if waiting is not None:
            _settle(waiting, answer)

    def settle_sync(self, answer: SyncGroupResponse | BrokerError) -> None:
        """Answer the member's SyncGroup, if one waits."""
        waiting, self.syncing = self.syncing, None
        if waiting is not None:
            _settle(waiting, answer)

    def stored(self, protocol: str) -> StoredMember:
        """Return the part of the member that is stored. Of its assignors, only the chosen one is."""
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
    """A group. before: its previous state. pending: member ids that were given to members that have not joined with them yet.

    unsynced: members of the generation that have not sent SyncGroup. member_added: a member has joined since the initial rebalance delay
    began. subscribed: the topics that the members subscribe to, None if they are unknown.
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
        """Apply an event to the state. Raises IllegalStateError for a transition that TRANSITIONS does not have."""
        self.state, self.before = after(self.state, event), self.state

    # Members

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long a rebalance waits for members: the longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def all_joined(self) -> bool:
        """Whether all members have a JoinGroup waiting, and no member id is pending."""
        return not self.pending and all(member.joining is not None for member in self.members.values())

    def static_member(self, instance_id: str | None) -> ClassicMember | None:
        """Return the member with an instance id, None if there is none."""
        return next((member for member in self.members.values() if instance_id is not None and member.instance_id == instance_id), None)

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """Return a member. Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another member has the instance id now."""
        static = self.static_member(instance_id)
        if static is not None and static.id != member_id:
            raise BrokerError(f"group '{self.id}': {instance_id!r} is member {static.id!r} now", code=ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None or (instance_id is not None and static is None):
            raise BrokerError(f"group '{self.id}' has no member {member_id!r}", code=ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def check_generation(self, generation: int) -> None:
        """Raise ILLEGAL_GENERATION for another generation than the group's."""
        if generation != self.generation:
            raise BrokerError(f"group '{self.id}' is at generation {self.generation}, not {generation}", code=ErrorCode.ILLEGAL_GENERATION)

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Add a member. The first one becomes the leader, and its protocol type that of the group."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.id
        self.members[member.id] = member
        self.pending.discard(member.id)

    def remove(self, member_id: str) -> None:
        """Remove a member, or a pending member id. If the member was the leader, the next member becomes the leader."""
        self.members.pop(member_id, None)
        self.pending.discard(member_id)
        self.unsynced.discard(member_id)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def replace_static(self, old: ClassicMember, new_id: str) -> ClassicMember:
        """Give a static member's place to its next process. Requests of the former process are answered with FENCED_INSTANCE_ID."""
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
        """Choose a leader among the members that have joined, unless it is one of them already; False if no member has joined."""
        leader = self.members.get(self.leader or NO_MEMBER_ID)
        if leader is None or leader.joining is None:
            self.leader = next((member.id for member in self.members.values() if member.joining is not None), self.leader)
        return any(member.joining is not None for member in self.members.values())

    # Protocols

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these assignors can join the group.

        An empty group accepts every protocol type and all assignors. Otherwise the protocol type has to be the group's, and all members
        have to offer at least one of these assignors. A group that is rebalancing may have no members for a moment, for example while it
        waits for a member that got an id and has not joined yet. Then every assignor is accepted.

        names: the names of the assignors that the member offers; without any it cannot join.
        """
        offered = set(names)
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(offered)
        return protocol_type == self.protocol_type and bool(offered & self._common_protocols() if self.members else offered)

    def choose_protocol(self) -> str:
        """Return the assignor that most members prefer among those that all offer."""
        common = self._common_protocols()
        votes = Counter(next(offered.name for offered in member.protocols if offered.name in common) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def begin_generation(self) -> None:
        """Begin the next generation with the present members."""
        self.generation += 1
        self.unsynced = set(self.members)
        self.protocol_name = self.choose_protocol() if self.members else None
        self.subscribed = self._subscribed_topics()
        self.move(Event.ALL_JOINED if self.members else Event.ALL_LEFT)

    @property
    def expires_offsets(self) -> bool:
        """Whether unused offsets may expire: not during a rebalance, nor while the subscriptions are unknown."""
        return self.state is State.EMPTY or (self.state is State.STABLE and self.subscribed is not None)

    def is_subscribed(self, topic: str) -> bool:
        """Whether members subscribe to a topic; true for every topic if the subscriptions are unknown."""
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

    # Responses

    def joined(self, member: ClassicMember, *, leader: str | None = None, skip_assignment: bool = False) -> JoinGroupResponse:
        """Return the JoinGroup response of a member. leader: the leader's id in it, by default the group's leader."""
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
        """Return the members as the leader gets them: each with its metadata for the chosen assignor."""
        return [
            JoinGroupResponseMember(member_id=member.id, group_instance_id=member.instance_id, metadata=member.metadata(self.protocol_name))
            for member in self.members.values()
        ]

    def synced(self, member: ClassicMember) -> SyncGroupResponse:
        """Return the SyncGroup response of a member."""
        return SyncGroupResponse(protocol_type=self.protocol_type, protocol_name=self.protocol_name, assignment=member.assignment)

    # What is stored

    def stored(self, wall_ms: int) -> StoredGroup:
        """Return the part of the group that is stored."""
        members = tuple(member.stored(self.protocol_name or "") for member in self.members.values())
        return StoredGroup(self.protocol_type, self.generation, self.protocol_name, self.leader, members, wall_ms)

    @classmethod
    def restored(cls, group_id: str, stored: StoredGroup) -> ClassicGroup:
        """Return a stored group: Stable with the members that it had, or Empty."""
        group = cls(group_id)
        group.protocol_type, group.generation = stored.protocol_type, stored.generation
        group.protocol_name, group.leader = stored.protocol_name, stored.leader
        group.members = {member.id: ClassicMember.restored(member) for member in stored.members}
        group.subscribed = group._subscribed_topics()
        if group.members:
            group.move(Event.RESTORE)
        return group


def protocols_of(offered: Sequence[tuple[str, bytes]]) -> tuple[Protocol, ...]:
    """Return the assignors of a request, in their order."""
    return tuple(Protocol(name, bytes(metadata)) for name, metadata in offered)


def _settle(waiting: Promise[T], answer: T | BrokerError) -> None:
    if isinstance(answer, BrokerError):
        waiting.reject(answer)
    else:
        waiting.resolve(answer)
