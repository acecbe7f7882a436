"""Metadata requests about topics that brokers of every age understand.

Asking for a topic by name creates it where the broker allows that (auto.create.topics.enable); only since Kafka 0.11 can a client prevent
it. Older brokers are asked about every topic instead, and the response is cut down to the topics that were wanted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from levada.base.flow import Call, Flow
from levada.error_codes import ErrorCode
from levada.errors import UnsupportedVersionError
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic

FIRST_VERSION_WITH_NULL_FOR_ALL = 1
FIRST_VERSION_WITHOUT_CREATION = 4
FIRST_VERSION_BY_ID = 12


def request_for_all(version: int) -> MetadataRequest:
    """Return a Metadata request for every topic. The topics are null; in version 0, which does not have null, an empty list."""
    return MetadataRequest(topics=None if version >= FIRST_VERSION_WITH_NULL_FOR_ALL else [])


def request_for(names: Iterable[str], *, may_create: bool) -> MetadataRequest:
    """Return a Metadata request for these topics. may_create: whether a broker may create missing topics."""
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=may_create)


def keep_only(response: MetadataResponse, names: Iterable[str]) -> None:
    """Remove all topics but these from a response for every topic. Add UNKNOWN_TOPIC_OR_PARTITION for those that the response lacks."""
    described = {topic.name: topic for topic in response.topics}
    response.topics = [described.get(name) or _unknown(name) for name in names]


def _unknown(name: str) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name)


def all_topics() -> Flow[Any]:
    """Ask any broker about every topic; returns the MetadataResponse."""
    try:
        return (yield Call(request_for_all(FIRST_VERSION_WITH_NULL_FOR_ALL), min_version=FIRST_VERSION_WITH_NULL_FOR_ALL))
    except UnsupportedVersionError:
        return (yield Call(request_for_all(0), max_version=0))


def topics_by_id(topic_ids: Iterable[UUID]) -> Flow[Any]:
    """Ask any broker about topics by their ids; returns the MetadataResponse. Raises UnsupportedVersionError before Kafka 3.1."""
    topics = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in topic_ids]
    return (yield Call(MetadataRequest(topics=topics, allow_auto_topic_creation=False), min_version=FIRST_VERSION_BY_ID))


def these_topics(*names: str, may_create: bool) -> Flow[Any]:
    """Ask any broker about topics by name; returns the MetadataResponse. may_create: whether asking may create them."""
    wanted = list(dict.fromkeys(names))
    request = request_for(wanted, may_create=may_create)
    if may_create:
        return (yield Call(request))
    try:
        return (yield Call(request, min_version=FIRST_VERSION_WITHOUT_CREATION))
    except UnsupportedVersionError:
        response = yield from all_topics()
    keep_only(response, wanted)
    return response
