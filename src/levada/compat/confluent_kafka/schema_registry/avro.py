"""AvroSerializer and AvroDeserializer over levada.registry's. They need fastavro."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from levada import registry
from levada.compat.confluent_kafka.schema_registry.error import raising_registry_errors
from levada.compat.confluent_kafka.schema_registry.schema_registry_client import SchemaRegistryClient
from levada.compat.confluent_kafka.schema_registry.serializers import (
    ByIdDeserializer,
    PerFieldSerializer,
    deserializer_settings,
    refuse_arguments,
    serializer_settings,
)
from levada.registry import Schema


class AvroSerializer(PerFieldSerializer):
    """Serializes objects as Avro. to_dict: called with an object and its SerializationContext; returns what is serialized."""

    def __init__(
        self,
        schema_registry_client: SchemaRegistryClient,
        schema_str: str | Schema | None = None,
        to_dict: Callable[..., Any] | None = None,
        conf: Mapping[str, Any] | None = None,
        rule_conf: Any = None,
        rule_registry: Any = None,
    ) -> None:
        refuse_arguments(rule_conf=rule_conf, rule_registry=rule_registry)
        settings, _ = serializer_settings(conf, {})

        def make(topic: str, field: str) -> Callable[[Any], bytes | None]:
            return registry.AvroSerializer(schema_registry_client.levada, schema_str, settings, topic=topic, field=field)

        super().__init__(make, to_dict)


class AvroDeserializer(ByIdDeserializer):
    """Deserializes Avro by the schema id of each value. schema_str: the reader's schema, None for the writer's."""

    def __init__(
        self,
        schema_registry_client: SchemaRegistryClient,
        schema_str: str | Schema | None = None,
        from_dict: Callable[..., Any] | None = None,
        return_record_name: bool = False,
        conf: Mapping[str, Any] | None = None,
        rule_conf: Any = None,
        rule_registry: Any = None,
    ) -> None:
        refuse_arguments(return_record_name=return_record_name, rule_conf=rule_conf, rule_registry=rule_registry)
        settings = deserializer_settings(conf, {})
        with raising_registry_errors():
            super().__init__(registry.AvroDeserializer(schema_registry_client.levada, schema_str), from_dict, settings)
