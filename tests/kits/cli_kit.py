"""Runs the command line in a test: in this process, in a process with pipes, or in a pseudo terminal."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from unittest.mock import patch

import pexpect
import pyte

from levada.cli.entry import main

NO_SETTINGS = "no-such-folder"
WAIT_S = 60


class Ran(NamedTuple):
    """The result of a run. code: the exit status. out: stdout as bytes. err: stderr as text."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    def json(self) -> Any:
        return json.loads(self.out)

    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]


OF_A_TERMINAL = {"NO_COLOR", "COLUMNS", "LINES"}


def environment(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of the tests without the user's settings of levada and of the terminal. given: more variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LEVADA_") and name not in OF_A_TERMINAL}
    return {**kept, "XDG_CONFIG_HOME": NO_SETTINGS, **(given or {})}


def run(*arguments: str | Path, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Ran:
    """Run a command line in this process."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    given = io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin)), "utf-8")
    with (
        patch.dict(os.environ, environment(env), clear=True),
        patch.object(sys, "stdin", given),
        redirect_stdout(out),
        redirect_stderr(err),
        logging_kept(),
    ):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as ended:
            # main() exits this way after SIGTERM, and after completion for a shell.
            assert isinstance(ended.code, int)
            code = ended.code
        out.flush()
    assert isinstance(out.buffer, io.BytesIO)
    return Ran(code, out.buffer.getvalue(), err.getvalue())


def done(*arguments: str | Path, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Ran:
    """Run a command line in this process, and assert that its exit status is 0."""
    ran = run(*arguments, stdin=stdin, env=env)
    assert ran.code == 0, ran.err
    return ran


@contextmanager
def logging_kept() -> Iterator[None]:
    """Restore the handlers and the level of levada's logger after the block. The command line changes them."""
    log = logging.getLogger("levada")
    handlers, level = log.handlers[:], log.level
    try:
        yield
    finally:
        log.handlers[:] = handlers
        log.setLevel(level)


def command_line(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "levada.cli", *map(str, arguments)]


def piped(*arguments: str | Path, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Ran:
    """Run a command line in a new process whose output is not a terminal."""
    ended = subprocess.run(command_line(*arguments), input=stdin, capture_output=True, env=environment(env), timeout=WAIT_S, check=False)
    return Ran(ended.returncode, ended.stdout, ended.stderr.decode())


def started(*arguments: str | Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a command line in a new process, with pipes."""
    pipe = subprocess.PIPE
    return subprocess.Popen(command_line(*arguments), stdin=pipe, stdout=pipe, stderr=pipe, env=environment(env))


class Terminal:
    """A command line that runs in a pseudo terminal, and the content of its screen."""

    def __init__(self, *arguments: str | Path, columns: int = 100, rows: int = 30, env: Mapping[str, str] | None = None) -> None:
        shown = {**environment(env), "TERM": "xterm-256color"}
        program, *rest = command_line(*arguments)
        self._process = pexpect.spawn(program, rest, dimensions=(rows, columns), env=shown, timeout=WAIT_S)
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""

    @property
    def text(self) -> str:
        """The text on the screen."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    def wait_for(self, text: str) -> None:
        """Read output until a text is on the screen, for at most WAIT_S seconds."""
        deadline_s = time.monotonic() + WAIT_S
        while text not in self.text:
            assert self._read(deadline_s), f"{text!r} did not appear on:\n{self.text}"

    def wait_until_gone(self, text: str) -> None:
        """Read output until a text is not on the screen any more, for at most WAIT_S seconds."""
        deadline_s = time.monotonic() + WAIT_S
        while text in self.text:
            assert self._read(deadline_s), f"{text!r} stayed on:\n{self.text}"

    def press(self, keys: str) -> None:
        """Type keys; "\\x03" is Ctrl-C."""
        self._process.send(keys)

    def end(self) -> int:
        """Read output to its end, and return the exit status; -1 if a signal has ended the process."""
        deadline_s = time.monotonic() + WAIT_S
        while self._read(deadline_s):
            pass
        self._process.close()
        code = self._process.exitstatus
        return -1 if code is None else code

    def _read(self, deadline_s: float) -> bool:
        try:
            self._take(self._process.read_nonblocking(4096, max(deadline_s - time.monotonic(), 0.01)))
        except (pexpect.EOF, pexpect.TIMEOUT):
            return False
        return True

    def _take(self, some: bytes) -> None:
        self.raw += some
        self._stream.feed(some)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.close(force=True)
