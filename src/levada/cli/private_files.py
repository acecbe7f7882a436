"""Reads files whose permissions are strict enough, like ssh does with its keys: only the owner may write them, and read them if secret."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from levada.errors import ConfigError

MOST_BYTES = 1 << 20
WRITE_BITS = stat.S_IWGRP | stat.S_IWOTH
READ_BITS = stat.S_IRGRP | stat.S_IROTH


def read_private(path: Path, what: str, *, others_may_read: bool) -> str:
    """Return the text of a file that other users cannot write, and cannot read unless others_may_read is true.

    what: description of the file, for errors. The check is done on the open file, so that nobody can replace the file between check and
    read. For a link, the permissions of its target are checked. On Windows, owner and permissions are not checked.

    Raises ConfigError if the file is refused, is larger than MOST_BYTES, or is not UTF-8; FileNotFoundError and other OSErrors if it cannot
    be opened.
    """
    # Without O_NONBLOCK, opening a FIFO would block until a writer opens it.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{path}: {what} is not a regular file")
        if hasattr(os, "getuid"):
            _check_owner(path, what, status)
            _check_mode(path, what, status.st_mode, others_may_read=others_may_read)
            _check_folder(path, what)
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ConfigError(f"{path}: {what} is larger than {MOST_BYTES} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: {what} is not text in UTF-8") from None


def _check_owner(path: Path, what: str, status: os.stat_result) -> None:
    if status.st_uid not in (0, os.getuid()):
        raise ConfigError(f"{path}: {what} belongs to another user (uid {status.st_uid}); use one of your own")


def _check_mode(path: Path, what: str, mode: int, *, others_may_read: bool) -> None:
    if mode & WRITE_BITS:
        raise ConfigError(f"{path}: {what} can be written by others (mode {stat.S_IMODE(mode):o}); run: chmod go-w {path}")
    if mode & READ_BITS and not others_may_read:
        raise ConfigError(f"{path}: {what} can be read by others (mode {stat.S_IMODE(mode):o}); run: chmod 600 {path}")


def _check_folder(path: Path, what: str) -> None:
    """Refuse a folder that all users can write to and that has no sticky bit: anyone could replace the file."""
    folder = path.absolute().parent
    mode = folder.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise ConfigError(f"{path}: {what} is in a folder that everybody can write to; run: chmod o-w {folder}")
