"""A line of text that is written over in place, in a terminal or a notebook."""

from __future__ import annotations

import shutil
import sys
from typing import TextIO


class ProgressLine:
    """Shows the newest text. width: columns of the terminal; what does not fit is cut off."""

    def __init__(self, stream: TextIO, width: int) -> None:
        self._stream = stream
        self._width = width
        self._shown = ""

    def show(self, text: str) -> None:
        """Write the text over the one before."""
        fitting = text if len(text) < self._width else text[: self._width - 2] + "…"
        self._stream.write("\r" + fitting.ljust(len(self._shown)))
        self._stream.flush()
        self._shown = fitting

    def end(self) -> None:
        """Leave the last text as a line of its own."""
        if self._shown:
            self._stream.write("\n")
            self._stream.flush()
            self._shown = ""


def progress_line() -> ProgressLine | None:
    """Return a line on the terminal's standard error or the notebook's output; None where nobody would see it."""
    if "ipykernel" in sys.modules:
        return ProgressLine(sys.stdout, width=120)
    if sys.stderr is not None and sys.stderr.isatty():
        return ProgressLine(sys.stderr, shutil.get_terminal_size().columns)
    return None
