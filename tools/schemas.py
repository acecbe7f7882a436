"""Fetch Kafka's message schemas: `make schemas`, or `PYTHONPATH=tests/kits python tools/schemas.py FOLDER`.

The schemas are in Kafka's published jars, which Maven fetches, like for the tests. FOLDER gets the folders that tools/messages.py reads:
`3.9/` has all old versions, `4.4/` the newest versions, and `4.4-log-records/` the records that coordinators write to their topics. Kafka's
schemas are JSON with comments and descriptions. These are removed, so that two structs with the same fields are equal.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any, Final

from kafka_jars import KafkaUnavailable, jars

POMS: Final = Path(__file__).parents[1] / "tests" / "real_kafka"

SOURCES: Final = {
    "3.9": ("3.9.2", ("kafka-clients",)),
    "4.4": ("4.4.0", ("kafka-clients",)),
    "4.4-log-records": ("4.4.0", ("kafka-group-coordinator", "kafka-transaction-coordinator", "kafka-share-coordinator")),
}
"""The Kafka release of each folder, and the jars with the schemas."""

INSIDE: Final = re.compile(r"common/message/(\w+\.json)")
COMMENT: Final = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*')


def fetch(folder: Path) -> int:
    """Write all schemas below a folder, and return their number. Raises KafkaUnavailable."""
    count = 0
    for name, (release, holders) in SOURCES.items():
        target = folder / name
        target.mkdir(parents=True, exist_ok=True)
        for stale in target.glob("*.json"):
            stale.unlink()
        fetched = jars(POMS / f"pom-{release}.xml")
        for holder in holders:
            count += _extract(fetched / f"{holder}-{release}.jar", target)
    return count


def _extract(jar: Path, target: Path) -> int:
    count = 0
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if inside := INSIDE.fullmatch(name):
                schema = json.loads(without_comments(archive.read(name).decode()), object_hook=_without_description)
                (target / inside.group(1)).write_text(json.dumps(schema, indent=1) + "\n")
                count += 1
    return count


def without_comments(text: str) -> str:
    """Remove comments: text after // outside of strings."""
    return COMMENT.sub(lambda found: found.group(1) or "", text)


def _without_description(part: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key != "about"}


def main() -> int:
    """Fetch the schemas, and print their number."""
    parser = argparse.ArgumentParser(description="Fetch Kafka's message schemas.")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    try:
        count = fetch(folder)
    except KafkaUnavailable as reason:
        print(f"no schemas: {reason}", file=sys.stderr)
        return 1
    print(f"{count} schemas in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
