"""From a configuration to an engine on real sockets, driven by the running event loop."""

from __future__ import annotations

import weakref
from random import Random
from typing import Any

from levada.aio.awaiting import finish_in
from levada.aio.driver import Driver, running_loop
from levada.api.engines import client_name, engine_for, selector_for
from levada.api.helper_threads import start_helper
from levada.api.logins import login_for
from levada.client.engine import Engine
from levada.config import ClientConfig


def connect(config: ClientConfig, kind: str, **engine_settings: Any) -> tuple[Engine, Driver]:
    """Build an engine and its driver, not yet started."""
    name = client_name(config, kind)
    loop = running_loop(f"{kind} '{name}'")
    login = login_for(config, start_helper, finish_in(loop))
    selector = selector_for(config)
    engine = engine_for(config, name, selector, Random(), **engine_settings)
    login(engine, selector)
    return engine, Driver(engine, selector, name=f"{kind} '{name}'")


def start(client: object, driver: Driver) -> None:
    """Start a client's driver. It ends by itself when the last reference to the client is gone."""
    weakref.finalize(client, driver.abandon).atexit = False
    driver.start()
