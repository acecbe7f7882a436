"""The settings of a group, which IncrementalAlterConfigs can change (KIP-848, KIP-932).

Settings of streams groups, of dead-letter topics and of Kafka's assignment intervals are accepted, checked and described, and have no
effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from levada.base.clock import duration_ms
from levada.broker.config.checks import MAX_INT32, Check, Kind, any_text, boolean, integer, list_of, one_of
from levada.broker.config.resource_config import ResourceConfig, Setting
from levada.broker.config.settings import BrokerSettings
from levada.broker.share.share_partition import Limits
from levada.errors import ConfigError
from levada.types import IsolationLevel

_BY_DURATION = "by_duration:"
_LOCK_DURATION = "share.record.lock.duration.ms"


def _reset() -> Check:
    def check(text: str) -> str:
        if text.startswith(_BY_DURATION):
            duration_ms(text.removeprefix(_BY_DURATION))
        elif text not in ("earliest", "latest"):
            raise ValueError("must be earliest, latest or by_duration: and an ISO 8601 duration")
        return text

    return Check(Kind.STRING, check)


GROUP_SETTINGS: Mapping[str, Setting] = {
    "consumer.assignment.interval.ms": Setting(integer(0, 15_000), broker_setting="group_consumer_assignment_interval_ms"),
    "consumer.heartbeat.interval.ms": Setting(integer(5_000, 15_000), broker_setting="group_consumer_heartbeat_interval_ms"),
    "consumer.session.timeout.ms": Setting(integer(45_000, 60_000), broker_setting="group_consumer_session_timeout_ms"),
    "errors.deadletterqueue.copy.record.enable": Setting(boolean(), "false"),
    "errors.deadletterqueue.topic.name": Setting(any_text()),
    "share.assignment.interval.ms": Setting(integer(0, 15_000), broker_setting="group_share_assignment_interval_ms"),
    "share.auto.offset.reset": Setting(_reset(), "latest"),
    "share.delivery.count.limit": Setting(integer(2, 10), broker_setting="group_share_delivery_count_limit"),
    "share.heartbeat.interval.ms": Setting(integer(5_000, 15_000), broker_setting="group_share_heartbeat_interval_ms"),
    "share.isolation.level": Setting(one_of("read_uncommitted", "read_committed"), "read_uncommitted"),
    "share.partition.max.record.locks": Setting(integer(100, 4_000), broker_setting="group_share_partition_max_record_locks"),
    _LOCK_DURATION: Setting(integer(1, 60_000), broker_setting="group_share_record_lock_duration_ms"),
    "share.renew.acknowledge.enable": Setting(boolean(), "true"),
    "share.session.timeout.ms": Setting(integer(45_000, 60_000), broker_setting="group_share_session_timeout_ms"),
    "streams.assignment.interval.ms": Setting(integer(0, 15_000), broker_setting="group_streams_assignment_interval_ms"),
    "streams.assignor.name": Setting(any_text(), broker_setting="group_streams_assignors"),
    "streams.heartbeat.interval.ms": Setting(integer(5_000, 15_000), broker_setting="group_streams_heartbeat_interval_ms"),
    "streams.initial.rebalance.delay.ms": Setting(integer(0, MAX_INT32), broker_setting="group_streams_initial_rebalance_delay_ms"),
    "streams.num.standby.replicas": Setting(integer(0, 2), broker_setting="group_streams_num_standby_replicas"),
    "streams.rack.aware.assignment.tags": Setting(list_of(), broker_setting="group_streams_rack_aware_assignment_tags"),
    "streams.session.timeout.ms": Setting(integer(45_000, 60_000), broker_setting="group_streams_session_timeout_ms"),
}


class GroupConfig(ResourceConfig):
    """The settings of one group. Settings without an override have a default that comes from the broker settings."""

    SETTINGS = GROUP_SETTINGS
    WHAT = "group"
    SOURCE = 8
    TELLS_DEFAULTS = True

    def __init__(self, settings: BrokerSettings, overrides: Mapping[str, str | None] | None = None) -> None:
        super().__init__(settings, overrides)
        self.share_limits = Limits(
            self.integer(_LOCK_DURATION),
            self.integer("share.delivery.count.limit"),
            self.integer("share.partition.max.record.locks"),
        )
        self.consumer_session_timeout_ms = self.integer("consumer.session.timeout.ms")
        self.consumer_heartbeat_interval_ms = self.integer("consumer.heartbeat.interval.ms")
        self.share_session_timeout_ms = self.integer("share.session.timeout.ms")
        self.share_heartbeat_interval_ms = self.integer("share.heartbeat.interval.ms")
        self.share_isolation_level = IsolationLevel[self.text("share.isolation.level").upper()]
        self.share_may_renew = self.text("share.renew.acknowledge.enable").lower() == "true"

    def with_overrides(self, overrides: Mapping[str, str | None]) -> Self:
        """Return the config of the same group with other overrides. Raises ConfigError for an unknown name or an invalid value."""
        changed = super().with_overrides(overrides)
        # Check only what is changed: the broker may have had a smaller minimum when the settings were stored.
        minimum_ms = self._settings.group_share_min_record_lock_duration_ms
        if _LOCK_DURATION in changed.overrides and changed.share_limits.lock_ms < minimum_ms:
            reason = f"must be at least group.share.min.record.lock.duration.ms={minimum_ms}"
            raise ConfigError(f"invalid value '{changed.text(_LOCK_DURATION)}' for group config {_LOCK_DURATION}: {reason}")
        return changed

    @property
    def share_reset_to_earliest(self) -> bool:
        """Whether a share group begins at the earliest offset (share.auto.offset.reset=earliest)."""
        return self.text("share.auto.offset.reset") == "earliest"

    @property
    def share_reset_by_ms(self) -> int | None:
        """The duration in ms if share.auto.offset.reset is by_duration: a share group begins with the first record that is not older. None
        otherwise.
        """
        text = self.text("share.auto.offset.reset")
        return duration_ms(text.removeprefix(_BY_DURATION)) if text.startswith(_BY_DURATION) else None
