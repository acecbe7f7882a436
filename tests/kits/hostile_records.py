"""Damaged record batches and message sets with valid lengths and checksums, so that a reader reaches the damage."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from fuzz_targets import LEAST_ENTRY, PACKED_BATCH, PACKED_MESSAGES, framed_records, sealed
from levada.record.batch import set_producer_state
from levada.record.compression import Codec
from levada.record.header import HEADER_SIZE
from levada.record.legacy.message import write_message
from mutation_kit import damaged
from record_kit import CODECS, NOW_MS, build

ROWS = [
    (NOW_MS, b"key", b"value" * 4, (("header", b"x"), ("null", None))),
    (NOW_MS + 5, None, b"a value of some length, so that its length may lie", ()),
    (NOW_MS - 7, b"tombstone", None, ()),
]
BATCH = bytes(build(ROWS))
# The index after offset and length. seal() would correct damage before it.
AFTER_PREFIX = 12


def message_set(magic: int) -> bytes:
    """Return ROWS as an uncompressed message set. magic: 0 or 1."""
    entries = bytearray()
    for offset, (timestamp, key, value, _) in enumerate(ROWS):
        write_message(entries, magic, offset, timestamp, key, value)
    return bytes(entries)


def produced() -> bytes:
    """Return ROWS as a batch of a transactional producer."""
    batch = build(ROWS, Codec.LZ4)
    set_producer_state(batch, producer_id=7, producer_epoch=1, base_sequence=5, is_transactional=True)
    return bytes(batch)


MESSAGE_SETS = {magic: message_set(magic) for magic in (0, 1)}
WHOLE = [*(bytes(build(ROWS, codec)) for codec in CODECS), produced()]
PACKERS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4]


def hostile_records(random: Random) -> tuple[str, bytes]:
    """Return the kind of damage, and one damaged input."""
    return random.choice([_damaged_header, _damaged_payload, _damaged_bytes, _damaged_message, _damaged_inside_wrapper])(random)


def _damaged_header(random: Random) -> tuple[str, bytes]:
    return "header", sealed(bytearray(damaged(random.choice(WHOLE)[:HEADER_SIZE], random, AFTER_PREFIX) + BATCH[HEADER_SIZE:]))


def _damaged_payload(random: Random) -> tuple[str, bytes]:
    return "payload", framed_records(PACKED_BATCH | random.choice(CODECS) << 2, damaged(BATCH, random, HEADER_SIZE))


def _damaged_bytes(random: Random) -> tuple[str, bytes]:
    return "stream", sealed(bytearray(damaged(random.choice(WHOLE), random, HEADER_SIZE)))


def _damaged_message(random: Random) -> tuple[str, bytes]:
    first = MESSAGE_SETS[random.randrange(2)][: LEAST_ENTRY + random.randint(0, 40)]
    return "message", sealed(bytearray(damaged(first, random, AFTER_PREFIX)))


def _damaged_inside_wrapper(random: Random) -> tuple[str, bytes]:
    magic, codec = random.randrange(2), random.choice(PACKERS)
    inside = damaged(MESSAGE_SETS[magic], random)
    return "wrapper", framed_records(PACKED_MESSAGES | codec << 2 | magic << 5, bytes([len(ROWS) - 1]) + inside)


def many(count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield `count` damaged inputs. Equal seeds give equal inputs."""
    random = Random(seed)
    for _ in range(count):
        yield hostile_records(random)
