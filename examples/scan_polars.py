"""Read a topic into polars: python examples/scan_polars.py localhost:9092 orders

Counts the records of each key in the last day. polars reads a scan through Arrow's C stream interface, without copying.
"""

from __future__ import annotations

import sys

import polars as pl

import levada as lv


def main(bootstrap_servers: str, topic: str) -> None:
    """Print the counts."""
    frame = pl.DataFrame(lv.scan(topic, bootstrap_servers=bootstrap_servers, start="-24h", columns=["key", "offset"], text=["key"]))
    print(frame.group_by("key").len().sort("key").write_csv(), end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
