"""Draws the year on one page: the delay of each carrier and day as a square, the influence of rain, and the throughput of the streams."""

from __future__ import annotations

import datetime as dt
import io
import re
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")  # no screen needed

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from figures import Run, bars
from jobs import CONNECTOR, LEVADA
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

FIRST_DAY = dt.date(2013, 1, 1)
DAYS = 365
WORST_MINUTES = 120
FEWEST_SHARE = 0.002
COMPANY = re.compile(r" (Inc\.|Co\.|Corporation)$")

INK, QUIET, PAPER = "#1d2733", "#8592a0", "#fbfaf7"
DELAY = LinearSegmentedColormap.from_list("delay", ["#eef1ec", "#f6d9a8", "#ef9a5b", "#cf4a3c", "#6d1333"])
RAIN = "#4f83b5"
SYSTEM = {LEVADA: "#3f7f78", CONNECTOR: "#c9a15a"}


def draw(delays: pa.Table, runs: Sequence[Run], path: Path) -> Path:
    """Draw the delays per carrier and day of 2013, and the throughput of the streams. Return the path of the PNG."""
    plt.rcParams.update({"font.family": "DejaVu Sans", "font.size": 10, "text.color": INK, "axes.labelcolor": INK})
    figure = plt.figure(figsize=(15, 11), facecolor=PAPER)
    grid = figure.add_gridspec(3, 1, height_ratios=[3, 1.5, 1], hspace=0.25, left=0.16, right=0.925, top=0.88, bottom=0.085)
    rows = delays.filter(pc.less(delays["day"], "2014")).to_pylist()
    _calendar(figure, figure.add_subplot(grid[0]), rows)
    _whole_city(figure.add_subplot(grid[1]), rows)
    _throughput(figure.add_subplot(grid[2]), runs)
    _titles(figure, delays)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, facecolor=PAPER)
    plt.close(figure)
    return path


def draw_small(delays: pa.Table, path: Path) -> Path:
    """Draw the delays per carrier and day of 2013 alone, for a page that is light or dark, wide or narrow. Return the path of the SVG."""
    fonts = {"svg.fonttype": "none", "svg.hashsalt": "levada", "font.family": "DejaVu Sans"}
    with plt.rc_context({**fonts, "font.size": 11.5, "text.color": INK}):
        figure = plt.figure(figsize=(7.2, 4.6))
        axes = figure.add_axes((0.225, 0.07, 0.77, 0.84))
        shown = _days(axes, delays.filter(pc.less(delays["day"], "2014")).to_pylist(), interpolation="none")
        axes.set_yticklabels([COMPANY.sub("", label.get_text()) for label in axes.get_yticklabels()])
        scale = figure.colorbar(shown, cax=figure.add_axes((0.56, 0.955, 0.24, 0.025)), orientation="horizontal")
        scale.set_ticks([])
        scale.outline.set_visible(False)
        figure.text(0.55, 0.967, "mean delay per day: 0", ha="right", va="center")
        figure.text(0.81, 0.967, f"{WORST_MINUTES} minutes", va="center")
        written = io.StringIO()
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        plt.close(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_for_both_modes(written.getvalue()))
    return path


def _for_both_modes(svg: str) -> str:
    """Have the reader's browser choose the colours of text and of the lines between rows."""
    style = "<style>:root{color:#1d2733;--paper:#fff}@media(prefers-color-scheme:dark){:root{color:#e6edf3;--paper:#131416}}</style>"
    head, _, rest = svg.partition("<defs>")
    rest = (
        rest.replace("'DejaVu Sans'", "sans-serif")
        .replace(INK, "currentColor")
        .replace(QUIET, "currentColor")
        .replace(PAPER, "var(--paper)")
    )
    return f"{head}{style}\n<defs>{rest}"


def _calendar(figure: Figure, axes: Axes, rows: list[dict]) -> None:
    shown = _days(axes, rows)
    box = axes.get_position()
    scale = figure.colorbar(shown, cax=figure.add_axes((0.94, box.y0, 0.012, box.height)))
    scale.set_ticks([0, 15, 30, 60, WORST_MINUTES], labels=["0", "15", "30", "60", f"{WORST_MINUTES}+"])
    scale.outline.set_visible(False)
    scale.ax.set_title("min", fontsize=9, color=QUIET)
    scale.ax.tick_params(length=0, colors=QUIET)


def _days(axes: Axes, rows: list[dict], interpolation: str = "nearest") -> AxesImage:
    """Draw a square for each carrier and day."""
    names, means = mean_delays(rows)
    colours = PowerNorm(0.75, 0, WORST_MINUTES, clip=True)
    shown = axes.imshow(means, aspect="auto", cmap=DELAY, norm=colours, interpolation=interpolation)
    axes.set_yticks(range(len(names)), names)
    axes.set_facecolor("#e4e4df")
    axes.hlines(np.arange(1, len(names)) - 0.5, -0.5, DAYS - 0.5, color=PAPER, linewidth=2)
    _months(axes)
    return shown


def mean_delays(rows: list[dict]) -> tuple[list[str], np.ndarray]:
    """Return the carriers, the one with the longest delays first, and their mean delays by day of 2013; NaN for a day without departures.

    Carriers with very few departures are left out.
    """
    flown: dict[str, int] = {}
    minutes: dict[str, int] = {}
    for row in rows:
        flown[row["name"]] = flown.get(row["name"], 0) + row["flights"] - row["cancelled"]
        minutes[row["name"]] = minutes.get(row["name"], 0) + (row["dep_delay_sum"] or 0)
    fewest = max(FEWEST_SHARE * sum(flown.values()), 1)
    names = sorted((name for name in flown if flown[name] >= fewest), key=lambda name: minutes[name] / flown[name], reverse=True)
    means = np.full((len(names), DAYS), np.nan)
    for row in rows:
        if row["name"] in names and row["dep_delay_mean"] is not None:
            means[names.index(row["name"]), _day(row)] = row["dep_delay_mean"]
    return names, means


def _whole_city(axes: Axes, rows: list[dict]) -> None:
    flights, flown, minutes, rain = (np.zeros(DAYS) for _ in range(4))
    for row in rows:
        day = _day(row)
        flights[day] += row["flights"]
        flown[day] += row["flights"] - row["cancelled"]
        minutes[day] += row["dep_delay_sum"] or 0
        rain[day] += row["in_rain"]
    mean, days = _share(minutes, flown), np.arange(DAYS)
    axes.bar(days, 100 * _share(rain, flights), width=1.0, color=RAIN, alpha=0.28, label="flights scheduled in rain, %")
    axes.plot(days, mean, color="#cf4a3c", linewidth=1.1, label="mean delay of all departures, minutes")
    axes.plot(days, 100 * _share(flights - flown, flights), color=INK, linewidth=0.9, alpha=0.75, label="cancelled, %")
    axes.set_facecolor(PAPER)
    axes.set_ylim(min(np.nanmin(mean), 0) - 2, 112)
    axes.set_xlim(-0.5, DAYS - 0.5)
    axes.legend(loc="upper center", ncols=3, frameon=False, fontsize=9, bbox_to_anchor=(0.5, 1.13))
    for day in _worst(mean, 4):
        date = FIRST_DAY + dt.timedelta(int(day))
        axes.annotate(
            f"{date:%b} {date.day}", (day, mean[day]), (0, 5), textcoords="offset points", ha="center", fontsize=8.5, color="#a02c2c"
        )
    _months(axes)


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Divide day by day. A day without flights gets NaN, which is not drawn."""
    return np.divide(part, whole, out=np.full(DAYS, np.nan), where=whole > 0)


def _worst(mean: np.ndarray, how_many: int) -> list[int]:
    """Return the days with the worst delays, but not two days of the same storm: they are more than 14 days apart."""
    chosen: list[int] = []
    for day in np.argsort(np.nan_to_num(mean))[::-1]:
        if len(chosen) < how_many and all(abs(day - other) > 14 for other in chosen):
            chosen.append(day)
    return chosen


def _months(axes: Axes) -> None:
    firsts = [(dt.date(2013, month, 1) - FIRST_DAY).days for month in range(1, 13)]
    axes.set_xticks([first + 15 for first in firsts], [f"{dt.date(2013, month, 1):%b}" for month in range(1, 13)])
    axes.vlines([first - 0.5 for first in firsts[1:]], 0, 1, transform=axes.get_xaxis_transform(), color=QUIET, linewidth=0.5, alpha=0.6)
    axes.tick_params(length=0, colors=INK)
    for side in axes.spines.values():
        side.set_visible(False)


def _day(row: dict) -> int:
    return (dt.date.fromisoformat(row["day"]) - FIRST_DAY).days


def _throughput(axes: Axes, runs: Sequence[Run]) -> None:
    for run in runs:
        lefts, widths, rates = zip(*bars(run, runs), strict=True)
        axes.bar(lefts, [rate / 1000 for rate in rates], widths, align="edge", color=SYSTEM[run.system], edgecolor=PAPER, linewidth=2)
        axes.annotate(run.title, (lefts[0], 1.04), xycoords=("data", "axes fraction"), fontsize=9, color=INK)
    axes.set_facecolor(PAPER)
    axes.set_xlim(left=0)
    axes.set_ylabel("1000 records/s", fontsize=9)
    axes.set_xlabel("seconds since the first stream began; a bar is a micro-batch", fontsize=9, color=QUIET)
    axes.tick_params(length=0, colors=INK)
    for side in axes.spines.values():
        side.set_visible(False)


def _titles(figure: Figure, delays: pa.Table) -> None:
    flights = sum(delays["flights"].to_pylist())
    figure.text(0.16, 0.955, "How late did New York leave in 2013?", fontsize=21, fontweight="bold")
    journey = f"{flights:,} flights of this year and its repetitions went through Kafka and Spark, {delays.num_rows:,} groups came back"
    figure.text(0.16, 0.92, f"Mean departure delay per carrier and day. {journey}", fontsize=11.5, color=QUIET)
    figure.text(0.16, 0.02, f"Carriers with less than {FEWEST_SHARE:.1%} of the departures are not shown.", fontsize=8.5, color=QUIET)
