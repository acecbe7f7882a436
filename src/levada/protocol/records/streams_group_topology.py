"""StreamsGroupTopology (record type 23): the topology of a streams group.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import RecordKey, RecordValue, Struct, array, int16, int32, string


class StreamsGroupTopologyKey(RecordKey, record_type=23):
    """The key of the record: the id of the group."""

    group_id: str = string("0")


class TopicConfig(Struct):
    """A setting of an internal topic."""

    key: str = string()
    value: str = string()


class TopicInfo(Struct):
    """A required internal topic. partitions 0: as many as its source topics need."""

    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[TopicConfig] = array(TopicConfig)


class CopartitionGroup(Struct):
    """Topics that need the same number of partitions, as indexes into the lists of their subtopology."""

    source_topics: list[int] = array(int16)
    source_topic_regex: list[int] = array(int16)
    repartition_source_topics: list[int] = array(int16)


class Subtopology(Struct):
    """A part of the topology that shares no state with the others."""

    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    source_topic_regex: list[str] = array(string)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_sink_topics: list[str] = array(string)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup)


class StreamsGroupTopologyValue(RecordValue, key=StreamsGroupTopologyKey, versions="0", flexible="0+"):
    """The topology, and its epoch."""

    epoch: int = int32()
    subtopologies: list[Subtopology] = array(Subtopology)
