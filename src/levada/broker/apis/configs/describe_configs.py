"""DescribeConfigs: the settings of topics, groups, client metrics subscriptions, this broker and all brokers (KIP-133, KIP-226)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from levada.acls import CLUSTER_NAME, ResourceType
from levada.broker.access.permissions import check
from levada.broker.config.broker_config import DEFAULT_SOURCE, Origin, origins, settings_of_all, settings_of_broker
from levada.broker.config.resource_config import ResourceConfig
from levada.broker.config.settings import BrokerSettings, Layers, dotted
from levada.broker.node.state import Api, Call
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

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
_PROTECTED_AS = {
    TOPIC: ResourceType.TOPIC,
    GROUP: ResourceType.GROUP,
    **dict.fromkeys((BROKER, BROKER_LOGGER, CLIENT_METRICS), ResourceType.CLUSTER),
}
_UNKNOWN_TYPE = 0
_ANSWERS_KEPT = 16
"""The size of the cache of broker descriptions. They have some 300 settings, which rarely change, and a request is only a few bytes."""


def handle(call: Call) -> DescribeConfigsResponse:
    """Describe the settings of each resource separately."""
    # Each resource once: a small request that names a broker a thousand times must not cause a thousand descriptions.
    resources = {_key(wanted): wanted for wanted in call.request.resources}
    return DescribeConfigsResponse(results=[_describe(call, wanted) for wanted in resources.values()])


def refuse(request: DescribeConfigsRequest, version: int, code: ErrorCode) -> DescribeConfigsResponse:
    """Answer with an error for every resource."""
    return DescribeConfigsResponse(results=[_failure(wanted, code, None) for wanted in request.resources])


def _key(wanted: DescribeConfigsResource) -> tuple[int, str]:
    return wanted.resource_type, wanted.resource_name


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
    """Raise AuthorizationError unless the client has, on a resource, the permission that the request needs: to read or to change its
    settings. A resource type without settings is not checked.
    """
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
    if wanted.resource_type == BROKER:
        is_one = call.state.is_one_broker(wanted.resource_name)
        layers = tuple(frozenset(layer.items()) for layer in call.state.described_settings.layers)
        return iter(_of_brokers(layers, is_one, call.request.include_synonyms, call.request.include_documentation))
    raise BrokerError(f"this broker has no settings of resource type {wanted.resource_type}", code=ErrorCode.INVALID_REQUEST)


def _of_resource(settings: BrokerSettings, config: ResourceConfig, *, with_synonyms: bool) -> Iterator[DescribeConfigsResourceResult]:
    """Yield the settings of a topic, a group or a client metrics subscription. Settings without an override have the defaults that follow
    from the broker settings.
    """
    for name, text, overridden in config.under(settings).effective():
        broker_name = config.SETTINGS[name].broker_setting
        synonyms = origins(settings.layers, dotted(broker_name)) if broker_name else []
        source = synonyms[0].source if synonyms else DEFAULT_SOURCE
        if not broker_name and config.TELLS_DEFAULTS:
            synonyms = [Origin(name, config.default(name), DEFAULT_SOURCE)]
        if overridden:
            source = config.SOURCE
            synonyms = [Origin(name, text, source), *synonyms]
        yield DescribeConfigsResourceResult(
            name=name,
            value=text,
            config_source=source,
            synonyms=_synonyms(synonyms) if with_synonyms else [],
            config_type=config.SETTINGS[name].check.kind,
        )


@lru_cache(maxsize=_ANSWERS_KEPT)
def _of_brokers(
    layers: tuple[frozenset[tuple[str, str]], ...], is_one: bool, with_synonyms: bool, with_documentation: bool
) -> list[DescribeConfigsResourceResult]:
    """Return the settings of a broker, or the settings that were changed for all brokers.

    layers: the contents of the Layers of the broker's settings. is_one: True for one broker, False for all brokers. with_synonyms,
    with_documentation: whether the request asks for them.
    """
    known = Layers(*map(dict, layers))
    return [
        DescribeConfigsResourceResult(
            name=told.name,
            value=told.text,
            read_only=told.is_read_only,
            is_sensitive=told.is_sensitive,
            config_source=told.source,
            synonyms=_synonyms(told.origins) if with_synonyms else [],
            config_type=_UNKNOWN_TYPE if told.setting is None else told.setting.check.kind,
            documentation=told.documentation if with_documentation else None,
        )
        for told in (settings_of_broker(known) if is_one else settings_of_all(known))
    ]


def _synonyms(of: list[Origin]) -> list[DescribeConfigsSynonym]:
    return [DescribeConfigsSynonym(name=name, value=text, source=source) for name, text, source in of]


def _failure(wanted: DescribeConfigsResource, code: ErrorCode, message: str | None) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code, error_message=message, resource_type=wanted.resource_type, resource_name=wanted.resource_name, configs=[]
    )


API = Api(DescribeConfigsRequest, 1, 4, handle, refuse, 1)
