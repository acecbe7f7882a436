"""What keys and values are, where they are more than bytes: JSON, or what a Schema Registry knows the schema of."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from levada.base.shown import did_you_mean
from levada.errors import ConfigError

if TYPE_CHECKING:
    from levada.registry import SchemaRegistryClient

PARTS = ("key", "value")
KINDS: Mapping[str, str] = {
    "json": "JSON",
    "avro": "Avro with the id of its schema before it, which a Schema Registry has",
    "json-schema": "JSON with the id of its schema before it",
}


def deserializers(given: Sequence[str], registry: Callable[[], SchemaRegistryClient]) -> dict[str, Callable[[bytes], Any]]:
    """Read -s: `avro` is for keys and values, `value=avro` for values. Return the settings of a consumer that follow.

    registry: makes a client, which is called where one is needed. Raises ConfigError for a word that is none.
    """
    kinds: dict[str, str] = {}
    for one in given:
        part, equals, kind = one.rpartition("=")
        if equals and part not in PARTS:
            raise ConfigError(f"--schema '{one}': expected key= or value= before the kind{did_you_mean(part, PARTS)}")
        if kind not in KINDS:
            raise ConfigError(f"--schema '{one}': expected {', '.join(KINDS)}{did_you_mean(kind, KINDS)}")
        kinds |= dict.fromkeys([part] if equals else PARTS, kind)
    return {f"{part}_deserializer": _deserializer(kind, registry) for part, kind in kinds.items()}


def _deserializer(kind: str, registry: Callable[[], SchemaRegistryClient]) -> Callable[[bytes], Any]:
    if kind == "json":
        return json.loads
    if kind == "json-schema":
        from levada.registry import JSONDeserializer

        return JSONDeserializer()
    # This one needs fastavro.
    from levada.registry import AvroDeserializer

    return AvroDeserializer(registry())
