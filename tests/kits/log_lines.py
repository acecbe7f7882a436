"""The messages that clients have logged."""

from __future__ import annotations

import logging
from collections.abc import Iterable

CLIENT = "kafka_client_id"


def said(records: Iterable[logging.LogRecord], level: int = logging.NOTSET) -> list[str]:
    """Return the messages at or above a level, without the client.id at the beginning of a client's message."""
    return [record.getMessage().removeprefix(f"{vars(record).get(CLIENT)}: ") for record in records if record.levelno >= level]
