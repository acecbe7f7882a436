"""From a configuration to an engine on real sockets and the thread that drives it."""

from __future__ import annotations

from random import Random
from typing import Any

from levada.api.engines import client_name, engine_for, selector_for
from levada.api.helper_threads import finish_nothing, start_helper
from levada.api.logins import check_blocking_provider, login_for
from levada.client.engine import Engine
from levada.config import ClientConfig
from levada.sync.driver import Driver


def connect(config: ClientConfig, kind: str, **engine_settings: Any) -> tuple[Engine, Driver]:
    """Build an engine and its driver, not yet started."""
    name = client_name(config, kind)
    check_blocking_provider(config.sasl_oauth_token_provider)
    login = login_for(config, start_helper, finish_nothing)
    selector = selector_for(config)
    engine = engine_for(config, name, selector, Random(), **engine_settings)
    login(engine, selector)
    return engine, Driver(engine, selector, name=f"{kind} '{name}'")
