"""What a cluster has finalized (KIP-584): the levels of features that all its brokers work at, such as transaction.version.

Every broker tells it when a connection is set up, as far as it knows. The levels carry an epoch that grows with each change, so of all
answers the one with the highest epoch holds.
"""

from __future__ import annotations

from collections.abc import Mapping

from levada.client.network.api_versions import BrokerVersions


class FinalizedFeatures:
    """The newest levels that any broker has told. epoch: -1 where no broker has told any."""

    def __init__(self) -> None:
        self.epoch = -1
        self._levels: Mapping[str, int] = {}

    def learn(self, versions: BrokerVersions) -> None:
        """Take what a broker has told, unless something newer is known."""
        if versions.features_epoch >= self.epoch:
            self.epoch, self._levels = versions.features_epoch, versions.features

    def level(self, name: str) -> int:
        """Return the level of a feature, 0 where the cluster has not finalized it."""
        return self._levels.get(name, 0)
