"""What a topic's compression.type does to the batches that are appended to it, and what it leaves alone."""

from __future__ import annotations

import struct

import pytest

from broker_kit import START_MS, Bench, Client, make_batch
from levada.error_codes import ErrorCode
from levada.record.batch import RecordBatch
from levada.record.compression import Codec
from levada.record.header import HEADER_SIZE, seal
from levada.types import TimestampType

CODECS = {"uncompressed": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}
VALUES = (b"a" * 300, b"b" * 300, None)
TIMES = [START_MS, START_MS + 7, START_MS + 3]
PRODUCER = (9, 0, 0)
MAX_TIMESTAMP_AT = 35


def client_of(config: dict[str, str], **settings: object) -> Client:
    bench = Bench(**settings)
    bench.node.create_topic("t", 1, config)
    return bench.client()


def kept(client: Client) -> RecordBatch:
    """The last batch that the broker keeps, its checksum verified."""
    *_, batch = client.bench.node.log("t").batches()
    batch.verify_crc()
    return batch


@pytest.mark.parametrize("produced", Codec)
@pytest.mark.parametrize("name", CODECS)
def test_a_batch_is_kept_with_the_codec_of_its_topic(name: str, produced: Codec) -> None:
    client = client_of({"compression.type": name})
    client.produce("t", make_batch(b"before"))
    batch = make_batch(*VALUES, codec=produced, timestamp=TIMES, producer=PRODUCER)

    answer = client.produce("t", batch)

    assert (answer.error_code, answer.base_offset) == (0, 1)
    found = kept(client)
    assert found.codec is CODECS[name]
    assert [(record.offset, record.timestamp, record.key, record.value) for record in found.records()] == [
        (1, TIMES[0], b"k", VALUES[0]),
        (2, TIMES[1], b"k", VALUES[1]),
        (3, TIMES[2], b"k", None),
    ]
    assert (found.producer_id, found.producer_epoch, found.base_sequence, found.max_timestamp) == (*PRODUCER, TIMES[1])
    assert client.produce("t", batch).base_offset == 1, "the same batch again is a duplicate"


@pytest.mark.parametrize("produced", Codec)
def test_by_default_a_batch_keeps_its_codec(produced: Codec) -> None:
    client = client_of({})
    client.produce("t", make_batch(*VALUES, codec=produced))
    assert kept(client).codec is produced


def test_a_batch_that_has_the_codec_already_is_kept_as_it_came() -> None:
    client = client_of({"compression.type": "gzip", "compression.gzip.level": "1"})
    batch = make_batch(*VALUES, codec=Codec.GZIP)
    client.produce("t", batch)
    assert bytes(kept(client).data[HEADER_SIZE:]) == batch[HEADER_SIZE:]


@pytest.mark.parametrize(("name", "fast", "small"), [("gzip", "1", "9"), ("lz4", "9", "17"), ("zstd", "-50", "22")])
def test_a_level_is_that_of_the_codec(name: str, fast: str, small: str) -> None:
    values = [str(number * number).encode() * 3 for number in range(500)]
    sizes = []
    for level in (fast, small):
        client = client_of({"compression.type": name, f"compression.{name}.level": level})
        client.produce("t", make_batch(*values))
        sizes.append(kept(client).size_bytes)
    assert sizes[1] < sizes[0]


def test_a_broker_setting_is_the_default_of_topics() -> None:
    client = client_of({}, compression_type="zstd")
    client.produce("t", make_batch(*VALUES))
    assert kept(client).codec is Codec.ZSTD


def test_a_changed_codec_holds_for_what_comes_after() -> None:
    client = client_of({})
    node = client.bench.node
    client.produce("t", make_batch(b"a"))
    topic = node.cluster.topics["t"]
    node.cluster.configure(topic, topic.config.with_overrides({"compression.type": "lz4"}))
    client.produce("t", make_batch(b"b"))
    assert [batch.codec for batch in node.log("t").batches()] == [Codec.NONE, Codec.LZ4]


def test_records_stamped_by_the_broker_are_compressed_too() -> None:
    client = client_of({"compression.type": "gzip", "message.timestamp.type": "LogAppendTime"})
    client.produce("t", make_batch(*VALUES, timestamp=TIMES))
    found = kept(client)
    assert (found.codec, found.timestamp_type) == (Codec.GZIP, TimestampType.LOG_APPEND_TIME)
    assert {record.timestamp for record in found.records()} == {START_MS}


def test_a_claimed_largest_timestamp_becomes_that_of_the_records() -> None:
    batch = bytearray(make_batch(b"a", b"b", timestamp=[START_MS, START_MS + 5]))
    struct.pack_into(">q", batch, MAX_TIMESTAMP_AT, START_MS + 99)
    seal(batch)
    client = client_of({"compression.type": "gzip"})
    client.produce("t", bytes(batch))
    assert kept(client).max_timestamp == START_MS + 5


def test_max_message_bytes_holds_before_and_after() -> None:
    grows = client_of({"compression.type": "uncompressed", "max.message.bytes": "1000"})
    assert grows.produce("t", make_batch(b"a" * 5000, codec=Codec.GZIP)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    shrinks = client_of({"compression.type": "gzip", "max.message.bytes": "1000"})
    assert shrinks.produce("t", make_batch(b"a" * 5000)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert [client.bench.node.log("t").end_offset for client in (grows, shrinks)] == [0, 0]


def test_segment_bytes_holds_for_what_is_kept() -> None:
    client = client_of({"compression.type": "gzip", "segment.bytes": "500"})
    assert client.produce("t", make_batch(b"x" * 600)).error_code == 0
    client = client_of({"compression.type": "uncompressed", "segment.bytes": "500"})
    assert client.produce("t", make_batch(b"x" * 600, codec=Codec.GZIP)).error_code == ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize("name", ["producer", "gzip", "uncompressed"])
@pytest.mark.parametrize("produced", Codec)
def test_a_compressed_record_may_be_as_large_as_max_decompressed_message_bytes(name: str, produced: Codec) -> None:
    client = client_of({"compression.type": name, "max.decompressed.message.bytes": "1000"})
    large = client.produce("t", make_batch(b"a" * 5000, codec=produced))
    assert large.error_code == (0 if produced is Codec.NONE else ErrorCode.INVALID_RECORD)
    assert client.produce("t", make_batch(*[b"a" * 300] * 5, codec=produced)).error_code == 0


def damaged(codec: Codec) -> bytes:
    batch = bytearray(make_batch(b"abc" * 100, codec=codec))
    batch[HEADER_SIZE + 8 :] = bytes(byte ^ 0x5A for byte in batch[HEADER_SIZE + 8 :])
    seal(batch)
    return bytes(batch)


@pytest.mark.parametrize("produced", [codec for codec in Codec if codec is not Codec.NONE])
def test_records_that_do_not_decompress_are_refused(produced: Codec) -> None:
    client = client_of({"compression.type": "uncompressed"})
    assert client.produce("t", damaged(produced)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert client.produce("t", make_batch(b"next", codec=produced)).base_offset == 0


def test_a_record_that_contradicts_itself_is_refused() -> None:
    batch = bytearray(make_batch(b"abc" * 100))
    batch[HEADER_SIZE] = 0x7E
    seal(batch)
    client = client_of({"compression.type": "gzip"})
    assert client.produce("t", bytes(batch)).error_code == ErrorCode.INVALID_RECORD
