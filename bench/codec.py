"""Compares levada's codecs with those of aiokafka, kafka-python and confluent-kafka, on one core without a broker: `make bench-codec`."""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version

import codec_imports
import codec_peers
import codec_protocol
import codec_records
from codec_report import MEMCPY, Row, message_table, message_targets, record_table, record_targets, rows_of
from codec_timing import Case, measure, pin_to_one_core
from levada.record.compression import Codec
from levada.record.reader import COMPILED
from report import write

SIZES = (100, 1024)
PACKAGES = ("aiokafka", "kafka-python", "confluent-kafka", "pyarrow")


def records(codecs: Iterable[str], rounds: int) -> list[Row]:
    """Decode and encode per value size and codec."""
    rows: list[Row] = []
    for size in SIZES:
        for codec in codecs:
            rows += told(_record_rows(codec_records.Material(size, Codec.parse(codec)), rounds))
    return rows


def _record_rows(material: codec_records.Material, rounds: int) -> list[Row]:
    with codec_peers.confluent(material) as confluent:
        ways = codec_records.yardsticks(material) | codec_records.decode(material) | codec_peers.decode(material) | confluent
        cases = _cases("decode", ways, material)
        cases += _cases("encode", codec_records.encode(material) | codec_peers.encode(material), material)
        measure(cases, rounds)
    memcpy = next(case.seconds for case in cases if case.name == MEMCPY)
    return rows_of(cases, material.size, material.codec.name.lower(), memcpy)


def _cases(subject: str, ways: dict[str, Callable[[], int]], material: codec_records.Material) -> list[Case]:
    return [Case(subject, name, run, material.count, material.count * material.size) for name, run in ways.items()]


def messages(rounds: int) -> list[Row]:
    """Encode and decode whole messages."""
    rows: list[Row] = []
    for cases in codec_protocol.cases():
        measure(cases, rounds)
        rows += told(rows_of(cases))
    return rows


def told(rows: list[Row]) -> list[Row]:
    """Print rows to stderr as progress; return them."""
    for row in rows:
        print(f"{row.subject} {row.value_bytes} B {row.codec}: {row.name}: {row.per_s:,.0f}/s", file=sys.stderr, flush=True)
    return rows


def header(core: int) -> str:
    """Return a line with the versions and the processor core."""
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    form = "compiled" if COMPILED else "INTERPRETED"
    return f"Python {platform.python_version()} on core {core}, levada {form}, {packages}"


def report(chosen: argparse.Namespace) -> Iterator[str]:
    """Run the requested parts; yield their tables."""
    targets, rows = [], []
    if "records" in chosen.parts:
        found = records(chosen.codecs.split(","), chosen.rounds)
        targets += record_targets(found) if "none" in chosen.codecs.split(",") else []
        rows += found
        yield record_table(found)
    if "messages" in chosen.parts:
        found = messages(chosen.rounds)
        targets += message_targets(found)
        rows += found
        yield message_table(found)
    if "imports" in chosen.parts:
        yield "\n".join(f"import {each.name}: {each.ms:.1f} ms" for each in codec_imports.measure(chosen.rounds))
    yield "\n".join(map(str, targets))
    yield f"rows saved in {write('codec', rows)}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/codec.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", default=["records", "messages", "imports"], help="records, messages, imports (default: all)")
    parser.add_argument("--codecs", default="none,lz4,zstd", help="separated by commas (default: none,lz4,zstd)")
    parser.add_argument("--rounds", type=int, default=7, help="turns of every case; the best counts (default: 7)")
    return parser.parse_args()


def main() -> int:
    """Measure, and print."""
    chosen, started = arguments(), time.monotonic()
    print(header(pin_to_one_core()))
    for part in report(chosen):
        print(f"\n{part}")
    print(f"\n{time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
