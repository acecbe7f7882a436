"""Leader epochs: where they end, also after a leader that lacked records."""

from __future__ import annotations

import pytest

from broker_kit import Client, make_batch
from levada.broker.log.leader_epochs import EpochEnd, LeaderEpochs
from levada.testing import EmbeddedKafka


@pytest.fixture
def epochs() -> LeaderEpochs:
    """Epoch 0 up to offset 5, epoch 3 up to 9, epoch 7 from there."""
    epochs = LeaderEpochs()
    epochs.begin(0, 0)
    epochs.begin(2, 5)
    epochs.begin(3, 5)
    epochs.begin(7, 9)
    return epochs


@pytest.mark.parametrize(
    ("epoch", "end"),
    [(-1, (-1, -1)), (0, (0, 5)), (1, (0, 5)), (2, (0, 5)), (3, (3, 9)), (6, (3, 9)), (7, (7, 12)), (8, (-1, -1))],
)
def test_E11_the_end_of_an_epoch(epochs: LeaderEpochs, epoch: int, end: tuple[int, int]) -> None:
    assert epochs.end_of(epoch, 12) == EpochEnd(*end)


@pytest.mark.parametrize(("offset", "epoch"), [(0, 0), (4, 0), (5, 3), (8, 3), (9, 7), (100, 7)])
def test_E11_the_epoch_of_an_offset(epochs: LeaderEpochs, offset: int, epoch: int) -> None:
    assert epochs.at(offset) == epoch


def test_an_epoch_before_the_first_that_is_remembered_ends_where_that_begins() -> None:
    epochs = LeaderEpochs()
    epochs.begin(4, 0)
    assert epochs.end_of(2, 10) == EpochEnd(2, 0)


def test_a_leader_that_lacks_records(client: Client) -> None:
    for value in (b"a", b"b", b"c"):
        client.produce("t", make_batch(value, b"x"))
    node = client.bench.node
    partition = node.cluster.partition(node.cluster.topic("t"), 0)
    node.cluster.move_leader(partition, 1, lose_from=5)
    assert (partition.log.end_offset, partition.leader_epoch) == (4, 1)
    assert client.produce("t", make_batch(b"d")).base_offset == 4
    batches = list(partition.log.batches())
    assert [(batch.base_offset, batch.partition_leader_epoch) for batch in batches] == [(0, 0), (2, 0), (4, 1)]
    assert [record.value for batch in batches for record in batch.records()] == [b"a", b"x", b"b", b"x", b"d"]
    assert partition.epochs.end_of(0, partition.log.end_offset) == EpochEnd(0, 4)


def test_a_test_may_elect_a_leader() -> None:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t")
        kafka.elect_leader("t")
        kafka.elect_leader("t", lose_from=0)
        assert kafka.node.cluster.partition(kafka.node.cluster.topic("t"), 0).leader_epoch == 2
