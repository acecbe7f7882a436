"""consumer.process() for threads: a loop over consumer.acks() that gives each record to an executor."""

from __future__ import annotations

from functools import partial
from typing import Any

from levada.api.consumer.processing import Outcomes, Submit
from levada.base.signals import DeferredSignals
from levada.errors import KafkaError
from levada.logs import Log
from levada.sync.acks import Acks


def process(acks: Acks[Any, Any], submit: Submit, outcomes: Outcomes, finish_s: float, log: Log) -> None:
    """Submit every record until the loop ends. finish_s: how long an error, or wakeup(), waits for handlers that run."""
    record = submitted = None
    try:
        for record in acks:
            # A signal handler that raises in the middle of submit() would leave a running handler whose outcome is lost.
            with DeferredSignals():
                submit(record).add_done_callback(partial(outcomes.follow, record))
                submitted = record
    except BaseException:
        if record is not None and record is not submitted:
            record.nack()
        _finish(acks, finish_s, log)
        raise


def _finish(acks: Acks[Any, Any], finish_s: float, log: Log) -> None:
    try:
        acks.wait_empty(finish_s)
    except KafkaError as error:
        # Why process() ends is another error, which its caller gets.
        log.warning("process() ends, and does not wait any longer for handlers that run; their records are read again: %s", error)
