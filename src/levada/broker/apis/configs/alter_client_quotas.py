"""AlterClientQuotas: set and remove quotas (KIP-546). The changes of one entity are applied all or none."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from levada.broker.node.state import Api, Call
from levada.broker.quotas.client_quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    TYPES,
    USER,
    Entity,
)
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    EntryResponse,
    OpData,
)

_MOST: Mapping[str, float] = {PRODUCER_BYTE_RATE: 2.0**63, CONSUMER_BYTE_RATE: 2.0**63, CONNECTION_CREATION_RATE: 2.0**31}
"""Quotas that are whole numbers, with their upper bounds (excluded)."""
_OF_CLIENTS = frozenset({PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE})
_OF_ADDRESSES = frozenset({CONNECTION_CREATION_RATE})
_PRECISION = 1e-6


def handle(call: Call) -> AlterClientQuotasResponse:
    """Change the quotas of each entity separately. The whole request is refused if an entity has the same entity type twice."""
    request: AlterClientQuotasRequest = call.request
    if any(len({part.entity_type for part in entry.entity}) < len(entry.entity) for entry in request.entries):
        return refuse(request, call.version, ErrorCode.INVALID_REQUEST)
    answers: dict[Entity, EntryResponse] = {}
    for entry in request.entries:
        entity: Entity = frozenset((part.entity_type, part.entity_name) for part in entry.entity)
        # If an entity occurs twice, the first change is applied, and the response has the error of the second one, as in Kafka.
        answers[entity] = _failure(entry, _invalid("Ignoring duplicate entity")) if entity in answers else _alter(call, entity, entry)
    return AlterClientQuotasResponse(entries=list(answers.values()))


def refuse(request: AlterClientQuotasRequest, version: int, code: ErrorCode) -> AlterClientQuotasResponse:
    """Answer with an error for every entity."""
    return AlterClientQuotasResponse(entries=[EntryResponse(error_code=code, entity=_named(entry)) for entry in request.entries])


def _alter(call: Call, entity: Entity, entry: EntryData) -> EntryResponse:
    try:
        changes = _changes(entity, entry.ops)
    except BrokerError as error:
        return _failure(entry, error)
    if not call.request.validate_only:
        call.state.cluster.access.client_quotas.change(entity, changes)
    return EntryResponse(entity=_named(entry))


def _changes(entity: Entity, ops: list[OpData]) -> dict[str, float | None]:
    """Return the new limits of an entity by quota name; None removes the limit. Raises BrokerError with the reason."""
    if len({op.key for op in ops}) < len(ops):
        raise _invalid("Duplicate quota key")
    keys = _keys_for(dict(entity))
    return {op.key: None if op.remove else _limit(op, keys) for op in ops}


def _keys_for(names: Mapping[str, str | None]) -> frozenset[str]:
    """Return the names of the quotas that an entity can have. names: its entity names by entity type. Raises BrokerError if one of them is
    invalid.
    """
    if not names:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in names.items():
        if kind not in TYPES:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    if IP not in names:
        return _OF_CLIENTS
    if USER in names or CLIENT_ID in names:
        raise _invalid("Invalid quota entity combination: an ip goes with no user and no client-id")
    if names[IP] is not None and not _is_address(str(names[IP])):
        raise _invalid(f"{names[IP]} is not a valid IP")
    return _OF_ADDRESSES


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _limit(op: OpData, keys: frozenset[str]) -> float:
    if op.key not in keys:
        raise _invalid(f"Invalid configuration key {op.key}")
    # This form of the comparison refuses NaN as well.
    if not op.value > 0:
        raise _invalid(f"Quota {op.key} must be greater than 0")
    if op.key not in _MOST:
        return op.value
    if op.value >= _MOST[op.key]:
        raise _invalid(f"Proposed value for {op.key} is too large.")
    if abs(op.value - round(op.value)) > _PRECISION:
        raise _invalid(f"Configuration {op.key} cannot be a fractional value.")
    # Never 0, by which the meters would divide.
    return float(round(op.value)) or op.value


def _failure(entry: EntryData, error: BrokerError) -> EntryResponse:
    return EntryResponse(error_code=error.code, error_message=error.reason, entity=_named(entry))


def _named(entry: EntryData) -> list[EntityData]:
    return [EntityData(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity]


def _invalid(reason: str) -> BrokerError:
    return BrokerError(reason, code=ErrorCode.INVALID_REQUEST)


API = Api(AlterClientQuotasRequest, 0, 1, handle, refuse, 0)
