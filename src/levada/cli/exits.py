"""How a run of the command line ends: the exit codes, which error leads to which, and what the user is told."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from enum import IntEnum

from levada.base.text import escaped
from levada.errors import AuthenticationError, AuthorizationError, ConfigError, ConnectError, CrashedError, KafkaError, TimeoutError


class Exit(IntEnum):
    """An exit code; MEANINGS says what each means."""

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
    Exit.FAILED: "It could not be done: a broker's answer, a file, or a check that found something.",
    Exit.WRONG_USE: (
        "The command line, a setting, a profile or the installation is wrong; so are `levada` and `levada topics` alone, which print help. "
        "Nothing was asked of a broker."
    ),
    Exit.UNREACHABLE: "No broker could be reached, or a connection was lost for good.",
    Exit.REFUSED: "TLS, the login or an ACL refused it.",
    Exit.TIMED_OUT: "The time was over before there was an answer: it may have been done.",
    Exit.PARTLY: "A part was done and a part failed, such as records before a bad line of input; stderr names what failed.",
    Exit.BUG: "A bug in levada. The traceback is on stderr.",
    Exit.INTERRUPTED: "Ctrl-C (128 + SIGINT).",
    Exit.OUTPUT_CLOSED: "Who read the output has closed it, as `| head` does (128 + SIGPIPE). Nothing is said about it.",
    Exit.TERMINATED: "SIGTERM (128 + SIGTERM). Clients were closed before.",
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
"""The first that fits counts. ImportError: a package that an extra of levada brings is missing."""


class CommandError(Exception):
    """A command cannot go on, or did not do all of it; its text is for the user. code: with which the run ends."""

    def __init__(self, message: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.code = code


def exit_of(error: BaseException) -> Exit:
    """Return the exit code of an error; BUG for one that no user's mistake and no broker explains."""
    if isinstance(error, CommandError):
        return error.code
    if isinstance(error, ImportError) and (error.name or "").startswith("levada"):
        return Exit.BUG
    return next((code for kind, code in OF_ERRORS if isinstance(error, kind)), Exit.BUG)


def report(error: Exception) -> Exit:
    """Tell the user about an error, on stderr, and return its exit code. Only a bug has a traceback."""
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
    """Write a line of the program's own to stderr. Where that is full or closed the line is lost, and the exit code still tells."""
    with suppress(OSError):
        print(f"levada: {escaped(text)}", file=sys.stderr, flush=True)


def text_of(error: Exception) -> str:
    """Return what an error says to the user."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__
