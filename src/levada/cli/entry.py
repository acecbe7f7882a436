"""The entry point of the command line: runs it and ends the process with an exit code."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, NoReturn

from levada.cli.exits import Exit, report, say

OF_THE_EXTRA = ("typer", "rich", "yaml", "textual")
"""Packages that `levada[cli]` installs."""


def console() -> NoReturn:
    """Run the command line, and end the process with its exit code."""
    signal.signal(signal.SIGTERM, _terminated)
    open_missing_streams()
    sys.exit(main())


def open_missing_streams() -> None:
    """Open /dev/null in place of each of stdin, stdout and stderr that the caller has closed (`>&-`).

    Otherwise sockets would get the file descriptors 0 to 2. Reads from this stdin and writes to this stdout fail, so that missing data are
    not mistaken for the end of the data. Messages to this stderr are dropped.
    """
    for name, mode, flags in (("stdin", "r", os.O_WRONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_RDWR)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code. arguments: without the program's name; default: the arguments of this process."""
    try:
        code = _run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        code = Exit.OUTPUT_CLOSED
    except KeyboardInterrupt:
        code = Exit.INTERRUPTED
    except Exception as error:
        code = report(error)
    if code in (Exit.FAILED, Exit.OUTPUT_CLOSED):
        _end_output()
    return code


def _run(arguments: Sequence[str]) -> int:
    try:
        from levada.cli.application import run
    except ModuleNotFoundError as missing:
        if missing.name not in OF_THE_EXTRA:
            raise
        say(f'the command line needs the package {missing.name}; run: pip install "levada[cli]"')
        return Exit.WRONG_USE
    return run(arguments)


def _end_output() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        _discard_output()


def _discard_output() -> None:
    # Otherwise the interpreter would flush stdout at its end, fail, and replace our exit code by its own.
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - a device
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _terminated(number: int, frame: FrameType | None) -> Any:
    # An exception runs the ends of `with` blocks, which close the clients: a consumer leaves its group.
    raise SystemExit(Exit.TERMINATED)
