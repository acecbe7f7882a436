"""What brokers hold against a topic as a whole."""

from __future__ import annotations

from levada.acls import ResourceType
from levada.base.permissions import refused
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, broker_error
from levada.protocol.messages.metadata import MetadataRequest

TOPIC_NAME_RULE = "a topic's name is 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', but not '.' or '..'"

FINAL_TOPIC_ERRORS = frozenset({ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
"""What brokers say of a topic that will not change by asking again."""


def topic_error(code: ErrorCode, name: str) -> BrokerError:
    """Return the exception for what brokers hold against a topic as a whole."""
    if code is ErrorCode.INVALID_TOPIC_EXCEPTION:
        return broker_error(code, f"topic '{name}': {TOPIC_NAME_RULE}")
    return refused(MetadataRequest.NAME, code, f"the brokers do not describe topic '{name}'", {ResourceType.TOPIC: name})
