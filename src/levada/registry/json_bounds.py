"""Validator classes for jsonschema that limit the time to validate a value. The limit depends only on the size of the value."""

from __future__ import annotations

import json
from collections.abc import Iterator
from threading import local
from typing import Any

import jsonschema

MOST_STEPS = 10_000
STEPS_PER_PART = 1_000
"""The limit of steps for one value: MOST_STEPS, plus STEPS_PER_PART for each part of the value.

A step applies a part of the schema to a part of the value. Without a limit, thirty small schemas, each with two references to the next,
would take 2**30 steps.
"""


class Budget(local):
    """How many steps are left for the value that the current thread validates."""

    left = 0

    def begin(self, value: Any) -> None:
        """Set the budget for the next value of the current thread."""
        self.left = MOST_STEPS + STEPS_PER_PART * _parts(value)


class BoundedKinds:
    """Makes validator classes for jsonschema that count their steps, one class for each JSON Schema draft.

    One schema may need several classes, because each of its parts may name another draft with $schema.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._known: dict[Any, Any] = {}

    def of(self, kind: Any) -> Any:
        """Return the class that replaces a validator class of jsonschema and counts its steps."""
        if kind not in self._known:
            bounded = jsonschema.validators.extend(kind, {"uniqueItems": _unique_items})
            self._known[kind] = self._known[bounded] = bounded
            bounded.evolve = self._counting(bounded.evolve)
        return self._known[kind]

    def _counting(self, evolve: Any) -> Any:
        budget = self._budget

        def counted(validator: Any, **changes: Any) -> Any:
            """Return the validator for a part of the schema. jsonschema calls this each time it applies a part, so it counts as a step."""
            budget.left -= 1
            if budget.left < 0:
                raise ValueError("it takes too many steps for a value of this size")
            found = evolve(validator, **changes)
            if type(found) is type(validator):
                return found
            # The part names another draft, so jsonschema has chosen its own class, which does not count steps. Replace it.
            return self.of(type(found))(**{field.alias: getattr(found, field.name) for field in type(found).__attrs_attrs__ if field.init})

        return counted


def _parts(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(_parts, value.values()))
    return 1 + sum(map(_parts, value)) if isinstance(value, list | tuple) else 1


def _unique_items(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[Any]:
    """Check uniqueItems by comparing the items as text. jsonschema's own check compares each pair of items, which can take too long."""
    if wanted and validator.is_type(value, "array") and len(set(map(_text, value))) < len(value):
        yield jsonschema.ValidationError(f"{value!r} has non-unique elements")


def _text(value: Any) -> str:
    """Return a text that is the same for equal JSON values. 1 equals 1.0, but not true."""
    if isinstance(value, dict):
        return "{" + ",".join(sorted(f"{json.dumps(name)}:{_text(inner)}" for name, inner in value.items())) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_text, value)) + "]"
    return json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value)
