"""The rows, tables and targets of the codec benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from codec_timing import Case

MEMCPY = "memcpy"


@dataclass
class Row:
    """One case. per_s: records or messages per second. memcpy_times: its time as a multiple of a memcpy of the values; 0 for messages."""

    subject: str
    name: str
    value_bytes: int
    codec: str
    per_s: float
    bytes_per_s: float
    memcpy_times: float


def rows_of(cases: Sequence[Case], value_bytes: int = 0, codec: str = "", memcpy_seconds: float = 0.0) -> list[Row]:
    """Return measured cases as rows."""
    return [
        Row(
            case.subject,
            case.name,
            value_bytes,
            codec,
            round(case.units / case.seconds, 1),
            round(case.value_bytes / case.seconds),
            round(case.seconds / memcpy_seconds, 2) if memcpy_seconds else 0.0,
        )
        for case in cases
    ]


def record_table(rows: Sequence[Row]) -> str:
    """Return rows of records as a Markdown table with a line per case and a column per codec."""
    codecs = list(dict.fromkeys(row.codec for row in rows))
    lines = [f"| | value | | {' | '.join(codecs)} |", "|---|---|---|" + "---|" * len(codecs)]
    cells: dict[tuple[str, int, str], dict[str, str]] = {}
    for row in rows:
        cell = f"{row.per_s / 1e6:.2f} / {row.bytes_per_s / 1e6:.0f} / {row.memcpy_times:.1f}"
        cells.setdefault((row.subject, row.value_bytes, row.name), {})[row.codec] = cell
    for (subject, size, name), by_codec in cells.items():
        lines.append(f"| {subject} | {size} B | {name} | {' | '.join(by_codec.get(codec, '') for codec in codecs)} |")
    return "\n".join(["M records/s / MB/s of values / times a memcpy of the values", "", *lines])


def message_table(rows: Iterable[Row]) -> str:
    """Return rows of messages as a Markdown table with a line per message: ms by system, and the peers' times as multiples of levada's."""
    lines = [
        "| | levada ms | kafka-python ms | aiokafka ms | kafka-python / levada | aiokafka / levada |",
        "|---|---|---|---|---|---|",
    ]
    for subject, group in groupby(rows, lambda row: row.subject):
        ms = {row.name: 1000 / row.per_s for row in group}
        times = [f"{ms[name]:.2f}" if name in ms else "" for name in ("levada", "kafka-python", "aiokafka")]
        ratios = [f"{ms[name] / ms['levada']:.1f}" if name in ms else "" for name in ("kafka-python", "aiokafka")]
        lines.append(f"| {' | '.join([subject, *times, *ratios])} |")
    return "\n".join(lines)


@dataclass
class Target:
    """A target and the measured figure, in the same unit."""

    text: str
    wanted: float
    reached: float

    def __str__(self) -> str:
        return f"{'holds ' if self.reached >= self.wanted else 'MISSED'}  {self.text}: {self.reached:.2f} (wanted: {self.wanted:g})"


def record_targets(rows: Sequence[Row]) -> list[Target]:
    """Return the targets for values of 100 bytes."""

    def rate(name: str, codec: str = "none") -> float:
        return next(row.per_s for row in rows if (row.value_bytes, row.codec, row.name) == (100, codec, name))

    columns, encoded, bare = rate("levada columns (value, offset)"), rate("levada columns"), rate("levada records, none looked at")
    targets = [
        Target("decode to (value, offset), M records/s", 50, columns / 1e6),
        Target("... times aiokafka's per-record decode to the same columns", 20, columns / rate("aiokafka columns (value, offset)")),
        Target("... times aiokafka's per-record decode, no columns made of it", 20, columns / rate("aiokafka records")),
        Target("encode from columns, M records/s", 15, encoded / 1e6),
        Target("... times aiokafka's batch builder", 6, encoded / rate("aiokafka append")),
        Target("iterating records, times aiokafka's", 1.5, bare / rate("aiokafka records, none looked at")),
        Target("... when offset, key and value are looked at", 1.5, rate("levada records") / rate("aiokafka records")),
        Target("append, times aiokafka's", 1, rate("levada append") / rate("aiokafka append")),
    ]
    for codec in sorted({row.codec for row in rows} - {"none"}):
        allowed = 1 / rate("codec library alone", codec) + 1 / columns
        share = allowed * rate("levada columns (value, offset)", codec)
        targets.append(Target(f"decode of {codec}, share of the speed of its library and the uncompressed decode", 1 / 1.3, share))
    return targets


def message_targets(rows: Sequence[Row]) -> list[Target]:
    """Return the targets for Metadata and Fetch, each for encode plus decode."""
    targets = []
    for message in ("Metadata", "Fetch"):
        ours = [row for row in rows if row.name == "levada" and f" {message}R" in row.subject]
        for peer, wanted in (("kafka-python", 3), ("aiokafka", 1)):
            theirs = {row.subject: 1 / row.per_s for row in rows if row.name == peer}
            shared = [row for row in ours if row.subject in theirs]
            reached = sum(theirs[row.subject] for row in shared) / sum(1 / row.per_s for row in shared)
            targets.append(Target(f"{message}, times {peer}", wanted, reached))
    return targets
