"""Settings of other clients that are not aliases of a setting of levada. Each has advice on what to use instead.

An alias, declared with its option, is another client's name for a setting with the same meaning and unit. The settings in this file have
another unit or another meaning, or levada has nothing like them. They raise ConfigError with the advice. librdkafka's names are those of
its CONFIGURATION.md; the others are keyword arguments of kafka-python and aiokafka, and a few are settings of Java's own TLS.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SASL: Final = "levada has PLAIN, SCRAM, OAUTHBEARER, GSSAPI and AWS_MSK_IAM, each with settings under Java's names"
METRICS: Final = "call metrics(); enable.metrics.push=true sends the brokers the metrics that they subscribe to"

_TOKENS: Final = "set sasl.oauth.token.provider to a function without arguments that returns levada.OAuthToken(token, expires_at_seconds)"
_UNSECURED: Final = "for tokens without a signature set sasl.jaas.config with OAuthBearerLoginModule and unsecuredLoginStringClaim_sub"
_OPENSSL: Final = "levada's TLS is OpenSSL; give an ssl.SSLContext of your own as ssl.context"
_LOGGING: Final = "levada logs through Python's logging, as 'levada'; set levels and handlers there"
_CALLBACK: Final = "pass on_delivery to send(), for each record"
_ALWAYS_ON: Final = "it is always on"
_TICKETS: Final = "levada fetches tickets with sasl.kerberos.keytab, and renews them before they expire"
_NO_PLACE: Final = "levada has nothing like it"
_TOPIC_SETTINGS: Final = "levada has no settings per topic; give them as settings of the client"

CLIENT: Final[Mapping[str, str]] = {
    "api.version": "leave it out; levada asks each broker for its versions. For brokers before 0.10.0 see broker.version.fallback",
    "api.version.fallback.ms": "levada asks for versions on every connection; for brokers before 0.10.0 set broker.version.fallback",
    "api.version.request": "levada asks for versions on every connection; for brokers before 0.10.0 set broker.version.fallback",
    "api.version.request.timeout.ms": "did you mean 'request.timeout.ms'? It is for every request",
    "background.event.cb": _NO_PLACE,
    "bootstrap.timeout.ms": "constructors do not wait for a broker; each call takes a timeout, by default default.api.timeout.ms",
    "broker.address.family": _NO_PLACE,
    "broker.address.ttl": "host names are looked up for each new connection",
    "client.software.name": _NO_PLACE,
    "closesocket.cb": _NO_PLACE,
    "compression.level": "each codec has a key of its own: compression.gzip.level, compression.lz4.level, compression.zstd.level",
    "connect.cb": _NO_PLACE,
    "debug": _LOGGING,
    "default.topic.conf": _TOPIC_SETTINGS,
    "default.topic.config": _TOPIC_SETTINGS,
    "enable.sasl.oauthbearer.unsecure.jwt": _UNSECURED,
    "enable.ssl.certificate.verification": "certificates are always verified; to trust a self-signed one, set ssl.truststore.location",
    "enabled.events": _NO_PLACE,
    "error.cb": "the call that fails raises the error; other errors are logged",
    "kafka.client": _NO_PLACE,
    "log.cb": _LOGGING,
    "log.level": _LOGGING,
    "log.queue": _LOGGING,
    "log.thread.name": _LOGGING,
    "logger": _LOGGING,
    "loop": "the client finds the running loop by itself",
    "message.copy.max.bytes": _NO_PLACE,
    "metadata.request.timeout.ms": "did you mean 'request.timeout.ms'? It is for every request",
    "metric.group.prefix": METRICS,
    "oauth.cb": _TOKENS,
    "oauthbearer.token.refresh.cb": _TOKENS,
    "opaque": _NO_PLACE,
    "open.cb": _NO_PLACE,
    "plugin.library.paths": _NO_PLACE,
    "reconnect.backoff.jitter.ms": "pauses always vary by up to 20 %; see reconnect.backoff.ms",
    "resolve.cb": _NO_PLACE,
    "sasl.kerberos.domain.name": "leave it out; a broker's principal contains its advertised host name",
    "sasl.kerberos.kinit.cmd": _TICKETS,
    "sasl.kerberos.min.time.before.relogin": _TICKETS,
    "sasl.kerberos.ticket.renew.jitter": _TICKETS,
    "sasl.kerberos.ticket.renew.window.factor": _TICKETS,
    "selector": "levada takes the system's best selector",
    "socket.blocking.max.ms": _NO_PLACE,
    "socket.cb": _NO_PLACE,
    "socket.keepalive.enable": _ALWAYS_ON,
    "socket.max.fails": "levada closes a connection at the first request that times out",
    "socket.nagle.disable": _ALWAYS_ON,
    "socket.options": "see send.buffer.bytes, receive.buffer.bytes, socket.keepalive.idle.ms and socket.user.timeout.ms",
    "socket.receive.buffer.bytes": "did you mean 'receive.buffer.bytes'? Its value for the system's choice is -1, not 0",
    "socket.send.buffer.bytes": "did you mean 'send.buffer.bytes'? Its value for the system's choice is -1, not 0",
    "socket.timeout.ms": "did you mean 'request.timeout.ms'? It is for every request, and its default is half as long: 30 s",
    "security.providers": _OPENSSL,
    "ssl.engine.factory.class": _OPENSSL,
    "ssl.keymanager.algorithm": _OPENSSL,
    "ssl.protocol": "name versions in ssl.enabled.protocols",
    "ssl.provider": _OPENSSL,
    "ssl.secure.random.implementation": _OPENSSL,
    "ssl.trustmanager.algorithm": _OPENSSL,
    "ssl.check.hostname": "did you mean 'ssl.dangerously.accept.any.host.name'? It is the opposite",
    "ssl.crl.location": "give an ssl.SSLContext with the list as ssl.context",
    "ssl.crlfile": "give an ssl.SSLContext with the list as ssl.context",
    "ssl.curves.list": _OPENSSL,
    "ssl.sigalgs.list": _OPENSSL,
    "statistics.interval.ms": METRICS,
    "stats.cb": METRICS,
    "throttle.cb": "levada obeys throttling by itself",
    "topic.metadata.propagation.max.ms": _NO_PLACE,
    "topic.metadata.refresh.fast.interval.ms": "did you mean 'retry.backoff.ms'? It is also the pause before metadata is requested again",
    "topic.metadata.refresh.sparse": "levada requests metadata for the topics in use, or for all if a consumer subscribes to a pattern",
}

PRODUCER: Final[Mapping[str, str]] = {
    "batch.num.messages": "did you mean 'batch.size'? It counts bytes, not records",
    "delivery.report.only.error": _CALLBACK,
    "dr.cb": _CALLBACK,
    "dr.msg.cb": _CALLBACK,
    "enable.gapless.guarantee": "records stay in order per partition; a failed record's handle has the error, and later records are sent",
    "max.batch.size": "did you mean 'batch.size'?",
    "msg.order.cmp": _NO_PLACE,
    "on.delivery": _CALLBACK,
    "partitioner.cb": "did you mean 'partitioner'? It is called with (topic, key, partition count)",
    "produce.offset.report": _ALWAYS_ON,
    "queue.buffering.backpressure.threshold": "batches grow while a broker is busy, without a setting; see batch.size and linger.ms",
    "queue.buffering.max.kbytes": "did you mean 'buffer.memory'? It counts bytes, 1,024 to librdkafka's kbyte",
    "queue.buffering.max.messages": "did you mean 'buffer.memory'? It limits the bytes of records, not their number",
    "queuing.strategy": "the records of a partition are sent in the order of send()",
    "sticky.partitioning.linger.ms": "records without a key change partition after batch.size bytes (KIP-794)",
}

CONSUMER: Final[Mapping[str, str]] = {
    "consume.callback.max.messages": "did you mean 'max.poll.records'?",
    "consume.cb": "iterate over the consumer, or call poll()",
    "coordinator.query.interval.ms": _NO_PLACE,
    "default.offset.commit.callback": "pass a callback to commit_async()",
    "enable.auto.offset.store": "all returned records are committed; to choose, set enable.auto.commit=false, and call commit(offsets)",
    "enable.incremental.fetch.sessions": "levada uses them if the broker supports them (KIP-227)",
    "enable.partition.eof": "did you mean 'stop.at.end'? It ends a loop over the consumer; see also scan()",
    "fetch.error.backoff.ms": "did you mean 'retry.backoff.ms'? It is the first pause, and doubles up to retry.backoff.max.ms",
    "fetch.queue.backoff.ms": _NO_PLACE,
    "on.commit": "pass a callback to commit_async()",
    "offset.commit.cb": "pass a callback to commit_async()",
    "offset.store.method": "only brokers store offsets",
    "offset.store.path": "only brokers store offsets",
    "offset.store.sync.interval.ms": "only brokers store offsets",
    "queued.max.messages.kbytes": "did you mean 'fetch.buffer.bytes'? It counts bytes, 1,024 to librdkafka's kbyte",
    "queued.min.messages": "levada sends the next fetch to a broker while the program reads its last answer",
    "rebalance.cb": "pass a RebalanceListener to subscribe(), or callables as on_assigned, on_revoked and on_lost",
    "rebalance.timeout.ms": "did you mean 'max.poll.interval.ms'?",
    "topic.blacklist": _NO_PLACE,
    "topics": "pass them to subscribe()",
}
