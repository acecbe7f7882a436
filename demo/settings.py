"""What the environment asks of the demo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

RECORDS = 3_000_000


@dataclass(frozen=True)
class Settings:
    """servers: your own Kafka, None for the embedded broker; records: flights to produce; is_compared: run Spark's own connector, too."""

    servers: str | None
    records: int
    is_compared: bool


def settings(environment: Mapping[str, str]) -> Settings:
    """Read BOOTSTRAP, DEMO_RECORDS and COMPARE. Raises SystemExit with a sentence for a number that is none."""
    return Settings(environment.get("BOOTSTRAP") or None, _records(environment), environment.get("COMPARE", "0") not in ("", "0"))


def _records(environment: Mapping[str, str]) -> int:
    text = environment.get("DEMO_RECORDS") or str(RECORDS)
    if not text.isdecimal() or int(text) == 0:
        raise SystemExit(f"DEMO_RECORDS={text}: give a whole number above 0, such as 20000000")
    return int(text)
