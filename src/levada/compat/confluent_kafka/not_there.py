"""Names of confluent-kafka that this package does not have, each with what to use instead. docs/MIGRATING.md has the same names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from levada.base.unsupported_names import lacks as lacks

_CREDENTIALS: Final = "make a new client with the new sasl.username and sasl.password"

MODULE: Final[Mapping[str, str]] = {
    "ShareConsumer": "use levada.KafkaShareConsumer",
    "DeserializingShareConsumer": "use levada.KafkaShareConsumer with key_deserializer and value_deserializer",
    "AcknowledgeType": "use levada.AcknowledgeType with levada.KafkaShareConsumer",
    "Messages": "use levada.KafkaShareConsumer, whose poll() returns ShareRecords",
    "ThrottleEvent": "levada obeys throttling by itself",
    "aio": "use levada.aio.KafkaProducer and levada.aio.KafkaConsumer",
    "avro": "use schema_registry.avro",
}
PRODUCER: Final[Mapping[str, str]] = {"set_sasl_credentials": _CREDENTIALS}
CONSUMER: Final[Mapping[str, str]] = {"set_sasl_credentials": _CREDENTIALS}
ADMIN: Final[Mapping[str, str]] = {
    "set_sasl_credentials": _CREDENTIALS,
    "alter_configs": "use incremental_alter_configs(), which leaves other settings as they are",
    "list_groups": "use list_consumer_groups() and describe_consumer_groups()",
}
