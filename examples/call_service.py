"""Call a slow HTTP service for every record, 50 at a time: python examples/call_service.py localhost:9092 orders http://localhost:8000/score

Records of a key are posted one after the other. What the service refuses (4xx) goes to a dead-letter topic at once; what fails is posted
again, after a pause that grows, and goes there in the end, too. SIGTERM, and Ctrl-C, let the requests under way end, commit what is done
and leave the group. Killed in any other way, it goes on at the first record that is not done: the service sees all records, some twice.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import levada as lv

AT_ONCE = 50
RETRIES = 5
PATIENCE_S = 30


def pause_s(attempt: int) -> float:
    """Return for how many seconds to wait after a failure."""
    return min(0.1 * 2.0**attempt, 30.0)


def call(url: str, record: lv.AckRecord[Any, Any]) -> None:
    """Post one record. Raises what is worth another attempt."""
    try:
        with urlopen(Request(url, data=record.value, headers={"X-Key": (record.key or b"").decode()}), timeout=PATIENCE_S):
            return
    except HTTPError as refused:
        with refused:
            if refused.code >= 500:
                raise
            record.reject(refused)


def main(bootstrap_servers: str, topic: str, url: str) -> None:
    """Work until a signal comes."""
    settings = {"bootstrap.servers": bootstrap_servers, "group.id": "scoring", "auto.offset.reset": "earliest"}
    with lv.KafkaProducer(bootstrap_servers=bootstrap_servers) as producer, lv.KafkaConsumer(settings) as consumer:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, frame: consumer.wakeup())
        consumer.subscribe([topic])
        with suppress(lv.errors.WakeupError):
            consumer.process(
                partial(call, url),
                concurrency=AT_ONCE,
                retries=RETRIES,
                retry_delay=pause_s,
                dead_letter=lv.DeadLetter(producer, f"{topic}.dead"),
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
