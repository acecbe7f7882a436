"""StreamsGroupTopologyDescriptionUpdate (key 93): store a description of a streams group's topology, for people to read.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, int8, int16, int32, string, struct


class TopologyDescriptionNode(Struct):
    """A source, processor or sink, and the nodes that it is connected to."""

    name: str = string()
    node_type: int = int8()
    source_topics: list[str] = array(string)
    sink_topic: str | None = string(nullable="0+")
    stores: list[str] = array(string)
    successors: list[str] = array(string)


class TopologyDescriptionSubtopology(Struct):
    """The nodes of one subtopology."""

    subtopology_id: str = string()
    nodes: list[TopologyDescriptionNode] = array(TopologyDescriptionNode)


class TopologyDescriptionGlobalStore(Struct):
    """A global store's source and processor."""

    source: TopologyDescriptionNode = struct(TopologyDescriptionNode)
    processor: TopologyDescriptionNode = struct(TopologyDescriptionNode)


class TopologyDescription(Struct):
    """The graph of the application, for people to read."""

    subtopologies: list[TopologyDescriptionSubtopology] = array(TopologyDescriptionSubtopology)
    global_stores: list[TopologyDescriptionGlobalStore] = array(TopologyDescriptionGlobalStore)


class StreamsGroupTopologyDescriptionUpdateRequest(
    Request["StreamsGroupTopologyDescriptionUpdateResponse"], key=93, versions="0", flexible="0+"
):
    """The description, and the epoch of its topology."""

    group_id: str = string()
    member_id: str = string()
    topology_epoch: int = int32()
    topology_description: TopologyDescription = struct(TopologyDescription)


class StreamsGroupTopologyDescriptionUpdateResponse(Response, request=StreamsGroupTopologyDescriptionUpdateRequest):
    """It says whether the description was accepted."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
