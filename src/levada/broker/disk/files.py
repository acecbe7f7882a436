"""Writing files so that they are whole after a crash, and the lock of a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from levada.error_codes import ErrorCode
from levada.errors import BrokerError, IllegalStateError

TEMPORARY = ".tmp"


def storage_error(path: Path, fault: OSError) -> BrokerError:
    """Return what a request is refused with when a file cannot be used."""
    return BrokerError(f"{path}: {fault.strerror or fault}", code=ErrorCode.KAFKA_STORAGE_ERROR)


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """Within this block what the system refuses is a storage_error. path: what it is about."""
    try:
        yield
    except OSError as fault:
        raise storage_error(path, fault) from fault


def write_whole(path: Path, data: bytes, *, lasting: bool = True) -> None:
    """Write a file that replaces the one before as a whole: after a crash there is the one or the other.

    lasting: flushed to the disk before this returns, which what can be computed again need not be.
    """
    temporary = path.with_name(path.name + TEMPORARY)
    with storing(path):
        with os.fdopen(open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
            file.write(data)
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
        if lasting:
            sync_folder(path.parent)


def open_private(path: Path, flags: int) -> int:
    """Open a file that nobody but its owner may read; return its descriptor."""
    return os.open(path, flags | getattr(os, "O_BINARY", 0), 0o600)


def make_private(path: Path) -> None:
    """Make a folder that nobody but its owner may enter, unless it is there."""
    path.mkdir(mode=0o700, exist_ok=True)


def sync_folder(path: Path) -> None:
    """Make what was created, renamed and deleted in a folder last. Windows has no such call, and does not need it."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(path: Path) -> IO[bytes]:
    """Lock a file for as long as what this returns is open. IllegalStateError when another broker holds it, in whichever process."""
    with storing(path):
        file = os.fdopen(open_private(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "a+b")
    try:
        _lock(file)
    except OSError as fault:
        file.close()
        raise IllegalStateError(f"{path.parent} is in use by another broker; end it, or choose another data_dir") from fault
    return file


def _lock(file: IO[bytes]) -> None:
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
