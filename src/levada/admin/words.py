"""Kafka's own words for states and types, as enums of text."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class KafkaWord(StrEnum):
    """A word of Kafka's, whichever of its letters are capital: brokers, Java's enums and its tools differ in that.

    A subclass has a member UNKNOWN, which stands for the words of a newer Kafka.
    """

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return next((known for known in cls if known.lower() == str(value).lower()), cls["UNKNOWN"])
