"""Draws docs/top.svg, the screen of `levada top` with a made-up cluster: `python tools/top_picture.py > docs/top.svg`."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from levada.cli.top.screen import Top

sys.path.append(str(Path(__file__).parents[1] / "tests" / "kits"))

from looks import look_number

SNAPSHOTS = range(1, 40)
NETWORK_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def picture() -> str:
    """Return the picture, as SVG that needs nothing from the network."""
    return asyncio.run(_drawn())


async def _drawn() -> str:
    app = Top(lambda: look_number(0), 3600)
    app._thread.start = lambda: None  # type: ignore[method-assign]
    async with app.run_test(size=(80, 14)) as pilot:
        for number in SNAPSHOTS:
            app.watched.update(look_number(number))
        app._seen_at = "12:00:00"
        app.action_go(1)
        await pilot.pause()
        svg = app.export_screenshot(title="levada top -b kafka-1.example")
    return NETWORK_FONTS.sub("", svg).rstrip() + "\n"


if __name__ == "__main__":
    print(picture(), end="")
