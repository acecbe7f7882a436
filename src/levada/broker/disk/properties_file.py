"""Files of Java properties, as Kafka's server.properties is one: a name and a value per line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from levada.errors import ConfigError

_CONTINUED = re.compile(r"\\\r?\n[ \t]*")
_BEHIND_NAME = re.compile(r"((?:[^\\\s=:]|\\.)+)\s*[=:\s]\s*")
_ESCAPED = re.compile(r"\\(.)")


def read_properties(path: str) -> Iterator[tuple[str, str]]:
    """Yield names and values in their order. Raises ConfigError for a file that cannot be read."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as fault:
        raise ConfigError(f"the file cannot be read: {fault.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError("the file cannot be read: it is not text in UTF-8") from None
    for line in map(str.strip, _CONTINUED.sub("", text).splitlines()):
        if line and line[0] not in "#!":
            yield _property(line)


def _property(line: str) -> tuple[str, str]:
    """Split a line at its first '=', ':' or space. A backslash takes away what the character behind it means."""
    at = _BEHIND_NAME.match(line)
    name, value = (line, "") if at is None else (at[1], line[at.end() :])
    return _ESCAPED.sub(r"\1", name), _ESCAPED.sub(r"\1", value)
