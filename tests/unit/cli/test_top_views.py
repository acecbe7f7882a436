"""The tables of `levada top`: pure."""

from __future__ import annotations

import pytest

from levada.cli.top.views import PLACES, Column, Line, Place, Trend, View, Watched, health, view_of
from looks import TOPICS, look_number


def watched(*numbers: int, without: int = 0) -> Watched:
    seen = Watched()
    for number in numbers:
        seen.update(look_number(number))
    if without:
        seen.update(look_number(numbers[-1] + 1, without=without))
    return seen


def cells(seen: Watched, *place: str) -> dict[str, dict[str, object]]:
    """The cells of a table: by the first cell of their line, then by the headings."""
    view = view_of(place, seen)
    return {str(line.cells[0]): dict(zip([column.heading for column in view.columns], line.cells, strict=True)) for line in view.lines}


def places(seen: Watched) -> list[Place]:
    """All places that Enter leads to, from the main ones on."""
    found, left = list[Place](), list(PLACES)
    while left:
        place = left.pop()
        if place not in found:
            found.append(place)
            left += [line.leads_to for line in view_of(place, seen).lines if line.leads_to]
    return found


@pytest.mark.parametrize("seen", [watched(1), watched(1, 2, 3), watched(1, 2, without=2)])
def test_every_place_that_a_line_leads_to_has_a_table(seen: Watched) -> None:
    found = places(seen)
    assert {(place[0], len(place)) for place in found} >= {("topics", 1), ("topics", 2), ("topics", 3), ("groups", 2), ("brokers", 2)}
    for place in found:
        view = view_of(place, seen)
        assert all(len(line.cells) == len(view.columns) for line in view.lines)
        assert len({line.key for line in view.lines}) == len(view.lines)
        assert view.sorted_by in {"", *(column.heading for column in view.columns)}


def test_before_the_first_snapshot_there_is_nothing() -> None:
    assert all(view_of(place, Watched()).lines == () for place in PLACES)
    assert health(Watched()) == ("waiting for the first answer", False)


def test_rates_come_from_two_snapshots() -> None:
    assert cells(watched(1), "topics")["orders"]["per s"] is None
    assert cells(watched(1, 2), "topics")["orders"] == {
        "topic": "orders",
        "partitions": 3,
        "offline": 0,
        "records": 3 * (9_000 + 2 * 360),
        "per s": 540.0,
        "trend": Trend((540.0,)),
    }
    assert cells(watched(1, 2), "topics", "orders")["0"]["per s"] == 180.0


def test_after_an_outage_there_are_no_rates_until_two_snapshots_follow_one_another() -> None:
    seen = watched(1, 2)
    seen.failed()
    assert cells(seen, "topics")["orders"]["per s"] is None
    assert cells(seen, "groups", "billing")["orders-0"]["per s"] is None
    assert cells(seen, "topics")["orders"]["records"] == 3 * (9_000 + 2 * 360)
    seen.update(look_number(9))
    assert cells(seen, "topics")["orders"]["per s"] is None
    seen.update(look_number(10))
    assert cells(seen, "topics")["orders"]["per s"] == 540.0


def test_the_rate_of_a_group_is_that_of_ten_seconds_because_it_commits_every_five() -> None:
    seen = Watched()
    for number in range(1, 20):
        # It commits at every third snapshot, 6 s.
        look = look_number(number)
        seen.update(look._replace(groups=look_number(number - number % 3).groups))
        if number > 6:
            # It commits 140 offsets for each second.
            assert cells(seen, "groups", "search-index")["clicks-0"]["per s"] in (140 * 6 / 10, 140 * 12 / 10)
    assert len(seen.past) == 5


def test_a_consumer_that_commits_nothing_for_a_minute_is_marked() -> None:
    """Not so a Spark query, whose batch may take longer, and a group that has read everything."""
    seen, stopped = Watched(), look_number(1).groups

    def marked() -> list[str]:
        return [line.key for place in (("groups",), ("groups", "billing")) for line in view_of(place, seen).lines if line.is_bad]

    for number in range(1, 31):
        seen.update(look_number(number)._replace(groups=stopped))
    assert marked() == []
    seen.update(look_number(31)._replace(groups=stopped))
    assert marked() == ["billing", "search-index", "orders-0", "orders-1", "orders-2"]
    assert view_of(("groups", "billing"), seen).about == "group billing: no commit for 60 s in orders-0, orders-1, orders-2"
    assert [line.key for line in view_of(("topics", "orders", "1"), seen).lines if line.is_bad] == ["billing"]
    seen.update(look_number(32))
    assert marked() == []


def test_a_broker_that_is_down_is_named_as_long_as_it_has_replicas() -> None:
    seen = watched(1, without=2)
    assert cells(seen, "brokers")["2"] == {
        "broker": 2,
        "address": "down or removed",
        "controller": None,
        "leaders": 0,
        "replicas": 16,
        "out of sync": 16,
    }
    assert [line.key for line in view_of(("brokers",), seen).lines if line.is_bad] == ["2"]
    assert health(seen)[0].startswith("broker 2 down or removed; 8 partitions without a leader; ")
    assert "2 brokers, 8 topics" in health(seen)[0]


def test_what_a_lost_broker_led_is_shown_as_last_seen_and_marked() -> None:
    seen = watched(1, 2, without=1)
    lines = {str(line.cells[0]): line for line in view_of(("topics", "orders"), seen).lines}
    assert [(line.is_bad, line.is_stale) for line in lines.values()] == [(True, True), (False, False), (True, False)]
    assert cells(seen, "topics", "orders")["0"] == {
        "partition": 0,
        "leader": None,
        "replicas": "1,2",
        "in sync": "2",
        "start": 0,
        "end": 9_000 + 2 * 360,
        "per s": None,
        "trend": Trend((180.0,)),
    }
    assert health(seen)[1]
    assert health(seen)[0].startswith("broker 1 down or removed; 8 partitions without a leader; 16 partitions with replicas out of sync")


def test_a_group_leads_to_its_consumers_and_to_partitions() -> None:
    seen = watched(1, 2)
    billing = {line.key: line for line in view_of(("groups", "billing"), seen).lines}
    assert billing["orders-1"].leads_to == ("groups", "billing", "billing-1-5f1c")
    consumer = view_of(billing["orders-1"].leads_to, seen)
    assert consumer.about == "consumer billing-1 of group billing: on /10.0.0.7, billing-1-5f1c"
    assert [line.leads_to for line in consumer.lines] == [("topics", "orders", "1")]
    assert [line.cells[:2] for line in view_of(("topics", "orders", "1"), seen).lines] == [("billing", "billing-1")]


def test_a_group_of_a_spark_query_is_among_the_queries() -> None:
    seen = watched(1, 2)
    assert list(cells(seen, "spark")) == ["flights-to-lake"]
    assert cells(seen, "spark")["flights-to-lake"]["lag"] == 900 * 6


@pytest.mark.parametrize(
    "place", [("groups", "gone"), ("groups", "billing", "gone"), ("topics", "gone"), ("topics", "gone", "0"), ("brokers", "9")]
)
def test_what_is_gone_has_no_lines(place: Place) -> None:
    assert view_of(place, watched(1, 2)).lines == ()


def test_errors_have_a_place() -> None:
    seen = Watched()
    seen.update(look_number(1, faults=("group g: not authorized",)))
    assert [line.cells for line in view_of(("errors",), seen).lines] == [("group g: not authorized",)]
    assert health(seen) == ("1 error; 6,540 behind; 3 brokers, 8 topics, 24 partitions", True)


COLUMNS = (Column("name", False), Column("lag"))
VIEW = View("", COLUMNS, tuple(Line(name, (name, lag)) for name, lag in (("b", 3), ("A", None), ("c", 20))), "lag")


@pytest.mark.parametrize(
    ("heading", "reverse", "containing", "names"),
    [
        *(("lag", False, "", "cbA"), ("lag", True, "", "bcA"), ("name", False, "", "Abc"), ("name", True, "", "cbA")),
        *(("", False, "", "bAc"), ("", True, "", "cAb"), ("lag", False, "a", "A"), ("lag", False, "no", "")),
    ],
)
def test_lines_are_sorted_and_chosen(heading: str, reverse: bool, containing: str, names: str) -> None:
    """Numbers from the largest on, texts from A to Z, and what is not known at the end."""
    assert "".join(line.key for line in VIEW.ordered(heading, reverse, containing)) == names


@pytest.mark.parametrize(
    ("values", "bars"),
    [
        ((), ""),
        ((0.0, 0.0), "▁▁"),
        ((1.0, 8.0), "▂█"),
        ((0.0, 4.0, 2.0), "▁█▅"),
        ((-1.0, 5.0), "▁█"),
        (tuple(map(float, range(9))), "▂▃▄▅▆▇██"),
    ],
)
def test_a_trend_is_drawn_up_to_its_highest_value(values: tuple[float, ...], bars: str) -> None:
    assert Trend(values).bars(8) == bars


def test_trends_of_what_is_gone_are_forgotten() -> None:
    seen = watched(1, 2, 3)
    assert ("topics", "emails") in seen.trends
    seen.update(look_number(4, TOPICS[:3]))
    assert ("topics", "emails") not in seen.trends
