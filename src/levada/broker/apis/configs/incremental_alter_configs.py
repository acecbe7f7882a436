"""IncrementalAlterConfigs: change single settings of topics, groups, brokers and client metrics subscriptions (KIP-226, KIP-339)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from levada.broker.apis.configs.describe_configs import BROKER, CLIENT_METRICS, GROUP, TOPIC, check_config
from levada.broker.config.checks import Kind, listed
from levada.broker.config.resource_config import ResourceConfig
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, ConfigError
from levada.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from levada.protocol.schema import ZERO_UUID

C = TypeVar("C", bound=ResourceConfig)


class ResourceChange(Protocol):
    """The part of a request that changes the settings of one resource."""

    resource_type: int
    resource_name: str


W = TypeVar("W", bound=ResourceChange)
W_contra = TypeVar("W_contra", contravariant=True)


class Changed(Protocol[W_contra]):
    """A function that applies the changes of a request to the settings of a resource. It raises BrokerError or ConfigError if a change is
    invalid.
    """

    def __call__(self, config: C, wanted: W_contra, /) -> C:
        """Return the settings after the changes. config: the settings before."""
        ...


class Outcome(NamedTuple):
    """The error code and message for one resource."""

    code: ErrorCode
    message: str | None


_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


def handle(call: Call) -> IncrementalAlterConfigsResponse:
    """Change the settings of each resource separately. If one change of a resource is invalid, none is applied to that resource.

    A resource that the request names twice is refused both times.
    """
    outcomes = alter_each(call, call.request.resources, lambda config, wanted: changed(config, wanted.configs))
    return IncrementalAlterConfigsResponse(responses=[_answer(wanted, *outcome) for wanted, outcome in outcomes])


def refuse(request: IncrementalAlterConfigsRequest, version: int, code: ErrorCode) -> IncrementalAlterConfigsResponse:
    """Answer with an error for every resource."""
    return IncrementalAlterConfigsResponse(responses=[_answer(wanted, code) for wanted in request.resources])


def alter_each(call: Call, resources: Sequence[W], changed: Changed[W]) -> list[tuple[W, Outcome]]:
    """Change the settings of each resource separately; return the resources with their results. changed: returns the settings of a resource
    after its changes.
    """
    counts = Counter((wanted.resource_type, wanted.resource_name) for wanted in resources)
    return [
        (wanted, _alter(call, wanted, changed, repeated=counts[wanted.resource_type, wanted.resource_name] > 1)) for wanted in resources
    ]


def _alter(call: Call, wanted: W, changed: Changed[W], *, repeated: bool) -> Outcome:
    try:
        if repeated:
            raise BrokerError("the request names this resource more than once", code=ErrorCode.INVALID_REQUEST)
        check_config(call, wanted.resource_type, wanted.resource_name)
        apply = _change(call, wanted, changed)
        if not call.request.validate_only:
            apply()
    except BrokerError as error:
        return Outcome(error.code, error.reason)
    except ConfigError as error:
        return Outcome(ErrorCode.INVALID_CONFIG, str(error))
    return Outcome(ErrorCode.NONE, None)


def _change(call: Call, wanted: W, changed: Changed[W]) -> Callable[[], None]:
    """Check the changes of one resource. Return a function that applies them.

    wanted: the part of the request about the resource. changed: computes the new settings from the present ones and from `wanted`.
    """
    cluster, name = call.state.cluster, wanted.resource_name
    if wanted.resource_type == TOPIC:
        topic = call.state.find_topic(name, ZERO_UUID, by_id=False)
        return partial(cluster.configure, topic, changed(topic.config, wanted))
    if wanted.resource_type == GROUP and name:
        return partial(cluster.configure_group, name, changed(cluster.group_config(name), wanted))
    if wanted.resource_type == BROKER:
        of_broker = changed(call.state.broker_config(name), wanted)
        return partial(cluster.configure_brokers, None if of_broker.is_shared else call.state.node_id, of_broker.overrides)
    if wanted.resource_type == CLIENT_METRICS and name:
        try:
            return partial(cluster.configure_metrics, name, changed(cluster.metrics_config(name), wanted))
        except ConfigError as error:
            # Only for client metrics, Kafka answers INVALID_REQUEST instead of INVALID_CONFIG.
            raise BrokerError(str(error), code=ErrorCode.INVALID_REQUEST) from error
    raise BrokerError(f"settings of resource type {wanted.resource_type} cannot be changed here", code=ErrorCode.INVALID_REQUEST)


def changed(config: C, changes: list[AlterableConfig]) -> C:
    """Return the settings of a resource after changes. Raises BrokerError or ConfigError with the reason if one of them is invalid."""
    if len({change.name for change in changes}) < len(changes):
        raise BrokerError("a setting is changed more than once", code=ErrorCode.INVALID_REQUEST)
    overrides: dict[str, str | None] = dict(config.overrides)
    for change in changes:
        if change.config_operation == _DELETE:
            overrides.pop(change.name, None)
        elif change.value is None:
            raise BrokerError(f"null is not allowed for {config.WHAT} config {change.name}", code=ErrorCode.INVALID_REQUEST)
        elif change.config_operation == _SET:
            overrides[change.name] = change.value
        else:
            overrides[change.name] = _changed_list(config, change, change.value)
    return config.with_overrides(overrides)


def _changed_list(config: ResourceConfig, change: AlterableConfig, text: str) -> str:
    change_list = _LIST_CHANGES.get(change.config_operation)
    if change_list is None:
        raise BrokerError(f"there is no operation {change.config_operation} on settings", code=ErrorCode.INVALID_REQUEST)
    setting = config.setting(change.name)
    if setting is None or setting.check.kind is not Kind.LIST:
        raise ConfigError(f"{config.WHAT} config {change.name} is not a list")
    now = config.overrides.get(change.name, config.default(change.name))
    return ",".join(change_list(listed(now), listed(text)))


def _appended(now: tuple[str, ...], more: tuple[str, ...]) -> list[str]:
    return [*now, *(value for value in more if value not in now)]


def _subtracted(now: tuple[str, ...], less: tuple[str, ...]) -> list[str]:
    return [value for value in now if value not in less]


_LIST_CHANGES: Mapping[int, Callable[[tuple[str, ...], tuple[str, ...]], list[str]]] = {_APPEND: _appended, _SUBTRACT: _subtracted}


def _answer(wanted: AlterConfigsResource, code: ErrorCode, message: str | None = None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code, error_message=message, resource_type=wanted.resource_type, resource_name=wanted.resource_name
    )


API = Api(IncrementalAlterConfigsRequest, 0, 1, handle, refuse, 0)
