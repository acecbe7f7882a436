"""Settings of topics, brokers, groups and client metrics subscriptions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from levada.admin import configs
from levada.admin.configs import AlterConfigOp, ConfigEntry, ConfigResource, ConfigResourceType
from levada.api import arguments
from levada.api.admin import admin_arguments
from levada.api.admin.core import AdminCore
from levada.api.client import Operation


def describe_configs(
    admin: AdminCore,
    /,
    resources: Iterable[ConfigResource | tuple[str, str]],
    *,
    include_synonyms: bool = False,
    include_documentation: bool = False,
    timeout: float | None = None,
) -> Operation[dict[ConfigResource, dict[str, ConfigEntry]]]:
    """Return the settings of resources, by resource and name.

    resources: for example ("Topic", "orders"), ("Broker", "1"), ("BrokerLogger", "1"), ("Group", "billing"), ("ClientMetrics", "all").
    ("Broker", "") has the dynamic settings of all brokers. include_synonyms: whether to include the values that would apply if this one
    were not set (Kafka since 1.1). include_documentation: whether to include Kafka's description of each setting (Kafka since 2.6). A
    sensitive value, such as a password, is None.

    Raises UnknownTopicOrPartitionError and others, UnsupportedVersionError on brokers that are too old, all before 0.11. Groups and
    subscriptions need not exist.
    """
    wanted = admin_arguments.config_resources(resources)
    flow = configs.describe_configs(wanted, admin.attempts(), admin.spawn, synonyms=include_synonyms, documentation=include_documentation)
    return admin.operation(flow, "describe configs", timeout)


def incremental_alter_configs(
    admin: AdminCore,
    /,
    changes: Mapping[ConfigResource | tuple[str, str], Mapping[str, str | float | bool | AlterConfigOp | None]],
    *,
    validate_only: bool = False,
    timeout: float | None = None,
) -> Operation[dict[ConfigResource, None]]:
    """Change single settings of resources; the others stay as they are. Return a dict that maps each resource to None.

    changes: for each resource, as in describe_configs(), the new value of each setting by its name; None removes the value and restores the
    default. AlterConfigOp("Append", "compact") adds to a list, AlterConfigOp("Subtract", ...) removes from it. For each resource, either
    all changes are made or none. validate_only: whether only to check the changes.

    Raises BrokerError (INVALID_CONFIG and others), UnsupportedVersionError on brokers before 2.3.
    """
    wanted = admin_arguments.config_changes(changes)
    flow = configs.incremental_alter_configs(wanted, admin.attempts(), admin.spawn, validate_only=validate_only)
    return admin.operation(flow, "alter configs", timeout)


def list_config_resources(
    admin: AdminCore, /, types: Iterable[str] = (), *, timeout: float | None = None
) -> Operation[list[ConfigResource]]:
    """Return the resources that can have settings, sorted.

    types: for example "Topic", "Broker", "BrokerLogger", "Group", "ClientMetrics"; by default all types. Groups and subscriptions are
    listed only if they have settings. Raises UnsupportedVersionError on brokers before 4.1; those since 3.7 support
    types=["ClientMetrics"].
    """
    wanted = arguments.named(ConfigResourceType, types, "type of resource")
    return admin.operation(configs.list_config_resources(wanted, admin.attempts()), "list config resources", timeout)
