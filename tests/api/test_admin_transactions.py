"""KafkaAdmin looks at transactions and ends them, and changes offsets of groups: both APIs, every broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

import levada as lv
from api_kit import EVERYWHERE, SimulatedKafka, api_and_broker
from broker_kit import produce_request
from consumer_kit import batch
from consumer_sim import World
from levada.broker.apis.groups import find_coordinator
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, DisconnectError, GroupError, TimeoutError, UnknownTopicOrPartitionError, UnsupportedVersionError
from levada.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.testing import EmbeddedKafka, Simulation

PATIENCE_S = 30
NINE = [f"tx-{number}" for number in range(9)]
NOT_YET = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
}


@pytest.fixture(params=EVERYWHERE)
def kafka(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, embedded: Any) -> Iterator[Any]:
    yield from api_and_broker(request, monkeypatch)


@pytest.fixture
def admin(kafka: Any) -> Iterator[Any]:
    with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def topic(kafka: Any, new_topic: Callable[..., str]) -> str:
    return new_topic(kafka, partitions=2)


class Open(NamedTuple):
    """An open transaction with one record in one partition."""

    id: str
    producer_id: int
    epoch: int
    partition: lv.TopicPartition


class Unstable(NamedTuple):
    """A group whose offset is 3, and is 5 if the open transaction of a producer is committed."""

    group: str
    partition: lv.TopicPartition
    producer: Any


def until(answer: Callable[[], Any], code: Callable[[Any], int]) -> Any:
    """Ask until a broker is ready for it."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = answer()
        if code(found) == ErrorCode.NONE:
            return found
        assert code(found) in NOT_YET, ErrorCode.of(code(found))
        assert time.monotonic() < deadline
        time.sleep(0.1)


def begin(admin: Any, topic: str) -> Open:
    """Open a transaction as the first transactional producers did, request by request."""
    name = f"tx-{uuid4().hex}"
    found = until(
        lambda: admin.request(FindCoordinatorRequest(key_type=1, coordinator_keys=[name]), version=4).coordinators[0],
        lambda one: int(one.error_code),
    )
    init = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
    given = until(lambda: admin.request(init, node=found.node_id, version=4), lambda reply: int(reply.error_code))
    join = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=given.producer_id,
        v3_and_below_producer_epoch=given.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[1])],
    )
    until(
        lambda: admin.request(join, node=found.node_id, version=3).results_by_topic_v3_and_below[0].results_by_partition[0],
        lambda reply: int(reply.partition_error_code),
    )
    write = produce_request(topic, batch(0, [b"x"], producer=(given.producer_id, given.producer_epoch)), partition=1)
    write.transactional_id = name
    leader = admin.describe_topics([topic])[topic].partitions[1].leader
    until(lambda: admin.request(write, node=leader, version=9).responses[0].partition_responses[0], lambda part: int(part.error_code))
    return Open(name, given.producer_id, given.producer_epoch, lv.TopicPartition(topic, 1))


def eventually(found: Callable[[], Any], wanted: Callable[[Any], bool]) -> Any:
    """Ask until the markers of a transaction's end are written."""
    deadline = time.monotonic() + PATIENCE_S
    while not wanted(answer := found()):
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)
    return answer


def test_X5_transactions_are_described_listed_and_fenced(kafka: Any, admin: Any, topic: str, request: pytest.FixtureRequest) -> None:
    one = begin(admin, topic)

    described = admin.describe_transactions([one.id])[one.id]
    assert (described.state, described.producer_id, described.producer_epoch) == (lv.TransactionState.ONGOING, one.producer_id, one.epoch)
    assert (described.partitions, described.timeout_ms) == ((one.partition,), 60_000)
    assert described.start_time_ms > 0
    assert described.coordinator_id >= 0

    listing = lv.TransactionListing(one.id, one.producer_id, lv.TransactionState.ONGOING)
    assert listing in admin.list_transactions()
    assert admin.list_transactions(producer_ids=[one.producer_id]) == [listing]
    assert listing in admin.list_transactions(states=["Ongoing", lv.TransactionState.EMPTY])
    assert listing not in admin.list_transactions(states=["CompleteCommit"])
    assert listing not in admin.list_transactions(duration_ms=60_000)
    if "kafka39" in request.node.callspec.params["kafka"]:
        with pytest.raises(UnsupportedVersionError, match=r"a pattern needs brokers since 4\.1"):
            admin.list_transactions(pattern="tx-.*")
    else:
        assert admin.list_transactions(pattern=f"tx-.*{one.id[-9:]}") == [listing]

    fenced = admin.fence_producers([one.id])
    assert fenced[one.id].producer_id == one.producer_id
    assert fenced[one.id].producer_epoch > one.epoch
    done = lv.TransactionState.COMPLETE_ABORT, lv.TransactionState.EMPTY
    ended = eventually(lambda: admin.describe_transactions([one.id])[one.id], lambda found: found.state in done)
    assert (ended.partitions, ended.producer_epoch) == ((), fenced[one.id].producer_epoch)


def test_X5_an_id_that_is_not_known_is_named_and_the_others_are_described(kafka: Any, admin: Any, topic: str) -> None:
    one = begin(admin, topic)
    with pytest.raises(BrokerError, match="describe transaction 'nobody-knows'") as failed:
        admin.describe_transactions(["nobody-knows", one.id])
    assert failed.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert failed.value.outcomes == {"nobody-knows": failed.value, one.id: None}
    admin.fence_producers([one.id])


def test_X5_a_transaction_that_hangs_in_a_partition_is_found_and_aborted_there(kafka: Any, admin: Any, topic: str) -> None:
    one = begin(admin, topic)
    other = lv.TopicPartition(topic, 0)
    found = admin.describe_producers([one.partition, other])
    assert found[other] == ()
    (producer,) = found[one.partition]
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (one.producer_id, one.epoch, 0)
    assert (producer.current_transaction_start_offset, producer.coordinator_epoch) == (0, None)

    with lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, isolation_level="read_committed") as reader:
        assert reader.end_offsets([one.partition]) == {one.partition: 0}
        admin.abort_transaction(lv.AbortTransactionSpec(one.partition, one.producer_id, one.epoch))
        assert eventually(lambda: reader.end_offsets([one.partition])[one.partition], lambda end: bool(end == 2)) == 2
    (producer,) = admin.describe_producers([one.partition])[one.partition]
    assert producer.current_transaction_start_offset is None

    missing = lv.TopicPartition(topic, 9)
    with pytest.raises(UnknownTopicOrPartitionError, match=f"abort the transaction of producer {one.producer_id} in {missing}"):
        admin.abort_transaction(lv.AbortTransactionSpec(missing, one.producer_id, one.epoch))


def test_X5_producers_of_a_partition_that_is_not_there(admin: Any, topic: str) -> None:
    missing, nowhere, there = lv.TopicPartition(topic, 9), lv.TopicPartition("no-such-topic", 0), lv.TopicPartition(topic, 0)
    with pytest.raises(UnknownTopicOrPartitionError, match=f"describe the producers of {missing}") as failed:
        admin.describe_producers([missing, nowhere, there])
    assert [type(error) for error in failed.value.outcomes.values()] == [UnknownTopicOrPartitionError] * 2 + [type(None)]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda admin: admin.describe_transactions("tx"), TypeError, r"write \['tx'\]"),
        (lambda admin: admin.fence_producers([""]), TypeError, "not empty"),
        (
            lambda admin: admin.list_transactions(states=["Open"]),
            ValueError,
            "'Open' is no state of a transaction; they are Empty",
        ),
        (lambda admin: admin.list_transactions(pattern=5), TypeError, "a pattern is a regular expression"),
        (lambda admin: admin.abort_transaction(5), TypeError, "expected AbortTransactionSpec"),
        (lambda admin: admin.abort_transaction(lv.AbortTransactionSpec(lv.TopicPartition("t", 0), -1, 0)), ValueError, "producer_id"),
        (lambda admin: admin.alter_consumer_group_offsets("g", [1]), TypeError, "offsets are a mapping"),
        (lambda admin: admin.list_consumer_group_offsets(["g"]), TypeError, "not empty, got"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(call: Any, error: type[Exception], text: str) -> None:
    with lv.KafkaAdmin(bootstrap_servers="127.0.0.1:1") as admin, pytest.raises(error, match=text):
        call(admin)


# Offsets of groups


def test_X8_offsets_of_a_group_are_altered_listed_and_deleted(admin: Any, topic: str) -> None:
    group, first, second = f"g-{uuid4().hex}", lv.TopicPartition(topic, 0), lv.TopicPartition(topic, 1)
    assert admin.list_consumer_group_offsets(group) == {}
    assert admin.list_consumer_group_offsets(group, [first]) == {first: None}
    with pytest.raises(GroupError) as unknown:
        admin.delete_consumer_group_offsets(group, [first])
    assert unknown.value.outcomes == {first: unknown.value}

    admin.alter_consumer_group_offsets(group, {first: 5, second: lv.OffsetAndMetadata(6, 2, "mine")})
    wanted = {first: lv.OffsetAndMetadata(5), second: lv.OffsetAndMetadata(6, 2, "mine")}
    assert admin.list_consumer_group_offsets(group) == wanted
    assert admin.list_consumer_group_offsets(group, [second], require_stable=True) == {second: wanted[second]}

    missing = lv.TopicPartition(topic, 9)
    with pytest.raises(UnknownTopicOrPartitionError) as failed:
        admin.alter_consumer_group_offsets(group, {missing: 1, first: 7})
    assert failed.value.outcomes == {missing: failed.value, first: None}
    with pytest.raises(UnknownTopicOrPartitionError, match=f"delete the offset of group '{group}' for {missing}") as failed:
        admin.delete_consumer_group_offsets(group, [first, missing])
    assert failed.value.outcomes == {first: None, missing: failed.value}
    assert admin.list_consumer_group_offsets(group) == {second: wanted[second]}


@pytest.fixture
def unstable(kafka: Any, admin: Any, topic: str) -> Iterator[Unstable]:
    group, tp = f"g-{uuid4().hex}", lv.TopicPartition(topic, 0)
    admin.alter_consumer_group_offsets(group, {tp: 3})
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=group) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_offsets_to_transaction({tp: lv.OffsetAndMetadata(5, -1, "mine")}, group)
        yield Unstable(group, tp, producer)


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
def test_stable_offsets_of_a_group_are_not_told_while_a_transaction_may_change_them(admin: Any, unstable: Unstable, commits: bool) -> None:
    group, tp, producer = unstable
    before, after = {tp: lv.OffsetAndMetadata(3)}, {tp: lv.OffsetAndMetadata(5, -1, "mine")}
    assert admin.list_consumer_group_offsets(group) == before
    for asked in (group, {group: [tp]}):
        with pytest.raises(TimeoutError, match=f"committed offsets not found in time .*'{group}': {tp}: .*UNSTABLE_OFFSET_COMMIT"):
            admin.list_consumer_group_offsets(asked, require_stable=True, timeout=1)
    producer.commit_transaction() if commits else producer.abort_transaction()
    # The coordinator answers the producer before it has told the group.
    assert admin.list_consumer_group_offsets(group, require_stable=True) == (after if commits else before)


def test_a_group_without_stable_offsets_does_not_hide_the_offsets_of_others(admin: Any, unstable: Unstable) -> None:
    other = f"g-{uuid4().hex}"
    admin.alter_consumer_group_offsets(other, {unstable.partition: 7})
    wanted = {unstable.group: None, other: None}
    found = admin.outcomes(admin.list_consumer_group_offsets, wanted, require_stable=True, timeout=1)
    assert isinstance(found[unstable.group], TimeoutError)
    assert "UNSTABLE_OFFSET_COMMIT" in str(found[unstable.group])
    assert found[other] == {unstable.partition: lv.OffsetAndMetadata(7)}


def test_partitions_without_any_offset_yet_have_to_be_named_to_be_waited_for(admin: Any, unstable: Unstable, topic: str) -> None:
    """What a coordinator tells without names is what was committed, so it leaves a first offset out although it may come."""
    group, _, producer = unstable
    first = lv.TopicPartition(topic, 1)
    producer.send_offsets_to_transaction({first: 1}, other := f"{group}-other")
    assert admin.list_consumer_group_offsets(other, require_stable=True) == {}
    with pytest.raises(TimeoutError, match="UNSTABLE_OFFSET_COMMIT"):
        admin.list_consumer_group_offsets(other, [first], require_stable=True, timeout=1)
    producer.commit_transaction()
    assert admin.list_consumer_group_offsets(other, [first], require_stable=True) == {first: lv.OffsetAndMetadata(1)}


def test_a_reader_of_stable_offsets_waits_until_the_group_has_those_of_a_transaction() -> None:
    tp = lv.TopicPartition("t", 0)
    with (
        EmbeddedKafka() as kafka,
        lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id="tx") as producer,
        lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin,
        ThreadPoolExecutor(1) as pool,
    ):
        kafka.create_topic("t")
        with producer.transaction():
            producer.send_offsets_to_transaction({tp: 5}, "g")
            reading = pool.submit(admin.list_consumer_group_offsets, "g", [tp], require_stable=True)
            eventually(lambda: kafka.faults.requests["OffsetFetch"], lambda asked: asked >= 2)
            assert not reading.done()
        assert reading.result(PATIENCE_S) == {tp: lv.OffsetAndMetadata(5)}


# What only a broker with faults shows


def test_X2_coordinators_and_leaders_that_moved_are_looked_for_again(kafka: Any, admin: Any, topic: str) -> None:
    if not isinstance(kafka, SimulatedKafka):
        pytest.skip("faults are those of the embedded broker")
    one, faults, first = begin(admin, topic), kafka.node.faults, lv.TopicPartition(topic, 0)
    admin.alter_consumer_group_offsets("g", {first: 5})
    calls: dict[str, Callable[[], Any]] = {
        "DescribeTransactions": lambda: admin.describe_transactions([one.id]),
        "OffsetFetch": lambda: admin.list_consumer_group_offsets("g"),
        "OffsetCommit": lambda: admin.alter_consumer_group_offsets("g", {first: 6}),
        "OffsetDelete": lambda: admin.delete_consumer_group_offsets("g", [first]),
        "InitProducerId": lambda: admin.fence_producers([one.id]),
    }
    for api, call in calls.items():
        searches = faults.requests["FindCoordinator"]
        faults.fail_next(api, ErrorCode.NOT_COORDINATOR)
        faults.disconnect(api, nth=1, applied=False)
        call()
        assert faults.requests["FindCoordinator"] > searches, api
    faults.fail_next("DescribeProducers", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2)
    assert admin.describe_producers([first]) == {first: ()}
    assert admin.list_consumer_group_offsets("g") == {}


class Expected(NamedTuple):
    """What a call does about error codes of its API: those that it tries again, all others are raised."""

    call: Callable[[Any, lv.TopicPartition], Any]
    tried_again: set[ErrorCode]


OF_COORDINATORS = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
OF_TRANSACTIONS = {*OF_COORDINATORS, ErrorCode.CONCURRENT_TRANSACTIONS}
OF_LEADERS = {
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
}
CALLS = {
    "DescribeTransactions": Expected(lambda admin, tp: admin.describe_transactions(["tx"]), OF_TRANSACTIONS),
    "ListTransactions": Expected(lambda admin, tp: admin.list_transactions(), OF_TRANSACTIONS),
    "InitProducerId": Expected(lambda admin, tp: admin.fence_producers(["tx"]), OF_TRANSACTIONS),
    "DescribeProducers": Expected(lambda admin, tp: admin.describe_producers([tp]), OF_LEADERS),
    "WriteTxnMarkers": Expected(lambda admin, tp: admin.abort_transaction(lv.AbortTransactionSpec(tp, 5, 0)), OF_LEADERS),
    "OffsetDelete": Expected(lambda admin, tp: admin.delete_consumer_group_offsets("g", [tp]), OF_COORDINATORS),
    "OffsetCommit": Expected(
        lambda admin, tp: admin.alter_consumer_group_offsets("g", {tp: 1}),
        {*OF_COORDINATORS, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_TOPIC_ID},
    ),
}


@pytest.mark.parametrize("api", CALLS)
def test_M_B7_every_code_of_an_administrators_calls(api: str) -> None:
    call, tried_again = CALLS[api]
    with Simulation(seed=1) as simulation:
        kafka, tp = SimulatedKafka(simulation), lv.TopicPartition("t", 0)
        kafka.create_topic("t", 1)
        admin = simulation.admin(bootstrap_servers=kafka.bootstrap_servers)
        admin.fence_producers(["tx"])
        admin.alter_consumer_group_offsets("g", {tp: 1})
        for code in ErrorCode:
            if code is ErrorCode.NONE:
                continue
            kafka.node.faults.fail_next(api, code)
            if code in tried_again:
                call(admin, tp)
                continue
            with pytest.raises(BrokerError) as failed:
                call(admin, tp)
            assert failed.value.code is code


def test_X1_retries_bounds_how_often_a_call_is_tried_again() -> None:
    with Simulation(seed=1) as simulation:
        kafka = SimulatedKafka(simulation)
        admin = simulation.admin(bootstrap_servers=kafka.bootstrap_servers, retries=2)
        admin.fence_producers(["tx"])
        kafka.node.faults.fail_next("DescribeTransactions", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=3)
        with pytest.raises(BrokerError) as failed:
            admin.describe_transactions(["tx"])
        assert failed.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert kafka.node.faults.requests["DescribeTransactions"] == 3


def test_X1_retries_are_those_of_each_partition_not_of_all_together() -> None:
    with Simulation(seed=1) as simulation:
        kafka = SimulatedKafka(simulation)
        kafka.create_topic("t", 6)
        admin = simulation.admin(bootstrap_servers=kafka.bootstrap_servers, retries=2)
        partitions = [lv.TopicPartition("t", number) for number in range(6)]
        faults = kafka.node.faults
        faults.fail_next("DescribeProducers", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2)
        assert admin.describe_producers(partitions) == dict.fromkeys(partitions, ())
        faults.disconnect("DescribeProducers", nth=1, applied=False)
        assert admin.describe_producers(partitions) == dict.fromkeys(partitions, ())
        for _ in range(3):
            faults.disconnect("DescribeProducers", applied=False)
        with pytest.raises(DisconnectError) as failed:
            admin.describe_producers(partitions)
        assert failed.value.outcomes == dict.fromkeys(partitions, failed.value)


def test_X5_all_leaders_are_asked_at_once() -> None:
    with EmbeddedKafka(brokers=3) as kafka, lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        kafka.create_topic("t", 6)
        partitions = [lv.TopicPartition("t", number) for number in range(6)]
        hold = kafka.faults.hold("DescribeProducers", times=3)
        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(admin.describe_producers, partitions)
            try:
                assert eventually(lambda: kafka.faults.requests["DescribeProducers"], lambda asked: asked == 3) == 3
            finally:
                hold.release()
            assert asking.result(PATIENCE_S) == dict.fromkeys(partitions, ())


@pytest.fixture
def world() -> Iterator[World]:
    """Three nodes, of which each coordinates three of nine transactional ids."""
    with Simulation(seed=1) as simulation:
        world = World(simulation, nodes=3)
        for number, name in enumerate(NINE):
            world.cluster.transaction_coordinators.move(name, number % 3 + 1)
        with simulation.admin(bootstrap_servers="b1:9092") as admin:
            admin.fence_producers(NINE)
        yield world


def test_ids_of_one_coordinator_are_described_in_one_request(world: World) -> None:
    with world.simulation.admin(bootstrap_servers="b1:9092") as admin:
        looked_up = world.requests("FindCoordinator")
        described = admin.describe_transactions(NINE)
        assert [described[name].coordinator_id for name in NINE] == [1, 2, 3] * 3
        assert [node.faults.requests["DescribeTransactions"] for node in world.nodes] == [1, 1, 1]
        assert world.requests("FindCoordinator") - looked_up == 1

        world.cluster.transaction_coordinators.move(NINE[0], 2)
        assert admin.describe_transactions(NINE)[NINE[0]].coordinator_id == 2
        # The first node refuses one of its ids; of the others it is not asked again.
        assert [node.faults.requests["DescribeTransactions"] for node in world.nodes] == [2, 3, 2]
        assert world.requests("FindCoordinator") - looked_up == 2


def test_ids_are_described_by_the_coordinators_that_can(world: World) -> None:
    with world.simulation.admin(bootstrap_servers="b1:9092") as admin:
        world.nodes[0].faults.cap_version("DescribeTransactions", -1)
        world.nodes[1].faults.blackhole("DescribeTransactions")
        found = admin.outcomes(admin.describe_transactions, [*NINE, "nobody-knows"], timeout=5)
        assert [type(found[name]) for name in NINE] == [UnsupportedVersionError, TimeoutError, lv.TransactionDescription] * 3
        assert isinstance(found["nobody-knows"], BrokerError | TimeoutError)


def test_what_a_coordinator_that_is_down_knows_does_not_hide_the_others(world: World) -> None:
    with world.simulation.admin(bootstrap_servers="b1:9092", request_timeout_ms=2000) as admin:
        admin.describe_transactions(NINE)
        world.network.stop("b2", 9092)
        found = admin.outcomes(admin.describe_transactions, NINE, timeout=5)
        assert [type(found[name]) for name in NINE] == [lv.TransactionDescription, TimeoutError, lv.TransactionDescription] * 3


def test_coordinators_before_kafka_3_are_looked_for_one_by_one(world: World) -> None:
    for node in world.nodes:
        node.faults.cap_version("FindCoordinator", 3)
    with world.simulation.admin(bootstrap_servers="b1:9092") as admin:
        looked_up = world.requests("FindCoordinator")
        assert admin.describe_transactions(NINE).keys() == set(NINE)
        assert world.requests("FindCoordinator") - looked_up == len(NINE)


@pytest.mark.parametrize("call", ["describe_transactions", "fence_producers"])
def test_X5_an_id_whose_look_up_is_refused_is_named_and_the_others_are_done(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find = find_coordinator._find

    def refuse_one(request: Any, key: str) -> Any:
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return find_coordinator._no_coordinator(key, code) if key == "secret" else find(request, key)

    monkeypatch.setattr(find_coordinator, "_find", refuse_one)
    with Simulation(seed=1) as simulation:
        kafka = SimulatedKafka(simulation)
        admin = simulation.admin(bootstrap_servers=kafka.bootstrap_servers)
        admin.fence_producers(["a", "b"])
        before = kafka.node.faults.requests["InitProducerId"]
        with pytest.raises(BrokerError, match="coordinator of transaction 'secret'") as failed:
            getattr(admin, call)(["secret", "a", "b"])
        assert failed.value.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert failed.value.outcomes == {"secret": failed.value, "a": None, "b": None}
        assert kafka.node.faults.requests["InitProducerId"] - before == (2 if call == "fence_producers" else 0)
