"""The exit codes of the command line, the code of each error, and the error messages to the user."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from enum import IntEnum

from levada.base.text import escaped
from levada.errors import AuthenticationError, AuthorizationError, ConfigError, ConnectError, CrashedError, KafkaError, TimeoutError


class Exit(IntEnum):
    """The exit codes. MEANINGS explains each."""

    DONE = 0
    FAILED = 1
    WRONG_USE = 2
    UNREACHABLE = 3
    REFUSED = 4
    TIMED_OUT = 5
    PARTLY = 6
    BUG = 70
    INTERRUPTED = 130
    OUTPUT_CLOSED = 141
    TERMINATED = 143


MEANINGS: Mapping[Exit, str] = {
    Exit.DONE: "Everything was done.",
    Exit.FAILED: "The command failed: a broker returned an error, a file could not be read or written, or a check found a fault.",
    Exit.WRONG_USE: (
        "The command line, a setting, a profile or the installation is wrong, such as a partition that the topic does not have. Nothing "
        "was written. `levada` and `levada topics` without a command print help and end with this code, too."
    ),
    Exit.UNREACHABLE: "No broker could be reached, or a connection was lost for good.",
    Exit.REFUSED: "TLS, the login or the authorization failed.",
    Exit.TIMED_OUT: "The request timed out. It may have been carried out.",
    Exit.PARTLY: "A part was done and a part failed, such as the records from a bad line of input on; stderr names the failures.",
    Exit.BUG: "A bug in levada. The traceback is on stderr.",
    Exit.INTERRUPTED: "Ctrl-C (128 + SIGINT).",
    Exit.OUTPUT_CLOSED: "The program that reads the output closed the pipe, like `| head` does (128 + SIGPIPE). No message is printed.",
    Exit.TERMINATED: "SIGTERM (128 + SIGTERM). The clients were closed first.",
}

OF_ERRORS: tuple[tuple[type[BaseException], Exit], ...] = (
    (ConfigError, Exit.WRONG_USE),
    (AuthenticationError, Exit.REFUSED),
    (AuthorizationError, Exit.REFUSED),
    (ConnectError, Exit.UNREACHABLE),
    (TimeoutError, Exit.TIMED_OUT),
    (CrashedError, Exit.BUG),
    (KafkaError, Exit.FAILED),
    (ImportError, Exit.WRONG_USE),
    (OSError, Exit.FAILED),
)
"""The exit code of each class of errors; the first match counts. ImportError means that a package of one of levada's extras is missing."""


class CommandError(Exception):
    """Raised if a command fails or did only a part of its work. The text is printed for the user. code: the exit code."""

    def __init__(self, message: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.code = code


def exit_of(error: BaseException) -> Exit:
    """Return the exit code of an error, or BUG for an error that is not expected here."""
    if isinstance(error, CommandError):
        return error.code
    if isinstance(error, ImportError) and (error.name or "").startswith("levada"):
        return Exit.BUG
    return next((code for kind, code in OF_ERRORS if isinstance(error, kind)), Exit.BUG)


def report(error: Exception) -> Exit:
    """Print an error to stderr, and return its exit code. A traceback is printed only for a bug."""
    code = exit_of(error)
    if code is Exit.BUG:
        traceback.print_exception(error)
        say("this is a bug in levada; please report it with the lines above")
        return code
    say(text_of(error))
    for note in getattr(error, "__notes__", ()):
        say(note)
    return code


def say(text: str) -> None:
    """Write "levada: <text>" as a line to stderr. Errors of that write are ignored, because the exit code still tells the result."""
    with suppress(OSError):
        print(f"levada: {escaped(text)}", file=sys.stderr, flush=True)


def text_of(error: Exception) -> str:
    """Return the text of an error for the user."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__
