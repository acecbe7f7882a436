"""Reads the same record batches with levada, aiokafka and kafka-python, for comparison.

Every reader verifies checksums and returns rows of offset, timestamp, key, value, headers. Any error that it raises counts as a refusal.
aiokafka and kafka-python run in a separate process, because hostile bytes may crash it. Records of control
batches are left out.
"""

from __future__ import annotations

import base64
import mmap
import os
import pickle
import resource
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

from levada.errors import ProtocolError
from levada.record.memory_records import read_batches

Row = tuple[int, int | None, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


class Reading(NamedTuple):
    """The result of a reader: rows, or None and the reason for the refusal."""

    rows: list[Row] | list[bytes] | None
    refusal: str = ""


def read_by_us(data: bytes) -> Reading:
    """Verify the checksum of each batch and read its records, like a consumer."""
    rows: list[Row] = []
    try:
        for batch in read_batches(data):
            batch.verify_crc()
            rows += [(row.offset, row.timestamp, row.key, row.value, tuple(row.headers)) for row in batch.records()]
    except ProtocolError as error:
        return Reading(None, str(error))
    return Reading(rows)


def _read_by(records: Callable[[bytes], Any], data: bytes) -> Reading:
    rows: list[Row] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = records(data)
            while (batch := found.next_batch()) is not None:
                if not batch.validate_crc():
                    return Reading(None, "checksum")
                if not getattr(batch, "is_control_batch", False):
                    rows += [_row(record) for record in batch]
    except Exception as error:
        return Reading(None, f"{type(error).__name__}: {error}")
    return Reading(rows)


def _row(record: Any) -> Row:
    headers = tuple((key, None if value is None else bytes(value)) for key, value in record.headers)
    timestamp = -1 if record.timestamp is None else record.timestamp
    return record.offset, timestamp, _bytes(record.key), _bytes(record.value), headers


def _bytes(field: Any) -> bytes | None:
    return None if field is None else bytes(field)


PEERS: dict[str, Callable[[bytes], Reading]] = {
    "aiokafka": lambda data: _read_by(AiokafkaRecords, data),
    "kafka-python": lambda data: _read_by(KafkaPythonRecords, data),
}

CRASHED = Reading(None, "crashed")
HUNG = Reading(None, "hung")
HANG_S = 3
ADDRESS_SPACE = 8 << 30
PATIENCE_S = 1_500


def readings(peer: str, inputs: list[bytes]) -> list[Reading]:
    """Return the reading of each input by a peer, a key of PEERS, in a separate process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", "import differential_kit; differential_kit.main()", peer]
    # Warnings of the peer about invalid inputs are not needed.
    out, err = subprocess.PIPE, subprocess.DEVNULL
    done = subprocess.run(command, env=environment, input=pickle.dumps(inputs), timeout=PATIENCE_S, check=True, stdout=out, stderr=err)
    return [Reading(*pickle.loads(base64.b64decode(line))) for line in done.stdout.splitlines()]


def main() -> None:
    """Run as the process of a peer: read pickled inputs from stdin, and write one line for each.

    A child process reads the inputs. If an input crashes or blocks it, a new child continues with the next input.
    """
    peer, inputs = sys.argv[1], pickle.load(sys.stdin.buffer)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    done = mmap.mmap(-1, 8)
    while (at := int.from_bytes(done[:], "big")) < len(inputs):
        child = os.fork()
        if not child:
            _read_all(PEERS[peer], inputs, at, done)
        if status := os.waitpid(child, 0)[1]:
            _write(HUNG if os.WTERMSIG(status) == signal.SIGALRM else CRASHED)
            done[:] = (int.from_bytes(done[:], "big") + 1).to_bytes(8, "big")


def _read_all(read: Callable[[bytes], Reading], inputs: list[bytes], start: int, done: mmap.mmap) -> NoReturn:
    for at, data in enumerate(inputs[start:], start):
        # SIGALRM without a handler ends the process, even if native code blocks.
        signal.alarm(HANG_S)
        _write(read(data))
        done[:] = (at + 1).to_bytes(8, "big")
    os._exit(0)


def _write(reading: Reading) -> None:
    # A tuple, because the class Reading may have another module name in the process that unpickles it.
    os.write(1, base64.b64encode(pickle.dumps(tuple(reading))) + b"\n")
