"""librdkafka's mock cluster, asked for what confluent-kafka's public API does not offer: errors, leaders, brokers that go away.

The library that confluent-kafka's wheel carries exports rdkafka_mock.h; it is called with ctypes. The brokers run in threads of librdkafka.
What it is not: it does not look at sequence numbers. A batch that is sent again after its answer was lost stands in its log twice, and
batches that follow one that was refused are appended before it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

import confluent_kafka

from levada.protocol.schema import Request

PRODUCER = 0
TRANSPORT = -195
"""librdkafka's own error code for a lost connection: the mock closes the connection and answers nothing."""


@cache
def _library() -> ctypes.CDLL:
    folder = Path(confluent_kafka.__file__).parent.with_name("confluent_kafka.libs")
    (path,) = folder.glob("librdkafka*")
    library = ctypes.CDLL(str(path))
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    signatures = {
        "rd_kafka_conf_new": (pointer, []),
        "rd_kafka_new": (pointer, [number, pointer, text, ctypes.c_size_t]),
        "rd_kafka_destroy": (None, [pointer]),
        "rd_kafka_mock_cluster_new": (pointer, [pointer, number]),
        "rd_kafka_mock_cluster_destroy": (None, [pointer]),
        "rd_kafka_mock_cluster_bootstraps": (text, [pointer]),
        "rd_kafka_mock_topic_create": (number, [pointer, text, number, number]),
        "rd_kafka_mock_partition_set_leader": (number, [pointer, text, ctypes.c_int32, ctypes.c_int32]),
        "rd_kafka_mock_broker_set_down": (number, [pointer, ctypes.c_int32]),
        "rd_kafka_mock_broker_set_up": (number, [pointer, ctypes.c_int32]),
        "rd_kafka_mock_push_request_errors_array": (None, [pointer, ctypes.c_int16, ctypes.c_size_t, ctypes.POINTER(number)]),
        "rd_kafka_mock_clear_request_errors": (None, [pointer, ctypes.c_int16]),
    }
    for name, (returned, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = returned, arguments
    return library


class MockCluster:
    """A context manager over brokers numbered from 1."""

    def __init__(self, brokers: int = 3) -> None:
        self._library = _library()
        reason = ctypes.create_string_buffer(500)
        self._client = self._library.rd_kafka_new(PRODUCER, self._library.rd_kafka_conf_new(), reason, len(reason))
        if not self._client:
            raise RuntimeError(f"librdkafka: {reason.value.decode()}")
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._client, brokers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._client)

    @property
    def bootstrap_servers(self) -> str:
        addresses: bytes = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster)
        return addresses.decode()

    def create_topic(self, name: str, partitions: int = 1, replicas: int = 3) -> None:
        self._check(self._library.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, replicas))

    def fail_next(self, api: type[Request], codes: Sequence[int]) -> None:
        """Answer the next requests of an API with these errors, one each; see TRANSPORT."""
        errors = (ctypes.c_int * len(codes))(*codes)
        self._library.rd_kafka_mock_push_request_errors_array(self._cluster, api.API_KEY, len(codes), errors)

    def clear(self, api: type[Request]) -> None:
        """Forget the errors that no request was answered with."""
        self._library.rd_kafka_mock_clear_request_errors(self._cluster, api.API_KEY)

    def elect(self, topic: str, partition: int, broker: int) -> None:
        """Make a broker the leader of a partition."""
        self._check(self._library.rd_kafka_mock_partition_set_leader(self._cluster, topic.encode(), partition, broker))

    def take_down(self, broker: int) -> None:
        """Close a broker's connections, and refuse new ones."""
        self._check(self._library.rd_kafka_mock_broker_set_down(self._cluster, broker))

    def bring_up(self, broker: int) -> None:
        self._check(self._library.rd_kafka_mock_broker_set_up(self._cluster, broker))

    def _check(self, code: int) -> None:
        if code:
            raise RuntimeError(f"librdkafka's mock cluster refused with error {code}")
