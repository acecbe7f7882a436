"""Section D: what a client knows of the cluster, and when it asks again."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

import pytest

from levada.client.driver_interface import closed
from levada.client.metadata.metadata import Metadata
from levada.client.metadata.snapshot import ClusterSnapshot, TopicMetadata
from levada.error_codes import ErrorCode
from levada.errors import ClosedError, KafkaError
from levada.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from levada.types import Node, PartitionInfo, TopicPartition
from settings_kit import new_metadata

NEWEST = 12
A, B = UUID(int=1), UUID(int=2)
T0 = TopicPartition("t", 0)


def metadata(**settings: Any) -> Metadata:
    return new_metadata(("a", 9092), ("b", 9093), random=Random(1), **settings)


def topic(
    name: str = "t", *partitions: tuple[int, int], topic_id: UUID = A, error: int = 0, partition_error: int = 0
) -> MetadataResponseTopic:
    """partitions: (leader, leader epoch) each."""
    described = [
        MetadataResponsePartition(
            partition_index=index, leader_id=leader, leader_epoch=epoch, replica_nodes=[1, 2], isr_nodes=[1], error_code=partition_error
        )
        for index, (leader, epoch) in enumerate(partitions)
    ]
    return MetadataResponseTopic(name=name, topic_id=topic_id, partitions=described, error_code=error)


def response(*topics: MetadataResponseTopic, nodes: tuple[int, ...] = (1, 2)) -> MetadataResponse:
    brokers = [MetadataResponseBroker(node_id=node_id, host=f"host{node_id}", port=9092) for node_id in nodes]
    return MetadataResponse(brokers=brokers, topics=list(topics), cluster_id="c", controller_id=1)


def answer(
    subject: Metadata, *topics: MetadataResponseTopic, now_ms: int = 0, version: int = NEWEST, nodes: tuple[int, ...] = (1, 2)
) -> None:
    subject.update(subject.query(now_ms), response(*topics, nodes=nodes), version, now_ms)


def epoch(subject: Metadata) -> int:
    return subject.snapshot.leader_epoch(T0)


def names(subject: Metadata, now_ms: int = 0) -> list[str | None] | None:
    asked = subject.query(now_ms).request.topics
    return None if asked is None else [asked_topic.name for asked_topic in asked]


# What it knows


def test_N24_bootstrap_addresses_are_nodes_with_negative_ids() -> None:
    assert dict(metadata().snapshot.nodes) == {-1: Node(-1, "a", 9092), -2: Node(-2, "b", 9093)}


def test_D1_an_answer_becomes_the_snapshot() -> None:
    subject = metadata()
    subject.add_topic("t", 0)
    answer(subject, topic("t", (1, 5), (2, 6)))
    snapshot = subject.snapshot
    assert (snapshot.cluster_id, snapshot.controller_id, sorted(snapshot.nodes)) == ("c", 1, [1, 2])
    assert snapshot.leader(T0) == Node(1, "host1", 9092)
    assert snapshot.partition_count("t") == 2
    assert (snapshot.topic_id("t"), snapshot.topic_name(A)) == (A, "t")
    assert snapshot.controller == Node(1, "host1", 9092)


def test_D1_a_snapshot_is_not_changed_by_later_answers() -> None:
    subject = metadata()
    subject.add_topic("t", 0)
    answer(subject, topic("t", (1, 5)))
    before = subject.snapshot
    answer(subject, topic("t", (2, 6)))
    assert before.leader(T0) == Node(1, "host1", 9092)
    assert subject.snapshot.leader(T0) == Node(2, "host2", 9092)


def test_N24_node_id_minus_1_is_no_node() -> None:
    headless = TopicMetadata("t", partitions=(PartitionInfo("t", 0, -1, 3, (), ()),))
    snapshot = ClusterSnapshot.bootstrap([("host", 9092)], {"t": headless})
    assert snapshot.nodes[-1] == Node(-1, "host", 9092)
    assert snapshot.leader(T0) is None
    assert snapshot.controller is None


def test_D18_a_leader_that_is_not_among_the_nodes_is_no_leader() -> None:
    subject = metadata()
    answer(subject, topic("t", (9, 1), (-1, 1)))
    assert subject.snapshot.leader(T0) is None
    assert subject.snapshot.leader(TopicPartition("t", 1)) is None
    assert subject.snapshot.leader(TopicPartition("unknown", 0)) is None
    assert subject.snapshot.partition_count("unknown") is None


def test_TR34_an_answer_without_brokers_is_a_failed_update() -> None:
    subject = metadata()
    answer(subject, topic("t", (1, 5)))
    version = subject.version
    subject.request_update()
    answer(subject, nodes=(), now_ms=1000)
    assert subject.version == version
    assert subject.snapshot.partition_count("t") == 1
    assert 1000 < subject.due_at_ms(1000) <= 1120


# Leader epochs


def test_TR31_an_older_epoch_does_not_bring_an_old_leader_back() -> None:
    subject = metadata()
    answer(subject, topic("t", (1, 5)))
    answer(subject, topic("t", (2, 4)))
    assert (subject.snapshot.leader(T0), epoch(subject)) == (Node(1, "host1", 9092), 5)
    answer(subject, topic("t", (2, 5)))
    assert subject.snapshot.leader(T0) == Node(2, "host2", 9092)


def test_D14_a_new_topic_id_means_a_new_topic_whatever_its_epoch() -> None:
    subject = metadata()
    answer(subject, topic("t", (1, 5)))
    answer(subject, topic("t", (2, 0), topic_id=B))
    assert (epoch(subject), subject.snapshot.topic_id("t")) == (0, B)
    answer(subject, topic("t", (1, 1), topic_id=B))
    assert epoch(subject) == 1


def test_D13_epochs_of_old_brokers_are_not_trusted() -> None:
    subject = metadata()
    answer(subject, topic("t", (1, 5)), version=8)
    assert epoch(subject) == -1
    answer(subject, topic("t", (2, 4)), version=8)
    assert subject.snapshot.leader(T0) == Node(2, "host2", 9092)


def test_D16_a_newer_epoch_seen_elsewhere_asks_for_an_update_and_outdates_older_answers() -> None:
    subject = metadata()
    subject.set_topics({"t"}, 0)
    answer(subject, topic("t", (1, 5)))
    assert not subject.saw_leader_epoch(T0, 5)
    assert not subject.saw_leader_epoch(TopicPartition("unknown", 0), 9)
    assert subject.due_at_ms(1000) > 1000
    assert subject.saw_leader_epoch(T0, 7)
    assert subject.due_at_ms(1000) == 1000
    answer(subject, topic("t", (2, 6)))
    assert subject.snapshot.leader(T0) == Node(1, "host1", 9092)
    answer(subject, topic("t", (2, 7)))
    assert subject.snapshot.leader(T0) == Node(2, "host2", 9092)


def test_D17_a_newer_leader_hint_is_taken_at_once_and_an_update_follows() -> None:
    subject = metadata()
    subject.set_topics({"t"}, 0)
    answer(subject, topic("t", (1, 5)))
    assert subject.apply_leader_hint(T0, 3, 6, [Node(3, "host3", 9092)])
    assert subject.snapshot.leader(T0) == Node(3, "host3", 9092)
    assert subject.due_at_ms(1000) == 1000


@pytest.mark.parametrize(("leader", "hinted_epoch"), [(2, 5), (2, 4), (7, 6)])
def test_D17_an_old_hint_or_an_unknown_node_is_not_taken(leader: int, hinted_epoch: int) -> None:
    subject = metadata()
    answer(subject, topic("t", (1, 5)))
    assert not subject.apply_leader_hint(T0, leader, hinted_epoch)
    assert subject.snapshot.leader(T0) == Node(1, "host1", 9092)


# When to ask


def test_D6_a_new_client_asks_at_once_and_again_when_the_answer_is_old() -> None:
    subject = metadata(max_age_ms=60_000)
    assert subject.due_at_ms(0) == 0
    answer(subject, now_ms=10)
    assert subject.due_at_ms(10) == 60_010


def test_D12_failures_back_off_and_keep_the_waiters() -> None:
    subject = metadata()
    waiting = subject.await_update(subject.version)
    subject.update_failed(0)
    first = subject.due_at_ms(0)
    subject.update_failed(first)
    assert 80 <= first <= 120
    assert 160 <= subject.due_at_ms(first) - first <= 240
    assert not waiting.done
    answer(subject, now_ms=1000)
    assert waiting.done
    assert waiting.error is None


def test_TR33_answers_that_bring_nothing_new_back_off() -> None:
    subject = metadata()
    subject.set_topics({"t"}, 0)
    now_ms, delays = 0, []
    for _ in range(8):
        answer(subject, topic("t", (-1, 5), partition_error=ErrorCode.LEADER_NOT_AVAILABLE), now_ms=now_ms)
        delays.append(subject.due_at_ms(now_ms) - now_ms)
        now_ms += delays[-1]
    assert delays[0] <= 120
    assert delays[-1] >= 800
    subject.request_update(now_ms)
    assert subject.due_at_ms(now_ms) - now_ms <= 120


def test_D2_a_new_topic_does_not_wait_for_the_back_off() -> None:
    subject = metadata()
    answer(subject, now_ms=0)
    subject.request_update()
    assert subject.due_at_ms(1) > 1
    subject.add_topic("t", 1)
    assert subject.due_at_ms(1) == 1


def test_D7_new_topics_are_asked_for_alone_and_merged() -> None:
    subject = metadata()
    subject.set_topics({"t"}, 0)
    answer(subject, topic("t", (1, 5)))
    subject.set_topics({"t", "u"}, 10)
    assert names(subject, 10) == ["u"]
    answer(subject, topic("u", (2, 1), topic_id=B), now_ms=10)
    assert sorted(subject.snapshot.topics) == ["t", "u"]


def test_D7_a_full_update_drops_what_is_no_longer_wanted() -> None:
    subject = metadata()
    subject.set_topics({"t", "u"}, 0)
    answer(subject, topic("t", (1, 5)), topic("u", (2, 1), topic_id=B))
    subject.set_topics({"t"}, 10)
    subject.request_update()
    answer(subject, topic("t", (1, 5)), now_ms=10)
    assert sorted(subject.snapshot.topics) == ["t"]


def test_TR32_a_topic_added_while_a_request_is_out_makes_another_one_due() -> None:
    subject = metadata()
    subject.add_topic("t", 0)
    query = subject.query(0)
    subject.add_topic("u", 5)
    subject.update(query, response(topic("t", (1, 5))), NEWEST, 10)
    assert names(subject, 10) == ["u"]
    assert subject.due_at_ms(10) == 10


@pytest.mark.parametrize(
    ("error", "asks_again"),
    [
        (ErrorCode.LEADER_NOT_AVAILABLE, True),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, False),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, False),
    ],
)
def test_D15_a_topic_error_is_kept_and_asked_again_only_when_it_may_pass(error: ErrorCode, asks_again: bool) -> None:
    subject = metadata()
    subject.set_topics({"t"}, 0)
    answer(subject, topic("t", error=error))
    assert subject.snapshot.topics["t"].error is error
    assert (subject.due_at_ms(1000) == 1000) is asks_again


def test_D3_a_topic_without_use_is_dropped_but_not_before_it_was_answered() -> None:
    subject = metadata(max_idle_ms=5000)
    subject.add_topic("idle", 0)
    subject.add_topic("used", 0)
    answer(subject, now_ms=0)
    subject.add_topic("used", 4000)
    subject.add_topic("unanswered", 4000)
    subject.request_update()
    query = subject.query(10_000)
    subject.add_topic("late", 10_000)
    subject.update(query, response(), NEWEST, 10_000)
    assert subject.topics == {"late"}
    subject.request_update()
    assert names(subject, 10_000) == ["late"]


def test_D8_all_topics_are_asked_for_by_null_and_none_by_an_empty_list() -> None:
    subject = metadata()
    assert names(subject) == []
    subject.set_topics(None, 0)
    assert names(subject) is None


@pytest.mark.parametrize(("allow", "topics", "min_version"), [(True, {"t"}, 0), (False, {"t"}, 4), (False, None, 0), (False, set(), 0)])
def test_D8_forbidding_creation_needs_a_version_with_that_field(allow: bool, topics: set[str] | None, min_version: int) -> None:
    subject = metadata(allow_auto_create_topics=allow)
    subject.set_topics(topics, 0)
    query = subject.query(0)
    assert query.min_version == min_version
    assert query.request.allow_auto_topic_creation is (allow or not topics)


def test_transient_topics_are_asked_for_until_they_are_cleared() -> None:
    subject = metadata()
    subject.set_topics({"t"}, 0)
    answer(subject, topic("t", (1, 5)))
    subject.add_transient_topics({"u"}, 1)
    assert names(subject, 1) == ["u"]
    answer(subject, topic("u", (1, 5), topic_id=B), now_ms=1)
    subject.clear_transient_topics()
    subject.request_update()
    assert names(subject, 2) == ["t"]


# Waiting


def test_D5_a_waiter_waits_for_a_version_higher_than_it_has_seen() -> None:
    subject = metadata()
    seen = subject.request_update()
    waiting, later = subject.await_update(seen), subject.await_update(seen + 1)
    answer(subject)
    assert (waiting.done, later.done) == (True, False)
    assert subject.await_update(seen).done
    answer(subject)
    assert later.done


def test_D20_a_fatal_error_is_raised_to_every_waiter_once() -> None:
    subject = metadata()
    waiters = [subject.await_update(0), subject.await_update(5)]
    fatal = KafkaError("no")
    subject.fail(fatal)
    assert [waiter.error for waiter in waiters] == [fatal, fatal]
    assert subject.await_update(0).done is False


def test_D20_without_a_waiter_the_error_is_raised_to_the_next_one() -> None:
    subject = metadata()
    fatal = KafkaError("no")
    subject.fail(fatal)
    assert subject.await_update(0).error is fatal
    assert subject.await_update(0).error is None


def test_D5_close_ends_every_wait() -> None:
    subject = metadata()
    waiting = subject.await_update(0)
    subject.close(closed)
    assert isinstance(waiting.error, ClosedError)
    assert isinstance(subject.await_update(0).error, ClosedError)


def test_D19_rebootstrap_keeps_topics_but_no_leaders_and_no_epochs() -> None:
    subject = metadata()
    subject.set_topics({"t"}, 0)
    answer(subject, topic("t", (1, 5)))
    subject.rebootstrap()
    assert sorted(subject.snapshot.nodes) == [-2, -1]
    assert (subject.snapshot.partition_count("t"), subject.snapshot.leader(T0)) == (1, None)
    answer(subject, topic("t", (1, 2)), now_ms=10)
    assert epoch(subject) == 2


def test_X_K13_a_wait_for_metadata_that_times_out_leaves_nothing_behind() -> None:
    subject = metadata()
    assert subject.await_update(0) is subject.await_update(0)


def test_D8_all_topics_are_asked_for_although_they_came_to_be_wanted_while_a_few_were_on_their_way() -> None:
    subject = metadata()
    subject.set_topics({"t"}, 0)
    query = subject.query(0)
    assert query.topics == frozenset({"t"})
    subject.set_topics(None, 0)
    subject.update(query, response(), NEWEST, 10)
    assert subject.due_at_ms(1_000) <= 1_000
    assert names(subject, 1_000) is None
