"""docs/recording.svg: what the commands print now is what it shows, and it needs nothing but itself."""

from __future__ import annotations

import os
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tool_modules import load_tool

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "recording.svg"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no pseudo terminals here")
def test_the_recording_is_current() -> None:
    recording = load_tool("recording")
    assert recording.draw(recording.record()) == PICTURE.read_text("utf-8"), "make docs draws it anew"


def test_it_is_one_small_file_without_scripts() -> None:
    text = PICTURE.read_text("utf-8")
    assert len(text) < 150_000
    assert {element.tag.split("}")[1] for element in ElementTree.fromstring(text).iter()} == {
        *("svg", "title", "style", "clipPath", "rect", "circle", "g", "text")
    }
    assert set(re.findall(r"(?:href|src|url|@import)\W?[\w#:]*", text)) == {"url(#inside"}
    assert "@media (prefers-reduced-motion: no-preference)" in text
