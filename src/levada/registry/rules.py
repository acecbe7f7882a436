"""The rules of a schema (its ruleSet), which Confluent's serializers run. levada runs none, and refuses schemas for which that matters.

A rule on writing, such as ENCRYPT or a condition in CEL, may change a value or forbid it: without it, text would be written that was to be
encrypted. A rule on reading matters if it changes values, and not if it is only a condition. Migration rules convert between versions of a
schema for readers that ask for the latest version, which levada's do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from levada.errors import SerializationError

_ON_WRITING = ("WRITE", "WRITEREAD")
_ON_READING = ("READ", "WRITEREAD")
LISTS = ("domainRules", "encodingRules")
"""The lists of a ruleSet whose rules are for values."""
_IN_CLIENTS = (None, "ALL", "CLIENT")


def refuse_rules_on_writing(rule_set: Mapping[str, Any] | None, schema: str) -> None:
    """Raise SerializationError if a rule has to run before a value of the schema is written. schema: its name for the error."""
    _refuse(rule_set, schema, "written", [rule for rule in _active(rule_set) if rule.get("mode") in _ON_WRITING])


def refuse_rules_on_reading(rule_set: Mapping[str, Any] | None, schema: str) -> None:
    """Raise SerializationError if a rule changes values of the schema when they are read. schema: its name for the error."""
    rules = [rule for rule in _active(rule_set) if rule.get("mode") in _ON_READING and rule.get("kind") != "CONDITION"]
    _refuse(rule_set, schema, "read", rules)


def _active(rule_set: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    if rule_set is None or rule_set.get("enableAt") not in _IN_CLIENTS:
        return
    for name in LISTS:
        yield from (rule for rule in rule_set.get(name) or () if not rule.get("disabled"))


def _refuse(rule_set: Mapping[str, Any] | None, schema: str, done: str, rules: list[Mapping[str, Any]]) -> None:
    if rules:
        named = ", ".join(f"'{rule.get('name')}' ({rule.get('type')})" for rule in rules)
        raise SerializationError(
            f"the schema of {schema} has rules that have to run when a value is {done}, and levada runs none: {named}; use a client of "
            "Confluent for these values, or disable the rules"
        )
