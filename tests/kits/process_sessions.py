"""Finds, signals and kills all processes of a session: a program and the processes that it has started. Linux only."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path


def members(leader: int) -> list[int]:
    """Return the ids of all processes of a session, in any process group. leader: the session's id."""
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if belongs(pid, leader)]  # noqa: PTH208


def kill_session(leader: int) -> None:
    """Send SIGKILL to the processes of a session until none runs any more. leader: the session's id."""
    while found := members(leader):
        signal_all(found, signal.SIGKILL)
        time.sleep(0.02)


def signal_all(pids: list[int], number: signal.Signals) -> None:
    """Send a signal to processes, some of which may have ended."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def belongs(pid: int, session: int) -> bool:
    """Whether a process runs in a session."""
    return session_of(pid) == session


def session_of(pid: int) -> int | None:
    """Return the id of the session that a process runs in. None if the process does not exist or is a zombie."""
    try:
        state, _, _, session = _stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state == "Z" else int(session)


def parent(pid: int) -> int:
    """Return the id of a process's parent."""
    return int(_stat(pid)[1])


def command_line(pid: int) -> str:
    """Return the command line of a process, with spaces between the arguments."""
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:4]
