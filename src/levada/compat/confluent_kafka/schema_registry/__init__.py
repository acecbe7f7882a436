"""SchemaRegistryClient over levada.registry, and the strategies for names of subjects."""

from __future__ import annotations

from levada.compat.confluent_kafka.schema_registry.error import SchemaRegistryError
from levada.compat.confluent_kafka.schema_registry.schema_ids import (
    dual_schema_id_deserializer,
    header_schema_id_serializer,
    prefix_schema_id_deserializer,
    prefix_schema_id_serializer,
)
from levada.compat.confluent_kafka.schema_registry.schema_registry_client import SchemaRegistryClient, SchemaVersion
from levada.compat.confluent_kafka.schema_registry.serializers import (
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
    topic_subject_name_strategy,
)
from levada.registry import RegisteredSchema, Schema, SchemaReference

__all__ = [
    "RegisteredSchema",
    "Schema",
    "SchemaReference",
    "SchemaRegistryClient",
    "SchemaRegistryError",
    "SchemaVersion",
    "dual_schema_id_deserializer",
    "header_schema_id_serializer",
    "prefix_schema_id_deserializer",
    "prefix_schema_id_serializer",
    "record_subject_name_strategy",
    "topic_record_subject_name_strategy",
    "topic_subject_name_strategy",
]
