"""Quotas: what users, client ids and addresses are allowed."""

from __future__ import annotations

from collections.abc import Mapping

from levada.admin import quotas
from levada.admin.quotas import ClientQuotaEntity, ClientQuotaFilter
from levada.api.admin import security_arguments
from levada.api.admin.core import AdminCore
from levada.api.client import Operation


def describe_client_quotas(
    admin: AdminCore, wanted: ClientQuotaFilter | None = None, *, timeout: float | None = None
) -> Operation[dict[ClientQuotaEntity, dict[str, float]]]:
    """Return the quotas that are set, by entity; wanted: of which entities, None for all (Kafka since 2.6)."""
    flow = quotas.describe_client_quotas(security_arguments.quota_filter(wanted), admin.attempts())
    return admin.operation(flow, "describe client quotas", timeout)


def alter_client_quotas(
    admin: AdminCore,
    changes: Mapping[ClientQuotaEntity, Mapping[str, float | None]],
    *,
    validate_only: bool = False,
    timeout: float | None = None,
) -> Operation[dict[ClientQuotaEntity, None]]:
    """Set quotas of entities, those of each all or none; None removes one (Kafka since 2.6).

    producer_byte_rate and consumer_byte_rate are bytes per second and broker; request_percentage is time of a broker's threads, 100 for
    one of them; controller_mutation_rate is partitions created and deleted per second; connection_creation_rate, of addresses only, is
    connections per second. As in `admin.alter_client_quotas({ClientQuotaEntity(user="etl"): {"producer_byte_rate": 1_000_000}})`.

    validate_only: only say whether they could be set. Raises BrokerError (INVALID_REQUEST) for what is no quota of such an entity.
    """
    flow = quotas.alter_client_quotas(security_arguments.quota_changes(changes), admin.attempts(), validate_only=validate_only)
    return admin.operation(flow, "alter client quotas", timeout)
