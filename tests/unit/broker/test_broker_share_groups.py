"""Share groups (KIP-932) as the embedded broker serves them, in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker_kit import Bench, make_batch, produce_request
from group_kit import ConsumerGroupMember, GroupMember
from levada.broker.config.settings import BrokerSettings
from levada.broker.coordinators.groups.assignors import Subscription, assign_shared
from levada.broker.coordinators.groups.consumer_member import NO_PARTITIONS, TopicIdPartition
from levada.broker.disk.data_dir import DataDir
from levada.broker.quotas.client_quotas import CONSUMER_BYTE_RATE
from levada.error_codes import ErrorCode
from levada.errors import ConfigError
from levada.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from levada.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from levada.protocol.messages.delete_groups import DeleteGroupsRequest
from levada.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsRequestTopic
from levada.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from levada.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from levada.protocol.messages.list_groups import ListGroupsRequest
from levada.protocol.messages.offset_delete import OffsetDeleteRequest
from levada.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from levada.protocol.schema import Request
from levada.testing import EmbeddedKafka, SimulatedKafka
from share_kit import GAP, REJECT, RELEASE, RENEW, Got, Part, ShareMember, Told, got
from transaction_kit import TransactionalProducer
from wire import Wire

GROUP = "g"
GROUP_CONFIG = 32
SESSION_MS, LOCK_MS = 45_000, 30_000


class Member(ShareMember):
    """A member with a connection to a broker in virtual time."""

    def __init__(self, bench: Bench, name: str, **options: Any) -> None:
        super().__init__(GROUP, name, **options)
        self.bench = bench
        self.client = bench.client()

    def joins(self, **fields: Any) -> Any:
        return self.take(self.client.ask(self.join(**fields)))

    def beats(self, **fields: Any) -> Any:
        return self.take(self.client.ask(self.beat(**fields)))

    def fetches(self, **fields: Any) -> Any:
        """Ask for records, and go on with the session if that is answered without an error."""
        answer = self.client.ask(self.fetch(**fields))
        if not answer.error_code:
            self.follow()
        return answer

    def gets(self, **fields: Any) -> list[Got]:
        """What a fetch gives of the only partition that it tells of."""
        answer = self.fetches(**fields)
        assert not answer.error_code, ErrorCode(answer.error_code)
        partitions = [partition for topic in answer.responses for partition in topic.partitions]
        assert all(not partition.error_code for partition in partitions)
        return [one for partition in partitions for one in got(partition)]

    def acknowledges(self, *told: Told, part: Part | None = None, **fields: Any) -> str:
        """What an acknowledgement in the only partition that it has comes to."""
        (own,) = self.has if part is None else (part,)
        answer = self.client.ask(self.acknowledge({own: told}, **fields))
        if answer.error_code:
            return ErrorCode(answer.error_code).name
        self.follow()
        return ErrorCode(answer.responses[0].partitions[0].error_code).name

    def closes(self) -> str:
        self.session_epoch = -1
        answer = self.client.ask(self.fetch([]))
        self.session_epoch = 0
        return ErrorCode(answer.error_code).name

    @property
    def numbers(self) -> list[int]:
        """The numbers of the partitions it has."""
        return sorted(number for _, number in self.has)


def configure(bench: Bench, **settings: str) -> None:
    changes = [AlterableConfig(name=name.replace("_", "."), value=value) for name, value in settings.items()]
    resource = AlterConfigsResource(resource_type=GROUP_CONFIG, resource_name=GROUP, configs=changes)
    (answer,) = bench.client().ask(IncrementalAlterConfigsRequest(resources=[resource])).responses
    assert not answer.error_code, answer.error_message


def produce(bench: Bench, *sizes: int, topic: str = "t") -> None:
    """Produce a batch of each size."""
    client = bench.client()
    for size in sizes:
        assert not client.produce(topic, make_batch(*[b"v"] * size)).error_code


@pytest.fixture
def bench() -> Bench:
    """A node with a topic of one partition, which the group reads from its beginning."""
    bench = Bench()
    bench.node.create_topic("t", 1)
    configure(bench, share_auto_offset_reset="earliest")
    return bench


@pytest.fixture
def member(bench: Bench) -> Member:
    member = Member(bench, "m")
    member.joins()
    return member


@pytest.fixture
def other(bench: Bench) -> Member:
    other = Member(bench, "o")
    other.joins()
    return other


# Membership


def test_members_share_partitions_as_soon_as_they_have_joined() -> None:
    bench = Bench()
    bench.node.create_topic("t", 2)
    members = [Member(bench, name) for name in "abc"]
    for member in members:
        answer = member.joins()
        assert (answer.error_code, answer.member_id, answer.heartbeat_interval_ms) == (0, member.id, 5_000)
    for member in members:
        member.beats()
    assert sorted(number for member in members for number in member.numbers) == [0, 0, 1, 1]
    assert all(member.beats().assignment is None for member in members)
    members[0].client.ask(members[0].leave())
    for member in members[1:]:
        member.beats()
    assert {number for member in members[1:] for number in member.numbers} == {0, 1}


def test_a_member_without_a_heartbeat_is_removed(bench: Bench) -> None:
    member, other = Member(bench, "m"), Member(bench, "o")
    member.joins()
    bench.advance(SESSION_MS - 1)
    other.joins()
    bench.advance(1)
    assert ErrorCode(member.beats().error_code) is ErrorCode.UNKNOWN_MEMBER_ID
    assert not other.beats().error_code


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_id": "x" * 37}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": []}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 7}, ErrorCode.FENCED_MEMBER_EPOCH),
        ({"member_epoch": 7, "member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_epoch": -1, "member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_epoch": 1, "group_id": "x"}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_heartbeats_that_are_refused(member: Member, fields: dict[str, Any], code: ErrorCode) -> None:
    assert ErrorCode(member.client.ask(member.join(**fields)).error_code) is code


def test_a_full_group_takes_nobody_in() -> None:
    bench = Bench(group_share_max_size=1)
    bench.node.create_topic("t", 1)
    assert not Member(bench, "m").joins().error_code
    assert ErrorCode(Member(bench, "o").joins().error_code) is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_cluster_without_share_groups_says_so() -> None:
    member = Member(Bench(share_version=0), "m")
    assert ErrorCode(member.joins().error_code) is ErrorCode.UNSUPPORTED_VERSION
    assert ErrorCode(member.fetches().error_code) is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [
        ("share_version", 3, "must be 0, 1 or 2, not 3"),
        ("group_share_max_size", 0, "must be at least 1, not 0"),
        ("group_share_min_record_lock_duration_ms", 0, "must be at least 1, not 0"),
        ("group_share_record_lock_duration_ms", 14_999, "must be at least group_share_min_record_lock_duration_ms=15000, not 14999"),
        ("group_share_min_record_lock_duration_ms", 30_001, "must be at least group_share_min_record_lock_duration_ms=30001, not 30000"),
    ],
)
def test_wrong_settings_of_a_broker_are_refused(setting: str, value: int, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Bench(**{setting: value})


def test_every_partition_has_a_member_and_every_member_a_partition() -> None:
    topic, rest = UUID(int=1), UUID(int=2)
    for members in range(1, 8):
        for partitions in range(1, 8):
            subscribed = {str(name): Subscription(frozenset({topic, rest}), NO_PARTITIONS) for name in range(members)}
            found = assign_shared(subscribed, {topic: partitions})
            crowd = [sum(TopicIdPartition(topic, index) in given for given in found.values()) for index in range(partitions)]
            loads = [len(given) for given in found.values()]
            assert min(crowd) >= 1
            assert min(loads) >= 1
            assert max(crowd) == min(crowd) == max(-(-members // partitions), 1)
            assert max(loads) - min(loads) <= 1
            again = assign_shared({name: one._replace(target=found[name]) for name, one in subscribed.items()}, {topic: partitions})
            assert again == found


# Records


def test_records_are_acquired_and_acknowledged(bench: Bench, member: Member) -> None:
    produce(bench, 3, 2)
    answer = member.fetches()
    (partition,) = answer.responses[0].partitions
    assert (answer.acquisition_lock_timeout_ms, got(partition)) == (LOCK_MS, [Got(0, 4, 1)])
    assert len(partition.records) > 100
    assert member.acknowledges(Told(0, 1), Told(2, 3, (RELEASE, REJECT))) == "NONE"
    assert member.gets() == [Got(2, 2, 2)]
    assert member.gets(told={next(iter(member.has)): [Told(2, 2), Told(4, 4)]}) == []
    produce(bench, 1)
    assert member.gets() == [Got(5, 5, 1)]


def test_two_members_never_have_the_same_record(bench: Bench, member: Member, other: Member) -> None:
    produce(bench, 4, 4)
    assert member.gets(max_records=4) == [Got(0, 3, 1)]
    assert other.gets() == [Got(4, 7, 1)]
    assert other.acknowledges(Told(3, 4)) == "INVALID_RECORD_STATE"
    assert other.acknowledges(Told(4, 7), Told(8, 9)) == "INVALID_REQUEST"
    assert other.acknowledges(Told(4, 7)) == "NONE"


def test_only_batches_with_acquired_records_are_sent(bench: Bench, member: Member, other: Member) -> None:
    produce(bench, 2, 2, 2)
    (partition,) = member.fetches(max_records=2).responses[0].partitions
    (rest,) = other.fetches(max_records=500).responses[0].partitions
    assert len(rest.records) == 2 * len(partition.records)


def test_a_fetch_waits_for_records_and_for_those_that_come_back(bench: Bench, member: Member, other: Member) -> None:
    other.client.send(other.fetch(max_wait_ms=500))
    bench.advance(499)
    assert other.client.answers() == []
    produce(bench, 2)
    (answer,) = other.client.answers()
    other.follow()
    assert got(answer.responses[0].partitions[0]) == [Got(0, 1, 1)]
    member.client.send(member.fetch(max_wait_ms=60_000))
    assert other.acknowledges(Told(1, 1, (RELEASE,))) == "NONE"
    (answer,) = member.client.answers()
    member.follow()
    assert got(answer.responses[0].partitions[0]) == [Got(1, 1, 2)]
    member.client.send(member.fetch(max_wait_ms=60_000))
    bench.advance(LOCK_MS)
    (answer,) = member.client.answers()
    assert got(answer.responses[0].partitions[0]) == [Got(0, 0, 2), Got(1, 1, 3)]


def test_a_fetch_without_records_ends_in_time(bench: Bench, member: Member) -> None:
    member.client.send(member.fetch(max_wait_ms=500))
    bench.advance(500)
    (answer,) = member.client.answers()
    assert not answer.error_code


def test_a_lock_is_renewed(bench: Bench, member: Member, other: Member) -> None:
    produce(bench, 2)
    assert member.gets() == [Got(0, 1, 1)]
    bench.advance(LOCK_MS - 1)
    assert member.acknowledges(Told(0, 0, (RENEW,)), is_renew_ack=True) == "NONE"
    bench.advance(1)
    assert other.gets() == [Got(1, 1, 2)]
    bench.advance(LOCK_MS - 2)
    assert other.gets() == []
    bench.advance(1)
    assert other.gets() == [Got(0, 0, 2)]


def test_a_fetch_that_renews_fetches_nothing(bench: Bench, member: Member) -> None:
    produce(bench, 2)
    member.gets(max_records=1)
    told = {next(iter(member.has)): [Told(0, 1, (RENEW,))]}
    assert ErrorCode(member.fetches(told=told, is_renew_ack=True).error_code) is ErrorCode.INVALID_REQUEST
    nothing = {"min_bytes": 0, "max_bytes": 0, "max_records": 0}
    assert member.gets(told=told, is_renew_ack=True, **nothing) == []


@pytest.mark.parametrize("nothing", [{"max_bytes": 0}, {"max_bytes": -1}, {"max_records": 0}])
def test_a_fetch_that_asks_for_nothing_gets_nothing_and_does_not_wait(bench: Bench, member: Member, nothing: dict[str, int]) -> None:
    produce(bench, 2, 2)
    assert member.fetches(max_wait_ms=60_000, **nothing).responses == []
    assert member.gets(max_records=1) == [Got(0, 1, 1)]
    own = next(iter(member.has))
    answer = member.fetches(told={own: [Told(0, 1)]}, max_wait_ms=60_000, **nothing)
    assert [(one.acknowledge_error_code, got(one)) for topic in answer.responses for one in topic.partitions] == [(0, [])]
    assert member.gets() == [Got(2, 3, 1)]


def test_E5_what_members_are_given_counts_against_their_quota(bench: Bench, member: Member) -> None:
    produce(bench, 200, 200)
    everybody = [EntityData(entity_type="client-id", entity_name=None)]
    quota = EntryData(entity=everybody, ops=[OpData(key=CONSUMER_BYTE_RATE, value=100.0)])
    assert not bench.client().ask(AlterClientQuotasRequest(entries=[quota])).entries[0].error_code
    answer = member.fetches(max_records=1)
    assert len(answer.responses[0].partitions[0].records) > 1_000
    first_ms = answer.throttle_time_ms
    assert first_ms > 0
    member.client.send(member.fetch(max_records=1))
    bench.advance(first_ms - 1)
    assert member.client.answers() == []
    bench.advance(1)
    (answer,) = member.client.answers()
    assert got(answer.responses[0].partitions[0]) == [Got(200, 399, 1)]


def test_the_end_of_a_session_gives_back(bench: Bench, member: Member, other: Member) -> None:
    produce(bench, 2)
    assert member.gets() == [Got(0, 1, 1)]
    assert member.closes() == "NONE"
    assert other.gets() == [Got(0, 1, 2)]


def test_the_end_of_a_connection_is_the_end_of_its_sessions(bench: Bench, member: Member, other: Member) -> None:
    produce(bench, 2)
    assert member.gets() == [Got(0, 1, 1)]
    other.client.send(other.fetch(max_wait_ms=500))
    bench.node.disconnect(member.client.id)
    bench.advance()
    (answer,) = other.client.answers()
    assert got(answer.responses[0].partitions[0]) == [Got(0, 1, 2)]


def test_epochs_of_sessions(bench: Bench, member: Member) -> None:
    def fails(epoch: int) -> str:
        return ErrorCode(member.client.ask(member.fetch([], share_session_epoch=epoch)).error_code).name

    assert (fails(1), fails(-1)) == ("SHARE_SESSION_NOT_FOUND", "SHARE_SESSION_NOT_FOUND")
    assert member.acknowledges(Told(0, 0), share_session_epoch=0) == "INVALID_SHARE_SESSION_EPOCH"
    assert member.acknowledges(Told(0, 0), share_session_epoch=1) == "SHARE_SESSION_NOT_FOUND"
    told = {next(iter(member.has)): [Told(0, 0)]}
    assert ErrorCode(member.fetches(told=told).error_code) is ErrorCode.INVALID_REQUEST
    assert member.gets() == []
    assert (fails(2), fails(-1), fails(1)) == ("INVALID_SHARE_SESSION_EPOCH", "NONE", "SHARE_SESSION_NOT_FOUND")


def test_there_is_room_for_so_many_sessions() -> None:
    bench = Bench(group_share_max_share_sessions=1)
    bench.node.create_topic("t", 1)
    member, other = Member(bench, "m"), Member(bench, "o")
    for one in (member, other):
        one.joins()
    assert member.gets() == []
    assert ErrorCode(other.fetches().error_code) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert member.closes() == "NONE"
    assert other.gets() == []


def test_a_session_names_only_what_changes() -> None:
    bench = Bench()
    bench.node.create_topic("t", 2)
    configure(bench, share_auto_offset_reset="earliest")
    member = Member(bench, "m")
    member.joins()
    first, second = sorted(member.has)
    assert member.gets(parts=[first]) == []
    bench.client().produce("t", make_batch(b"v"), partition=1)
    assert member.gets() == []
    assert member.gets(parts=[second]) == [Got(0, 0, 1)]
    bench.client().produce("t", make_batch(b"v"), partition=1)
    assert member.gets(forgotten=[second]) == []


def test_partitions_without_room_are_left_out_of_answers(bench: Bench, member: Member, other: Member) -> None:
    configure(bench, share_partition_max_record_locks="100")
    produce(bench, 100, 1)
    assert member.gets() == [Got(0, 99, 1)]
    assert other.fetches().responses == []
    assert member.acknowledges(Told(0, 0)) == "NONE"
    assert other.gets() == [Got(100, 100, 1)]


def test_errors_of_partitions(bench: Bench, member: Member) -> None:
    (own,) = member.has
    unknown = (UUID(int=5), 0)
    answer = member.fetches(parts=[own, (own[0], 9), unknown])
    codes = {
        partition.partition_index: partition.error_code
        for topic in answer.responses
        for partition in topic.partitions
        if topic.topic_id == own[0]
    }
    assert codes == {0: ErrorCode.NONE, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    (gone,) = [topic for topic in answer.responses if topic.topic_id == unknown[0]]
    assert gone.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    bench.node.faults.fail_next("ShareFetch", "KAFKA_STORAGE_ERROR", topic="t")
    (failed,) = [topic for topic in member.fetches(forgotten=[unknown]).responses if topic.topic_id == own[0]]
    assert [one.error_code for one in failed.partitions if one.partition_index == 0] == [ErrorCode.KAFKA_STORAGE_ERROR]
    bench.node.faults.fail_next("ShareAcknowledge", "NOT_LEADER_OR_FOLLOWER", topic="t")
    assert member.acknowledges(Told(0, 0)) == "NOT_LEADER_OR_FOLLOWER"
    bench.node.faults.fail_next("ShareAcknowledge", "KAFKA_STORAGE_ERROR", topic="t")
    (topic,) = [topic for topic in member.fetches(told={own: [Told(0, 0)]}).responses if topic.topic_id == own[0]]
    assert [one.acknowledge_error_code for one in topic.partitions if one.partition_index == 0] == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_where_a_group_begins() -> None:
    for reset, expected in (("latest", []), ("earliest", [Got(0, 0, 1)]), ("by_duration:PT1H", [Got(0, 0, 1)])):
        bench = Bench()
        bench.node.create_topic("t", 1)
        configure(bench, share_auto_offset_reset=reset)
        produce(bench, 1)
        member = Member(bench, "m")
        member.joins()
        assert member.gets() == expected, reset
    produce(bench, 1)


def test_a_group_may_forbid_to_renew_locks(bench: Bench, member: Member) -> None:
    configure(bench, share_renew_acknowledge_enable="false")
    produce(bench, 1)
    member.gets()
    assert member.acknowledges(Told(0, 0, (RENEW,)), is_renew_ack=True) == "INVALID_RECORD_STATE"


def test_limits_of_a_group(bench: Bench, member: Member) -> None:
    configure(bench, share_record_lock_duration_ms="15000", share_delivery_count_limit="2")
    produce(bench, 1)
    for delivery in (1, 2):
        answer = member.fetches()
        assert answer.acquisition_lock_timeout_ms == 15_000
        assert got(answer.responses[0].partitions[0]) == [Got(0, 0, delivery)]
        bench.advance(15_000)
    assert member.gets() == []


def test_locks_of_a_group_are_not_shorter_than_the_brokers_minimum() -> None:
    bench = Bench(group_share_min_record_lock_duration_ms=500)
    bench.node.configure_group(GROUP, {"share.record.lock.duration.ms": 500})
    refused = "'499' for group config share.record.lock.duration.ms: must be at least group.share.min.record.lock.duration.ms=500"
    with pytest.raises(ConfigError, match=refused):
        bench.node.configure_group(GROUP, {"share.record.lock.duration.ms": 499})
    with pytest.raises(ConfigError, match=r"must be at least group\.share\.min\.record\.lock\.duration\.ms=15000"):
        Bench().node.configure_group(GROUP, {"share.record.lock.duration.ms": 14_999})


def test_settings_that_were_kept_hold_under_a_larger_minimum(tmp_path: Path) -> None:
    for settings in ({"group_share_min_record_lock_duration_ms": 500}, {}):
        kept = DataDir(tmp_path, BrokerSettings())
        bench = Bench(storage=kept, **settings)
        if settings:
            bench.node.configure_group(GROUP, {"share.record.lock.duration.ms": 500})
        assert bench.node.cluster.group_config(GROUP).share_limits.lock_ms == 500
        kept.close()


def test_readers_of_committed_data_wait_for_transactions(bench: Bench, member: Member) -> None:
    configure(bench, share_isolation_level="read_committed")
    producer = TransactionalProducer(bench.client())
    producer.init()
    producer.write(b"1", b"2")
    member.client.send(member.fetch(max_wait_ms=60_000))
    assert member.client.answers() == []
    producer.abort()
    (answer,) = member.client.answers()
    member.follow()
    # The marker is a record to members: it is theirs to say that it is a gap.
    assert got(answer.responses[0].partitions[0]) == [Got(2, 2, 1)]
    assert member.acknowledges(Told(2, 2, (GAP,))) == "NONE"
    producer.write(b"3")
    assert member.gets() == []
    producer.commit()
    assert member.gets() == [Got(3, 4, 1)]


# Descriptions and offsets


def offsets(bench: Bench, *partitions: int) -> list[tuple[int, int]]:
    """Start offset and lag of partitions, of all that are kept without any."""
    topics = [DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=list(partitions))] if partitions else None
    wanted = DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=topics)
    (group,) = bench.client().ask(DescribeShareGroupOffsetsRequest(groups=[wanted])).groups
    assert not group.error_code
    return [(one.start_offset, one.lag) for topic in group.topics for one in topic.partitions]


def alter(bench: Bench, offset: int, partition: int = 0, topic: str = "t") -> str:
    part = AlterShareGroupOffsetsRequestPartition(partition_index=partition, start_offset=offset)
    topics = [AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[part])]
    answer = bench.client().ask(AlterShareGroupOffsetsRequest(group_id=GROUP, topics=topics))
    return ErrorCode(answer.error_code or answer.responses[0].partitions[0].error_code).name


def delete_offsets(bench: Bench, topic: str = "t") -> str:
    topics = [DeleteShareGroupOffsetsRequestTopic(topic_name=topic)]
    answer = bench.client().ask(DeleteShareGroupOffsetsRequest(group_id=GROUP, topics=topics))
    return ErrorCode(answer.error_code or answer.responses[0].error_code).name


def described(bench: Bench) -> Any:
    (group,) = bench.client().ask(ShareGroupDescribeRequest(group_ids=[GROUP])).groups
    return group


def delete_group(bench: Bench) -> str:
    (result,) = bench.client().ask(DeleteGroupsRequest(groups_names=[GROUP])).results
    return ErrorCode(result.error_code).name


def test_a_group_is_described(bench: Bench, member: Member) -> None:
    group = described(bench)
    assert (group.group_state, group.assignor_name, group.group_epoch, group.assignment_epoch) == ("Stable", "simple", 2, 2)
    (one,) = group.members
    assert (one.member_id, one.member_epoch, one.subscribed_topic_names, one.client_id) == ("m", 2, ["t"], "test")
    assert [(topic.topic_name, topic.partitions) for topic in one.assignment.topic_partitions] == [("t", [0])]
    listed = bench.client().ask(ListGroupsRequest(types_filter=["share"])).groups
    assert [(one.group_id, one.group_type, one.group_state, one.protocol_type) for one in listed] == [(GROUP, "share", "Stable", "share")]
    member.client.ask(member.leave())
    assert (described(bench).group_state, described(bench).members) == ("Empty", [])
    assert delete_group(bench) == "NONE"
    assert ErrorCode(described(bench).error_code) is ErrorCode.GROUP_ID_NOT_FOUND


def test_where_a_group_is(bench: Bench, member: Member) -> None:
    produce(bench, 5)
    assert offsets(bench) == [(-1, -1)]
    assert member.gets() == [Got(0, 4, 1)]
    assert offsets(bench) == [(-1, -1)]
    member.acknowledges(Told(0, 0), Told(3, 3))
    assert offsets(bench) == offsets(bench, 0) == [(1, 3)]
    assert offsets(bench, 0, 9) == [(1, 3), (-1, -1)]
    assert (alter(bench, 4), delete_offsets(bench), delete_group(bench)) == ("NON_EMPTY_GROUP", "NON_EMPTY_GROUP", "NON_EMPTY_GROUP")


def test_offsets_of_a_group_without_members_are_changed(bench: Bench, member: Member) -> None:
    produce(bench, 5)
    member.gets()
    member.closes()
    member.client.ask(member.leave())
    assert (alter(bench, 4), alter(bench, 4, partition=1), alter(bench, 4, topic="x")) == (
        "NONE",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_TOPIC_OR_PARTITION",
    )
    assert offsets(bench) == [(4, 1)]
    member.joins()
    assert member.gets() == [Got(4, 4, 1)]
    member.closes()
    member.client.ask(member.leave())
    assert (delete_offsets(bench), delete_offsets(bench, "x")) == ("NONE", "UNKNOWN_TOPIC_OR_PARTITION")
    assert offsets(bench) == []
    member.epoch = 0
    member.joins()
    # As a group that has never read: from the beginning.
    assert member.gets() == [Got(0, 4, 1)]


def test_offsets_may_be_set_before_there_is_a_group(bench: Bench) -> None:
    produce(bench, 5)
    assert delete_offsets(bench) == "GROUP_ID_NOT_FOUND"
    assert alter(bench, 3) == "NONE"
    member = Member(bench, "m")
    member.joins()
    assert member.gets() == [Got(3, 4, 1)]


def test_where_to_start_is_decided_anew_while_nothing_is_stored() -> None:
    bench = Bench()
    bench.node.create_topic("t", 1)
    member = Member(bench, "m")
    member.joins()
    assert member.gets() == []
    assert member.closes() == "NONE"
    produce(bench, 1)
    assert member.gets() == []


# Coordinators and leaders


def test_a_new_coordinator_goes_on_with_the_group() -> None:
    bench = TwoNodes()
    member = bench.member
    member.joins()
    bench.move_group()
    assert ErrorCode(member.beats().error_code) is ErrorCode.NOT_COORDINATOR
    member.client = bench.other.client()
    assert member.beats().error_code == 0
    bench.other.advance(SESSION_MS)
    assert ErrorCode(member.beats().error_code) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_new_leader_knows_what_was_stored() -> None:
    bench = TwoNodes()
    member = bench.member
    member.joins()
    produce(bench, 4)
    assert member.gets() == [Got(0, 3, 1)]
    assert member.acknowledges(Told(0, 1), Told(2, 2, (RELEASE,))) == "NONE"
    bench.node.cluster.move_leader(bench.node.cluster.topics["t"].partitions[0], 2)
    (topic,) = member.fetches().responses
    assert ErrorCode(topic.partitions[0].error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert topic.partitions[0].current_leader.leader_id == 2
    answer = member.client.ask(member.acknowledge({next(iter(member.has)): [Told(3, 3)]}))
    assert (answer.responses[0].partitions[0].current_leader.leader_id, [one.node_id for one in answer.node_endpoints]) == (2, [2])
    other = Member(bench.other, "m")
    other.has = member.has
    assert other.gets() == [Got(2, 2, 2), Got(3, 3, 1)]


class TwoNodes(Bench):
    """Two nodes of one cluster, of which this one has the group and the topic at first."""

    def __init__(self) -> None:
        super().__init__()
        self.other = Bench(node_id=2, cluster=self.node.cluster)
        self.node.create_topic("t", 1)
        self.node.cluster.group_coordinators.move(GROUP, 1)
        configure(self, share_auto_offset_reset="earliest")
        self.member = Member(self, "m")

    def move_group(self) -> None:
        self.node.cluster.group_coordinators.move(GROUP, 2)


# Other groups


def test_a_name_belongs_to_one_kind_of_group(bench: Bench, member: Member) -> None:
    client = bench.client()
    classic, consumer = GroupMember(GROUP), ConsumerGroupMember(GROUP, "c")
    asked: dict[str, list[Request]] = {
        "INCONSISTENT_GROUP_PROTOCOL": [classic.join(), classic.join(member_id="x")],
        "UNKNOWN_MEMBER_ID": [classic.heartbeat(), classic.sync(protocol_name="range")],
        "GROUP_ID_NOT_FOUND": [consumer.join(), OffsetDeleteRequest(group_id=GROUP)],
    }
    for name, requests in asked.items():
        for request in requests:
            assert ErrorCode(client.ask(request).error_code).name == name, request
    (topic,) = client.ask(classic.commit("t", 1), 9).topics
    assert ErrorCode(topic.partitions[0].error_code) is ErrorCode.GROUP_ID_NOT_FOUND
    client.ask(classic.join(group_id="classic"))
    assert ErrorCode(client.ask(member.join(group_id="classic")).error_code) is ErrorCode.GROUP_ID_NOT_FOUND
    bench.node.advance(10**12)
    assert described(bench).group_state == "Empty"


def test_deleted_topics_are_forgotten(bench: Bench, member: Member) -> None:
    produce(bench, 1)
    assert member.gets() == [Got(0, 0, 1)]
    bench.node.delete_topic("t")
    (topic,) = member.fetches().responses
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert not bench.node.cluster.share_states.of_group(GROUP)
    bench.advance(LOCK_MS)


# Over sockets, and in a simulation


def test_who_waits_is_given_the_records_of_a_member_whose_connection_ends() -> None:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t", 1)
        kafka.configure_group(GROUP, {"share.auto.offset.reset": "earliest"})
        with Wire(kafka.bootstrap_servers) as first, Wire(kafka.bootstrap_servers) as second:
            first.ask(produce_request("t", make_batch(b"v")), 9)
            member, other = ShareMember(GROUP, "m"), ShareMember(GROUP, "o")
            for one, wire in ((member, first), (other, second)):
                one.take(wire.ask(one.join(), 1))
            assert got(first.ask(member.fetch(), 2).responses[0].partitions[0]) == [Got(0, 0, 1)]
            second.send(other.fetch(max_wait_ms=60_000), 2)
            first.close()
            assert got(second.answer().responses[0].partitions[0]) == [Got(0, 0, 2)]


def test_settings_of_groups_in_a_simulation() -> None:
    with SimulatedKafka() as kafka:
        kafka.configure_group(GROUP, {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": 3})
        kafka.configure_group(GROUP, {"share.auto.offset.reset": None})
        assert kafka.node.cluster.group_config(GROUP).overrides == {"share.delivery.count.limit": "3"}
        with pytest.raises(ConfigError, match=r"unknown group config name: share\.offset\.reset"):
            kafka.configure_group(GROUP, {"share.offset.reset": "earliest"})
