"""The settings of a share consumer's core, made from a configuration in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from levada.consumer.fetch.decode import Deserializer
from levada.consumer.share.member import ShareMemberSettings
from levada.consumer.share.requests import ShareFetchSettings


@dataclass(frozen=True, slots=True)
class ShareConsumerSettings:
    """What a ShareConsumerCore is made with; fields are named as the options they come from, times are in milliseconds."""

    member: ShareMemberSettings
    fetch: ShareFetchSettings
    explicit: bool
    """share.acknowledgement.mode=explicit."""
    key_deserializer: Deserializer | None
    value_deserializer: Deserializer | None
    on_decode_error: str
    max_decompressed_bytes: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    default_api_timeout_ms: int

    @classmethod
    def of(cls, config: Any, member_id: str) -> ShareConsumerSettings:
        """Read the settings from a ShareConsumerConfig, or from anything with its attributes."""
        return cls(
            member=ShareMemberSettings(
                group_id=config.group_id,
                max_poll_interval_ms=config.max_poll_interval_ms,
                client_rack=config.client_rack,
            ),
            fetch=ShareFetchSettings(
                group_id=config.group_id,
                member_id=member_id,
                fetch_min_bytes=config.fetch_min_bytes,
                fetch_max_bytes=config.fetch_max_bytes,
                fetch_max_wait_ms=config.fetch_max_wait_ms,
                max_poll_records=config.max_poll_records,
                record_limit=config.share_acquire_mode == "record_limit",
                request_timeout_ms=config.request_timeout_ms,
                check_crcs=config.check_crcs,
            ),
            explicit=config.share_acknowledgement_mode == "explicit",
            key_deserializer=config.key_deserializer,
            value_deserializer=config.value_deserializer,
            on_decode_error=config.on_decode_error,
            max_decompressed_bytes=config.max_decompressed_bytes,
            retry_backoff_ms=config.retry_backoff_ms,
            retry_backoff_max_ms=config.retry_backoff_max_ms,
            default_api_timeout_ms=config.default_api_timeout_ms,
        )
