"""Fetch through Maven what the tests of `make test` need, so that none of them waits for it. It needs no package, and no environment.

As a command: `python tests/kits/fetch_jars.py`. What cannot be fetched is said; the tests that need it say so again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import real_registry
from group_tool import JARS as GROUP_TOOL
from kafka_jars import KafkaUnavailable, jars, spark_connector

KAFKAS: Final = ("4.4.0", "3.9.2", GROUP_TOOL)
_POMS: Final = Path(__file__).parents[1] / "real_kafka"
SOURCES: Final[Sequence[Callable[[], object]]] = (
    *(lambda pom=_POMS / f"pom-{kafka}.xml": jars(pom) for kafka in KAFKAS),
    spark_connector,
    real_registry.program,
)


def main() -> int:
    """Fetch one after another: two Mavens at once fetch the same files into the same folder."""
    missing = 0
    for fetch in SOURCES:
        try:
            fetch()
        except KafkaUnavailable as reason:
            print(reason, file=sys.stderr)
            missing += 1
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
