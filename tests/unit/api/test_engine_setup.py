"""What making a client tells about the installation."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from levada.api import engine_setup
from levada.config import ClientConfig
from levada.net import short_io


@pytest.fixture
def first_client() -> Iterator[None]:
    engine_setup._tell_of_interpreted_modules.cache_clear()
    yield
    engine_setup._tell_of_interpreted_modules.cache_clear()


@pytest.mark.usefixtures("first_client")
@pytest.mark.parametrize(("compiled", "wanted", "told"), [(True, "", 0), (False, "", 1), (False, "1", 0)])
def test_an_installation_that_is_not_compiled_says_so_once(
    compiled: bool, wanted: str, told: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(short_io, "COMPILED", compiled)
    monkeypatch.setenv("LEVADA_PURE", wanted)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            engine_setup.selector_for(ClientConfig.parse(bootstrap_servers="localhost:9092")).shutdown()
    assert len([record for record in caplog.records if "is not compiled" in record.getMessage()]) == told
