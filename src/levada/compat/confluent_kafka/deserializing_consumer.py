"""DeserializingConsumer: a Consumer that deserializes keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from levada.compat.confluent_kafka.consumer import Consumer
from levada.compat.confluent_kafka.error import ConsumeError, KeyDeserializationError, ValueDeserializationError
from levada.compat.confluent_kafka.message import Message
from levada.compat.confluent_kafka.serialization import MessageField, SerializationContext


class DeserializingConsumer(Consumer):
    """A Consumer whose configuration may have key.deserializer and value.deserializer, functions of bytes and a SerializationContext."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        settings = dict(conf)
        self._key_deserializer = settings.pop("key.deserializer", None)
        self._value_deserializer = settings.pop("value.deserializer", None)
        super().__init__(settings)

    def poll(self, timeout: float | None = -1) -> Message | None:
        """Return the next message with its key and value deserialized, or None after `timeout` seconds; negative for no limit.

        Raises ConsumeError for an error, KeyDeserializationError and ValueDeserializationError.
        """
        found = super().consume(1, timeout)
        if not found:
            return None
        message = found[0]
        error = message.error()
        if error is not None:
            raise ConsumeError(error, kafka_message=message)
        context = SerializationContext(message.topic() or "", MessageField.KEY, message.headers())
        key, value = message.key(), message.value()
        if self._key_deserializer is not None:
            try:
                key = self._key_deserializer(key, context)
            except Exception as fault:
                raise KeyDeserializationError(fault, message) from fault
        context.field = MessageField.VALUE
        if self._value_deserializer is not None:
            try:
                value = self._value_deserializer(value, context)
            except Exception as fault:
                raise ValueDeserializationError(fault, message) from fault
        message.set_key(key)
        message.set_value(value)
        return message

    def consume(self, num_messages: int = 1, timeout: float | None = -1) -> list[Message]:
        """Raise NotImplementedError, as confluent-kafka does: only poll() deserializes."""
        raise NotImplementedError
