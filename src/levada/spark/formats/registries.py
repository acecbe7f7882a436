"""Clients of schema registries that stay open in a process, from one task or micro-batch to the next."""

from __future__ import annotations

import os
from functools import lru_cache

from levada.registry import SchemaRegistryClient

Settings = tuple[tuple[str, str], ...]
"""Settings of SchemaRegistryClient, hashable."""


def registry(settings: Settings) -> SchemaRegistryClient:
    """Return this process's client with these settings."""
    return _client(os.getpid(), settings)


@lru_cache(maxsize=8)
def _client(process: int, settings: Settings) -> SchemaRegistryClient:
    return SchemaRegistryClient(dict(settings))
