"""Files that a crash leaves with either their old or their new content, and the lock of a folder."""

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
    """Return the error that a request gets if a file cannot be used."""
    return BrokerError(f"{path}: {fault.strerror or fault}", code=ErrorCode.KAFKA_STORAGE_ERROR)


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """Convert each OSError that is raised in the `with` block into a storage error (BrokerError). path: the file or folder that the error
    message names.
    """
    try:
        yield
    except OSError as fault:
        raise storage_error(path, fault) from fault


def write_whole(path: Path, data: bytes, *, lasting: bool = True) -> None:
    """Replace the content of a file at once: after a crash the file has either its old or its new content. Raises BrokerError if the disk
    fails.

    lasting: flush the file to the disk before returning. If False, which is for content that can be computed again, the file may be damaged
    after a crash of the whole machine.
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
    """Open a file that only its owner may read; return its descriptor. flags: the flags of os.open()."""
    return os.open(path, flags | getattr(os, "O_BINARY", 0), 0o600)


def make_private(path: Path) -> None:
    """Create a folder that only its owner may enter, unless it exists."""
    path.mkdir(mode=0o700, exist_ok=True)


def sync_folder(path: Path) -> None:
    """Flush the list of files in a folder to the disk, after files were created, renamed or deleted. Windows has no such call and does not
    need it.
    """
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(path: Path) -> IO[bytes]:
    """Lock a file. The lock ends when the returned file is closed. Raises IllegalStateError if another broker, in this or another process,
    has the lock, and BrokerError if the file cannot be opened.
    """
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
