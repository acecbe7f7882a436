"""What a member of a share group tells its coordinator (KIP-932). Pure. What it does about error codes is as in a consumer group.

Everything is told with the first heartbeat, and with the next one after an error or without an answer, since nobody knows then what has
arrived. Otherwise only a changed subscription is told, beside who the member is.
"""

from __future__ import annotations

from levada.acls import ResourceType
from levada.base.permissions import refused
from levada.consumer.group.consumer_heartbeat import LEAVE_EPOCH, Identity
from levada.error_codes import ErrorCode
from levada.errors import KafkaError
from levada.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

NEEDED = (
    "share groups need Kafka 4.1, or better 4.2, where they are no preview any more, and the feature share.version=1 (kafka-features.sh)"
)


def share_heartbeat(
    who: Identity, epoch: int, topics: frozenset[str], told: frozenset[str] | None, rack: str | None
) -> ShareGroupHeartbeatRequest:
    """Return the heartbeat that tells what is not told yet. told: the topics that the coordinator knows of; None has everything told."""
    request = ShareGroupHeartbeatRequest(group_id=who.group_id, member_id=who.member_id, member_epoch=epoch)
    if topics != told:
        request.subscribed_topic_names = sorted(topics)
    if told is None:
        request.rack_id = rack
    return request


def share_leaving(who: Identity) -> ShareGroupHeartbeatRequest:
    """Return the last heartbeat."""
    return ShareGroupHeartbeatRequest(group_id=who.group_id, member_id=who.member_id, member_epoch=LEAVE_EPOCH)


def share_refusal(who: Identity, code: ErrorCode, why: str | None) -> KafkaError:
    """Return the error of a member that its coordinator does not take."""
    text = f"share group '{who.group_id}': the coordinator refuses this member{f': {why}' if why else ''}"
    if code is ErrorCode.UNSUPPORTED_VERSION:
        text += f"; {NEEDED}"
    elif code is ErrorCode.GROUP_ID_NOT_FOUND:
        text += "; a group of another kind has this group.id"
    return refused(ShareGroupHeartbeatRequest.NAME, code, text, {ResourceType.GROUP: who.group_id})
