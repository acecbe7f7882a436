"""Telemetry (KIP-714) in virtual time: what a client asks, pushes and leaves out, whatever the broker answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

import levada as lv
from levada.broker.node.node import BrokerNode
from levada.error_codes import ErrorCode
from levada.errors import BootstrapError, ClosedError, IllegalStateError
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse
from levada.protocol.schema import Request
from levada.testing import Simulation
from levada.testing.pushed_metrics import PushedMetrics
from levada.testing.simulation import EPOCH_MS
from sim_kit import HOST, PORT, SPOKEN, Handler, server, versions_reply
from sim_kit import broker as add_broker

SERVERS = f"{HOST}:{PORT}"
INTERVAL_MS = 60_000
FIRST_PUSH_MS = INTERVAL_MS * 3 // 2
PRODUCER = "org.apache.kafka.producer."
SENT = f"{PRODUCER}record.send.total"


class World:
    """A broker that wants metrics, and clients in one simulation."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.node = add_broker(sim, wall_offset_ms=EPOCH_MS, client_telemetry=True)
        self.node.create_topic("t", 1)
        self.want("")

    def want(self, *metrics: str, delta: bool = True, interval_ms: int = INTERVAL_MS) -> None:
        self.node.cluster.telemetry.subscribe(metrics, interval_ms, delta=delta)

    def producer(self, **settings: Any) -> lv.KafkaProducer[Any, Any]:
        return self.sim.producer({"bootstrap.servers": SERVERS, "enable.metrics.push": True, "linger.ms": 0, **settings})

    @property
    def pushed(self) -> list[PushedMetrics]:
        return [PushedMetrics.of(push) for push in self.node.cluster.telemetry.pushed]

    def asked(self, api: str) -> int:
        return self.node.faults.requests[api]


@pytest.fixture
def world() -> Iterator[World]:
    with Simulation(seed=714) as sim:
        yield World(sim)


def test_nothing_is_asked_or_pushed_unless_it_is_switched_on(world: World) -> None:
    with world.sim.producer(bootstrap_servers=SERVERS) as producer:
        producer.send("t", b"v").result()
        world.sim.advance(10 * INTERVAL_MS)
        with pytest.raises(IllegalStateError, match=r"enable\.metrics\.push=true"):
            producer.client_instance_id(timeout=1)
    assert (world.asked("GetTelemetrySubscriptions"), world.pushed) == (0, [])


def test_deltas_are_pushed_in_each_interval_and_once_at_the_end(world: World) -> None:
    with world.producer(client_id="p") as producer:
        instance_id = producer.client_instance_id(timeout=5)
        producer.send_many("t", [b"1", b"2", b"3"])
        world.sim.advance(FIRST_PUSH_MS)
        (first,) = world.pushed
        producer.send("t", b"4").result()
        world.sim.advance(INTERVAL_MS)
        producer.send_many("t", [b"5", b"6"])
    pushed = world.pushed
    assert [push.value(SENT) for push in pushed] == [3, 1, 2]
    assert [push.terminating for push in pushed] == [False, False, True]
    assert {(push.client_instance_id, push.client_id, push.codec, push.is_delta) for push in pushed} == {(instance_id, "p", "zstd", True)}
    times = [push.payload.time_ms for push in pushed]
    assert [push.point(SENT).start_ms for push in pushed[1:]] == times[:2]
    assert times[1] - times[0] == pytest.approx(INTERVAL_MS, abs=10)
    assert first.value(f"{PRODUCER}topic.record.send.total", topic="t") == 3
    assert first.value(f"{PRODUCER}node.request.total", node_id="node-1") >= 1
    assert world.asked("GetTelemetrySubscriptions") == 1


def test_totals_can_be_wanted_since_the_beginning(world: World) -> None:
    world.want(SENT, delta=False)
    with world.producer() as producer:
        producer.send_many("t", [b"1", b"2", b"3"])
        world.sim.advance(FIRST_PUSH_MS)
        producer.send("t", b"4").result()
    assert [push.value(SENT) for push in world.pushed] == [3, 4]
    assert {push.is_delta for push in world.pushed} == {False}
    assert len({push.point(SENT).start_ms for push in world.pushed}) == 1
    assert {name for push in world.pushed for name in push.names} == {SENT}


def test_a_fleet_does_not_push_all_at_once(world: World) -> None:
    producers = [world.producer() for _ in range(8)]
    world.sim.advance(FIRST_PUSH_MS)
    times = sorted(push.payload.time_ms for push in world.pushed)
    assert len(times) == len(producers)
    assert times[-1] - times[0] > INTERVAL_MS / 3
    for producer in producers:
        producer.close()


def test_a_broker_that_wants_nothing_is_asked_again_each_interval(world: World) -> None:
    world.want()
    with world.producer():
        world.sim.advance(3 * INTERVAL_MS + 100)
        assert (world.asked("GetTelemetrySubscriptions"), world.pushed) == (4, [])
        world.want(SENT)
        world.sim.advance(INTERVAL_MS + FIRST_PUSH_MS)
        assert len(world.pushed) == 1


def test_a_subscription_that_changes_is_asked_for_at_once_and_no_count_is_lost(world: World) -> None:
    with world.producer() as producer:
        producer.send("t", b"1").result()
        world.sim.advance(FIRST_PUSH_MS)
        world.want(SENT)
        producer.send("t", b"2").result()
        world.sim.advance(INTERVAL_MS + FIRST_PUSH_MS)
        assert world.asked("GetTelemetrySubscriptions") == 2
    assert sum(push.value(SENT) for push in world.pushed) == 2


@pytest.mark.parametrize(
    ("code", "subscriptions", "pushes"),
    [
        (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, 2, 2),
        (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, 2, 2),
        (ErrorCode.TELEMETRY_TOO_LARGE, 2, 2),
        (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 2, 2),
        (ErrorCode.UNKNOWN_SERVER_ERROR, 2, 2),
        (ErrorCode.INVALID_RECORD, 1, 1),
        (ErrorCode.INVALID_REQUEST, 1, 1),
        (ErrorCode.UNSUPPORTED_VERSION, 1, 1),
    ],
)
def test_what_is_done_about_a_refused_push(world: World, code: ErrorCode, subscriptions: int, pushes: int) -> None:
    with world.producer() as producer:
        producer.send("t", b"v").result()
        world.node.faults.fail_next("PushTelemetry", code)
        world.sim.advance(FIRST_PUSH_MS + INTERVAL_MS + FIRST_PUSH_MS)
        assert world.asked("GetTelemetrySubscriptions") == subscriptions
        assert world.asked("PushTelemetry") >= pushes
        assert len(world.pushed) == world.asked("PushTelemetry") - 1
        if world.pushed:
            assert world.pushed[0].value(SENT) == 1
            assert (world.pushed[0].codec == "lz4") == (code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


def test_a_lost_answer_counts_nothing_twice_and_another_try_is_made(world: World) -> None:
    with world.producer() as producer:
        producer.send("t", b"v").result()
        world.node.faults.drop_response("PushTelemetry")
        world.sim.advance(FIRST_PUSH_MS + 30_000 + INTERVAL_MS + FIRST_PUSH_MS)
        assert len(world.pushed) >= 2
        assert sum(push.value(SENT) for push in world.pushed) == 1


def test_what_is_too_large_is_pushed_without_topics_and_nodes(world: World) -> None:
    world.node.cluster.telemetry.max_bytes = 1_000
    for number in range(40):
        world.node.create_topic(f"topic-{number}", 1)
    with world.producer() as producer:
        for number in range(40):
            producer.send(f"topic-{number}", b"v").result()
        world.sim.advance(FIRST_PUSH_MS)
    assert len(world.pushed) == 2
    assert all(not point.attributes for push in world.pushed for point in push.payload.points)
    assert world.pushed[0].value(SENT) == 40


@pytest.mark.parametrize("kind", ["producer", "consumer", "admin", "client"])
def test_K25_every_kind_of_client_pushes_and_has_an_id(world: World, kind: str) -> None:
    make: dict[str, Callable[..., Any]] = {
        "producer": world.sim.producer,
        "consumer": world.sim.consumer,
        "admin": world.sim.admin,
        "client": world.sim.client,
    }
    label = {"producer": {"transactional_id": "tx"}, "consumer": {"group_id": "g", "client_rack": "r"}}.get(kind, {})
    with make[kind](bootstrap_servers=SERVERS, enable_metrics_push=True, **label) as client:
        instance_id = client.client_instance_id(timeout=5)
        assert client.client_instance_id(timeout=0) == instance_id
    (last,) = world.pushed
    assert (last.client_instance_id, last.terminating) == (instance_id, True)
    assert dict(last.payload.resource) == label
    prefix = "org.apache.kafka." + {"admin": "admin.client"}.get(kind, kind)
    assert last.value(f"{prefix}.connection.creation.total") >= 1
    assert all(name.startswith(f"{prefix}.") for name in last.names)


def test_the_end_waits_for_a_second_at_most_for_the_last_push(world: World) -> None:
    producer = world.producer()
    producer.client_instance_id(timeout=5)
    world.node.faults.hold("PushTelemetry")
    began_ms = world.sim.now_ms
    producer.close()
    assert world.sim.now_ms - began_ms == 1_000
    producer.close()


def test_a_push_that_is_under_way_gives_way_to_the_last_one(world: World) -> None:
    producer = world.producer()
    producer.client_instance_id(timeout=5)
    world.node.faults.delay("PushTelemetry", ms=500)
    while not world.asked("PushTelemetry"):
        world.sim.advance(100)
    producer.close()
    assert world.pushed[-1].terminating


def test_a_client_that_is_closed_at_once_or_by_an_exception_does_not_fail(world: World) -> None:
    world.producer().close()
    assert world.pushed == []
    producer = world.producer()
    producer.client_instance_id(timeout=5)
    with pytest.raises(ZeroDivisionError), producer:
        raise ZeroDivisionError
    assert [push.terminating for push in world.pushed] == [True]
    with pytest.raises(ClosedError):
        producer.client_instance_id(timeout=5)


def test_a_cluster_that_offers_no_telemetry_is_asked_every_five_minutes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "levada")
    with Simulation(seed=1) as sim:
        node = add_broker(sim)
        with sim.producer(bootstrap_servers=SERVERS, enable_metrics_push=True) as producer:
            with pytest.raises(
                lv.errors.TimeoutError, match=r"no broker has given this client an id within 2 s.*GetTelemetrySubscriptions"
            ):
                producer.client_instance_id(timeout=2)
            sim.advance(1_000_000)
            assert node.faults.requests["GetTelemetrySubscriptions"] == 0
            node.cluster.telemetry.subscribe([""], 1_000, delta=True)
    assert caplog.text.count("the cluster offers no telemetry") == 1


def test_without_any_broker_the_error_says_so(world: World) -> None:
    with world.sim.producer(bootstrap_servers="nowhere:9092", enable_metrics_push=True) as producer, pytest.raises(BootstrapError):
        producer.client_instance_id(timeout=2)


def test_another_broker_is_asked_when_the_one_is_lost(world: World) -> None:
    other = BrokerNode(
        node_id=2,
        host="other",
        port=PORT,
        random=world.sim.random,
        cluster=world.node.cluster,
        faults=world.node.faults,
        client_telemetry=True,
    )
    world.sim.network.add_server(other, "other", PORT)
    with world.producer() as producer:
        instance_id = producer.client_instance_id(timeout=5)
        producer.partitions_for("t")
        world.sim.advance(FIRST_PUSH_MS)
        for _ in range(2):
            world.node.faults.disconnect("PushTelemetry")
            world.sim.advance(INTERVAL_MS + FIRST_PUSH_MS)
        assert {push.client_instance_id for push in world.pushed} == {instance_id}
        assert len(world.pushed) >= 3


def test_deltas_begin_anew_when_they_are_wanted_instead_of_totals(world: World) -> None:
    world.want(SENT, delta=False)
    with world.producer() as producer:
        producer.send("t", b"1").result()
        world.sim.advance(FIRST_PUSH_MS)
        world.want(SENT, delta=True)
        producer.send("t", b"2").result()
        world.sim.advance(INTERVAL_MS + FIRST_PUSH_MS)
        producer.send("t", b"3").result()
    assert [(push.is_delta, push.value(SENT)) for push in world.pushed[:2]] == [(False, 1), (True, 2)]
    assert sum(push.value(SENT) for push in world.pushed if push.is_delta) == 3


def test_a_broker_that_names_no_id_leaves_it_to_the_client() -> None:
    telemetry = GetTelemetrySubscriptionsRequest.API_KEY
    answers: dict[type[Request], Handler] = {
        ApiVersionsRequest: lambda frame: versions_reply({**SPOKEN, telemetry: (0, 0)}),
        GetTelemetrySubscriptionsRequest: lambda frame: GetTelemetrySubscriptionsResponse(push_interval_ms=1_000),
    }
    with Simulation(seed=2) as sim:
        asked = server(sim, answers).asked
        with sim.admin(bootstrap_servers=SERVERS, enable_metrics_push=True) as admin:
            instance_id = admin.client_instance_id(timeout=5)
            sim.advance(1_100)
    told = [frame.request.client_instance_id for frame in asked if isinstance(frame.request, GetTelemetrySubscriptionsRequest)]
    assert told == [UUID(int=0), instance_id]
    assert instance_id.version == 4


def test_a_bug_in_what_is_pushed_ends_telemetry_and_nothing_else(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with world.producer() as producer:
        producer.client_instance_id(timeout=5)
        monkeypatch.setattr("levada.api.reporting.read_metrics", lambda *arguments: 1 / 0)
        world.sim.advance(10 * INTERVAL_MS)
        assert producer.send("t", b"v").result().offset == 0
    assert world.asked("PushTelemetry") == 0
    assert caplog.text.count("telemetry stops because of a bug in levada") == 1
    assert "ZeroDivisionError" in caplog.text
