"""A producer whose `with` block ends by Ctrl-C while its broker is down: it says that it waits, and the next Ctrl-C ends it."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import time

import pytest

import levada as lv
from levada import aio
from levada.testing import EmbeddedKafka
from log_lines import said

LEFT_BY_CTRL_C = """
import logging, os, signal, sys, threading, time
import levada as lv
from levada.testing import EmbeddedKafka

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

class SecondCtrlC(logging.Handler):
    def emit(self, record):
        if "waiting up to" in record.getMessage():
            threading.Timer(0.5, interrupt).start()

logging.basicConfig()
logging.getLogger("levada").addHandler(SecondCtrlC())
signal.signal(signal.SIGINT, signal.default_int_handler)
kafka = EmbeddedKafka()
kafka.__enter__()
try:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send("t", "before").result()
        kafka.__exit__(None, None, None)
        for number in range(1500):
            producer.send("t", str(number))
        if sys.argv[1] == "body":
            interrupt()
            time.sleep(5)
        else:
            threading.Timer(1, interrupt).start()
except KeyboardInterrupt:
    print("interrupted", file=sys.stderr)
print(time.monotonic())
"""


@pytest.mark.parametrize("where", ["body", "close"])
def test_a_second_ctrl_c_ends_it(where: str) -> None:
    run = subprocess.run([sys.executable, "-c", LEFT_BY_CTRL_C, where], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert "interrupted" in run.stderr
    assert time.monotonic() - float(run.stdout) < 4, "the interpreter's exit does not wait for what was given up"
    assert "waiting up to 4.5 s for 1,500 records to be acknowledged; Ctrl-C gives up" in run.stderr
    assert "the producer was closed and gave up 1,500 records: the wait was broken off" in run.stderr
    assert "was not closed" not in run.stderr


def test_a_cancelled_task_ends_it_on_asyncio(caplog: pytest.LogCaptureFixture) -> None:
    async def leave(kafka: EmbeddedKafka) -> None:
        async with aio.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            await (await producer.send("t", "before"))
            kafka.__exit__(None, None, None)
            await producer.send("t", "after")
            raise ZeroDivisionError

    async def program(kafka: EmbeddedKafka) -> float:
        task = asyncio.ensure_future(leave(kafka))
        while "waiting up to 4.5 s for 1 record " not in caplog.text:
            await asyncio.sleep(0.05)
        task.cancel()
        began = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - began

    kafka = EmbeddedKafka()
    kafka.__enter__()
    assert asyncio.run(program(kafka)) < 3, "less than it would have waited"
    assert "gave up 1 record: the wait was broken off" in caplog.text
    assert "was not closed" not in caplog.text


def test_close_counts_what_it_gives_up(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedKafka() as kafka:
        producer = lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
        producer.send("t", "before").result()
    for _ in range(3):
        producer.send("t", "after")
    producer.close(timeout=0.2)
    warnings = said(caplog.records, logging.WARNING)
    assert warnings[-1] == "the producer was closed and gave up 3 records: not acknowledged within 0.2 s"


def test_a_producer_that_is_done_in_time_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with (
        EmbeddedKafka() as kafka,
        pytest.raises(ZeroDivisionError),
        lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer,
    ):
        producer.send("t", "v")
        raise ZeroDivisionError
    assert caplog.text == ""
