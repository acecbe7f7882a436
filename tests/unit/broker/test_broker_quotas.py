"""Quotas of clients: who has which, how use is measured, and for how long clients are muted (KIP-13, KIP-219, KIP-546, KIP-599)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from broker_kit import Bench, Client, fetch_request, make_batch, produce_request
from levada.broker.config.settings import BrokerSettings
from levada.broker.disk.data_dir import DataDir
from levada.broker.quotas.client_quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    ClientQuotas,
    Entity,
)
from levada.broker.quotas.meters import LONGEST_MS, SampledRate, TokenBucket
from levada.broker.quotas.throttles import IDLE_MS, QuotaClient, Throttles
from levada.error_codes import ErrorCode
from levada.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from levada.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from levada.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from levada.protocol.messages.metadata import MetadataRequest

USER, CLIENT_ID, IP = "user", "client-id", "ip"
EXACT, DEFAULT, ANY = range(3)
ALL: dict[str, str | None] = {USER: None}
SAMPLES, SAMPLE_MS = 11, 1000
BIG = 10_000


def entity(**names: str | None) -> Entity:
    return frozenset((kind.replace("_", "-"), name) for kind, name in names.items())


def quotas() -> ClientQuotas:
    return ClientQuotas(None, lambda kept: None)


def altering(names: dict[str, str | None], changes: dict[str, float | None]) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in names.items()],
        ops=[OpData(key=key, value=limit or 0.0, remove=limit is None) for key, limit in changes.items()],
    )


def alter(client: Client, names: dict[str, str | None], **changes: float | None) -> int:
    (answer,) = client.ask(AlterClientQuotasRequest(entries=[altering(names, changes)])).entries
    code: int = answer.error_code
    return code


# Who has which


def test_the_most_specific_entity_decides() -> None:
    most_specific_first = [
        entity(user="u", client_id="c"),
        entity(user="u", client_id=None),
        entity(user="u"),
        entity(user=None, client_id="c"),
        entity(user=None, client_id=None),
        entity(user=None),
        entity(client_id="c"),
        entity(client_id=None),
    ]
    known = quotas()
    assert known.of(PRODUCER_BYTE_RATE, "u", "c") is None
    for limit, one in enumerate(reversed(most_specific_first), 1):
        known.change(one, {PRODUCER_BYTE_RATE: float(limit)})
        found = known.of(PRODUCER_BYTE_RATE, "u", "c")
        assert found is not None
        assert found.limit == limit
    assert known.of(CONSUMER_BYTE_RATE, "u", "c") is None


def test_each_kind_is_decided_for_itself() -> None:
    known = quotas()
    known.change(entity(user="u"), {PRODUCER_BYTE_RATE: 1.0})
    known.change(entity(client_id="c"), {CONSUMER_BYTE_RATE: 2.0})
    found = [known.of(key, "u", "c") for key in (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE)]
    assert [quota and quota.meter for quota in found] == [("u", None), (None, "c")]


def test_quotas_outlive_a_restart(tmp_path: Path) -> None:
    for _ in range(2):
        data_dir = DataDir(tmp_path, BrokerSettings())
        known = ClientQuotas(data_dir.section("q"), lambda kept, to=data_dir: to.keep_section("q", kept))  # type: ignore[misc]
        limits = dict(known)
        known.change(entity(user="u", client_id=None), {PRODUCER_BYTE_RATE: 5.0})
        data_dir.close()
    assert limits == {entity(user="u", client_id=None): {PRODUCER_BYTE_RATE: 5.0}}


@pytest.mark.parametrize(
    ("names", "changes", "code"),
    [
        ({USER: "u"}, {PRODUCER_BYTE_RATE: 1000.0, REQUEST_PERCENTAGE: 12.5}, 0),
        ({USER: "u", CLIENT_ID: None}, {CONTROLLER_MUTATION_RATE: 0.5}, 0),
        ({IP: "127.0.0.1"}, {"connection_creation_rate": 10.0}, 0),
        ({IP: None}, {"connection_creation_rate": 10.0}, 0),
        ({}, {PRODUCER_BYTE_RATE: 1.0}, ErrorCode.INVALID_REQUEST),
        ({"group": "g"}, {PRODUCER_BYTE_RATE: 1.0}, ErrorCode.INVALID_REQUEST),
        ({USER: ""}, {PRODUCER_BYTE_RATE: 1.0}, ErrorCode.INVALID_REQUEST),
        ({IP: "127.0.0.1", USER: "u"}, {"connection_creation_rate": 1.0}, ErrorCode.INVALID_REQUEST),
        ({IP: "nowhere"}, {"connection_creation_rate": 1.0}, ErrorCode.INVALID_REQUEST),
        ({USER: "u"}, {"byte_rate": 1.0}, ErrorCode.INVALID_REQUEST),
        ({USER: "u"}, {"connection_creation_rate": 1.0}, ErrorCode.INVALID_REQUEST),
        ({USER: "u"}, {PRODUCER_BYTE_RATE: 0.0}, ErrorCode.INVALID_REQUEST),
        ({USER: "u"}, {PRODUCER_BYTE_RATE: 1.5}, ErrorCode.INVALID_REQUEST),
        ({USER: "u"}, {PRODUCER_BYTE_RATE: 2.0**63}, ErrorCode.INVALID_REQUEST),
        ({USER: "u"}, {PRODUCER_BYTE_RATE: math.inf}, ErrorCode.INVALID_REQUEST),
        ({USER: "u"}, {PRODUCER_BYTE_RATE: 1e-9}, 0),
        ({USER: "u"}, {REQUEST_PERCENTAGE: math.inf}, 0),
    ],
)
def test_what_may_be_set(names: dict[str, str | None], changes: dict[str, float], code: int) -> None:
    client = Bench().client()
    assert alter(client, names, **changes) == code
    told = client.ask(DescribeClientQuotasRequest()).entries
    assert [{value.key: value.value for value in one.values} for one in told] == ([] if code else [changes])


def test_an_entity_that_stands_twice_and_a_check_without_a_change() -> None:
    client = Bench().client()
    twice = [altering({USER: "u"}, {PRODUCER_BYTE_RATE: 1.0}), altering({USER: "u"}, {PRODUCER_BYTE_RATE: 2.0})]
    (answer,) = client.ask(AlterClientQuotasRequest(entries=twice, validate_only=True)).entries
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert client.ask(DescribeClientQuotasRequest()).entries == []


def test_a_quota_is_removed_and_its_entity_with_the_last_one() -> None:
    client = Bench().client()
    alter(client, {USER: "u"}, **{PRODUCER_BYTE_RATE: 1.0, CONSUMER_BYTE_RATE: 2.0})
    alter(client, {USER: "u"}, **{PRODUCER_BYTE_RATE: None})
    (one,) = client.ask(DescribeClientQuotasRequest()).entries
    assert [value.key for value in one.values] == [CONSUMER_BYTE_RATE]
    alter(client, {USER: "u"}, **{CONSUMER_BYTE_RATE: None})
    assert client.ask(DescribeClientQuotasRequest()).entries == []


def component(kind: str, how: int, match: str | None = None) -> ComponentData:
    return ComponentData(entity_type=kind, match_type=how, match=match)


@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ([], False, 4),
        ([component(USER, EXACT, "u")], False, 2),
        ([component(USER, EXACT, "u")], True, 1),
        ([component(USER, DEFAULT)], False, 1),
        ([component(USER, ANY)], False, 3),
        ([component(USER, ANY), component(CLIENT_ID, ANY)], True, 1),
        ([], True, 0),
    ],
)
def test_filters(components: list[ComponentData], strict: bool, found: int) -> None:
    client = Bench().client()
    known: list[dict[str, str | None]] = [{USER: "u"}, {USER: "u", CLIENT_ID: "c"}, {USER: None}, {CLIENT_ID: "c"}]
    for names in known:
        alter(client, names, **{PRODUCER_BYTE_RATE: 1.0})
    assert len(client.ask(DescribeClientQuotasRequest(components=components, strict=strict)).entries) == found


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([component("", EXACT, "u")], ErrorCode.INVALID_REQUEST),
        ([component("group", EXACT, "u")], ErrorCode.UNSUPPORTED_VERSION),
        ([component(USER, EXACT)], ErrorCode.INVALID_REQUEST),
        ([component(USER, DEFAULT, "u")], ErrorCode.INVALID_REQUEST),
        ([component(USER, 7)], ErrorCode.INVALID_REQUEST),
        ([component(USER, ANY), component(USER, ANY)], ErrorCode.INVALID_REQUEST),
        ([component(USER, ANY), component(IP, ANY)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_filters_that_are_refused(components: list[ComponentData], code: ErrorCode) -> None:
    answer = Bench().client().ask(DescribeClientQuotasRequest(components=components))
    assert (answer.error_code, answer.entries) == (code, None)


# How use is measured


def test_a_window_holds_ten_samples_at_least() -> None:
    rate = SampledRate(SAMPLES, SAMPLE_MS)
    rate.record(1000, 0)
    assert rate.throttle_ms(100, 0) == 0
    rate.record(500, 0)
    assert rate.throttle_ms(100, 0) == 5000
    assert rate.throttle_ms(100, SAMPLES * SAMPLE_MS) == 0


def test_what_was_used_before_the_window_does_not_count() -> None:
    rate = SampledRate(SAMPLES, SAMPLE_MS)
    for now_ms in range(0, 60_000, 500):
        rate.record(50, now_ms)
    assert rate.throttle_ms(105, 59_500) == 0
    assert rate.used(59_500 + SAMPLES * SAMPLE_MS) == 0
    assert rate.is_idle(59_500)


def test_a_bucket_is_overdrawn_once_and_then_has_to_fill() -> None:
    bucket = TokenBucket(SAMPLES, SAMPLE_MS)
    bucket.record(30, 2.0, 0)
    assert bucket.throttle_ms(2.0, 0) == 4000
    assert bucket.throttle_ms(2.0, 4000) == 0
    bucket.record(1, 2.0, 4000)
    assert bucket.throttle_ms(2.0, 4000) == 500


@pytest.mark.parametrize("limit", [1e-9, 5e-324])
def test_X7_a_pause_beyond_all_numbers_is_the_longest_that_can_be_told(limit: float) -> None:
    rate = SampledRate(SAMPLES, SAMPLE_MS)
    rate.record(1000, 0)
    assert rate.throttle_ms(limit, 0) == LONGEST_MS
    bucket = TokenBucket(SAMPLES, SAMPLE_MS)
    bucket.record(30, limit, 0)
    assert bucket.throttle_ms(limit, 0) == LONGEST_MS


def test_clients_that_are_idle_are_forgotten() -> None:
    known = quotas()
    known.change(entity(user=None), {PRODUCER_BYTE_RATE: 1.0, CONTROLLER_MUTATION_RATE: 1.0})
    throttles = Throttles(known, SAMPLES, SAMPLE_MS)
    throttles.record(PRODUCER_BYTE_RATE, QuotaClient("u", ""), 1, 0)
    throttles.mutate(QuotaClient("u", ""), 1, 0, strict=True)
    throttles.forget_idle(IDLE_MS)
    assert throttles._rates and throttles._buckets
    throttles.forget_idle(IDLE_MS + 1)
    assert not throttles._rates and not throttles._buckets


# For how long clients are muted


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.node.create_topic("t", 1)
    return bench


def is_muted(client: Client) -> bool:
    client.send(ApiVersionsRequest(), 0)
    return not client.answers()


def produce(client: Client, size: int = BIG, acks: int = -1) -> Any:
    return client.ask(produce_request("t", make_batch(b"v" * size), acks=acks), 12)


def test_E5_a_producer_is_answered_at_once_and_then_muted(bench: Bench) -> None:
    client = bench.client()
    alter(client, {CLIENT_ID: "test"}, **{PRODUCER_BYTE_RATE: 1000.0})
    assert produce(client, 9_000).throttle_time_ms == 0
    answer = produce(client, 3_000)
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert 2_000 < answer.throttle_time_ms < 3_000
    assert is_muted(client)
    bench.advance(answer.throttle_time_ms - 1)
    assert not client.answers()
    bench.advance(1)
    assert len(client.answers()) == 1


def test_E5_another_client_is_not_muted(bench: Bench) -> None:
    client, other = bench.client(), bench.client(client_id="other")
    alter(client, {CLIENT_ID: "test"}, **{PRODUCER_BYTE_RATE: 1000.0})
    assert produce(client, 20_000).throttle_time_ms > 0
    assert produce(other, 20_000).throttle_time_ms == 0
    assert produce(bench.client()).throttle_time_ms > 0, "two connections of a client share its quota"


def test_E5_without_acks_the_connection_is_muted_without_an_answer(bench: Bench) -> None:
    client = bench.client()
    alter(client, {USER: "ANONYMOUS"}, **{PRODUCER_BYTE_RATE: 1000.0})
    client.send(produce_request("t", make_batch(b"v" * 20_000), acks=0), 12)
    client._asked.pop()
    assert is_muted(client)
    bench.advance(11_000)
    assert len(client.answers()) == 1


def test_E5_a_reader_is_given_nothing_while_it_is_above_its_quota(bench: Bench) -> None:
    client = bench.client()
    for _ in range(4):
        produce(client, 3_000)
    alter(client, ALL, **{CONSUMER_BYTE_RATE: 1000.0})
    first = client.ask(fetch_request("t"), 12)
    read = len(first.responses[0].partitions[0].records)
    assert (first.throttle_time_ms, read > 8_000) == (0, True)
    second = client.ask(fetch_request("t", 3), 12)
    assert second.responses == []
    assert second.throttle_time_ms > 0
    bench.advance(SAMPLES * SAMPLE_MS)
    again = client.ask(fetch_request("t", 3), 12)
    assert (again.throttle_time_ms, len(again.responses[0].partitions[0].records) > 3_000) == (0, True)


def test_a_batch_beyond_a_whole_window_is_given_once_nothing_else_was(bench: Bench) -> None:
    client = bench.client()
    produce(client, 50_000)
    alter(client, ALL, **{CONSUMER_BYTE_RATE: 1000.0})
    answer = client.ask(fetch_request("t"), 12)
    assert len(answer.responses[0].partitions[0].records) > 50_000
    assert answer.throttle_time_ms > 30_000


def test_N29_a_fetch_session_goes_on_after_an_answer_without_partitions(bench: Bench) -> None:
    client = bench.client()
    opening = fetch_request("t")
    opening.session_epoch = 0
    opened = client.ask(opening, 12)
    for _ in range(2):
        produce(client, 8_000)
    alter(client, ALL, **{CONSUMER_BYTE_RATE: 1000.0})
    carried_on = fetch_request("t")
    carried_on.session_id, carried_on.session_epoch, carried_on.topics = opened.session_id, 1, []
    read = client.ask(carried_on, 12)
    assert len(read.responses) == 1
    carried_on = fetch_request("t", 1)
    carried_on.session_id, carried_on.session_epoch = opened.session_id, 2
    throttled = client.ask(carried_on, 12)
    assert (throttled.session_id, throttled.responses, throttled.throttle_time_ms > 0) == (opened.session_id, [], True)
    bench.advance(SAMPLES * SAMPLE_MS)
    carried_on.session_epoch, carried_on.topics = 3, []
    assert client.ask(carried_on, 12).responses[0].partitions[0].records


def test_request_percentage_counts_work_and_mutes_for_a_second_at_most() -> None:
    bench = Bench()
    work_ns = iter(range(0, 10**15, 500_000_000))
    bench.node.measure_work(lambda: next(work_ns))
    client = bench.client()
    alter(client, {CLIENT_ID: "test"}, **{REQUEST_PERCENTAGE: 25.0})
    pauses = []
    for _ in range(7):
        pauses.append(client.ask(MetadataRequest(topics=[]), 9).throttle_time_ms)
        bench.advance(pauses[-1])
    # Half a second of work each: 250 percent seconds are a whole window's worth.
    assert pauses == [0, 0, 0, 0, 0, 1000, 1000]


def creation(name: str, partitions: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)], timeout_ms=1000)


def test_X7_creations_beyond_the_quota_are_refused_or_mute(bench: Bench) -> None:
    client = bench.client()
    alter(client, {USER: "ANONYMOUS"}, **{CONTROLLER_MUTATION_RATE: 1.0})
    assert client.ask(creation("a", 13), 7).topics[0].error_code == 0
    refused = client.ask(creation("b", 1), 6)
    assert (refused.topics[0].error_code, refused.throttle_time_ms) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 2000)
    assert "b" not in bench.node.cluster.topics
    bench.advance(2000)
    older = client.ask(creation("b", 3), 5)
    assert (older.topics[0].error_code, older.throttle_time_ms) == (0, 3000)
    bench.advance(3000)
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=1000)
    assert client.ask(deletion, 6).responses[0].error_code == 0
    assert client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="b")]), 6).throttle_time_ms == 13_000


def test_quotas_by_user_are_those_of_who_has_logged_in() -> None:
    bench = Bench()
    bench.node.cluster.access.client_quotas.change(entity(user="alice"), {PRODUCER_BYTE_RATE: 1.0})
    bench.node.create_topic("t", 1)
    client = bench.client()
    assert produce(client).throttle_time_ms == 0
    bench.node._connections[client.id].session.principal = "User:alice"
    assert produce(client).throttle_time_ms > 0
