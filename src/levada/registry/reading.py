"""What the deserializers of all formats share: what is made of a schema, kept by the id that stands before each value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

C = TypeVar("C")

MOST_KEPT = 1_000


class PerSchemaId(Generic[C]):
    """Compiles a schema once per id. Read without a lock: two threads that meet a new id at once both compile it."""

    def __init__(self, compile: Callable[[int], C]) -> None:
        self._compile = compile
        self._known: dict[int, C] = {}

    def get(self, schema_id: int) -> C:
        """Return what was compiled for this id."""
        known = self._known.get(schema_id)
        if known is None:
            known = self._compile(schema_id)
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            self._known[schema_id] = known
        return known
