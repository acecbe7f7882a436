"""What clients have logged."""

from __future__ import annotations

import logging
from collections.abc import Iterable

CLIENT = "kafka_client_id"


def said(records: Iterable[logging.LogRecord], level: int = logging.NOTSET) -> list[str]:
    """Return the lines from a level on, without the client.id that those of clients begin with."""
    return [record.getMessage().removeprefix(f"{vars(record).get(CLIENT)}: ") for record in records if record.levelno >= level]
