"""Why offsets could not be committed, where the reason is the member's place in its group (behaviour O14, O15)."""

from __future__ import annotations

from levada.consumer.group.requests import GroupSettings
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, CommitFailedError, FencedInstanceIdError, KafkaError, RebalanceInProgressError, RetriableCommitError

_NO_MEMBER = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND}
)


def commit_failed(settings: GroupSettings, code: ErrorCode) -> CommitFailedError:
    """Return the error of a consumer that is no member any more."""
    return CommitFailedError(
        f"offsets of group '{settings.group_id}' were not committed: this consumer is no member of it any more, mostly because it did not "
        f"call poll() for max.poll.interval.ms={settings.max_poll_interval_ms}. Its partitions may be somebody else's, who reads again "
        "from the last commit; the next poll() joins again. Take less with each call (max.poll.records), or raise that time",
        code=code,
    )


def commit_fenced(settings: GroupSettings) -> FencedInstanceIdError:
    """Return the error of a static member whose id another consumer uses."""
    return FencedInstanceIdError(
        f"offsets of group '{settings.group_id}' were not committed: another consumer has joined with "
        f"group.instance.id='{settings.group_instance_id}'; close this one"
    )


def rebalance_in_progress(group_id: str) -> RebalanceInProgressError:
    """Return the error of a member whose group is being rebalanced."""
    return RebalanceInProgressError(
        f"offsets of group '{group_id}' were not committed: it is being rebalanced. Call poll(), which takes part in that, and commit "
        "again what is still assigned then"
    )


def refused_with_epoch(settings: GroupSettings, error: BrokerError, epoch: int) -> KafkaError:
    """Return what it means that a commit of a consumer group's member was refused (KIP-848)."""
    if error.code is ErrorCode.STALE_MEMBER_EPOCH:
        return RetriableCommitError(
            f"offsets of group '{settings.group_id}' were not committed: its coordinator has a newer epoch for this member than {epoch}; "
            "commit again, after the next heartbeat"
        )
    if error.code is ErrorCode.FENCED_INSTANCE_ID:
        return commit_fenced(settings)
    return commit_failed(settings, error.code) if error.code in _NO_MEMBER else error
