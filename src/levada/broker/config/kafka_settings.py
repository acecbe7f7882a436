"""All broker settings of Kafka 4.4. Most are only stored and described; those with effect are in settings.py.

A line of the table has a setting's name, its type, how it can be changed while the broker runs (Update), its allowed values ("-" for any
of its type), and its default ("-" for none, '' for an empty text). A test compares it with Kafka
(tests/interop/test_same_broker_settings_as_kafka.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import NamedTuple

from levada.broker.config.checks import Check, Kind, any_text, boolean, gzip_level, integer, list_of, number, one_of

_LISTENER = re.compile(r"listener\.name\.[^.]*\.(.*)")
_OF_MECHANISMS = (
    "sasl.login.class",
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "connections.max.reauth.ms",
    "sasl.server.callback.handler.class",
)
"""Settings that a listener can have per mechanism, with the mechanism's name as prefix."""


class Update(Enum):
    """How a setting can be changed while a broker runs (KIP-226).

    CLUSTER: for all brokers, or for one broker. BROKER: for one broker only. LISTENER: for one listener of one broker, under a name with
    the listener's prefix.
    """

    FIXED = "fixed"
    CLUSTER = "cluster"
    BROKER = "broker"
    LISTENER = "listener"


class KafkaSetting(NamedTuple):
    """A broker setting of Kafka. default: Kafka's default as text, None if there is none."""

    check: Check
    update: Update
    default: str | None

    @property
    def is_sensitive(self) -> bool:
        """Whether DescribeConfigs leaves out the setting's value, because it is a password."""
        return self.check.kind is Kind.PASSWORD


@cache
def kafka_settings() -> Mapping[str, KafkaSetting]:
    """Return all broker settings of Kafka by name."""
    return {name: _setting(*fields) for name, *fields in (line.split() for line in _TABLE.splitlines() if line)}


def find_setting(name: str) -> KafkaSetting | None:
    """Return the setting of this name, with or without a listener's prefix; None if Kafka does not have it."""
    base = base_name(name)
    return kafka_settings().get(base) or (_THROTTLE if base in _THROTTLES else None)


def base_name(name: str) -> str:
    """Return a setting's name without a listener's prefix, and without the mechanism's prefix that may follow it."""
    found = _LISTENER.fullmatch(name)
    if found is None:
        return name
    base = found[1]
    return next((of for of in _OF_MECHANISMS if base.endswith(of)), base)


_THROTTLES = frozenset(
    {"follower.replication.throttled.rate", "leader.replication.throttled.rate", "replica.alter.log.dirs.io.max.bytes.per.second"}
)
"""Settings that exist only after they were changed, as reassignment tools do."""
_THROTTLE = KafkaSetting(integer(0), Update.CLUSTER, None)


def _setting(kind: str, update: str, allowed: str, default: str) -> KafkaSetting:
    return KafkaSetting(_check(Kind[kind.upper()], allowed), Update(update), {"-": None, "''": ""}.get(default, default))


def _check(kind: Kind, allowed: str) -> Check:
    if kind is Kind.BOOLEAN:
        return boolean()
    if allowed == "gzip":
        return gzip_level()
    if kind in _WIDTHS:
        least, most = _bounds(allowed)
        widest = 1 << (_WIDTHS[kind] - 1)
        return integer(int(least or -widest), int(most or widest - 1), kind=kind)
    if kind is Kind.DOUBLE:
        least, most = _bounds(allowed)
        return number(float(least or "-inf"), float(most or "inf"))
    words = () if allowed == "-" else allowed.split("|")
    if kind is Kind.LIST:
        return list_of(*words)
    return one_of(*words) if words else any_text(kind)


def _bounds(allowed: str) -> tuple[str, str]:
    """Return the lowest and the highest number that a setting allows, as text; "" if there is no bound."""
    least, _, most = ("" if allowed == "-" else allowed).partition("..")
    return least, most


_WIDTHS = {Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}

_TABLE = """
add.partitions.to.txn.retry.backoff.max.ms int fixed 0.. 100
add.partitions.to.txn.retry.backoff.ms int fixed 1.. 20
advertised.listeners list fixed - -
alter.config.policy.class.name class fixed - -
alter.log.dirs.replication.quota.window.num int fixed 1.. 11
alter.log.dirs.replication.quota.window.size.seconds int fixed 1.. 1
authorizer.class.name string fixed - ''
auto.create.topics.enable boolean fixed - true
auto.leader.rebalance.enable boolean fixed - true
background.threads int cluster 1.. 10
broker.heartbeat.interval.ms int fixed - 2000
broker.id int fixed - -1
broker.rack string fixed - -
broker.session.timeout.ms int fixed - 9000
client.quota.callback.class class fixed - -
compression.gzip.level int cluster gzip -1
compression.lz4.level int cluster 1..17 9
compression.type string cluster uncompressed|zstd|lz4|snappy|gzip|producer producer
compression.zstd.level int cluster -131072..22 3
config.providers list cluster - ''
connection.failed.authentication.delay.ms int fixed 0.. 100
connections.max.idle.ms long fixed - 600000
connections.max.reauth.ms long fixed - 0
controlled.shutdown.enable boolean fixed - true
controller.listener.names list fixed - -
controller.quorum.append.linger.ms int fixed 0.. 25
controller.quorum.auto.join.enable boolean fixed - false
controller.quorum.bootstrap.servers list fixed - ''
controller.quorum.election.backoff.max.ms int fixed 0.. 1000
controller.quorum.election.timeout.ms int fixed 0.. 1000
controller.quorum.fetch.max.bytes int fixed 1.. 1048576
controller.quorum.fetch.snapshot.max.bytes int fixed 1.. 1048576
controller.quorum.fetch.timeout.ms int fixed 0.. 2000
controller.quorum.request.timeout.ms int fixed 0.. 2000
controller.quorum.retry.backoff.ms int fixed 0.. 20
controller.quorum.voters list fixed - ''
controller.quota.window.num int fixed 1.. 11
controller.quota.window.size.seconds int fixed 1.. 1
controller.socket.timeout.ms int fixed - 30000
cordoned.log.dirs list broker - ''
create.topic.policy.class.name class fixed - -
default.replication.factor int fixed - 1
delegation.token.expiry.check.interval.ms long fixed 1.. 3600000
delegation.token.expiry.time.ms long fixed 1.. 86400000
delegation.token.max.lifetime.ms long fixed 1.. 604800000
delegation.token.secret.key password fixed - -
delete.records.purgatory.purge.interval.requests int fixed - 1
delete.topic.enable boolean fixed - true
early.start.listeners list fixed - -
errors.deadletterqueue.auto.create.topics.enable boolean cluster - false
errors.deadletterqueue.topic.name.prefix string cluster - dlq.
fetch.max.bytes int fixed 1024.. 57671680
fetch.purgatory.purge.interval.requests int fixed - 1000
follower.fetch.last.tiered.offset.enable boolean cluster - false
group.consumer.assignment.interval.ms int cluster 0.. 1000
group.consumer.assignors list fixed - uniform,range
group.consumer.heartbeat.interval.ms int fixed 1.. 5000
group.consumer.max.assignment.interval.ms int fixed 0.. 15000
group.consumer.max.heartbeat.interval.ms int fixed 1.. 15000
group.consumer.max.session.timeout.ms int fixed 1.. 60000
group.consumer.max.size int fixed 1.. 2147483647
group.consumer.migration.policy string fixed - bidirectional
group.consumer.min.assignment.interval.ms int fixed 0.. 0
group.consumer.min.heartbeat.interval.ms int fixed 1.. 5000
group.consumer.min.session.timeout.ms int fixed 1.. 45000
group.consumer.session.timeout.ms int fixed 1.. 45000
group.coordinator.append.linger.ms int fixed -1.. -1
group.coordinator.background.threads int fixed 1.. 2
group.coordinator.cached.buffer.max.bytes int cluster 524288.. 1048588
group.coordinator.rebalance.protocols list fixed consumer|classic|share|streams classic,consumer,streams
group.coordinator.threads int fixed 1.. 4
group.initial.rebalance.delay.ms int fixed - 3000
group.max.session.timeout.ms int fixed - 1800000
group.max.size int fixed 1.. 2147483647
group.min.session.timeout.ms int fixed - 6000
group.share.assignment.interval.ms int cluster 0.. 1000
group.share.assignors list fixed - simple
group.share.delivery.count.limit int fixed 2..10 5
group.share.heartbeat.interval.ms int fixed 1.. 5000
group.share.max.assignment.interval.ms int fixed 0.. 15000
group.share.max.delivery.count.limit int fixed 5..25 10
group.share.max.heartbeat.interval.ms int fixed 1.. 15000
group.share.max.partition.max.record.locks int fixed 2000..10000 4000
group.share.max.record.lock.duration.ms int fixed 30000..3600000 60000
group.share.max.session.timeout.ms int fixed 1.. 60000
group.share.max.share.sessions int fixed 1.. 2000
group.share.max.size int fixed 1..1000 200
group.share.min.assignment.interval.ms int fixed 0.. 0
group.share.min.delivery.count.limit int fixed 2..5 2
group.share.min.heartbeat.interval.ms int fixed 1.. 5000
group.share.min.partition.max.record.locks int fixed 100..2000 100
group.share.min.record.lock.duration.ms int fixed 1000..30000 15000
group.share.min.session.timeout.ms int fixed 1.. 45000
group.share.partition.max.record.locks int fixed 100..10000 2000
group.share.record.lock.duration.ms int fixed 1000..3600000 30000
group.share.session.timeout.ms int fixed 1.. 45000
group.streams.assignment.interval.ms int cluster 0.. 1000
group.streams.assignors list fixed - sticky
group.streams.heartbeat.interval.ms int fixed 1.. 5000
group.streams.initial.rebalance.delay.ms int fixed 0.. 3000
group.streams.max.assignment.interval.ms int fixed 0.. 15000
group.streams.max.heartbeat.interval.ms int fixed 1.. 15000
group.streams.max.session.timeout.ms int fixed 1.. 60000
group.streams.max.size int fixed 1.. 2147483647
group.streams.max.standby.replicas int fixed 0.. 2
group.streams.min.assignment.interval.ms int fixed 0.. 0
group.streams.min.heartbeat.interval.ms int fixed 1.. 5000
group.streams.min.session.timeout.ms int fixed 1.. 45000
group.streams.num.standby.replicas int fixed 0.. 0
group.streams.rack.aware.assignment.tags list fixed - ''
group.streams.session.timeout.ms int fixed 1.. 45000
group.streams.topology.description.plugin.class class fixed - -
initial.broker.registration.timeout.ms int fixed - 60000
inter.broker.listener.name string fixed - -
kafka.metrics.polling.interval.secs int fixed 1.. 10
kafka.metrics.reporters list fixed - ''
leader.imbalance.check.interval.seconds long fixed 1.. 300
listener.security.protocol.map string broker - SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
listeners list broker - PLAINTEXT://:9092
log.cleaner.backoff.ms long cluster 0.. 15000
log.cleaner.dedupe.buffer.size long cluster - 134217728
log.cleaner.delete.retention.ms long cluster 0.. 86400000
log.cleaner.enable boolean fixed - true
log.cleaner.io.buffer.load.factor double cluster - 0.9
log.cleaner.io.buffer.size int cluster 0.. 524288
log.cleaner.io.max.bytes.per.second double cluster - 1.7976931348623157E308
log.cleaner.max.compaction.lag.ms long cluster 1.. 9223372036854775807
log.cleaner.min.cleanable.ratio double cluster 0..1 0.5
log.cleaner.min.compaction.lag.ms long cluster 0.. 0
log.cleaner.threads int cluster 0.. 1
log.cleanup.policy list cluster compact|delete delete
log.dir list fixed - /tmp/kafka-logs
log.dir.failure.timeout.ms long fixed 1.. 30000
log.dirs list fixed - -
log.flush.interval.messages long cluster 1.. 9223372036854775807
log.flush.interval.ms long cluster - -
log.flush.offset.checkpoint.interval.ms int fixed 0.. 60000
log.flush.scheduler.interval.ms long fixed - 9223372036854775807
log.flush.start.offset.checkpoint.interval.ms int fixed 0.. 60000
log.index.interval.bytes int cluster 0.. 4096
log.index.size.max.bytes int cluster 4.. 10485760
log.local.retention.bytes long cluster -2.. -2
log.local.retention.ms long cluster -2.. -2
log.message.timestamp.after.max.ms long cluster 0.. 3600000
log.message.timestamp.before.max.ms long cluster 0.. 9223372036854775807
log.message.timestamp.type string cluster CreateTime|LogAppendTime CreateTime
log.preallocate boolean cluster - false
log.remote.copy.lag.bytes long cluster -1.. -1
log.remote.copy.lag.ms long cluster -1.. 0
log.retention.bytes long cluster - -1
log.retention.check.interval.ms long fixed 1.. 300000
log.retention.hours int fixed - 168
log.retention.minutes int fixed - -
log.retention.ms long cluster - -
log.roll.hours int fixed 1.. 168
log.roll.jitter.hours int fixed 0.. 0
log.roll.jitter.ms long cluster - -
log.roll.ms long cluster - -
log.segment.bytes int cluster 1048576.. 1073741824
log.segment.delete.delay.ms long cluster 0.. 60000
max.connection.creation.rate int cluster 0.. 2147483647
max.connections int cluster 0.. 2147483647
max.connections.per.ip int cluster 0.. 2147483647
max.connections.per.ip.overrides string cluster - ''
max.decompressed.message.bytes int cluster 1..2147483639 2147483639
max.incremental.fetch.session.cache.slots int fixed 0.. 1000
max.request.partition.size.limit int fixed 1.. 2000
message.max.bytes int cluster 0.. 1048588
metadata.log.dir string fixed - -
metadata.log.max.record.bytes.between.snapshots long fixed 1.. 20971520
metadata.log.max.snapshot.interval.ms long fixed 0.. 3600000
metadata.log.segment.bytes int fixed 8388608.. 1073741824
metadata.log.segment.ms long fixed - 604800000
metadata.max.idle.interval.ms int fixed 0.. 500
metadata.max.retention.bytes long fixed - 104857600
metadata.max.retention.ms long fixed - 604800000
metric.reporters list cluster - org.apache.kafka.common.metrics.JmxReporter
metrics.num.samples int fixed 1.. 2
metrics.recording.level string fixed - INFO
metrics.sample.window.ms long fixed 1.. 30000
min.insync.replicas int cluster 1.. 1
node.id int fixed 0.. -
num.io.threads int cluster 1.. 8
num.network.threads int cluster 1.. 3
num.partitions int fixed 1.. 1
num.recovery.threads.per.data.dir int cluster 1.. 2
num.replica.alter.log.dirs.threads int fixed - -
num.replica.fetchers int cluster 1.. 1
offset.metadata.max.bytes int fixed - 4096
offsets.commit.timeout.ms int fixed 1.. 5000
offsets.load.buffer.size int fixed 1.. 5242880
offsets.retention.check.interval.ms long fixed 1.. 600000
offsets.retention.minutes int fixed 1.. 10080
offsets.topic.compression.codec int fixed - 0
offsets.topic.num.partitions int fixed 1.. 50
offsets.topic.replication.factor short fixed 1.. 3
offsets.topic.segment.bytes int fixed 1.. 104857600
principal.builder.class class broker - org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
process.roles list fixed broker|controller -
producer.id.expiration.ms int cluster 1.. 86400000
producer.purgatory.purge.interval.requests int fixed - 1000
queued.max.request.bytes long fixed - -1
queued.max.requests int fixed 1.. 500
quota.window.num int fixed 1.. 11
quota.window.size.seconds int fixed 1.. 1
remote.fetch.max.wait.ms int cluster 1.. 500
remote.list.offsets.request.timeout.ms long cluster 1.. 30000
remote.log.index.file.cache.total.size.bytes long cluster 1.. 1073741824
remote.log.manager.copier.thread.pool.size int cluster 1.. 10
remote.log.manager.copy.max.bytes.per.second long cluster 1.. 9223372036854775807
remote.log.manager.copy.quota.window.num int fixed 1.. 11
remote.log.manager.copy.quota.window.size.seconds int fixed 1.. 1
remote.log.manager.expiration.thread.pool.size int cluster 1.. 10
remote.log.manager.fetch.max.bytes.per.second long cluster 1.. 9223372036854775807
remote.log.manager.fetch.quota.window.num int fixed 1.. 11
remote.log.manager.fetch.quota.window.size.seconds int fixed 1.. 1
remote.log.manager.follower.thread.pool.size int cluster 1.. 2
remote.log.manager.task.interval.ms long fixed 1.. 30000
remote.log.manager.thread.pool.size int fixed 1.. 2
remote.log.metadata.custom.metadata.max.bytes int fixed 0.. 128
remote.log.metadata.manager.class.name string fixed - org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
remote.log.metadata.manager.class.path string fixed - -
remote.log.metadata.manager.impl.prefix string fixed - rlmm.config.
remote.log.metadata.manager.listener.name string fixed - -
remote.log.reader.max.pending.tasks int fixed 1.. 100
remote.log.reader.threads int cluster 1.. 10
remote.log.storage.manager.class.name string fixed - -
remote.log.storage.manager.class.path string fixed - -
remote.log.storage.manager.impl.prefix string fixed - rsm.config.
remote.log.storage.system.enable boolean fixed - false
replica.fetch.backoff.ms int fixed 0.. 1000
replica.fetch.max.bytes int fixed 0.. 1048576
replica.fetch.min.bytes int fixed - 1
replica.fetch.response.max.bytes int fixed 0.. 10485760
replica.fetch.wait.max.ms int fixed - 500
replica.high.watermark.checkpoint.interval.ms long fixed - 5000
replica.lag.time.max.ms long fixed - 30000
replica.selector.class string fixed - -
replica.socket.receive.buffer.bytes int fixed - 65536
replica.socket.timeout.ms int fixed - 30000
replication.quota.window.num int fixed 1.. 11
replication.quota.window.size.seconds int fixed 1.. 1
request.timeout.ms int fixed - 30000
sasl.client.callback.handler.class class fixed - -
sasl.enabled.mechanisms list broker - GSSAPI
sasl.jaas.config password broker - -
sasl.kerberos.kinit.cmd string broker - /usr/bin/kinit
sasl.kerberos.min.time.before.relogin long broker - 60000
sasl.kerberos.principal.to.local.rules list broker - DEFAULT
sasl.kerberos.service.name string broker - -
sasl.kerberos.ticket.renew.jitter double broker - 0.05
sasl.kerberos.ticket.renew.window.factor double broker - 0.8
sasl.login.callback.handler.class class fixed - -
sasl.login.class class fixed - -
sasl.login.connect.timeout.ms int fixed - -
sasl.login.read.timeout.ms int fixed - -
sasl.login.refresh.buffer.seconds short broker - 300
sasl.login.refresh.min.period.seconds short broker - 60
sasl.login.refresh.window.factor double broker - 0.8
sasl.login.refresh.window.jitter double broker - 0.05
sasl.login.retry.backoff.max.ms long fixed - 10000
sasl.login.retry.backoff.ms long fixed - 100
sasl.mechanism.controller.protocol string fixed - GSSAPI
sasl.mechanism.inter.broker.protocol string broker - GSSAPI
sasl.oauthbearer.allow.unverified.audience boolean fixed - false
sasl.oauthbearer.allow.unverified.issuer boolean fixed - false
sasl.oauthbearer.assertion.algorithm string fixed - RS256
sasl.oauthbearer.assertion.claim.aud string fixed - -
sasl.oauthbearer.assertion.claim.exp.seconds int fixed 0..86400 300
sasl.oauthbearer.assertion.claim.iss string fixed - -
sasl.oauthbearer.assertion.claim.jti.include boolean fixed - false
sasl.oauthbearer.assertion.claim.nbf.seconds int fixed 0..3600 60
sasl.oauthbearer.assertion.claim.sub string fixed - -
sasl.oauthbearer.assertion.file string fixed - -
sasl.oauthbearer.assertion.private.key.file string fixed - -
sasl.oauthbearer.assertion.private.key.passphrase password fixed - -
sasl.oauthbearer.assertion.template.file string fixed - -
sasl.oauthbearer.client.credentials.client.id string fixed - -
sasl.oauthbearer.client.credentials.client.secret password fixed - -
sasl.oauthbearer.clock.skew.seconds int fixed - 30
sasl.oauthbearer.expected.audience list fixed - ''
sasl.oauthbearer.expected.issuer string fixed - -
sasl.oauthbearer.jwks.endpoint.refresh.ms long fixed - 3600000
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long fixed - 10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long fixed - 100
sasl.oauthbearer.jwks.endpoint.url string fixed - -
sasl.oauthbearer.jwt.retriever.class class fixed - org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
sasl.oauthbearer.jwt.validator.class class fixed - org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
sasl.oauthbearer.scope string fixed - -
sasl.oauthbearer.scope.claim.name string fixed - scope
sasl.oauthbearer.sub.claim.name string fixed - sub
sasl.oauthbearer.token.endpoint.url string fixed - -
sasl.server.callback.handler.class class fixed - -
sasl.server.max.receive.size int fixed - 524288
security.inter.broker.protocol string fixed PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL PLAINTEXT
security.providers string fixed - -
share.coordinator.append.linger.ms int fixed -1.. -1
share.coordinator.cached.buffer.max.bytes int cluster 524288.. 1048588
share.coordinator.load.buffer.size int fixed 1.. 5242880
share.coordinator.snapshot.update.records.per.snapshot int fixed 0..500 500
share.coordinator.state.topic.compression.codec int fixed - 0
share.coordinator.state.topic.min.isr short fixed 1.. 2
share.coordinator.state.topic.num.partitions int fixed 1.. 50
share.coordinator.state.topic.replication.factor short fixed 1.. 3
share.coordinator.state.topic.segment.bytes int fixed 1.. 104857600
share.coordinator.threads int fixed 1.. 1
share.coordinator.write.timeout.ms int fixed 1.. 5000
share.fetch.purgatory.purge.interval.requests int fixed - 1000
socket.connection.setup.timeout.max.ms long fixed - 30000
socket.connection.setup.timeout.ms long fixed - 10000
socket.listen.backlog.size int fixed 1.. 50
socket.receive.buffer.bytes int fixed - 102400
socket.request.max.bytes int fixed 1.. 104857600
socket.send.buffer.bytes int fixed - 102400
ssl.allow.dn.changes boolean fixed - false
ssl.allow.san.changes boolean fixed - false
ssl.cipher.suites list broker - ''
ssl.client.auth string broker required|requested|none none
ssl.enabled.protocols list broker - TLSv1.2,TLSv1.3
ssl.endpoint.identification.algorithm string broker - https
ssl.engine.factory.class class broker - -
ssl.key.password password listener - -
ssl.keymanager.algorithm string broker - SunX509
ssl.keystore.certificate.chain password listener - -
ssl.keystore.key password listener - -
ssl.keystore.location string listener - -
ssl.keystore.password password listener - -
ssl.keystore.type string listener - JKS
ssl.principal.mapping.rules string fixed - DEFAULT
ssl.protocol string broker - TLSv1.3
ssl.provider string broker - -
ssl.secure.random.implementation string broker - -
ssl.trustmanager.algorithm string broker - PKIX
ssl.truststore.certificates password listener - -
ssl.truststore.location string listener - -
ssl.truststore.password password listener - -
ssl.truststore.type string listener - JKS
telemetry.max.bytes int fixed 1.. 1048576
transaction.abort.timed.out.transaction.cleanup.interval.ms int fixed 1.. 10000
transaction.max.timeout.ms int fixed 1.. 900000
transaction.partition.verification.enable boolean cluster - true
transaction.remove.expired.transaction.cleanup.interval.ms int fixed 1.. 3600000
transaction.state.log.load.buffer.size int fixed 1.. 5242880
transaction.state.log.min.isr int fixed 1.. 2
transaction.state.log.num.partitions int fixed 1.. 50
transaction.state.log.replication.factor short fixed 1.. 3
transaction.state.log.segment.bytes int fixed 1.. 104857600
transaction.two.phase.commit.enable boolean fixed - false
transactional.id.expiration.ms int fixed 1.. 604800000
unclean.leader.election.enable boolean cluster - false
"""
