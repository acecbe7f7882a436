"""Settings of topics, brokers, groups and client metrics subscriptions (KIP-133, KIP-226, KIP-339, KIP-412, KIP-714, KIP-1142)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from levada.admin.enum_names import KafkaWord
from levada.admin.per_key import Attempts
from levada.admin.requests import Asked, Outcome, carry_out, of_all
from levada.base.flow import ANY_NODE, Flow
from levada.client.requests.destination import ThisNode
from levada.client.requests.fan_out import Spawn, Whom
from levada.errors import UnsupportedVersionError
from levada.protocol.messages import describe_configs as describe_message
from levada.protocol.messages import incremental_alter_configs as alter_message
from levada.protocol.messages.describe_configs import DescribeConfigsRequest
from levada.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from levada.protocol.messages.list_config_resources import ListConfigResourcesRequest

FIRST_LIST_VERSION_WITH_TYPES = 1


class ConfigResourceType(KafkaWord):
    """The types of resources that have settings. CLIENT_METRICS: a subscription by which brokers ask clients for metrics (KIP-714)."""

    TOPIC = "Topic"
    BROKER = "Broker"
    BROKER_LOGGER = "BrokerLogger"
    CLIENT_METRICS = "ClientMetrics"
    GROUP = "Group"
    UNKNOWN = "Unknown"


NUMBERS: Mapping[ConfigResourceType, int] = {
    ConfigResourceType.TOPIC: 2,
    ConfigResourceType.BROKER: 4,
    ConfigResourceType.BROKER_LOGGER: 8,
    ConfigResourceType.CLIENT_METRICS: 16,
    ConfigResourceType.GROUP: 32,
}
_TYPES = {number: kind for kind, number in NUMBERS.items()}


class ConfigResource(NamedTuple):
    """A resource that has settings. name: for a broker, its id as text, or "" for the settings of all brokers."""

    type: ConfigResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.type.lower()} '{self.name}'"


class ConfigSource(StrEnum):
    """The source of a setting's value. UNKNOWN: the broker does not report the source (before 1.1), or it is newer than levada.

    Earlier members override later members: first the topic's own value, then the value of its broker, then the value of all brokers, then
    the value in the broker's file, and last Kafka's default.
    """

    DYNAMIC_TOPIC_CONFIG = "DynamicTopicConfig"
    DYNAMIC_BROKER_CONFIG = "DynamicBrokerConfig"
    DYNAMIC_DEFAULT_BROKER_CONFIG = "DynamicDefaultBrokerConfig"
    STATIC_BROKER_CONFIG = "StaticBrokerConfig"
    DEFAULT_CONFIG = "DefaultConfig"
    DYNAMIC_BROKER_LOGGER_CONFIG = "DynamicBrokerLoggerConfig"
    DYNAMIC_CLIENT_METRICS_CONFIG = "DynamicClientMetricsConfig"
    DYNAMIC_GROUP_CONFIG = "DynamicGroupConfig"
    UNKNOWN = "Unknown"


_SOURCES = dict(enumerate(tuple(ConfigSource)[:-1], 1))


class ConfigType(StrEnum):
    """The type of a setting's value. UNKNOWN: the broker does not report the type (before 2.6), or it is newer than levada."""

    BOOLEAN = "Boolean"
    STRING = "String"
    INT = "Int"
    SHORT = "Short"
    LONG = "Long"
    DOUBLE = "Double"
    LIST = "List"
    CLASS = "Class"
    PASSWORD = "Password"
    UNKNOWN = "Unknown"


_CONFIG_TYPES = dict(enumerate(tuple(ConfigType)[:-1], 1))


class ConfigSynonym(NamedTuple):
    """One of the places where a setting gets its value from. The first synonym that is set is the value in use.

    name: the setting's name at this place; a broker may call a topic's setting differently. value: None if it is sensitive.
    """

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """A setting of a resource. value: None if it is not set, or if it is sensitive, because brokers never return passwords.

    is_read_only: whether the setting cannot be changed while the broker runs. synonyms: empty unless requested. documentation: None unless
    requested.
    """

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    is_read_only: bool
    type: ConfigType = ConfigType.UNKNOWN
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Whether the value is a default, because the setting was not set."""
        return self.source is ConfigSource.DEFAULT_CONFIG


class AlterConfigOp(NamedTuple):
    """A change of one setting. operation: "Set"; "Delete", which restores the default; "Append" and "Subtract", which change a list."""

    operation: str
    value: str | None = None

    def __repr__(self) -> str:
        # The value may be a password.
        return f"AlterConfigOp({self.operation!r})"


OPERATIONS: Mapping[str, int] = {"Set": 0, "Delete": 1, "Append": 2, "Subtract": 3}


def describe_configs(
    resources: Collection[ConfigResource], attempts: Attempts, spawn: Spawn, *, synonyms: bool, documentation: bool
) -> Flow[dict[ConfigResource, dict[str, ConfigEntry]]]:
    """Return the settings of resources, by resource and by the name of the setting. For the settings of one broker, the request goes to
    that broker.

    synonyms, documentation: whether the entries include them.
    """
    asked = Asked(
        lambda resource: f"describe the settings of {resource}",
        lambda wanted: DescribeConfigsRequest(
            resources=[
                describe_message.DescribeConfigsResource(resource_type=NUMBERS[one.type], resource_name=one.name, configuration_keys=None)
                for one in wanted
            ],
            include_synonyms=synonyms,
            include_documentation=documentation,
        ),
        lambda response: {
            _resource(one): Outcome(one.error_code, one.error_message, {entry.name: _entry(entry) for entry in one.configs})
            for one in response.results
        },
        min_version=3 if documentation else 1 if synonyms else 0,
    )
    return carry_out(asked, resources, attempts, route=_knows, spawn=spawn)


def incremental_alter_configs(
    changes: Mapping[ConfigResource, Mapping[str, AlterConfigOp]], attempts: Attempts, spawn: Spawn, *, validate_only: bool
) -> Flow[dict[ConfigResource, None]]:
    """Change some settings of resources; other settings stay unchanged. Return a dict that maps each resource to None.

    For each resource, either all changes are made or none. If resources have failed, the error of the first one is raised, with the outcome
    of each. Raises UnsupportedVersionError on brokers before 2.3. validate_only: check the changes without making them.
    """
    asked = Asked(
        lambda resource: f"alter the settings of {resource}",
        lambda wanted: IncrementalAlterConfigsRequest(
            resources=[
                alter_message.AlterConfigsResource(
                    resource_type=NUMBERS[one.type],
                    resource_name=one.name,
                    configs=[
                        alter_message.AlterableConfig(name=name, config_operation=OPERATIONS[change.operation], value=change.value)
                        for name, change in changes[one].items()
                    ],
                )
                for one in wanted
            ],
            validate_only=validate_only,
        ),
        lambda response: {_resource(one): Outcome(one.error_code, one.error_message) for one in response.responses},
    )
    try:
        return (yield from carry_out(asked, changes, attempts, route=_knows, spawn=spawn))
    except UnsupportedVersionError as error:
        raise UnsupportedVersionError(
            f"{error.reason}; brokers before 2.3 can only replace all settings of a resource at once: request(AlterConfigsRequest(...))"
        ) from None


def list_config_resources(types: Collection[ConfigResourceType], attempts: Attempts) -> Flow[list[ConfigResource]]:
    """List the resources that can have settings. types: only resources of these types; empty for all types.

    Brokers before 4.1 list only client metrics subscriptions, and raise UnsupportedVersionError for other types.
    """
    try:
        return (yield from _list(ListConfigResourcesRequest(resource_types=[NUMBERS[kind] for kind in types]), attempts))
    except UnsupportedVersionError:
        if set(types) != {ConfigResourceType.CLIENT_METRICS}:
            raise
    # What brokers before 4.1 list are subscriptions, and nothing else.
    return (yield from _list(ListConfigResourcesRequest(), attempts, oldest=0))


def _list(
    request: ListConfigResourcesRequest, attempts: Attempts, oldest: int = FIRST_LIST_VERSION_WITH_TYPES
) -> Flow[list[ConfigResource]]:
    asked = Asked(
        lambda _: "list the resources that have settings",
        lambda _: request,
        lambda response: {None: Outcome(response.error_code, None, sorted(_resource(one) for one in response.config_resources))},
        min_version=oldest,
    )
    return of_all(asked, attempts, route=lambda _: ANY_NODE)


def _knows(resource: ConfigResource) -> Whom:
    """Return the broker to which a request about a resource has to go. Only a broker itself knows its start-up settings and log levels."""
    is_of_one = resource.type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER) and resource.name
    return ThisNode(int(resource.name)) if is_of_one else ANY_NODE


def _resource(one: Any) -> ConfigResource:
    return ConfigResource(_TYPES.get(one.resource_type, ConfigResourceType.UNKNOWN), one.resource_name)


def _entry(told: describe_message.DescribeConfigsResourceResult) -> ConfigEntry:
    source = _SOURCES.get(told.config_source, ConfigSource.UNKNOWN)
    return ConfigEntry(
        told.name,
        told.value,
        # Version 0 (before 1.1) tells only whether it is the default.
        ConfigSource.DEFAULT_CONFIG if told.is_default else source,
        told.is_sensitive,
        told.read_only,
        _CONFIG_TYPES.get(told.config_type, ConfigType.UNKNOWN),
        tuple(ConfigSynonym(one.name, one.value, _SOURCES.get(one.source, ConfigSource.UNKNOWN)) for one in told.synonyms),
        told.documentation,
    )
