from __future__ import annotations

import os

import pytest

from broker_kit import Bench, Client
from levada.error_codes import ErrorCode
from transaction_kit import Given, TransactionalProducer


@pytest.fixture
def bench() -> Bench:
    """A node with topic "t" of two partitions."""
    made = Bench()
    made.node.create_topic("t", 2)
    return made


@pytest.fixture
def client(bench: Bench) -> Client:
    return bench.client()


@pytest.fixture
def producer(client: Client) -> TransactionalProducer:
    """Initialised, under transaction.version 2."""
    made = TransactionalProducer(client)
    assert made.init() == Given(ErrorCode.NONE, 0, 0)
    return made


@pytest.fixture
def old_producer(client: Client) -> TransactionalProducer:
    """Initialised, under transaction.version 1."""
    made = TransactionalProducer(client, tv2=False)
    made.init()
    return made


@pytest.fixture
def no_flushing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save the time that disks take: no test cuts the power."""
    monkeypatch.setattr(os, "fsync", lambda file: None)
