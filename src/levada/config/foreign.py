"""Names of settings in other clients that are no other spelling of one of ours: what to use instead, and what is different about it.

A setting that means the same under another name, in the same unit, is an alias, declared with its option. These here would be wrong
if they were read as ours: another unit, another meaning, or nothing that could be set. They are answered with a ConfigError.
librdkafka's names are those of its CONFIGURATION.md, the others keyword arguments of kafka-python and aiokafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_LOGGING: Final = "levada logs through Python's logging, as 'levada'; set levels and handlers there"
_CALLBACK: Final = "pass on_delivery to send(), for each record"
_ALWAYS_ON: Final = "it is always on"
_NO_PLACE: Final = "levada has nothing like it"

CLIENT: Final[Mapping[str, str]] = {
    "api.version": "leave it out; brokers are asked for what they speak. For brokers before 0.10.0 see broker.version.fallback",
    "api.version.fallback.ms": "brokers are asked for what they speak on every connection; before 0.10.0 set broker.version.fallback",
    "api.version.request": "brokers are asked for what they speak on every connection; before 0.10.0 set broker.version.fallback",
    "api.version.request.timeout.ms": "did you mean 'request.timeout.ms'? It is for every request",
    "broker.address.family": _NO_PLACE,
    "broker.address.ttl": "host names are looked up for each new connection",
    "compression.level": "each codec has a key of its own: compression.gzip.level, compression.lz4.level, compression.zstd.level",
    "debug": _LOGGING,
    "enabled.events": _NO_PLACE,
    "error.cb": "errors come out of the call that they are about, and the rest is logged",
    "log.cb": _LOGGING,
    "log.level": _LOGGING,
    "log.queue": _LOGGING,
    "log.thread.name": _LOGGING,
    "logger": _LOGGING,
    "loop": "the client finds the running loop by itself",
    "metadata.request.timeout.ms": "did you mean 'request.timeout.ms'? It is for every request",
    "open.cb": _NO_PLACE,
    "plugin.library.paths": _NO_PLACE,
    "selector": "the system's best one is taken",
    "socket.blocking.max.ms": _NO_PLACE,
    "socket.cb": _NO_PLACE,
    "socket.keepalive.enable": _ALWAYS_ON,
    "socket.max.fails": "a connection is given up at the first request that gets no answer in time",
    "socket.nagle.disable": _ALWAYS_ON,
    "socket.options": "see send.buffer.bytes and receive.buffer.bytes; TCP_NODELAY and SO_KEEPALIVE are always set",
    "socket.receive.buffer.bytes": "did you mean 'receive.buffer.bytes'? There -1 leaves the size to the system, not 0",
    "socket.send.buffer.bytes": "did you mean 'send.buffer.bytes'? There -1 leaves the size to the system, not 0",
    "socket.timeout.ms": "did you mean 'request.timeout.ms'? It is for every request, and its default is half as long: 30 s",
    "statistics.interval.ms": "metrics are not there yet",
    "stats.cb": "metrics are not there yet",
    "throttle.cb": "throttling is obeyed by itself",
    "topic.metadata.propagation.max.ms": _NO_PLACE,
    "topic.metadata.refresh.fast.interval.ms": "did you mean 'retry.backoff.ms'? It is the pause before metadata is asked for again, too",
    "topic.metadata.refresh.sparse": "metadata is always asked for only the topics in use",
}

PRODUCER: Final[Mapping[str, str]] = {
    "batch.num.messages": "did you mean 'batch.size'? It counts bytes, not records",
    "delivery.report.only.error": _CALLBACK,
    "dr.cb": _CALLBACK,
    "dr.msg.cb": _CALLBACK,
    "enable.gapless.guarantee": "records stay in order per partition; a failed one is told by its handle, and later ones go on",
    "max.batch.size": "did you mean 'batch.size'?",
    "on.delivery": _CALLBACK,
    "produce.offset.report": _ALWAYS_ON,
    "queue.buffering.backpressure.threshold": "batches grow by themselves while a broker is busy; see batch.size and linger.ms",
    "queue.buffering.max.kbytes": "did you mean 'buffer.memory'? It counts bytes, 1,024 to librdkafka's kbyte",
    "queue.buffering.max.messages": "did you mean 'buffer.memory'? It bounds records by their bytes, not by their number",
    "sticky.partitioning.linger.ms": "records without a key change partition after batch.size bytes (KIP-794)",
}

CONSUMER: Final[Mapping[str, str]] = {
    "consume.callback.max.messages": "did you mean 'max.poll.records'?",
    "consumer.timeout.ms": "give the time to poll(timeout), in seconds; to read what is there and end, use scan()",
    "enable.partition.eof": "to read what is there and end, use scan(); or compare position() with end_offsets()",
    "fetch.error.backoff.ms": "did you mean 'retry.backoff.ms'? It is the first pause, and doubles up to retry.backoff.max.ms",
    "fetch.queue.backoff.ms": _NO_PLACE,
    "queued.max.messages.kbytes": "did you mean 'fetch.buffer.bytes', which is in bytes?",
    "queued.min.messages": "there is one fetch under way per broker while its last one is read",
}
