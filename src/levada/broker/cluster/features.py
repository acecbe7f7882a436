"""The finalized features of a cluster and their levels (KIP-584).

These are group.version, share.version and transaction.version. Kafka has others, such as metadata.version, about things that a cluster
in one process does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from levada.broker.config.settings import BrokerSettings
from levada.error_codes import ErrorCode
from levada.errors import BrokerError

GROUPS, SHARE_GROUPS, TRANSACTIONS = "group.version", "share.version", "transaction.version"
HIGHEST: Mapping[str, int] = {GROUPS: 1, SHARE_GROUPS: 2, TRANSACTIONS: 2}


class LevelChange(NamedTuple):
    """A request to set a feature to a level. may_lower: whether the new level may be lower than the present one."""

    level: int
    may_lower: bool


class Features:
    """The finalized level of each feature of a cluster. epoch: a number that grows with each change.

    The first levels come from the broker settings. A feature whose setting is 0 is not supported, as in a Kafka that is older than the
    feature.
    """

    def __init__(self, settings: BrokerSettings) -> None:
        self.epoch = 0
        levels = {
            GROUPS: settings.group_version,
            SHARE_GROUPS: settings.share_version,
            TRANSACTIONS: settings.transaction_version,
        }
        self._levels = {name: level for name, level in levels.items() if level}

    def level(self, name: str) -> int:
        """Return the level of a feature, 0 if it is not in use."""
        return self._levels.get(name, 0)

    @property
    def levels(self) -> Mapping[str, int]:
        """The levels of the supported features, by name."""
        return self._levels

    def update(self, changes: Mapping[str, LevelChange], *, check_only: bool) -> None:
        """Change the levels of features. If one change is invalid, none is applied, and INVALID_UPDATE_VERSION (BrokerError) is raised.

        check_only: check the changes without applying them.
        """
        for name, change in changes.items():
            self._check(name, change)
        if not check_only:
            self._levels.update({name: change.level for name, change in changes.items()})
            self.epoch += 1

    def _check(self, name: str, change: LevelChange) -> None:
        if name not in self._levels:
            raise _refused(f"this broker does not support feature '{name}'")
        if not 0 <= change.level <= HIGHEST[name]:
            raise _refused(f"feature '{name}' has levels 0 to {HIGHEST[name]}, not {change.level}")
        if change.level < self._levels[name] and not change.may_lower:
            raise _refused(
                f"feature '{name}' is at level {self._levels[name]}; a lower one has to be allowed by the request's upgrade type"
            )


def _refused(reason: str) -> BrokerError:
    return BrokerError(reason, code=ErrorCode.INVALID_UPDATE_VERSION)
