from __future__ import annotations

import pytest

from broker_kit import Bench, Client


@pytest.fixture
def bench() -> Bench:
    """A node with topic "t" of two partitions."""
    made = Bench()
    made.node.create_topic("t", 2)
    return made


@pytest.fixture
def client(bench: Bench) -> Client:
    return bench.client()
