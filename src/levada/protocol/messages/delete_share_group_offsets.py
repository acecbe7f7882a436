"""DeleteShareGroupOffsets (key 92): delete the offsets of a share group without members.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, int16, int32, string, uuid


class DeleteShareGroupOffsetsRequestTopic(Struct):
    """A topic."""

    topic_name: str = string()


class DeleteShareGroupOffsetsRequest(Request["DeleteShareGroupOffsetsResponse"], key=92, versions="0", flexible="0+"):
    """The topics whose offsets to delete."""

    group_id: str = string()
    topics: list[DeleteShareGroupOffsetsRequestTopic] = array(DeleteShareGroupOffsetsRequestTopic)


class DeleteShareGroupOffsetsResponseTopic(Struct):
    """The result for one topic."""

    topic_name: str = string()
    topic_id: UUID = uuid()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class DeleteShareGroupOffsetsResponse(Response, request=DeleteShareGroupOffsetsRequest):
    """One result for each topic."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    responses: list[DeleteShareGroupOffsetsResponseTopic] = array(DeleteShareGroupOffsetsResponseTopic)
