"""Regular expressions in the subscriptions of consumer groups (SubscribedTopicRegex, KIP-848).

Kafka's brokers use RE2. Python's `re` is used here, and expressions that RE2 would not accept are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from levada.error_codes import ErrorCode
from levada.errors import BrokerError

_LACKING_IN_RE2 = re.compile(
    r"""
    (?P<escaped>\\[^1-9Z] | \[\^?\]?(?:\\.|[^\]\\])*\])             # Allowed, and matched as a whole so that no part of it is refused.
    | (?P<lookaround>\(\?<?[=!])
    | (?P<reference>\\[1-9] | \(\?P= | \(\?\()
    | (?P<possessive>\(\?> | [*+?}]\+)
    | (?P<other>\\Z | \(\?\#)
    """,
    re.VERBOSE,
)
"""What Python's `re` has and RE2 does not. A program would otherwise find this out on a real broker only."""


def compile_pattern(pattern: str) -> re.Pattern[str]:
    r"""Compile a pattern for whole topic names. Raises INVALID_REGULAR_EXPRESSION (BrokerError) if RE2 does not accept the pattern.

    RE2's \z, \pL and \Q...\E are refused as well, because Python does not have them.
    """
    found = next((one for one in _LACKING_IN_RE2.finditer(pattern) if one.lastgroup != "escaped"), None)
    if found is not None:
        raise _invalid(pattern, f"RE2 does not know {found.group()!r}")
    try:
        return re.compile(pattern)
    except re.error as error:
        raise _invalid(pattern, str(error)) from error


def matching(pattern: str, topics: Iterable[str]) -> frozenset[str]:
    """Return the topics whose whole name matches the pattern. An empty pattern matches no topic."""
    if not pattern:
        return frozenset()
    compiled = compile_pattern(pattern)
    return frozenset(topic for topic in topics if compiled.fullmatch(topic))


def _invalid(pattern: str, reason: str) -> BrokerError:
    message = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {reason}."
    return BrokerError(message, code=ErrorCode.INVALID_REGULAR_EXPRESSION)
