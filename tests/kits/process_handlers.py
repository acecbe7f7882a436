"""Handlers that run in other processes: a test's own functions cannot be found there, as no test module can be imported."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from typing import Any


class ServiceError(Exception):
    """An ordinary class, which nevertheless does not unpickle: its args are not what __init__() takes."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")


class Unreadable:
    """Pickles, and does not unpickle."""

    def __reduce__(self) -> Any:
        return int, ("no number",)


def note(record: Any) -> None:
    """Write down the record and the process in the folder that the environment names."""
    write(f"{os.getpid()} {record.partition} {record.offset} {type(record).__name__}")


def fail_on_three(record: Any) -> None:
    if record.value == b"3":
        raise ValueError("three is bad")
    note(record)


def fail_unreadably_on_three(record: Any) -> None:
    note(record)
    if record.value == b"3":
        raise ServiceError(503, "busy")


def return_generator(record: Any) -> Any:
    return note_when_iterated(record)


def note_when_iterated(record: Any) -> Any:
    note(record)
    yield record


def return_lock(record: Any) -> Any:
    note(record)
    return threading.Lock()


def return_unreadable(record: Any) -> Any:
    note(record)
    return Unreadable()


def die_on_three(record: Any) -> None:
    if record.value == b"3":
        os._exit(9)
    note(record)


def hang_on_three(record: Any) -> None:
    """Hang the first time, which is in this process's life."""
    if record.value == b"3" and not os.environ.pop("LEVADA_TEST_HAS_HUNG", None):
        os.environ["LEVADA_TEST_HAS_HUNG"] = "yes"
        time.sleep(60)
    note(record)


def swallow_on_three(record: Any) -> None:
    """Notice no interruption, as code outside of Python does."""
    while record.value == b"3":
        with contextlib.suppress(TimeoutError):
            time.sleep(60)
    note(record)


def hold(record: Any) -> None:
    """Hold the record until a test lets go of it."""
    with socket.create_connection(("127.0.0.1", int(os.environ["LEVADA_TEST_PORT"]))) as test:
        test.sendall(b"begun")
        test.recv(1)
        test.sendall(b"done")


def interrupts_are_ignored(record: Any) -> None:
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    note(record)


def write(line: str) -> None:
    with open(os.environ["LEVADA_TEST_NOTES"], "a") as notes:  # noqa: PTH123
        notes.write(f"{line}\n")
        sys.stdout.flush()
