"""ConsumerGroupRegularExpression (record type 16): the topics that match a consumer group's regular expression.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import RecordKey, RecordValue, array, int64, string


class ConsumerGroupRegularExpressionKey(RecordKey, record_type=16):
    """The group and the expression."""

    group_id: str = string("0")
    regular_expression: str = string("0")


class ConsumerGroupRegularExpressionValue(RecordValue, key=ConsumerGroupRegularExpressionKey, versions="0", flexible="0+"):
    """version: version of the cluster's metadata when the expression was resolved."""

    topics: list[str] = array(string)
    version: int = int64()
    timestamp: int = int64()
