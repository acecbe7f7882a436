"""A schema registry for the tests of this folder. A test module that needs other settings has fixtures of its own with these names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from levada.registry import SchemaRegistryClient
from levada.testing import EmbeddedRegistry


@pytest.fixture
def server() -> Iterator[EmbeddedRegistry]:
    """A registry without schemas."""
    with EmbeddedRegistry() as running:
        yield running


@pytest.fixture
def registry(server: EmbeddedRegistry) -> Iterator[SchemaRegistryClient]:
    """A client of this registry."""
    with SchemaRegistryClient(schema_registry_url=server.url) as client:
        yield client
