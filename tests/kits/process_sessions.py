"""Programs that run in a session of their own with all that they start, and what can be done to all of that at once. Linux only."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path


def members(leader: int) -> list[int]:
    """Return every process of a session, however they are grouped."""
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if belongs(pid, leader)]  # noqa: PTH208


def kill_session(leader: int) -> None:
    """Kill every process of a session, until none is left."""
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
    """Return the session that a process runs in, None where it does not run; a zombie does not."""
    try:
        state, _, _, session = _stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state == "Z" else int(session)


def parent(pid: int) -> int:
    """Return the process that started another one."""
    return int(_stat(pid)[1])


def command_line(pid: int) -> str:
    """Return what a process was started with."""
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:4]
