"""WriteTxnMarkers (key 27): the coordinator of a transaction asks leaders to write its end marker to their logs.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, boolean, int8, int16, int32, int64, string


class WritableTxnMarkerTopic(Struct):
    """Partitions of one topic."""

    name: str = string()
    partition_indexes: list[int] = array(int32)


class WritableTxnMarker(Struct):
    """The end of one transaction. transaction_result: true for commit, false for abort."""

    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8("2+", ignorable=True)


class WriteTxnMarkersRequest(Request["WriteTxnMarkersResponse"], key=27, versions="0-2", flexible="1+"):
    """One marker for each transaction."""

    markers: list[WritableTxnMarker] = array(WritableTxnMarker)


class WritableTxnMarkerPartitionResult(Struct):
    """The result for one partition."""

    partition_index: int = int32()
    error_code: int = int16()


class WritableTxnMarkerTopicResult(Struct):
    """The partitions of one topic."""

    name: str = string()
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


class WritableTxnMarkerResult(Struct):
    """The results for one producer."""

    producer_id: int = int64()
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


class WriteTxnMarkersResponse(Response, request=WriteTxnMarkersRequest):
    """One result for each marker."""

    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)
