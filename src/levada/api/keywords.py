"""Errors for keyword arguments of other Kafka clients: instead of Python's bare TypeError, they say what to write in levada.

A method that users often call with another client's arguments takes `**unknown: Never`, and raises unknown_keyword() if it is not empty. A
correct call costs only an empty dict more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from levada.base.text import did_you_mean
from levada.config.base import Config
from levada.formats.arguments import ARGUMENTS

ADVICE: Final[Mapping[str, str]] = {
    "callback": "it is called on_delivery, a function of the record's metadata and the error",
    "timestamp_ms": "it is called timestamp, in milliseconds since the epoch, or an aware datetime",
    "timeout_ms": "it is called timeout, and is in seconds",
    "request_timeout": "it is called timeout, and is for the whole call",
    "operation_timeout": "it is called timeout, and is for the whole call",
    "message": "commit(record) commits up to a record, and commit(records) up to the last of several",
    "asynchronous": "commit() waits, commit_async() does not",
    "update_offsets": "leave it out; positions move as records are handed out",
    "metadata": "leave it out; an OffsetAndMetadata is returned",
    "autocommit": "leave it out; close() commits where enable.auto.commit is set",
    "num_messages": "it is called max_records",
}
"""What to write instead of another client's argument. Python itself names required arguments that are missing."""


def check_formats(method: Callable[..., Any], given: Mapping[str, Any], known: Sequence[str] = ARGUMENTS) -> None:
    """Raise TypeError for a keyword argument that is not in `known`. method: bound to its client. known: the arguments about formats."""
    if unknown := {name: value for name, value in given.items() if name not in known}:
        raise unknown_keyword(method, unknown, more=known)


def unknown_keyword(method: Callable[..., Any], unknown: Mapping[str, Any], client: str = "", more: Iterable[str] = ()) -> TypeError:
    """Return the error for a call with keyword arguments that a method does not have. It names the first of them.

    method: a method that is bound to its client, or a function. client: for a function whose first parameter is the client, the client's
    name. more: further arguments that the method has.
    """
    from inspect import Parameter, signature

    name = next(iter(unknown))
    known = [parameter.name for parameter in signature(method).parameters.values() if parameter.kind is not Parameter.VAR_KEYWORD]
    known, client = (known[1:], client) if client else (known, type(getattr(method, "__self__", None)).__name__)
    option = name.replace("_", ".")
    if name in ADVICE:
        advice = f"; {ADVICE[name]}"
    elif any(option in kind.OPTIONS or option in kind.ALIASES for kind in Config.KINDS):
        advice = f"; it is an option of the client, as in {client}({name}=...)"
    else:
        advice = did_you_mean(name, (*known, *more))
    return TypeError(f"{client}.{method.__name__}() has no argument '{name}'{advice}")
