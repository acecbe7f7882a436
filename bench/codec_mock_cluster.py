"""Runs a librdkafka mock cluster with records until standard input ends: `codec_mock_cluster.py '{"size": 100, ...}'`.

The cluster keeps 5 MiB per partition and drops older records, so the records are spread over several partitions.
"""

from __future__ import annotations

import json
import sys

from confluent_kafka import Producer

from payloads import DISTINCT, values

PARTITIONS = 4


def main() -> None:
    """Fill the cluster, print its address, and wait."""
    job = json.loads(sys.argv[1])
    mock = {"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 4}
    producer = Producer(mock | {"compression.type": job["codec"], "linger.ms": 50})
    payload = values(job["size"])
    for row in range(job["count"]):
        producer.produce("bench", payload[row % DISTINCT], partition=row % PARTITIONS)
    assert producer.flush(60) == 0
    (broker,) = producer.list_topics(timeout=10).brokers.values()
    print(json.dumps({"bootstrap": f"{broker.host}:{broker.port}", "partitions": PARTITIONS}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
