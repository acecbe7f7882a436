"""Makes a client's engine and driver from its configuration."""

from __future__ import annotations

import weakref
from random import Random

from levada.api.engine_setup import client_name, engine_for, selector_for
from levada.api.logins import check_blocking_provider, finish_nothing, login_for, start_helper
from levada.client.engine import Engine
from levada.config import ClientConfig
from levada.sync.driver import Driver


def connect(config: ClientConfig, kind: str) -> tuple[Engine, Driver]:
    """Return an engine that uses sockets, and its driver, which is not started. kind: for example "producer"; part of the default
    client.id.
    """
    name = client_name(config, kind)
    check_blocking_provider(config.sasl_oauth_token_provider)
    login = login_for(config, start_helper, finish_nothing)
    selector = selector_for(config)
    engine = engine_for(config, name, selector, Random())
    login(engine, selector)
    return engine, Driver(engine, selector, name=f"{kind} '{name}'")


def start(client: object, driver: Driver) -> None:
    """Let the driver end by itself when the last reference to the client is gone. The client's first call starts its thread.

    So the driver must not refer to the client. The garbage collector may drop the client in any thread and between any two bytecodes, so
    the finalizer only leaves a note for the I/O thread; if that was never started, it closes what the driver has opened.
    """
    weakref.finalize(client, driver.abandon).atexit = False
