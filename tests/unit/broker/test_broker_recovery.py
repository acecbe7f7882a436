"""Hostile files: whatever stands in a log's folder, the broker starts, and has lost no more than the tail."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from disk_kit import kept, values, write

SMALL: dict[str, str | None] = {"segment.bytes": "300"}
COUNT = 6

pytestmark = pytest.mark.usefixtures("no_flushing")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log of one segment with six batches, as a crash leaves it."""
    with kept(tmp_path, crash=True) as bench:
        bench.node.create_topic("t")
        for number in range(COUNT):
            write(bench, b"%d" % number)
    return tmp_path


def log_of(folder: Path) -> Path:
    (path,) = (folder / "node-1" / "t-0").glob("*.log")
    return path


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_M_B22_a_log_that_is_cut_at_any_byte_ends_with_its_last_whole_batch(folder: Path) -> None:
    whole = log_of(folder).read_bytes()
    size = len(whole) // COUNT
    for cut in range(0, len(whole) + 1, 13):
        for path in (folder / "node-1" / "t-0").iterdir():
            path.unlink()
        (folder / "node-1" / "t-0" / f"{0:020d}.log").write_bytes(whole[:cut])
        with kept(folder, crash=True) as bench:
            assert values(bench.log()) == numbers(cut // size)
            assert write(bench, b"next") == cut // size
            assert values(bench.log()) == [*numbers(cut // size), b"next"]


def test_zeros_behind_the_last_batch_are_cut(folder: Path) -> None:
    path = log_of(folder)
    path.write_bytes(path.read_bytes() + bytes(5000))
    with kept(folder) as bench:
        assert values(bench.log()) == numbers(COUNT)
    with kept(folder) as bench:
        assert values(bench.log()) == numbers(COUNT)


@pytest.mark.parametrize("seed", range(15))
def test_whatever_byte_changes_the_batches_before_it_stay(folder: Path, seed: int) -> None:
    random = Random(seed)
    path = log_of(folder)
    data = bytearray(path.read_bytes())
    at = random.randrange(len(data))
    data[at] ^= 1 << random.randrange(8)
    path.write_bytes(data)
    with kept(folder) as bench:
        left = values(bench.log())
        assert left[: at * COUNT // len(data)] == numbers(at * COUNT // len(data))
        assert set(left) <= set(numbers(COUNT))
        assert write(bench, b"next") == bench.log().end_offset - 1


@pytest.mark.parametrize("seed", range(10))
def test_files_of_anything_do_not_keep_it_from_starting(folder: Path, seed: int) -> None:
    random = Random(seed)
    place = folder / "node-1" / "t-0"
    names = [path.name for path in place.iterdir()] + [f"{0:020d}.snapshot", f"{3:020d}.log", "junk", f"{9:020d}.index", "x.log"]
    for path in [place / name for name in names] + [path for path in (folder / "node-1").iterdir() if path.is_file()]:
        if random.random() < 0.7 and path != log_of_first(place):
            path.write_bytes(random.randbytes(random.choice((0, 1, 40, 400))))
    with kept(folder) as bench:
        assert values(bench.log())[:COUNT] == numbers(COUNT)
        write(bench, b"next")


def log_of_first(place: Path) -> Path:
    return place / f"{0:020d}.log"


def test_damage_in_an_earlier_segment_costs_that_segments_rest_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with kept(tmp_path) as bench:
        bench.node.create_topic("t", 1, SMALL)
        for number in range(12):
            write(bench, b"%d" % number * 40)
    damaged = sorted((tmp_path / "node-1" / "t-0").glob("*.log"))[1]
    data = bytearray(damaged.read_bytes())
    data[-3] ^= 1
    damaged.write_bytes(data)
    with kept(tmp_path) as bench:
        left = values(bench.log())
        assert len(left) == 11
        assert left[-1] == b"11" * 40
        assert write(bench, b"next") == 12
        assert damaged.read_bytes() == data, "for whoever wants to repair it"
    assert str(damaged) in caplog.text
    assert "are lost, the file is kept" in caplog.text


class _PowerCutError(Exception):
    pass


@pytest.mark.parametrize("operations", range(24))
def test_a_crash_at_any_moment_of_a_compaction_costs_nothing(tmp_path: Path, operations: int, monkeypatch: pytest.MonkeyPatch) -> None:
    config: dict[str, str | None] = {**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
    newest = {b"%d" % key: b"%d" % (9 + key) * 30 for key in range(3)}
    with kept(tmp_path, crash=True) as bench:
        bench.node.create_topic("t", 1, config)
        for number in range(12):
            write(bench, b"%d" % number * 30, key=b"%d" % (number % 3))
        left = [operations]

        def then_cut(operation: object) -> object:
            def operate(*arguments: object, **named: object) -> object:
                left[0] -= 1
                if left[0] < 0:
                    raise _PowerCutError
                return operation(*arguments, **named)  # type: ignore[operator]

            return operate

        with monkeypatch.context() as patch:
            for name in ("rename", "replace", "unlink", "open"):
                patch.setattr(Path, name, then_cut(getattr(Path, name)))
            with suppress(_PowerCutError):
                bench.advance(15_000)
    with kept(tmp_path) as bench:
        found = {record.key: record.value for batch in bench.log().batches() for record in batch.records()}
        assert found == newest
        assert bench.log().end_offset == 12
        left_over = [path for path in (tmp_path / "node-1" / "t-0").iterdir() if path.suffix in (".cleaned", ".swap", ".tmp")]
        orphans = [path for path in (tmp_path / "node-1" / "t-0").glob("*index") if not path.with_suffix(".log").exists()]
        assert not left_over + orphans
        bench.advance(15_000)
        assert {record.key: record.value for batch in bench.log().batches() for record in batch.records()} == newest
