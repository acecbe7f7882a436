"""`levada top` on a terminal: driven by Textual's pilot, and as a program in a pseudo terminal."""

from __future__ import annotations

import asyncio
import re
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import TypeAlias

import aiohttp
import pexpect
import pytest
from textual.pilot import Pilot

import levada as lv
from levada.cli.top.look import Look, look_at
from levada.cli.top.screen import Top
from levada.cli.top.views import view_of
from levada.testing import EmbeddedKafka
from looks import TOPICS, look_number
from tool_modules import load_tool

PICTURE = Path(__file__).parents[2] / "docs" / "top.svg"


class Cluster:
    """Snapshots for the screen, which are taken when the test says so."""

    def __init__(self, *looks: Look | lv.KafkaError) -> None:
        self.looks = iter(looks)
        self.allowed = threading.Semaphore(0)

    def take(self) -> Look:
        self.allowed.acquire()
        look = next(self.looks, None) or lv.KafkaError("the test is over")
        if isinstance(look, lv.KafkaError):
            raise look
        return look


class Screen(Top):
    """Tells when a snapshot was shown."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster.take, 0.001)
        self.cluster = cluster
        self.arrived = asyncio.Event()

    def on_taken(self) -> None:
        self.arrived.set()

    async def look(self, pilot: Pilot[None]) -> None:
        self.arrived.clear()
        self.cluster.allowed.release()
        await asyncio.wait_for(self.arrived.wait(), 60)
        await pilot.pause()


def shown(app: Top) -> str:
    """The text on the screen, a line each."""
    width = app.size.width
    text = "".join(segment.text for strip in app.screen._compositor.render_strips() for segment in strip)
    return "\n".join(text[at : at + width].rstrip() for at in range(0, len(text), width))


Shows: TypeAlias = Callable[[], Awaitable[None]]
Drive: TypeAlias = Callable[[Pilot[None], Screen, Shows], Awaitable[None]]


def driven(cluster: Cluster, drive: Drive, size: tuple[int, int] = (80, 24)) -> None:
    """Run the screen. drive: is given the pilot, the screen, and a function that waits until the next snapshot is shown."""

    async def run() -> None:
        app = Screen(cluster)
        async with app.run_test(size=size) as pilot:
            try:
                await drive(pilot, app, partial(app.look, pilot))
            finally:
                app._over.set()
                cluster.allowed.release()

    asyncio.run(run())


def many(names: int) -> Iterator[Look]:
    topics = [f"topic-{number:03}" for number in range(names - len(TOPICS))]
    return (look_number(number, [*TOPICS, *topics]) for number in count(1))


def test_places_are_walked_through_by_keys() -> None:
    async def drive(pilot: Pilot[None], app: Screen, look: Shows) -> None:
        assert "waiting for the first answer" in shown(app)
        await look()
        await look()
        assert re.search(r"^ orders +3 +0 +\d[\d,]+ +540 ", shown(app), re.M)
        await pilot.press("2", "down", "enter")
        assert "group billing: Stable, 3 members, uniform, coordinator 1" in shown(app)
        await pilot.press("enter")
        assert "consumer billing-2 of group billing: on /10.0.0.7" in shown(app)
        await pilot.press("enter")
        assert "orders-2: leader 3, replicas 3,1, in sync 3,1" in shown(app)
        await pilot.press("escape", "escape", "escape")
        assert app.path == [("groups",)]
        await pilot.press("escape", "shift+tab", "tab", "tab")
        assert "cluster MkU3OEVBNTcwNTJENDM2Qg: 3 brokers" in shown(app)
        await pilot.press("enter")
        assert "broker 1 at kafka-1.example:9092: 16 replicas" in shown(app)

    driven(Cluster(look_number(1), look_number(2)), drive)


def test_three_hundred_topics_are_filtered_sorted_and_scrolled_on_a_small_terminal() -> None:
    async def drive(pilot: Pilot[None], app: Screen, look: Shows) -> None:
        await look()
        await look()
        assert "1 topics 300" in shown(app)
        assert all(len(line) <= 80 for line in shown(app).splitlines())
        await pilot.press("slash", *"page", "enter")
        assert [line.split()[0] for line in shown(app).splitlines() if "shop" in line or "page" in line][-1].startswith("page-")
        assert app.table.row_count == 1
        await pilot.press("escape")
        assert app.table.row_count == 300
        await pilot.press("end")
        last = app._key_under_cursor()
        await look()
        assert app._key_under_cursor() == last, "the cursor stays on its line while figures change"
        assert app.table.cursor_row == app.table.get_row_index(str(last))
        await pilot.press("s", "s")
        assert app._order(view_of(app.place, app.watched)) == ("topic", False)
        await pilot.press("home")
        assert app._key_under_cursor() == "audit"
        await pilot.press("r", "home")
        assert app._key_under_cursor() == "topic-291"

    driven(Cluster(*(look for look, _ in zip(many(300), range(4), strict=False))), drive)


def test_without_answers_the_figures_are_marked_as_old_until_the_brokers_are_back() -> None:
    async def drive(pilot: Pilot[None], app: Screen, look: Shows) -> None:
        await look()
        await look()
        assert "STALE" not in shown(app)
        await look()
        assert re.search(r"STALE: last seen at \d\d:\d\d:\d\d: no broker could be reached", shown(app))
        assert app.table.has_class("old")
        assert re.search(r"^ orders +3 +0 +\d[\d,]+ +- ", shown(app), re.M), "no rates"
        await look()
        assert "STALE" not in shown(app)
        assert not app.table.has_class("old")

    driven(Cluster(look_number(1), look_number(2), lv.KafkaError("no broker could be reached\nmore"), look_number(4)), drive)


def test_a_pause_keeps_the_figures() -> None:
    async def drive(pilot: Pilot[None], app: Screen, look: Shows) -> None:
        await look()
        await pilot.press("space")
        await look()
        assert "PAUSED at" in shown(app)
        assert app.watched.look is not None
        assert app.watched.look.taken_s == look_number(1).taken_s
        await pilot.press("space")
        await look()
        assert "PAUSED" not in shown(app)
        assert app.watched.look.taken_s == look_number(3).taken_s

    driven(Cluster(look_number(1), look_number(2), look_number(3)), drive)


@pytest.mark.parametrize("size", [(80, 24), (40, 10), (20, 5), (200, 60)])
def test_a_terminal_of_any_size_is_drawn(size: tuple[int, int]) -> None:
    async def drive(pilot: Pilot[None], app: Screen, look: Shows) -> None:
        await look()
        for key in ("1", "enter", "enter", "2", "enter", "3", "4", "5", "slash", "escape"):
            await pilot.press(key)
            assert len(shown(app).splitlines()) == size[1]

    driven(Cluster(look_number(1)), drive, size)


def test_names_with_control_characters_are_shown_harmless() -> None:
    async def drive(pilot: Pilot[None], app: Screen, look: Shows) -> None:
        await look()
        assert "\x1b" not in shown(app)
        assert r"bad\x1b[31m\nname" in shown(app)

    driven(Cluster(look_number(1, ["bad\x1b[31m\nname", *TOPICS])), drive, (200, 40))


def test_a_cluster_with_a_broker_that_dies_is_seen() -> None:
    with EmbeddedKafka(brokers=3) as kafka, lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        kafka.create_topic("orders", partitions=6)
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            producer.send_many("orders", [str(number) for number in range(100)])
        first = look_at(admin, internal=False)
        assert sum(at.end for at in first.ends.values()) == 100
        kafka.stop_node(2)
        then = look_at(admin, internal=False)
    assert [node.id for node in then.cluster.nodes] == [1, 3]
    assert [info.topic for info in then.partitions] == ["orders"] * 6


@pytest.mark.parametrize("broker", ["embedded", pytest.param("kafka44", marks=pytest.mark.kafka)])
def test_the_program_shows_a_real_cluster_and_ends_by_ctrl_c(broker: str, request: pytest.FixtureRequest) -> None:
    kafka = request.getfixturevalue(broker)
    with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.create_topics([lv.NewTopic("on-the-screen", 2, 1)])
    command = ["-m", "levada.cli", "top", "-b", kafka.bootstrap_servers, "-i", "0.1"]
    program = pexpect.spawn(sys.executable, command, dimensions=(24, 80), timeout=60, encoding="utf-8")
    program.expect("records/s in")
    program.send("\x03")
    program.expect(pexpect.EOF)
    program.close()
    assert program.exitstatus == 0


def test_a_browser_is_shown_the_same_screen(embedded: EmbeddedKafka) -> None:
    with socket.socket() as taken:
        taken.bind(("localhost", 0))
        port = taken.getsockname()[1]
    command = ["-m", "levada.cli", "top", "--web", "--port", str(port), "-b", embedded.bootstrap_servers]
    program = pexpect.spawn(sys.executable, command, timeout=60, encoding="utf-8")
    try:
        assert "records/s in" in asyncio.run(shown_to_a_browser(port))
    finally:
        program.terminate(force=True)


async def shown_to_a_browser(port: int) -> str:
    """What the browser is told to draw, up to the first figures."""
    drawn = b""
    url = f"http://localhost:{port}/ws?width=80&height=24"
    async with asyncio.timeout(90), aiohttp.ClientSession() as session:
        while True:
            with suppress(aiohttp.ClientConnectionError):  # The server is still starting.
                page = await session.ws_connect(url)
                break
            await asyncio.sleep(0.1)
        async for message in page:
            drawn += message.data if message.type is aiohttp.WSMsgType.BINARY else b""
            if b"records/s in" in drawn:
                break
        await page.close()
    return drawn.decode(errors="replace")


def test_the_picture_is_what_the_screen_shows() -> None:
    """`python tools/top_picture.py > docs/top.svg` draws it anew."""
    assert PICTURE.read_text() == load_tool("top_picture").picture()
