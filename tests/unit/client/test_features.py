"""Which finalized features hold, of what several brokers have told."""

from __future__ import annotations

from levada.client.network.api_versions import BrokerVersions, FinalizedFeatures


def told(epoch: int, **levels: int) -> BrokerVersions:
    return BrokerVersions({}, {name.replace("_", "."): level for name, level in levels.items()}, epoch)


def test_T12_the_answer_with_the_highest_epoch_holds() -> None:
    features = FinalizedFeatures()
    assert features.level("transaction.version") == 0, "nobody has told anything yet"
    features.learn(told(4, transaction_version=1))
    features.learn(told(7, transaction_version=2))
    features.learn(told(5, transaction_version=1))
    assert features.level("transaction.version") == 2, "a broker that has not heard of the change yet does not take it back"
    features.learn(told(8))
    assert features.level("transaction.version") == 0


def test_T12_brokers_that_know_no_features_have_none() -> None:
    features = FinalizedFeatures()
    features.learn(BrokerVersions({}))
    assert (features.epoch, features.level("transaction.version")) == (-1, 0)
    features.learn(told(0, transaction_version=2))
    features.learn(BrokerVersions({}))
    assert features.level("transaction.version") == 2
