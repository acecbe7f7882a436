"""A base for enumerations of Kafka's states and types."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class KafkaWord(StrEnum):
    """Base class of enums for Kafka's states and types. Values are found in upper or lower case, because Kafka's brokers, Java's enums and
    Kafka's tools write them differently.

    Each subclass has a member UNKNOWN, which stands for the values of a newer Kafka.
    """

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return next((known for known in cls if known.lower() == str(value).lower()), cls["UNKNOWN"])
