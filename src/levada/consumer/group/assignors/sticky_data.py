"""The user data of the sticky assignors, in the layouts of the Java client, so that groups with both clients work.

The layouts have no version before them. A member that uses "sticky" has revoked everything when it joins, so its user data lists the
partitions that it had. A member that uses "cooperative-sticky" still owns its partitions, so its user data only says since
which generation.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from levada.consumer.group.consumer_protocol import by_topic
from levada.errors import ProtocolError
from levada.groups import MemberSubscription
from levada.protocol.codegen import decode, encode
from levada.protocol.schema import Data, Struct, array, int32, string
from levada.types import TopicPartition
from levada.wire.varint import Bytes

D = TypeVar("D", bound=Data)

NO_GENERATION = -1


class PreviousTopic(Struct):
    """The partitions of one topic."""

    topic: str = string()
    partitions: list[int] = array(int32)


class StickyUserData(Data, versions="0-1"):
    """The partitions that a member had before it joined, in its user data for "sticky". Version 0 has no generation."""

    previous_assignment: list[PreviousTopic] = array(PreviousTopic)
    generation: int = int32("1+", default=NO_GENERATION)


class CooperativeUserData(Data, versions="0"):
    """The generation in which a member got its partitions, in its user data for "cooperative-sticky"."""

    generation: int = int32()


class Claim(NamedTuple):
    """The partitions that a member reports as its own, and the generation in which it got them."""

    partitions: tuple[TopicPartition, ...]
    generation: int


def sticky_user_data(claim: Claim) -> bytes:
    """Encode a claim as the user data of "sticky"."""
    topics = [PreviousTopic(topic=name, partitions=at) for name, at in by_topic(claim.partitions).items()]
    return encode(StickyUserData(previous_assignment=topics, generation=claim.generation), 1)


def sticky_claim(member: MemberSubscription) -> Claim:
    """Return the claim in a member's user data for "sticky"; a claim without partitions if the data cannot be read."""
    if not member.user_data:
        return Claim((), NO_GENERATION)
    for version in (1, 0):
        try:
            said = _whole(StickyUserData, member.user_data, version)
        except ProtocolError:
            continue
        partitions = tuple(TopicPartition(each.topic, index) for each in said.previous_assignment for index in each.partitions)
        return Claim(partitions, said.generation)
    return Claim((), NO_GENERATION)


def cooperative_user_data(generation: int) -> bytes:
    """Encode a generation as the user data of "cooperative-sticky"."""
    return encode(CooperativeUserData(generation=generation), 0)


def cooperative_claim(member: MemberSubscription) -> Claim:
    """Return the claim of a member that uses "cooperative-sticky". Older clients send the generation in the user data only."""
    generation = member.generation
    if generation == NO_GENERATION and member.user_data:
        try:
            generation = _whole(CooperativeUserData, member.user_data, 0).generation
        except ProtocolError:
            generation = NO_GENERATION
    return Claim(member.owned, generation)


def _whole(cls: type[D], data: Bytes, version: int) -> D:
    """Decode a struct from bytes. Raises ProtocolError, also if bytes remain after the struct."""
    found, end = decode(cls, data, version)
    if end != len(data):
        raise ProtocolError(f"{cls.NAME} of version {version} ends at byte {end} of {len(data)}")
    return found
