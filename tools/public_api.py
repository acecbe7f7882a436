"""Lists the names and signatures of the public API: `python tools/public_api.py > tests/architecture/public_api.txt`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from typing import Any

from levada.base.unsupported_names import Absent

LISTED = (
    "levada",
    "levada.aio",
    "levada.spark",
    "levada.testing",
    "levada.testing.history",
    "levada.registry",
    "levada.otel",
    "levada.oauth",
    "levada.compat.confluent_kafka",
    "levada.compat.confluent_kafka.admin",
    "levada.compat.confluent_kafka.schema_registry",
    "levada.compat.confluent_kafka.serialization",
)
"""Modules whose public names are in __all__."""
WHOLE = ("levada.errors", "levada.types", "levada.serialization", "levada.logs", "levada.metrics.prometheus")
"""Modules whose public names are all names that they define, without a leading underscore."""


def lines() -> Iterator[str]:
    """Yield a line for each public name and each public member of a class."""
    for name in (*LISTED, *WHOLE):
        module = import_module(name)
        for public in sorted(module.__all__ if name in LISTED else _defined_in(module)):
            yield from _described(f"{name}.{public}", getattr(module, public))


def _defined_in(module: Any) -> list[str]:
    return [name for name, value in vars(module).items() if name[0] != "_" and getattr(value, "__module__", None) == module.__name__]


def _described(path: str, value: Any) -> Iterator[str]:
    yield f"{path}{_signature(value) if callable(value) else ''}"
    if inspect.isclass(value) and value.__module__.startswith("levada"):
        for name, member in sorted(_members(value).items()):
            own = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
            yield f"{path}.{name}{_signature(own) if inspect.isroutine(own) else ''}"


def _members(of: type) -> dict[str, Any]:
    """Return the public members of a class, including those of levada's base classes."""
    found: dict[str, Any] = {}
    for above in reversed(of.__mro__):
        if above.__module__.startswith("levada"):
            found |= {name: member for name, member in vars(above).items() if name[0] != "_" and not isinstance(member, Absent)}
    return found


def _signature(value: Any) -> str:
    if inspect.isclass(value) and issubclass(value, Enum):
        return ""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return ""
    return f"({', '.join(_parameter(parameter) for parameter in parameters)})"


def _parameter(parameter: inspect.Parameter) -> str:
    mark = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    kind = "keyword " if parameter.kind == parameter.KEYWORD_ONLY else ""
    default = "" if parameter.default is parameter.empty else f" = {_shown(parameter.default)}"
    return f"{kind}{mark}{parameter.name}{default}"


def _shown(default: Any) -> str:
    return repr(default) if isinstance(default, (str, bytes, int, float, bool, tuple, type(None))) else type(default).__name__


if __name__ == "__main__":
    print("\n".join(lines()))
