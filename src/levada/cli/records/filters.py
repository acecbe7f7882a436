"""Which records are printed: by text or regular expression in key, value and headers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from levada.cli.arguments import as_typed
from levada.cli.records.template import as_bytes
from levada.errors import ConfigError
from levada.types import AnyRecord

Keeps = Callable[[AnyRecord], bool]
Matches = Callable[[Any], bool]


def record_filter(key: str | None, value: str | None, headers: Sequence[str]) -> Keeps | None:
    """Return what tells whether a record is kept; None where all are. A record has to pass everything that is given.

    key, value: text that has to be in it, or `/.../`, a regular expression that has to be found in it. headers: `name`, a header that has
    to be there, or `name=` and text or a regular expression for its value. Raises ConfigError for a bad expression.
    """
    tests: list[Keeps] = []
    if key is not None:
        key_matches = _matching(key)
        tests.append(lambda record: key_matches(record.key))
    if value is not None:
        value_matches = _matching(value)
        tests.append(lambda record: value_matches(record.value))
    tests += [_header_test(header) for header in headers]
    if not tests:
        return None
    return lambda record: all(test(record) for test in tests)


def _header_test(given: str) -> Keeps:
    name, equals, wanted = given.partition("=")
    matches = _matching(wanted) if equals else (lambda value: True)
    return lambda record: any(header == name and matches(value) for header, value in record.headers)


def _matching(wanted: str) -> Matches:
    if len(wanted) >= 2 and wanted.startswith("/") and wanted.endswith("/"):
        try:
            expression = re.compile(as_typed(wanted[1:-1]))
        except re.error as fault:
            raise ConfigError(f"'{wanted}' is no regular expression: {fault}") from None
        return lambda value: value is not None and expression.search(as_bytes(value)) is not None
    text = as_typed(wanted)
    return lambda value: value is not None and text in as_bytes(value)
