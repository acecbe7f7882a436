"""What a share consumer can be configured with, and what it refuses with a reason."""

from __future__ import annotations

import pytest

from levada.config import ConsumerConfig, ShareConsumerConfig
from levada.errors import ConfigError

GIVEN = {"bootstrap.servers": "h:1", "group.id": "g"}
NOT_OF_SHARE_GROUPS = (
    "auto.offset.reset",
    "enable.auto.commit",
    "group.instance.id",
    "isolation.level",
    "partition.assignment.strategy",
    "interceptor.classes",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "group.protocol",
    "group.remote.assignor",
)
"""What Java's share consumer refuses."""


@pytest.mark.parametrize("name", NOT_OF_SHARE_GROUPS)
def test_options_of_other_groups_are_refused_with_a_reason(name: str) -> None:
    with pytest.raises(ConfigError, match=f"'{name}' does not go with a share consumer: ..."):
        ShareConsumerConfig.parse({**GIVEN, name: "x"})


def test_every_option_of_a_consumer_is_one_of_a_share_consumer_or_refused() -> None:
    known = ShareConsumerConfig.OPTIONS.keys() | ShareConsumerConfig.REFUSED.keys()
    assert not ConsumerConfig.OPTIONS.keys() - known


def test_what_is_brokers_business_is_named_as_a_setting_of_the_group() -> None:
    with pytest.raises(ConfigError, match=r"a setting of the group, share\.auto\.offset\.reset, which kafka-configs\.sh changes"):
        ShareConsumerConfig.parse(GIVEN, auto_offset_reset="earliest")


@pytest.mark.parametrize("group", [None, " "])
def test_a_group_is_needed(group: str | None) -> None:
    with pytest.raises(ConfigError, match=r"'group\.id' is required"):
        ShareConsumerConfig.parse({"bootstrap.servers": "h:1"}, **({} if group is None else {"group_id": group}))


def test_values_are_checked_and_misspelt_names_answered() -> None:
    with pytest.raises(ConfigError, match="must be one of implicit, explicit; got 'auto'"):
        ShareConsumerConfig.parse(GIVEN, share_acknowledgement_mode="auto")
    with pytest.raises(ConfigError, match="did you mean 'share_acquire_mode'"):
        ShareConsumerConfig.parse(GIVEN, share_aquire_mode="record_limit")
    with pytest.raises(ConfigError, match="take null, send what has a decode_error there"):
        ShareConsumerConfig.parse(GIVEN, on_decode_error="dead_letter")
    parsed = ShareConsumerConfig.parse(GIVEN, share_acquire_mode="RECORD_LIMIT")
    assert (parsed.share_acquire_mode, parsed.share_acknowledgement_mode, parsed.max_poll_records) == ("record_limit", "implicit", 500)
