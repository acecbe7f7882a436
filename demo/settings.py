"""Reads the settings of the demo from the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

RECORDS = 3_000_000


@dataclass(frozen=True)
class Settings:
    """The settings of the demo.

    servers: bootstrap servers of the user's Kafka, None for the embedded broker. records: number of flights to produce. is_compared:
    whether to run Spark's own connector, too. is_killed: whether to kill the driver in mid-batch.
    """

    servers: str | None
    records: int
    is_compared: bool
    is_killed: bool


def settings(environment: Mapping[str, str]) -> Settings:
    """Read BOOTSTRAP, DEMO_RECORDS, COMPARE and KILL. Raises SystemExit with an explanation if a setting is invalid."""
    is_killed = _is_set(environment, "KILL")
    if is_killed and not Path("/proc/self/stat").exists():
        raise SystemExit("KILL=1 finds the processes of the driver in /proc, which only Linux has")
    return Settings(environment.get("BOOTSTRAP") or None, _records(environment), _is_set(environment, "COMPARE"), is_killed)


def _is_set(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "0") not in ("", "0")


def _records(environment: Mapping[str, str]) -> int:
    text = environment.get("DEMO_RECORDS") or str(RECORDS)
    if not text.isdecimal() or int(text) == 0:
        raise SystemExit(f"DEMO_RECORDS={text}: give a whole number above 0, such as 20000000")
    return int(text)
