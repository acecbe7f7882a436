"""JSONSerializer and JSONDeserializer over levada.registry's. Validation, which is on by default, needs jsonschema."""

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


class JSONSerializer(PerFieldSerializer):
    """Serializes objects as JSON. The text has no spaces, unlike confluent-kafka's."""

    def __init__(
        self,
        schema_str: str | Schema | None,
        schema_registry_client: SchemaRegistryClient,
        to_dict: Callable[..., Any] | None = None,
        conf: Mapping[str, Any] | None = None,
        rule_conf: Any = None,
        rule_registry: Any = None,
        json_encode: Any = None,
    ) -> None:
        refuse_arguments(rule_conf=rule_conf, rule_registry=rule_registry, json_encode=json_encode)
        settings, own = serializer_settings(conf, {"validate": True})
        settings["json.fail.invalid.schema"] = own["validate"]

        def make(topic: str, field: str) -> Callable[[Any], bytes | None]:
            return registry.JSONSerializer(schema_registry_client.levada, schema_str, settings, topic=topic, field=field)

        super().__init__(make, to_dict)


class JSONDeserializer(ByIdDeserializer):
    """Deserializes JSON. Unless conf has validate=False, it validates values by schema_str or, if this is None, by the writer's schema; it
    needs schema_registry_client then.
    """

    def __init__(
        self,
        schema_str: str | Schema | None,
        from_dict: Callable[..., Any] | None = None,
        schema_registry_client: SchemaRegistryClient | None = None,
        conf: Mapping[str, Any] | None = None,
        rule_conf: Any = None,
        rule_registry: Any = None,
        json_decode: Any = None,
    ) -> None:
        refuse_arguments(rule_conf=rule_conf, rule_registry=rule_registry, json_decode=json_decode)
        own = deserializer_settings(conf, {"validate": True})
        if own["validate"] and schema_registry_client is None:
            raise ValueError("give schema_registry_client, with which levada validates values, or conf={'validate': False}")
        with raising_registry_errors():
            client = None if schema_registry_client is None else schema_registry_client.levada
            schema = schema_str if own["validate"] else None
            super().__init__(registry.JSONDeserializer(client, schema, validate=bool(own["validate"])), from_dict, own)
