"""DescribeConfigs: the settings of topics and groups, and of this broker (KIP-133, KIP-226)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from levada.acls import CLUSTER_NAME, ResourceType
from levada.broker.permissions import check
from levada.broker.resource_config import Kind, ResourceConfig
from levada.broker.settings import SECRETS, BrokerSettings
from levada.broker.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from levada.protocol.schema import ZERO_UUID
from levada.types import setting_text

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
_PROTECTED_AS = {
    TOPIC: ResourceType.TOPIC,
    GROUP: ResourceType.GROUP,
    **dict.fromkeys((BROKER, BROKER_LOGGER, CLIENT_METRICS), ResourceType.CLUSTER),
}
# ConfigSource: set when the broker was started, or a default.
BROKER_SOURCE, DEFAULT_SOURCE = 4, 5
_KINDS = {bool: Kind.BOOLEAN, str: Kind.STRING, int: Kind.LONG, float: Kind.DOUBLE}


def handle(call: Call) -> DescribeConfigsResponse:
    """Describe each resource on its own."""
    return DescribeConfigsResponse(results=[_describe(call, wanted) for wanted in call.request.resources])


def refuse(request: DescribeConfigsRequest, version: int, code: ErrorCode) -> DescribeConfigsResponse:
    """Answer with an error for every resource."""
    return DescribeConfigsResponse(results=[_failure(wanted, code, None) for wanted in request.resources])


def _describe(call: Call, wanted: DescribeConfigsResource) -> DescribeConfigsResult:
    try:
        check_config(call, wanted.resource_type, wanted.resource_name)
        found = list(_settings(call, wanted))
    except BrokerError as error:
        return _failure(wanted, error.code, error.reason)
    names = wanted.configuration_keys
    return DescribeConfigsResult(
        resource_type=wanted.resource_type,
        resource_name=wanted.resource_name,
        configs=[setting for setting in found if names is None or setting.name in names],
    )


def check_config(call: Call, resource_type: int, name: str) -> None:
    """Raise AuthorizationError unless the client may do with a resource's settings what the request is for."""
    protected = _PROTECTED_AS.get(resource_type)
    if protected is not None:
        check(call, protected, CLUSTER_NAME if protected is ResourceType.CLUSTER else name)


def _settings(call: Call, wanted: DescribeConfigsResource) -> Iterator[DescribeConfigsResourceResult]:
    if wanted.resource_type == TOPIC:
        topic = call.state.find_topic(wanted.resource_name, ZERO_UUID, by_id=False)
        return _of_resource(call.state.settings, topic.config, with_synonyms=call.request.include_synonyms)
    if wanted.resource_type == GROUP:
        of_group = call.state.cluster.group_config(wanted.resource_name)
        return _of_resource(call.state.settings, of_group, with_synonyms=call.request.include_synonyms)
    if wanted.resource_type == CLIENT_METRICS and wanted.resource_name:
        config = call.state.cluster.metrics_config(wanted.resource_name)
        return _of_resource(call.state.settings, config, with_synonyms=call.request.include_synonyms)
    if wanted.resource_type == BROKER and not wanted.resource_name:
        # Settings for all brokers at once are kept nowhere; each was started with its own.
        return iter(())
    if wanted.resource_type == BROKER:
        if wanted.resource_name != str(call.state.node_id):
            raise BrokerError(f"this is broker {call.state.node_id}, not {wanted.resource_name!r}", code=ErrorCode.INVALID_REQUEST)
        return _of_broker(call.state.settings)
    raise BrokerError(f"this broker has no settings of resource type {wanted.resource_type}", code=ErrorCode.INVALID_REQUEST)


def _of_resource(settings: BrokerSettings, config: ResourceConfig, *, with_synonyms: bool) -> Iterator[DescribeConfigsResourceResult]:
    for name, text, overridden in config.effective():
        broker_name = config.SETTINGS[name].broker_setting
        default_source = _source(settings, broker_name) if broker_name else DEFAULT_SOURCE
        synonyms = [DescribeConfigsSynonym(name=name, value=text, source=config.SOURCE)] if overridden else []
        if config.TELLS_DEFAULTS:
            synonyms.append(DescribeConfigsSynonym(name=_dotted(broker_name or name), value=config.default(name), source=default_source))
        yield DescribeConfigsResourceResult(
            name=name,
            value=text,
            config_source=config.SOURCE if overridden else default_source,
            synonyms=synonyms if with_synonyms else [],
            config_type=config.SETTINGS[name].check.kind,
        )


def _of_broker(settings: BrokerSettings) -> Iterator[DescribeConfigsResourceResult]:
    for field in fields(settings):
        value = getattr(settings, field.name)
        source = _source(settings, field.name)
        yield DescribeConfigsResourceResult(
            name=_dotted(field.name),
            value=None if field.name in SECRETS else setting_text(value),
            read_only=True,
            is_sensitive=field.name in SECRETS,
            config_source=source,
            config_type=_KINDS[type(value)],
        )


def _source(settings: BrokerSettings, name: str) -> int:
    default = next(field.default for field in fields(settings) if field.name == name)
    return DEFAULT_SOURCE if getattr(settings, name) == default else BROKER_SOURCE


def _dotted(name: str) -> str:
    return name.replace("_", ".")


def _failure(wanted: DescribeConfigsResource, code: ErrorCode, message: str | None) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code, error_message=message, resource_type=wanted.resource_type, resource_name=wanted.resource_name, configs=[]
    )


API = Api(DescribeConfigsRequest, 1, 4, handle, refuse, 1)
