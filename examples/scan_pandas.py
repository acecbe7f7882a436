"""Read a topic into pandas: python examples/scan_pandas.py localhost:9092 orders

Counts the records of each key in the last day. Strings stay in Arrow's memory (ArrowDtype), without a Python object for each value.
"""

from __future__ import annotations

import sys

import pandas as pd

import levada as lv


def main(bootstrap_servers: str, topic: str) -> None:
    """Print the counts."""
    table = lv.scan(topic, bootstrap_servers=bootstrap_servers, start="-24h", columns=["key", "offset"], text=["key"]).to_table()
    frame = table.to_pandas(types_mapper=pd.ArrowDtype)
    print(frame.groupby("key").size().rename("len").to_csv(), end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
