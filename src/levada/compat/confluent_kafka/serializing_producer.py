"""SerializingProducer: a Producer that serializes keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from levada.compat.confluent_kafka.error import KeySerializationError, ValueSerializationError
from levada.compat.confluent_kafka.message import DeliveryCallback
from levada.compat.confluent_kafka.producer import PARTITION_UA, Producer
from levada.compat.confluent_kafka.serialization import MessageField, SerializationContext


class SerializingProducer(Producer):
    """A Producer whose configuration may have key.serializer and value.serializer, functions of an object and a SerializationContext."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        settings = dict(conf)
        self._key_serializer = settings.pop("key.serializer", None)
        self._value_serializer = settings.pop("value.serializer", None)
        super().__init__(settings)

    def produce(  # type: ignore[override]
        self,
        topic: str,
        key: Any = None,
        value: Any = None,
        partition: int = PARTITION_UA,
        on_delivery: DeliveryCallback | None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """Serialize a message and take it as Producer.produce() does. Unlike there, the argument `key` comes before `value`.

        Raises KeySerializationError and ValueSerializationError, and the errors of Producer.produce().
        """
        self._check_open()
        if not isinstance(topic, str):
            raise TypeError(f"topic must be a str, not {type(topic).__name__}")
        context = SerializationContext(topic, MessageField.KEY, headers)
        if self._key_serializer is not None:
            try:
                key = self._key_serializer(key, context)
            except Exception as error:
                raise KeySerializationError(error) from error
        context.field = MessageField.VALUE
        if self._value_serializer is not None:
            try:
                value = self._value_serializer(value, context)
            except Exception as error:
                raise ValueSerializationError(error) from error
        super().produce(topic, value, key, partition, on_delivery=on_delivery, timestamp=timestamp, headers=headers)
