"""Files with private keys that others can read, too: the client says so, and works."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from levada.logs import Log

log = Log(__name__)

_OF_OTHERS = stat.S_IRGRP | stat.S_IROTH
_HAS_MODES = os.name == "posix"


def warn_of_readable(named: dict[str, str | None]) -> None:
    """Warn of each file that its group, or everybody, may read. named: options with their files, None where there is none."""
    for option, file in named.items():
        if file is not None and _HAS_MODES and _mode(file) & _OF_OTHERS:
            log.warning("%s: other users of this machine can read %s, and a private key in it is theirs then: chmod 600", option, file)


def _mode(file: str) -> int:
    try:
        return Path(file).stat().st_mode
    except (OSError, ValueError):
        # A ValueError means a zero byte in the name. The code that reads the file reports either fault.
        return 0
