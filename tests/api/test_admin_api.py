"""KafkaAdmin with real sockets."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from levada import KafkaAdmin, NewTopic
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, ClosedError, InvalidTopicError, TimeoutError, TopicAlreadyExistsError, UnknownTopicOrPartitionError
from levada.testing import EmbeddedKafka


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(num_partitions=4) as kafka:
        yield kafka


@pytest.fixture
def admin(kafka: EmbeddedKafka) -> Iterator[KafkaAdmin]:
    with KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        yield admin


def test_X7_a_topic_is_created_described_and_deleted(admin: KafkaAdmin) -> None:
    made = admin.create_topics([NewTopic("mine", 3), NewTopic("default")])
    assert {name: topic.partitions for name, topic in made.items()} == {"mine": 3, "default": 4}
    described = admin.describe_topics(["mine", "default"])
    assert [len(topic.partitions) for topic in described.values()] == [3, 4]
    assert described["mine"].topic_id == made["mine"].topic_id
    assert admin.list_topics() == ["default", "mine"]
    admin.delete_topics(["mine"])
    assert admin.list_topics() == ["default"]
    with pytest.raises(UnknownTopicOrPartitionError, match="'mine'"):
        admin.describe_topics(["mine"])


def test_X7_one_bad_topic_does_not_keep_the_others_from_being_created(admin: KafkaAdmin) -> None:
    with pytest.raises(InvalidTopicError, match="create topic 'no/good'"):
        admin.create_topics([NewTopic("a", 1), NewTopic("no/good", 1), NewTopic("b", 1)])
    assert admin.list_topics() == ["a", "b"]


def test_validate_only_creates_nothing(admin: KafkaAdmin) -> None:
    admin.create_topics([NewTopic("maybe", 1)], validate_only=True)
    assert admin.list_topics() == []


def test_a_bare_name_instead_of_a_list_is_refused(admin: KafkaAdmin) -> None:
    with pytest.raises(TypeError, match=r"write \['orders'\]"):
        admin.delete_topics("orders")


def test_X2_a_move_of_the_controller_is_followed(kafka: EmbeddedKafka, admin: KafkaAdmin) -> None:
    kafka.faults.fail_next("CreateTopics", ErrorCode.NOT_CONTROLLER, times=2)
    assert set(admin.create_topics([NewTopic("a", 1)])) == {"a"}


def test_an_answer_that_got_lost_is_explained(kafka: EmbeddedKafka, admin: KafkaAdmin) -> None:
    kafka.faults.disconnect("CreateTopics", applied=True)
    with pytest.raises(TopicAlreadyExistsError, match="an earlier attempt"):
        admin.create_topics([NewTopic("a", 1)])


def test_X1_a_call_ends_in_time(kafka: EmbeddedKafka, admin: KafkaAdmin) -> None:
    kafka.faults.fail_next("CreateTopics", ErrorCode.NOT_CONTROLLER, times=1_000)
    with pytest.raises(TimeoutError, match="create topics: not done within"):
        admin.create_topics([NewTopic("a", 1)], timeout=1)


def test_any_thread_may_use_it(admin: KafkaAdmin) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: admin.create_topics([NewTopic(f"t{n:02}", 1)]), range(20)))
    assert len(admin.list_topics()) == 20


def test_X10_after_close_it_says_so(kafka: EmbeddedKafka) -> None:
    admin = KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers)
    admin.close()
    admin.close()
    with pytest.raises(ClosedError, match="closed"):
        admin.describe_cluster()


def test_a_refusal_keeps_its_code(admin: KafkaAdmin) -> None:
    with pytest.raises(BrokerError) as refused:
        admin.create_topics([NewTopic("a", 0)])
    assert refused.value.code is ErrorCode.INVALID_PARTITIONS
