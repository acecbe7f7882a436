"""Files of Java properties, such as Kafka's server.properties, read as java.util.Properties does: a name and a value per line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from levada.errors import ConfigError

_BLANKS = " \t\f"
_NAME = re.compile(r"((?:[^\\ \t\f=:]|\\.)*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values in a Java properties file, in the order of the file. Raises ConfigError if the file cannot be read."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as fault:
        raise ConfigError(f"the file cannot be read: {fault.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError("the file cannot be read: it is not text in UTF-8") from None
    for line in _whole_lines(text):
        name = _NAME.match(line)
        assert name is not None, "an empty name matches"
        yield _unescaped(name[1]), _unescaped(line[name.end() :])


def _whole_lines(text: str) -> Iterator[str]:
    """Yield the lines that are neither empty nor comments. A line that ends with an unescaped backslash is joined with the next line."""
    whole = ""
    for line in text.split("\n"):
        line = line.lstrip(_BLANKS)
        # A backslash at the end does not continue a comment.
        if not whole and line.startswith(("#", "!")):
            continue
        is_continued = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        whole += line[:-1] if is_continued else line
        if whole and not is_continued:
            yield whole
            whole = ""
    if whole:
        yield whole


def _unescaped(text: str) -> str:
    """Replace the escape sequences in a text. A backslash before a letter such as n or t stands for a control character; any other
    character after it is literal.
    """
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)) if found[1] else _character(found[2]), text)


def _character(escaped: str) -> str:
    if escaped == "u":
        raise ConfigError("the file cannot be read: '\\u' is to be followed by four hexadecimal digits")
    return _CONTROLS.get(escaped, escaped)
