"""Waiting as steps, the same for every driver: a flow that its caller runs yields what to wait for, and is resumed with whether it came."""

from __future__ import annotations

from typing import Any

from levada.client.engine import Engine
from levada.client.timeouts import timeout_error
from levada.errors import TimeoutError
from levada.flow import CallerFlow, Until
from levada.promise import Promise

FLOW_GRACE_S = 0.25
"""A flow that ends at its deadline tells more than a wait that does, so the wait lets it go first."""


def until_settled(promise: Promise[Any], engine: Engine, deadline_ms: int, timeout_s: float | None, what: str) -> CallerFlow[None]:
    """Wait for a promise. Raises TimeoutError naming `what`; BootstrapError, which is one, when no broker was ever reached."""
    if not (yield Until(promise, deadline_ms)):
        raise timeout_error(engine.network, TimeoutError(f"{what}: not done within {timeout_s:g} s"), timeout_s)
