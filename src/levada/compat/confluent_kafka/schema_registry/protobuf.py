"""ProtobufSerializer and ProtobufDeserializer over levada.registry's. They need protobuf."""

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


class ProtobufSerializer(PerFieldSerializer):
    """Serializes messages of one type."""

    def __init__(
        self,
        msg_type: Any,
        schema_registry_client: SchemaRegistryClient,
        conf: Mapping[str, Any] | None = None,
        rule_conf: Any = None,
        rule_registry: Any = None,
    ) -> None:
        refuse_arguments(rule_conf=rule_conf, rule_registry=rule_registry)
        # Types that every registry has are never registered.
        settings, own = serializer_settings(conf, {"skip.known.types": True, "use.deprecated.format": False})
        refuse_arguments(**{"use.deprecated.format": own["use.deprecated.format"]})

        def make(topic: str, field: str) -> Callable[[Any], bytes | None]:
            return registry.ProtobufSerializer(schema_registry_client.levada, msg_type, settings, topic=topic, field=field)

        super().__init__(make)


class ProtobufDeserializer(ByIdDeserializer):
    """Deserializes messages of one type. It needs no registry."""

    def __init__(
        self,
        message_type: Any,
        conf: Mapping[str, Any] | None = None,
        schema_registry_client: SchemaRegistryClient | None = None,
        rule_conf: Any = None,
        rule_registry: Any = None,
    ) -> None:
        refuse_arguments(rule_conf=rule_conf, rule_registry=rule_registry)
        own = deserializer_settings(conf, {"use.deprecated.format": False})
        refuse_arguments(**{"use.deprecated.format": own["use.deprecated.format"]})
        with raising_registry_errors():
            super().__init__(registry.ProtobufDeserializer(message_type), None, own)
