"""The program of docs/howto/glue.md runs as it stands, with a registry in memory in place of botocore's client."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from glue_service import GlueService

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "glue.md").read_text()


def test_the_program_runs_as_it_stands(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("fastavro", reason="the extra avro is not installed")
    made: list[tuple[str, str]] = []

    class Session:
        def __init__(self, profile: str | None) -> None: ...

        def create_client(self, service: str, region_name: str, config: Any) -> GlueService:
            made.append((service, region_name))
            return GlueService()

    modules = {name: ModuleType(name) for name in ("botocore", "botocore.config", "botocore.session")}
    modules["botocore.config"].Config = dict  # type: ignore[attr-defined]
    modules["botocore.session"].Session = Session  # type: ignore[attr-defined]
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    exec("".join(re.findall(r"```python\n(.*?)```", PAGE, re.S)), {"__name__": "__main__"})
    assert made == [("glue", "eu-west-1")]
    assert capsys.readouterr().out.splitlines() == [
        "read {'item': 'apple', 'price': 3}",
        "{'item': 'pear'}",
        "{'item': 'of old'} {'item': 'of today'}",
    ]


def test_every_error_that_the_page_names_is_there() -> None:
    from levada import errors, registry

    named = set(re.findall(r"`(\w+Error)`", PAGE))
    assert named
    assert not [name for name in named if not hasattr(errors, name) and name not in registry.__all__]
