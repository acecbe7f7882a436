"""From a configuration to an engine on real sockets and the thread that drives it."""

from __future__ import annotations

from random import Random
from typing import Any

from levada.client.engine import Engine
from levada.config import ClientConfig
from levada.face.engines import client_name, engine_for, selector_for
from levada.sync.driver import Driver


def connect(config: ClientConfig, kind: str, **engine_settings: Any) -> tuple[Engine, Driver]:
    """Build an engine and its driver, not yet started."""
    name = client_name(config, kind)
    selector = selector_for(config)
    engine = engine_for(config, name, selector, Random(), **engine_settings)
    return engine, Driver(engine, selector, name=f"{kind} '{name}'")
