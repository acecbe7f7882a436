"""What a test can ask of the embedded broker: held answers, blackholes, coordinators that move and load, what is forgotten."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from broker_kit import Bench, Client, fetch_request, make_batch, produce_request
from levada.error_codes import ErrorCode
from levada.errors import ConfigError, IllegalStateError
from levada.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from levada.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.metadata import MetadataRequest
from levada.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from levada.protocol.schema import Request
from levada.testing import EmbeddedKafka
from transaction_kit import TransactionalProducer, read
from wire import Wire

PATIENCE_S = 10


# What is asked for


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, "NOT_COORDINATOR", 16])
def test_E12_an_error_code_is_named_by_itself_its_name_or_its_number(bench: Bench, client: Client, code: ErrorCode | str | int) -> None:
    bench.node.faults.fail_next("Produce", code)
    assert client.produce("t", make_batch(b"a")).error_code == ErrorCode.NOT_COORDINATOR
    bench.node.faults.fail_next("Produce", code, topic="t")
    assert client.produce("t", make_batch(b"a")).error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("NOT_CORDINATOR", "did you mean 'NOT_COORDINATOR'"),
        ("not_coordinator", "did you mean 'NOT_COORDINATOR'"),
        (4711, "expected an ErrorCode, its name or its number, -1 to 136"),
        (True, "expected an ErrorCode"),
        (None, "expected an ErrorCode"),
    ],
)
def test_E12_what_is_no_error_code_is_refused_at_the_call(bench: Bench, client: Client, code: Any, said: str) -> None:
    for topic in (None, "t"):
        with pytest.raises(ValueError, match=said):
            bench.node.faults.fail_next("Produce", code, topic=topic)
    assert client.produce("t", make_batch(b"a")).error_code == ErrorCode.NONE


def test_E12_requests_are_counted_by_names_that_exist(bench: Bench, client: Client) -> None:
    counts = bench.node.faults.requests
    assert (counts["Produce"], counts["EndTxn"]) == (0, 0)
    client.produce("t", make_batch(b"a"))
    assert counts["Produce"] == 1
    assert dict(counts)["EndTxn"] == 0
    assert "'Produce': 1" in repr(counts)
    assert "EndTxn" not in repr(counts)
    with pytest.raises(ConfigError, match="no API 'InitProducerID'; did you mean 'InitProducerId'"):
        counts["InitProducerID"]
    with pytest.raises(ConfigError, match="no API 'Vote'; it serves AddOffsetsToTxn, "):
        counts["Vote"]
    assert ("Produce" in counts, "Vote" in counts) == (True, False)
    assert (counts.get("Produce"), counts.get("Vote"), counts.get("Vote", 0)) == (1, None, 0)


def test_E12_help_knows_the_faults_of_an_embedded_broker() -> None:
    assert "fail_next" in (EmbeddedKafka.faults.__doc__ or "")


# Held answers


def test_E12_a_held_answer_is_sent_when_it_is_released_and_what_was_asked_is_done_before(bench: Bench, client: Client) -> None:
    hold = bench.node.faults.hold("Produce", times=2)
    other = bench.client()
    for one in (client, other):
        one.send(produce_request("t", make_batch(b"a")), 9)
    assert (hold.waiting, bench.node.log("t").end_offset) == (2, 2)
    assert client.answers() == other.answers() == []
    assert bench.client().produce("t", make_batch(b"not held")).error_code == 0

    hold.release()
    bench.advance()
    assert hold.waiting == 0
    assert [one.answers()[0].responses[0].partition_responses[0].base_offset for one in (client, other)] == [0, 1]


def test_E12_a_released_hold_keeps_nothing_back(bench: Bench, client: Client) -> None:
    hold = bench.node.faults.hold("Metadata", times=2)
    hold.release()
    assert client.ask(MetadataRequest(topics=None), 9).brokers


def test_E12_a_held_answer_whose_client_has_left_is_dropped(bench: Bench, client: Client) -> None:
    hold = bench.node.faults.hold("Metadata")
    client.send(MetadataRequest(topics=None), 9)
    bench.node.disconnect(client.id)
    hold.release()
    bench.advance()
    assert client.answers() == []


def test_E12_held_markers_keep_a_transaction_in_its_last_step(bench: Bench, client: Client) -> None:
    producer = TransactionalProducer(client)
    producer.init()
    producer.write(b"a")
    hold = bench.node.faults.hold("WriteTxnMarkers")
    assert producer.commit() == ErrorCode.NONE
    bench.advance(60_000)
    assert (hold.waiting, producer.described().transaction_state) == (1, "PrepareCommit")
    hold.release()
    bench.advance()
    assert producer.described().transaction_state == "CompleteCommit"


@pytest.mark.parametrize("api", ["AddPartitionsToTxn", "WriteTxnMarkers", "DescribeProducers"])
def test_E12_one_partition_of_a_request_about_transactions_fails(client: Client, api: str) -> None:
    client.bench.node.faults.fail_next(api, ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic="t", partition=1)
    requests: dict[str, tuple[Request, int]] = {
        "AddPartitionsToTxn": (AddPartitionsToTxnRequest(v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0, 1])]), 3),
        "WriteTxnMarkers": (
            WriteTxnMarkersRequest(markers=[WritableTxnMarker(topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0, 1])])]),
            1,
        ),
        "DescribeProducers": (DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, 1])]), 0),
    }
    told = repr(client.ask(*requests[api]))
    assert told.count("error_code=29") == 1
    assert ("error_code=55" in told) is (api == "AddPartitionsToTxn")


def test_E12_a_fault_of_one_partition_that_would_never_happen_is_refused(bench: Bench) -> None:
    with pytest.raises(ValueError, match="NONE is no error"):
        bench.node.faults.fail_next("EndTxn", "NONE")
    with pytest.raises(ConfigError, match="one partition of EndTxn cannot fail; leave out topic="):
        bench.node.faults.fail_next("EndTxn", ErrorCode.NOT_COORDINATOR, topic="t")
    with pytest.raises(ConfigError, match="one partition of Produce cannot be carried out and fail"):
        bench.node.faults.fail_next("Produce", ErrorCode.REQUEST_TIMED_OUT, topic="t", applied=True)


# Blackholes


def test_E12_a_blackhole_takes_requests_and_does_nothing_until_it_is_cleared(bench: Bench, client: Client) -> None:
    bench.node.faults.blackhole("Produce")
    client.send(produce_request("t", make_batch(b"a")), 9)
    assert bench.client().ask(MetadataRequest(topics=None), 9).brokers
    bench.node.faults.clear()
    bench.advance(60_000)
    assert client.answers() == []
    assert bench.node.log("t").end_offset == 0
    assert bench.client().produce("t", make_batch(b"a")).error_code == 0


def test_E12_a_blackhole_may_be_one_node(bench: Bench, client: Client) -> None:
    bench.node.faults.blackhole(node=2)
    assert client.ask(MetadataRequest(topics=None), 9).brokers
    bench.node.faults.blackhole(node=1)
    client.send(MetadataRequest(topics=None), 9)
    client.send(fetch_request("t"), 12)
    assert client.answers() == []


# EmbeddedKafka


@pytest.fixture
def three() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=3) as kafka:
        kafka.create_topic("t", 3)
        yield kafka


def addresses(kafka: EmbeddedKafka) -> list[str]:
    return kafka.bootstrap_servers.split(",")


def coordinator_of(wire: Wire, kind: int, key: str) -> int:
    node: int = wire.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 4).coordinators[0].node_id
    return node


def producer_on(wire: Wire, transactional_id: str = "tx") -> TransactionalProducer:
    client: Any = wire
    return TransactionalProducer(client, transactional_id)


def test_E12_several_brokers_share_topics_and_spread_leaders(three: EmbeddedKafka) -> None:
    for address in addresses(three):
        with closing(Wire(address)) as wire:
            answer = wire.ask(MetadataRequest(topics=None), 9)
            assert sorted(f"{broker.host}:{broker.port}" for broker in answer.brokers) == sorted(addresses(three))
            assert [partition.leader_id for partition in answer.topics[0].partitions] == [1, 2, 3]


@pytest.mark.parametrize(("kind", "named"), [(0, "group"), (1, "transactional_id")])
def test_E12_a_coordinator_moves_to_another_node(three: EmbeddedKafka, kind: int, named: str) -> None:
    keys: dict[str, Any] = {named: "tx"}
    with closing(Wire(addresses(three)[0])) as wire:
        for node in (2, 3, 1):
            three.move_coordinator(**keys, node=node)
            assert coordinator_of(wire, kind, "tx") == node


def test_E12_a_transaction_goes_on_at_its_new_coordinator(three: EmbeddedKafka) -> None:
    with closing(Wire(addresses(three)[0])) as first, closing(Wire(addresses(three)[2])) as third:
        three.move_coordinator(transactional_id="tx", node=1)
        producer = producer_on(first)
        producer.init()
        assert producer.write(b"a") == ErrorCode.NONE
        three.move_coordinator(transactional_id="tx", node=3)
        assert producer.commit() == ErrorCode.NOT_COORDINATOR
        producer.client = third  # type: ignore[assignment]
        with three.loading_coordinator(transactional_id="tx"):
            assert producer.commit() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert producer.commit() == ErrorCode.NONE


def test_T18_a_reader_at_one_node_is_answered_when_the_coordinator_at_another_ends_a_transaction(three: EmbeddedKafka) -> None:
    three.move_coordinator(transactional_id="tx", node=2)
    three.elect_leader("t", 0, node=1)
    found: list[Any] = []

    def wait() -> None:
        with closing(Wire(addresses(three)[0])) as reader:
            client: Any = reader
            found.append(read(client, max_wait_ms=PATIENCE_S * 1000))

    with closing(Wire(addresses(three)[0])) as leader, closing(Wire(addresses(three)[1])) as coordinator:
        producer = producer_on(coordinator)
        producer.init()
        producer.client = leader  # type: ignore[assignment]
        assert producer.write(b"a") == ErrorCode.NONE
        waiting = threading.Thread(target=wait)
        waiting.start()
        while three.faults.requests["Fetch"] < 1:
            time.sleep(0.001)
        producer.client = coordinator  # type: ignore[assignment]
        assert producer.commit() == ErrorCode.NONE
        waiting.join(PATIENCE_S / 2)
        assert not waiting.is_alive()
    assert found[0].last_stable_offset == 2


def test_E12_a_leader_moves_to_another_node(three: EmbeddedKafka) -> None:
    with closing(Wire(addresses(three)[1])) as wire:
        request = produce_request("t", make_batch(b"a"))
        assert wire.ask(request, 9).responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        three.elect_leader("t", 0, node=2)
        assert wire.ask(request, 9).responses[0].partition_responses[0].error_code == 0


def test_E12_a_hold_is_released_from_another_thread(three: EmbeddedKafka) -> None:
    hold = three.faults.hold("Metadata")
    threading.Timer(0.01, hold.release).start()
    with closing(Wire(addresses(three)[1])) as wire:
        assert wire.ask(MetadataRequest(topics=None), 9).brokers


def test_T17_a_transaction_can_be_timed_out_and_an_id_expired(three: EmbeddedKafka) -> None:
    three.move_coordinator(transactional_id="tx", node=1)
    with closing(Wire(addresses(three)[0])) as wire:
        producer = producer_on(wire)
        with pytest.raises(IllegalStateError, match="no producer has initialised transactional id 'tx'"):
            three.time_out_transaction("tx")
        producer.init()
        producer.write(b"a")
        with pytest.raises(IllegalStateError, match="in the state 'Ongoing' has no transition for 'expire the id'"):
            three.expire_transactional_id("tx")
        three.time_out_transaction("tx")
        assert producer.described().transaction_state == "CompleteAbort"
        with pytest.raises(IllegalStateError, match="in the state 'CompleteAbort' has no transition for 'fence"):
            three.time_out_transaction("tx")
        three.expire_transactional_id("tx")
        assert producer.described().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_I17_a_partition_can_forget_its_producers(three: EmbeddedKafka) -> None:
    with closing(Wire(addresses(three)[0])) as wire:
        again = produce_request("t", make_batch(b"a", producer=(70, 0, 0)))
        assert [wire.ask(again, 9).responses[0].partition_responses[0].base_offset for _ in range(2)] == [0, 0]
        three.forget_producers("t")
        assert wire.ask(again, 9).responses[0].partition_responses[0].base_offset == 1


def test_what_cannot_be_asked_of_an_embedded_kafka(three: EmbeddedKafka) -> None:
    with pytest.raises(ConfigError, match="there is no node 4; this EmbeddedKafka has 1, 2, 3"):
        three.move_coordinator(group="g", node=4)
    with pytest.raises(ConfigError, match="there is no node 4; this EmbeddedKafka has 1, 2, 3"):
        three.elect_leader("t", node=4)
    for keys in ({}, {"group": "g", "transactional_id": "tx"}):
        with pytest.raises(ConfigError, match="either a transactional_id or a group"):
            three.move_coordinator(node=1, **keys)
    with pytest.raises(ConfigError, match="brokers must be at least 1, not 0"):
        EmbeddedKafka(brokers=0)
