"""Query a topic with DataFusion: python examples/scan_datafusion.py localhost:9092 orders

Counts the records of each key in the last day. DataFusion loads all Arrow batches of a scan into memory, and can run many queries on them.
"""

from __future__ import annotations

import sys

import datafusion

import levada as lv


def main(bootstrap_servers: str, topic: str) -> None:
    """Print the counts."""
    context = datafusion.SessionContext()
    context.from_arrow(
        lv.scan(topic, bootstrap_servers=bootstrap_servers, start="-24h", columns=["key", "offset"], text=["key"]), name="records"
    )
    print("key,len")
    for row in context.sql("SELECT key, count(*) AS len FROM records GROUP BY key ORDER BY key").to_pylist():
        print(f"{row['key']},{row['len']}")


if __name__ == "__main__":
    main(*sys.argv[1:])
