"""Translation of Java's regular expressions, which subscribePattern accepts, to Python's.

Topic names consist of letters, digits, dots, underscores and hyphens. For such names, most syntax that both languages have means the same
in both. Other syntax is translated if Python has an exact equivalent. Otherwise the error names it.
"""

from __future__ import annotations

import re

from levada.errors import ConfigError
from levada.spark.options.option_text import shown

_CLASSES = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7F",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1F\x7F",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0B\f\r",
}
_TOKEN = re.compile(
    r"\\Q(?P<quoted>.*?)(?:\\E|$)"
    r"|\\(?P<negated>[pP])(?:\{(?P<class>\w+)\}|(?P<letter>\w))"
    r"|(?P<group>\(\?<(?=[a-zA-Z]))"
    r"|(?P<flags>\(\?[a-zA-Z-]*[dxuU][a-zA-Z-]*)"
    r"|\\(?P<escape>[1-9]\d+|[xb]\{|.)"
    r"|(?P<intersection>&&)"
    r"|(?P<open>\[\^?\]?)"
    r"|(?P<close>\])"
    r"|(?P<other>.)",
    re.DOTALL,
)
_REFUSED = frozenset("0GHNRVXcehk")
"""The escapes that are refused, beside \\x{...}, \\b{...} and references of several digits, which may be octal numbers in Python."""
_SPELT_OTHERWISE = {"z": r"\Z", "Z": r"(?=\n?\Z)"}


def translate(pattern: str, option: str) -> re.Pattern[str]:
    """Translate a Java regular expression to a Python pattern, for use with search().

    option: the option that has the expression, for error messages. Raises ConfigError if the expression is invalid, or uses a feature of
    Java for which Python has no exact equivalent.
    """
    translated = "".join(_translate(pattern, option))
    try:
        return re.compile(translated, re.ASCII)
    except (re.error, ValueError, OverflowError, RecursionError) as fault:
        raise ConfigError(f"option '{option}': Python cannot use the regular expression {shown(pattern)}: {fault}") from None


def _translate(pattern: str, option: str) -> list[str]:
    parts: list[str] = []
    depth = 0
    for token in _TOKEN.finditer(pattern):
        depth += (token["open"] is not None) - (token["close"] is not None and depth > 0)
        if (depth > 1 and token["open"]) or (depth and token["intersection"]):
            raise _refused(pattern, option, "classes within classes ([a[b]], &&)")
        parts.append(_one(token, pattern, option, in_class=depth > 0))
    return parts


def _one(token: re.Match[str], pattern: str, option: str, *, in_class: bool) -> str:
    if token["quoted"] is not None:
        return re.escape(token["quoted"])
    if token["negated"]:
        return _class(token, pattern, option, in_class=in_class)
    if token["group"] and not in_class:
        return "(?P<"
    escape = token["escape"] or ""
    if (token["flags"] and not in_class) or escape in _REFUSED or len(escape) > 1:
        raise _refused(pattern, option, token[0])
    return _SPELT_OTHERWISE.get(escape, token[0])


def _class(token: re.Match[str], pattern: str, option: str, *, in_class: bool) -> str:
    members = _CLASSES.get(token["class"] or token["letter"])
    if members is None or (in_class and token["negated"] == "P"):
        raise _refused(pattern, option, token[0])
    if in_class:
        return members
    return f"[{'^' if token['negated'] == 'P' else ''}{members}]"


def _refused(pattern: str, option: str, what: str) -> ConfigError:
    return ConfigError(
        f"option '{option}': {pattern!r} has {what}, which Python does not have, or has with another meaning; write the pattern without it"
    )
