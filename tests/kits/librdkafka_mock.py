"""librdkafka's mock cluster, with functions that confluent-kafka's public API lacks: errors, new leaders, stopped brokers.

The wheel of confluent-kafka contains librdkafka, which exports the functions of rdkafka_mock.h. This module calls them with ctypes. The
brokers run in threads of librdkafka. They do not check sequence numbers: a batch that is sent again after its response was lost is in the
log twice, and batches after a refused batch are appended before it.
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
    """A mock cluster whose brokers have the ids 1, 2, ... The context manager destroys it at its end."""

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
        """Answer each of the next requests of an API with one of these errors, in order. TRANSPORT closes the connection instead."""
        errors = (ctypes.c_int * len(codes))(*codes)
        self._library.rd_kafka_mock_push_request_errors_array(self._cluster, api.API_KEY, len(codes), errors)

    def clear(self, api: type[Request]) -> None:
        """Remove the errors that no request was answered with yet."""
        self._library.rd_kafka_mock_clear_request_errors(self._cluster, api.API_KEY)

    def elect(self, topic: str, partition: int, broker: int) -> None:
        """Make a broker the leader of a partition."""
        self._check(self._library.rd_kafka_mock_partition_set_leader(self._cluster, topic.encode(), partition, broker))

    def take_down(self, broker: int) -> None:
        """Stop a broker: close its connections, and refuse new ones."""
        self._check(self._library.rd_kafka_mock_broker_set_down(self._cluster, broker))

    def bring_up(self, broker: int) -> None:
        self._check(self._library.rd_kafka_mock_broker_set_up(self._cluster, broker))

    def _check(self, code: int) -> None:
        if code:
            raise RuntimeError(f"librdkafka's mock cluster refused with error {code}")
