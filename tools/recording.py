"""Draws docs/recording.svg, a recording of the command line: `python tools/recording.py > docs/recording.svg`.

The commands run in a pseudo terminal against a broker of `levada broker`, and what they print is drawn as it came. Only the broker's port
and the size of a file are replaced, because they differ between runs.

The picture is animated by style sheets alone, so it moves in an <img>. It begins with the last frame. Where nothing moves, it shows that.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple

import pexpect
from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text

BROKER = "levada broker --port 9092 &"
COMMANDS = (
    "levada topics create orders --partitions 3",
    r"printf 'ann:pear\nbob:plum\nann:fig\n' | levada produce orders -K :",
    r"levada consume orders --group billing -e -f '%t/%p@%o  %k=%s\n'",
    r"printf 'cid:kiwi\nbob:lime\n' | levada produce orders -K :",
    "levada groups list",
    "levada doctor --group billing | grep WARN",
    "levada scan orders --to orders.parquet",
    "levada consume orders -X grup.id=billing",
)
FILE_SIZE = re.compile(r"(?<=bytes    )\d+")
WAIT_S = 60

COLUMNS, ROWS = 80, 20
CELL, LINE, FONT = 8.4, 19, 14
LEFT, TOP, BOTTOM = 14, 48, 14
WIDTH, HEIGHT = round(2 * LEFT + COLUMNS * CELL), TOP + ROWS * LINE + BOTTOM
PER_CHARACTER_S, BEFORE_TYPING_S, BEFORE_OUTPUT_S, END_S = 0.02, 0.55, 0.25, 4.0
BACKGROUND, FOREGROUND, BRIGHT = "#10181f", "#c9d4dc", "#ffffff"
PROMPT = ("$ ", Style(color="green"))
COLOURS = {"red": "#ff8177", "green": "#7ee2a8", "yellow": "#f2cc60", "blue": "#79b8ff", "magenta": "#d2a8ff", "cyan": "#76e3ea"}


class Command(NamedTuple):
    """A command, and the lines that it printed, with their escape sequences."""

    text: str
    output: Sequence[str]


def record() -> list[Command]:
    """Run the commands one after another."""
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LEVADA_") and name != "NO_COLOR"}
        levada = f'levada() {{ {shlex.quote(sys.executable)} -m levada.cli "$@"; }}\n'
        settings = {"TERM": "xterm-256color", "XDG_CONFIG_HOME": folder, "LEVADA_BROKERS": f"127.0.0.1:{port}"}

        def spawn(command: str) -> pexpect.spawn[str]:
            arguments = ["-c", levada + command]
            size, env = (ROWS, COLUMNS), {**kept, **settings}
            return pexpect.spawn("bash", arguments, cwd=folder, env=env, dimensions=size, timeout=WAIT_S, encoding="utf-8")

        # With exec, close() ends the broker itself and not only the shell around it.
        broker = spawn(f"exec {shlex.quote(sys.executable)} -m levada.cli broker --port {port}")
        try:
            broker.expect("listening.*\n")
            recorded = [Command(BROKER, lines_of(broker.before + broker.after, port))]
            for command in COMMANDS:
                process = spawn(command)
                recorded.append(Command(command, lines_of(process.read(), port)))
                process.close()
        finally:
            broker.close(force=True)
    return recorded


def free_port() -> int:
    """Return a free port of four digits, so that tables are as wide as with port 9092."""
    for port in range(9092, 9992):
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise RuntimeError("no port is free")


def lines_of(printed: str, port: int) -> list[str]:
    """Return the printed lines, without what differs from run to run."""
    return FILE_SIZE.sub("2328", printed.replace(str(port), "9092")).rstrip().splitlines()


class Line(NamedTuple):
    """A line of the screen. at_s: when it appears. typed_s: how long it takes to type it; 0 for printed lines."""

    text: Text
    at_s: float
    typed_s: float


def screen(recorded: Sequence[Command]) -> tuple[list[Line], float]:
    """Return all lines, and the duration of the recording."""
    lines, now_s = [], 0.0
    for command in recorded:
        typed_s = len(command.text) * PER_CHARACTER_S
        lines.append(Line(Text.assemble(PROMPT, (command.text, Style(bold=True))), now_s, typed_s))
        now_s += BEFORE_TYPING_S + typed_s + BEFORE_OUTPUT_S
        lines += [Line(part, now_s, 0) for line in command.output for part in wrapped(Text.from_ansi(line))]
        now_s += 0.12 * len(command.output)
    lines.append(Line(Text.assemble(PROMPT), now_s, 0))
    return lines, now_s + END_S


def wrapped(line: Text) -> Iterator[Text]:
    """Yield a line in pieces that fit, as a terminal shows it."""
    yield from line.divide(range(COLUMNS, len(line), COLUMNS))


def draw(recorded: Sequence[Command]) -> str:
    """Return the picture."""
    lines, duration_s = screen(recorded)
    styles, body = [], []
    for number, line in enumerate(lines):
        y = TOP + number * LINE
        body.append(f'<g id="l{number}">{"".join(spans(line.text, y + FONT))}</g>')
        styles.append(appears(f"l{number}", line.at_s, duration_s))
        if line.typed_s:
            width, x = (cell_len(line.text.plain) - 2) * CELL, LEFT + 2 * CELL
            body.append(
                f'<g id="c{number}" class="cover"><rect x="{x:.1f}" y="{y}" width="{WIDTH}" height="{LINE}" fill="{BACKGROUND}"/>'
                f'<rect x="{x:.1f}" y="{y}" width="{CELL}" height="{LINE - 3}" fill="{FOREGROUND}"/></g>'
            )
            styles.append(uncovers(f"c{number}", line, width, duration_s))
    x, y = LEFT + 2 * CELL, TOP + (len(lines) - 1) * LINE
    body.append(f'<rect id="cursor" x="{x:.1f}" y="{y}" width="{CELL}" height="{LINE - 3}" fill="{FOREGROUND}"/>')
    styles += [appears("cursor", lines[-1].at_s, duration_s), scrolls(lines, duration_s)]
    dots = "".join(f'<circle cx="{20 + 18 * index}" cy="17" r="5.5" fill="#3a4a56"/>' for index in range(3))
    return PICTURE.format(
        width=WIDTH,
        height=HEIGHT,
        background=BACKGROUND,
        foreground=FOREGROUND,
        font=FONT,
        duration=f"{duration_s:.2f}",
        begins=f"{duration_s - END_S:.2f}",
        styles="\n".join(styles),
        dots=dots,
        top=TOP,
        inner=ROWS * LINE + 8,
        last=-scroll_of(len(lines)),
        hidden=WIDTH,
        body="\n".join(body),
        says=escape("; ".join(command.text for command in recorded), quote=True),
    )


PICTURE = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">
<title>A terminal runs: {says}</title>
<style>
text {{ font: {font}px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: {foreground} }}
#screen {{ transform: translateY({last}px) }}
.cover {{ transform: translateX({hidden}px) }}
@media (prefers-reduced-motion: no-preference) {{
g, #cursor {{ animation: {duration}s step-end -{begins}s infinite }}
{styles}
}}
</style>
<clipPath id="inside"><rect x="0" y="{top}" width="{width}" height="{inner}"/></clipPath>
<rect width="{width}" height="{height}" rx="10" fill="{background}"/>
{dots}
<g clip-path="url(#inside)"><g id="screen">
{body}
</g></g>
</svg>
"""


def spans(line: Text, y: int) -> Iterator[str]:
    """Yield a line's text in pieces of one style. Each has its place and its width, so that columns are straight in any font."""
    column = 0
    for segment in line.render(Console()):
        style = segment.style or Style()
        colour = COLOURS.get(style.color.name) if style.color else BRIGHT if style.bold else None
        fill = f' style="fill:{colour}"' if colour else ""
        for piece in re.split(r"(\s{2,})", segment.text):
            lead = len(piece) - len(piece.lstrip())
            if shown := piece.strip():
                size = f'x="{LEFT + (column + lead) * CELL:.1f}" y="{y}" textLength="{cell_len(shown) * CELL:.1f}"'
                yield f"<text {size}{fill}>{escape(shown, quote=False)}</text>"
            column += cell_len(piece)


def frames(name: str, moments: Mapping[float, str], duration_s: float) -> str:
    """Return the rules that give an element styles from moments on."""
    steps = "".join(f"{at_s / duration_s:.3%}{{{style}}}" for at_s, style in moments.items())
    return f"@keyframes {name}{{{steps}}}#{name}{{animation-name:{name}}}"


def appears(name: str, at_s: float, duration_s: float) -> str:
    """Show a line from a moment on."""
    return frames(name, {0: "opacity:0", at_s: "opacity:1"} if at_s else {0: "opacity:1"}, duration_s)


def uncovers(name: str, line: Line, width: float, duration_s: float) -> str:
    """Move a cover over a line to the right, one character after another, and away when the command starts."""
    begins_s = line.at_s + BEFORE_TYPING_S
    away, covers = f"transform:translateX({WIDTH}px)", "transform:translateX(0)"
    typing = f"{covers};animation-timing-function:steps({round(width / CELL)},end)"
    typed = f"transform:translateX({width:.1f}px)"
    ends_s = begins_s + line.typed_s
    return frames(name, {0: away, line.at_s: covers, begins_s: typing, ends_s: typed, ends_s + BEFORE_OUTPUT_S: away}, duration_s)


def scrolls(lines: Sequence[Line], duration_s: float) -> str:
    """Move the screen up when it is full."""
    moments = {line.at_s: f"transform:translateY({-scroll_of(number + 1)}px)" for number, line in enumerate(lines)}
    return frames("screen", moments, duration_s)


def scroll_of(count: int) -> int:
    """Return how far so many lines are moved up."""
    return max(0, count - ROWS) * LINE


if __name__ == "__main__":
    print(draw(record()), end="")
