"""In which form a node takes batches: record batches, or for brokers before 0.11 message sets (M15, V10).

Batches are built as record batches whoever will get them, and stay so: a message set is made for one request. So a batch can be split,
and sent again to a broker of another release.
"""

from __future__ import annotations

from levada.client.network.network_client import NetworkClient
from levada.errors import UnsupportedVersionError
from levada.producer.append.producer_batch import ProducerBatch
from levada.protocol.messages.produce import ProduceRequest
from levada.record.batch import RecordBatch
from levada.record.compression import Codec
from levada.record.header import MAGIC

OLDEST_WITH_BATCHES = 3
OLDEST_WITH_ZSTD = 7
MAGIC_BY_VERSION = {0: 0, 1: 0, 2: 1}


class ProduceFormat:
    """What a producer's settings need from a broker, and what a broker needs from the producer."""

    def __init__(self, network: NetworkClient, *, codec: Codec, level: int | None, is_idempotent: bool) -> None:
        self._network = network
        self._codec = codec
        self._level = level
        self.oldest_version = OLDEST_WITH_ZSTD if codec is Codec.ZSTD else OLDEST_WITH_BATCHES if is_idempotent else 0

    def magic(self, node: int) -> int:
        """Return the record format for a node that is ready; the newest one also where sending will fail."""
        try:
            version = self._network.version_for(node, ProduceRequest, self.oldest_version)
        except UnsupportedVersionError:
            return MAGIC
        return MAGIC_BY_VERSION.get(version, MAGIC)

    def encode(self, batch: ProducerBatch, magic: int) -> bytearray:
        """Return a sealed batch's bytes; raises UnsupportedRecordFormatError for what a message set cannot hold."""
        assert batch.data is not None
        if magic == MAGIC:
            return batch.data
        # Met only with brokers that are years behind; most programs never load it.
        from levada.record.legacy.conversion import down_convert

        return down_convert(RecordBatch(memoryview(batch.data)), magic, self._level)

    @property
    def need(self) -> str:
        """What asks for oldest_version, in words for who has an older broker."""
        if self._codec is Codec.ZSTD:
            return "compression.type=zstd needs brokers of Kafka 2.1 or newer"
        if self.oldest_version:
            return "enable.idempotence=true needs brokers of Kafka 0.11 or newer; set it to false for older ones"
        return "client and broker share no suitable version of Produce"
