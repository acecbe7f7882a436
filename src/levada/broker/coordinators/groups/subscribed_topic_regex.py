"""Which topics a regular expression of a consumer means.

Kafka's brokers read it as RE2. Python's `re` does here, and what RE2 lacks is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from levada.error_codes import ErrorCode
from levada.errors import BrokerError

_LACKING_IN_RE2 = re.compile(
    r"""
    (?P<escaped>\\[^1-9Z] | \[\^?\]?(?:\\.|[^\]\\])*\])             # Nothing to refuse, but not to be taken apart either.
    | (?P<lookaround>\(\?<?[=!])
    | (?P<reference>\\[1-9] | \(\?P= | \(\?\()
    | (?P<possessive>\(\?> | [*+?}]\+)
    | (?P<other>\\Z | \(\?\#)
    """,
    re.VERBOSE,
)
"""What Python's `re` knows and RE2 does not, which a program would otherwise find out on a real broker."""


def compile_pattern(pattern: str) -> re.Pattern[str]:
    r"""Return a pattern to match whole topic names. BrokerError INVALID_REGULAR_EXPRESSION for one that RE2 would not take.

    RE2's \z, \pL and \Q...\E are refused, too, because Python does not know them.
    """
    found = next((one for one in _LACKING_IN_RE2.finditer(pattern) if one.lastgroup != "escaped"), None)
    if found is not None:
        raise _invalid(pattern, f"RE2 does not know {found.group()!r}")
    try:
        return re.compile(pattern)
    except re.error as error:
        raise _invalid(pattern, str(error)) from error


def matching(pattern: str, topics: Iterable[str]) -> frozenset[str]:
    """Return the topics whose whole name matches; none for an empty pattern."""
    if not pattern:
        return frozenset()
    compiled = compile_pattern(pattern)
    return frozenset(topic for topic in topics if compiled.fullmatch(topic))


def _invalid(pattern: str, reason: str) -> BrokerError:
    message = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {reason}."
    return BrokerError(message, code=ErrorCode.INVALID_REGULAR_EXPRESSION)
