"""A base for enumerations of Kafka's states and types."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class KafkaWord(StrEnum):
    """A state or type of Kafka. Its case does not matter, because brokers, Java's enums and Kafka's tools write it differently.

    A subclass has a member UNKNOWN, which stands for values of a newer Kafka.
    """

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return next((known for known in cls if known.lower() == str(value).lower()), cls["UNKNOWN"])
