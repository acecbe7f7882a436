"""Call a slow HTTP service for every record, 50 at a time: python examples/call_service.py localhost:9092 orders http://localhost:8000/score

Records with the same key are posted one after the other. A record that the service refuses (4xx) goes to a dead-letter topic at once. A
record whose post fails is posted again after growing pauses, and after the last retry it goes to the dead-letter topic, too. SIGTERM and
Ctrl-C wait for the running requests, commit the finished records and leave the group. If the program is killed in another way, it later
continues at the first record that is not finished: the service sees all records, some of them twice.
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
    """Return the pause in seconds after a failed attempt."""
    return min(0.1 * 2.0**attempt, 30.0)


def call(url: str, record: lv.AckRecord[Any, Any]) -> None:
    """Post one record. Raises errors after which the record is to be posted again."""
    try:
        with urlopen(Request(url, data=record.value, headers={"X-Key": (record.key or b"").decode()}), timeout=PATIENCE_S):
            return
    except HTTPError as refused:
        with refused:
            if refused.code >= 500:
                raise
            record.reject(refused)


def main(bootstrap_servers: str, topic: str, url: str) -> None:
    """Process records until a signal comes."""
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
