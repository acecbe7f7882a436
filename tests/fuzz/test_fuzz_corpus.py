"""The corpus of `make fuzz`, without atheris: every input through its target; and, where it counts, twenty seconds of atheris itself."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fuzz_targets
from fuzz_targets import TARGETS, Finding, run

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
LARGEST_CORPUS = 300_000
IN_CI = os.environ.get("CI", "").lower() in ("1", "true", "yes")


def inputs(target: str) -> list[Path]:
    return sorted((CORPUS / target).iterdir())


@pytest.mark.parametrize("target", TARGETS)
def test_M_C3_the_corpus_finds_nothing(target: str) -> None:
    assert inputs(target)
    for path in inputs(target):
        try:
            run(TARGETS[target], path.read_bytes())
        except Exception as error:
            error.add_note(f"tests/fuzz/corpus/{target}/{path.name}")
            raise


# What each target calls to read; a target that does not let its failure out would find nothing, ever.
READS = {
    "responses": "decode_response",
    "requests": "decode_request",
    "embedded": "decode",
    "records": "read_batches",
    "codecs": "decompress",
    "frames": "_received",
    "json": "JsonDecoder",
    "avro": "decoders",
    "protobuf": "protobuf_decoders",
}


@pytest.mark.parametrize("target", TARGETS)
def test_M_C3_a_failure_that_is_not_typed_is_a_finding_for_every_seed(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise IndexError("broken")

    monkeypatch.setattr(fuzz_targets, READS[target], broken)
    seeds = sorted((CORPUS / target).glob("seed-*.bin"))
    assert seeds
    for path in seeds:
        with pytest.raises(IndexError, match="broken"):
            run(TARGETS[target], path.read_bytes())


def test_the_corpus_stays_small() -> None:
    assert {path.name for path in CORPUS.iterdir()} == set(TARGETS)
    assert sum(path.stat().st_size for target in TARGETS for path in inputs(target)) < LARGEST_CORPUS


def test_a_target_that_takes_too_long_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def dawdle(_: bytes) -> None:
        sum(range(10**6))

    monkeypatch.setattr(fuzz_targets, "MAX_CPU_S", 0.001)

    with pytest.raises(Finding, match=r"s for 4 bytes"):
        run(dawdle, b"slow")


@pytest.mark.hardening
@pytest.mark.timeout(240)
@pytest.mark.skipif(not IN_CI, reason="twenty seconds of fuzzing: with CI=true; or `make fuzz` for longer")
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed; `make fuzz` installs it")
def test_M_C3_twenty_seconds_of_atheris_find_nothing() -> None:
    done = subprocess.run(
        [sys.executable, str(HERE), "--seconds", "20"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        timeout=220,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
