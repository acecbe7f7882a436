"""A group of the classic protocol: its members, its generation, and the assignor that the members agree on.

Members are in the order in which they joined. Every change of state goes through move(), which allows only what TRANSITIONS has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from levada.base.promise import Promise
from levada.base.state_table import following
from levada.broker.coordinators.groups.group_states import TRANSITIONS, Event, State
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
    """A JoinGroup request is refused. member_id: the member id in the response: with MEMBER_ID_REQUIRED the one with which the client has
    to join again, otherwise "".
    """

    def __init__(self, message: str, code: ErrorCode, member_id: str) -> None:
        super().__init__(message, code=code)
        self.member_id = member_id


class ClientOrigin(NamedTuple):
    """The client of a member, for DescribeGroups. host: the client's address in Java's form, with a slash in front."""

    client_id: str
    host: str


class Protocol(NamedTuple):
    """An assignor that a member supports, and the member's metadata for this assignor."""

    name: str
    metadata: bytes


class StoredMember(NamedTuple):
    """The properties of a member of a classic group that are stored."""

    id: str
    instance_id: str | None
    origin: ClientOrigin
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol: Protocol
    assignment: bytes


class StoredGroup(NamedTuple):
    """A classic group as it is stored in Kafka's record GroupMetadata.

    since_ms: when the group was stored, in milliseconds since the epoch.
    """

    protocol_type: str | None
    generation: int
    protocol_name: str | None
    leader: str | None
    members: tuple[StoredMember, ...]
    since_ms: int


class ClassicMember:
    """A member of a classic group.

    joining, syncing: the promised responses to its JoinGroup and its SyncGroup request, None if no such request waits. is_new: whether its
    first JoinGroup request still waits, so that the client may not know its member id; False for a member that replaces a static one.
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
        """Whether a JoinGroup or SyncGroup request of the member waits, so that its session does not expire. False for a new member."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for an assignor; b"" if the member does not support the assignor.

        protocol: the name of the assignor.
        """
        return next((offered.metadata for offered in self.protocols if offered.name == protocol), b"")

    def settle_join(self, answer: JoinGroupResponse | BrokerError) -> None:
        """Send this response or error for the member's JoinGroup request, if one waits."""
        waiting, self.joining = self.joining, None
        if waiting is not None:
            _settle(waiting, answer)

    def settle_sync(self, answer: SyncGroupResponse | BrokerError) -> None:
        """Send this response or error for the member's SyncGroup request, if one waits."""
        waiting, self.syncing = self.syncing, None
        if waiting is not None:
            _settle(waiting, answer)

    def stored(self, protocol: str) -> StoredMember:
        """Return the properties of the member that are stored. protocol: the group's assignor; the metadata for other assignors is not
        stored.
        """
        chosen = Protocol(protocol, self.metadata(protocol))
        return StoredMember(
            self.id, self.instance_id, self.origin, self.rebalance_timeout_ms, self.session_timeout_ms, chosen, self.assignment
        )

    @classmethod
    def restored(cls, stored: StoredMember) -> ClassicMember:
        """Make a member from its stored properties."""
        member = cls(stored.id, stored.instance_id, stored.origin)
        member.rebalance_timeout_ms = stored.rebalance_timeout_ms
        member.session_timeout_ms = stored.session_timeout_ms
        member.protocols = (stored.protocol,)
        member.assignment = stored.assignment
        return member


class ClassicGroup:
    """A group of the classic protocol.

    before: the state before the last change of state. pending: member ids that were returned to clients which have not joined with them
    yet. unsynced: the ids of members that have not sent SyncGroup in this generation. member_added: whether a member has joined since the
    present delay of the initial rebalance began. subscribed: the topics to which members subscribe, None if unknown.
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
        """Change the state because of an event. Raises IllegalStateError if TRANSITIONS does not allow this."""
        self.state, self.before = following(TRANSITIONS, self.state, event, f"group '{self.id}'"), self.state

    # Members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The time that a rebalance waits for members to join: the longest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def all_joined(self) -> bool:
        """Whether a JoinGroup request of each member waits, and no member id is pending."""
        return not self.pending and all(member.joining is not None for member in self.members.values())

    def static_member(self, instance_id: str | None) -> ClassicMember | None:
        """Return the member with an instance id, None if there is none."""
        return next((member for member in self.members.values() if instance_id is not None and member.instance_id == instance_id), None)

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """Return the member with this id. Raises FENCED_INSTANCE_ID if another member now has the instance id, UNKNOWN_MEMBER_ID if no
        member has the id or the instance id. instance_id: None for a dynamic member.
        """
        static = self.static_member(instance_id)
        if static is not None and static.id != member_id:
            raise BrokerError(f"group '{self.id}': {instance_id!r} is member {static.id!r} now", code=ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None or (instance_id is not None and static is None):
            raise BrokerError(f"group '{self.id}' has no member {member_id!r}", code=ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def check_generation(self, generation: int) -> None:
        """Raise ILLEGAL_GENERATION if this is not the group's generation."""
        if generation != self.generation:
            raise BrokerError(f"group '{self.id}' is at generation {self.generation}, not {generation}", code=ErrorCode.ILLEGAL_GENERATION)

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Add a member. The first member becomes the leader and sets the group's protocol type."""
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
        """Replace a static member whose process was restarted; return the new member, which has the id `new_id`. Requests with the old
        member id get FENCED_INSTANCE_ID.
        """
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
        """Make a member that has joined the leader, unless the leader has joined. Returns False if no member has joined."""
        leader = self.members.get(self.leader or NO_MEMBER_ID)
        if leader is None or leader.joining is None:
            self.leader = next((member.id for member in self.members.values() if member.joining is not None), self.leader)
        return any(member.joining is not None for member in self.members.values())

    # Protocols

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Return whether a client with these assignors can join the group.

        An empty group accepts every protocol type but "", and all assignors. Otherwise the protocol type has to be the group's, and one
        of these assignors has to be supported by all members. A group that is rebalancing may have no members for a moment, for example
        while it waits for a client that got an id and has not joined yet. Then every assignor is accepted.

        names: the names of the assignors that the client offers; without any it cannot join.
        """
        offered = set(names)
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(offered)
        return protocol_type == self.protocol_type and bool(offered & self._common_protocols() if self.members else offered)

    def choose_protocol(self) -> str:
        """Return the assignor that most members prefer, among the assignors that all members support."""
        common = self._common_protocols()
        votes = Counter(next(offered.name for offered in member.protocols if offered.name in common) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def begin_generation(self) -> None:
        """Begin the next generation with the present members. Without members, the group becomes Empty."""
        self.generation += 1
        self.unsynced = set(self.members)
        self.protocol_name = self.choose_protocol() if self.members else None
        self.subscribed = self._subscribed_topics()
        self.move(Event.ALL_JOINED if self.members else Event.ALL_LEFT)

    @property
    def expires_offsets(self) -> bool:
        """Whether unused offsets of the group may expire. They may not during a rebalance, nor while the members' subscriptions are
        unknown.
        """
        return self.state is State.EMPTY or (self.state is State.STABLE and self.subscribed is not None)

    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member subscribes to a topic. If the subscriptions are unknown, return True for every topic if the members are
        consumers, otherwise False.
        """
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
        """Return the JoinGroup response for a member. leader: the id of the leader in the response, by default the group's leader.
        skip_assignment: tell the leader not to compute an assignment.
        """
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
        """Return all members for the leader's JoinGroup response, each with its metadata for the chosen assignor."""
        return [
            JoinGroupResponseMember(member_id=member.id, group_instance_id=member.instance_id, metadata=member.metadata(self.protocol_name))
            for member in self.members.values()
        ]

    def synced(self, member: ClassicMember) -> SyncGroupResponse:
        """Return the SyncGroup response for a member, with its assignment."""
        return SyncGroupResponse(protocol_type=self.protocol_type, protocol_name=self.protocol_name, assignment=member.assignment)

    # What is stored

    def stored(self, wall_ms: int) -> StoredGroup:
        """Return the group in the form in which it is stored. wall_ms: milliseconds since the epoch."""
        members = tuple(member.stored(self.protocol_name or "") for member in self.members.values())
        return StoredGroup(self.protocol_type, self.generation, self.protocol_name, self.leader, members, wall_ms)

    @classmethod
    def restored(cls, group_id: str, stored: StoredGroup) -> ClassicGroup:
        """Make a group from its stored form. Its state is Stable, or Empty if it has no members."""
        group = cls(group_id)
        group.protocol_type, group.generation = stored.protocol_type, stored.generation
        group.protocol_name, group.leader = stored.protocol_name, stored.leader
        group.members = {member.id: ClassicMember.restored(member) for member in stored.members}
        group.subscribed = group._subscribed_topics()
        if group.members:
            group.move(Event.RESTORE)
        return group


def protocols_of(offered: Sequence[tuple[str, bytes]]) -> tuple[Protocol, ...]:
    """Convert the assignors in a JoinGroup request, given as names and metadata; their order is kept."""
    return tuple(Protocol(name, bytes(metadata)) for name, metadata in offered)


def _settle(waiting: Promise[T], answer: T | BrokerError) -> None:
    if isinstance(answer, BrokerError):
        waiting.reject(answer)
    else:
        waiting.resolve(answer)
