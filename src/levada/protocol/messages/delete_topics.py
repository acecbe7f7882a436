"""DeleteTopics (key 20).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, int16, int32, string, uuid


class DeleteTopicState(Struct):
    """A topic by name, or by id with a null name."""

    name: str | None = string("6+", nullable="6+")
    topic_id: UUID = uuid("6+")


class DeleteTopicsRequest(Request["DeleteTopicsResponse"], key=20, versions="0-6", flexible="4+"):
    """topics since version 6, topic_names before."""

    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array(string, "0-5", ignorable=True)
    timeout_ms: int = int32()


class DeletableTopicResult(Struct):
    """The result for one topic. name: null if the request had an unknown id."""

    name: str | None = string(nullable="6+")
    topic_id: UUID = uuid("6+", ignorable=True)
    error_code: int = int16()
    error_message: str | None = string("5+", nullable="5+", ignorable=True)


class DeleteTopicsResponse(Response, request=DeleteTopicsRequest):
    """One result for each topic."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
