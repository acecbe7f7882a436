"""Query a topic with DuckDB: python examples/scan_duckdb.py localhost:9092 orders

Counts the records of each key in the last day. DuckDB reads a registered scan batch by batch, again for each query, and stores nothing.
"""

from __future__ import annotations

import sys

import duckdb

import levada as lv


def main(bootstrap_servers: str, topic: str) -> None:
    """Print the counts."""
    with duckdb.connect(config={"threads": 1}) as database:
        database.register(
            "records", lv.scan(topic, bootstrap_servers=bootstrap_servers, start="-24h", columns=["key", "offset"], text=["key"])
        )
        print("key,len")
        for key, count in database.sql("SELECT key, count(*) FROM records GROUP BY key ORDER BY key").fetchall():
            print(f"{key},{count}")


if __name__ == "__main__":
    main(*sys.argv[1:])
