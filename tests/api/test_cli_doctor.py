"""`levada doctor` names what is wrong: faults planted one by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

import levada as lv
from cli_kit import run
from invalid_peers import closed_port, serving, silent_server, web_server
from levada.cli.doctor.examination import examine
from levada.cli.doctor.findings import Finding, Status, Step, worst
from levada.cli.doctor.questions import Scope
from levada.cli.exits import Exit
from levada.errors import GroupAuthorizationError
from levada.exactly_once.slots import Slots
from levada.testing import Authority, EmbeddedKafka
from proxies import TestProxy

TIMEOUT_S = 2.0
USER, PASSWORD = "alice", "of alice"


def now_ms() -> int:
    return int(time.time() * 1000)


def found(settings: Mapping[str, Any], wall_ms: Callable[[], int] = now_ms, **scope: Any) -> list[Finding]:
    return list(examine(settings, Scope(timeout=TIMEOUT_S, **scope), wall_ms))


def faults(settings: Mapping[str, Any], wall_ms: Callable[[], int] = now_ms, **scope: Any) -> list[Finding]:
    return [finding for finding in found(settings, wall_ms, **scope) if finding.status is not Status.OK]


def the_fault(settings: Mapping[str, Any], wall_ms: Callable[[], int] = now_ms, **scope: Any) -> tuple[Step, str, str]:
    """Return the step, what was found and the advice of the only fault there is."""
    (fault,) = faults(settings, wall_ms, **scope)
    return fault.step, fault.found, fault.advice


@pytest.fixture(scope="module", params=["embedded", pytest.param("kafka44", marks=pytest.mark.kafka)])
def kafka(request: pytest.FixtureRequest) -> Any:
    """The embedded broker, and one real one: what else differs between brokers, tests of the library have shown."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def tls() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(security="SSL") as kafka:
        yield kafka


@pytest.fixture(scope="module")
def logins() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(users={USER: PASSWORD}) as kafka:
        yield kafka


@pytest.fixture
def pair() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=2) as kafka:
        yield kafka


def test_nothing_is_wrong(kafka: Any, new_topic: Callable[..., str]) -> None:
    settings = {"bootstrap_servers": kafka.bootstrap_servers}
    findings = found(settings, topics=[new_topic(kafka)], groups=[])
    of_others = (Step.GROUPS,)
    assert [one for one in findings if one.status is not Status.OK and one.step not in of_others] == []
    assert {one.step for one in findings} == set(Step) - {Step.TLS, Step.LOGIN}


def test_findings_come_in_the_order_of_the_steps(embedded: EmbeddedKafka) -> None:
    steps = [one.step for one in found({"bootstrap_servers": embedded.bootstrap_servers})]
    assert steps == sorted(steps, key=tuple(Step).index)


@pytest.mark.parametrize(
    ("call", "step"), [("list_topics", Step.LEADERS), ("list_groups", Step.GROUPS), ("list_transactions", Step.TRANSACTIONS)]
)
@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_findings_before_a_request_that_fails_are_printed_and_its_step_is_named(
    embedded: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch, call: str, step: Step, output: str
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise lv.errors.TimeoutError("no answer")

    monkeypatch.setattr(lv.KafkaAdmin, call, fails)
    ran = run("-b", embedded.bootstrap_servers, "doctor", "-o", output)
    assert (ran.code, "it can be reached at its advertised address" in ran.text) == (Exit.TIMED_OUT, True)
    assert ran.err == f"levada: no answer\nlevada: doctor ended at the step {step} with this error, and did not do the steps after it\n"


def test_a_ledger_that_may_not_be_read_does_not_end_the_examination(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise GroupAuthorizationError("refused")

    group = "app~0123abcd.0.0.0"
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t")
        with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
            admin.alter_consumer_group_offsets(group, {lv.TopicPartition("t", 0): 0})
        monkeypatch.setattr(Slots, "last_entry", refused)
        ran = run("-b", kafka.bootstrap_servers, "doctor", "-g", group)
    assert (ran.code, ran.err) == (Exit.DONE, "")
    assert f"nothing is wrong with {group}" in ran.text


def test_nothing_is_wrong_behind_tls_and_a_login() -> None:
    with EmbeddedKafka(users={USER: PASSWORD}, security="SSL") as kafka:
        findings = found(kafka.settings_for(USER))
    assert worst(findings) is Status.OK
    assert {one.step for one in findings} == set(Step)


def test_a_name_that_does_not_resolve() -> None:
    step, text, _ = the_fault({"bootstrap_servers": "nowhere.invalid:9092"})
    assert (step, "does not resolve" in text) == (Step.DNS, True)


def test_a_port_where_nothing_listens() -> None:
    step, _, advice = the_fault({"bootstrap_servers": closed_port()})
    assert (step, "nothing listens there" in advice) == (Step.TCP, True)


def test_a_web_server() -> None:
    with serving(web_server) as address:
        step, text, _ = the_fault({"bootstrap_servers": address})
    assert (step, "HTTP" in text) == (Step.VERSIONS, True)


def test_something_that_does_not_answer() -> None:
    with serving(silent_server) as address:
        findings = list(examine({"bootstrap_servers": address}, Scope(timeout=0.2), now_ms))
    assert findings[-1].step is Step.VERSIONS
    assert "does not answer Kafka's protocol" in findings[-1].found


def test_a_plaintext_client_at_a_tls_listener(tls: EmbeddedKafka) -> None:
    step, text, advice = the_fault({"bootstrap_servers": tls.bootstrap_servers})
    assert (step, advice) == (Step.TLS, "set security.protocol=SSL")
    assert "this listener speaks TLS" in text


def test_a_tls_client_at_a_plaintext_listener(embedded: EmbeddedKafka) -> None:
    settings = {"bootstrap_servers": embedded.bootstrap_servers, "security_protocol": "SSL"}
    step, _, advice = the_fault(settings)
    assert (step, advice) == (Step.TLS, "set security.protocol=PLAINTEXT")


def test_an_authority_that_is_not_trusted(tls: EmbeddedKafka) -> None:
    step, text, _ = the_fault({**tls.client_settings, **Authority().trust()})
    assert (step, "no authority that is trusted here has signed it" in text) == (Step.TLS, True)


def test_a_certificate_for_another_name() -> None:
    with EmbeddedKafka(security=(authority := Authority()).listener("another.example")) as kafka:
        step, text, _ = the_fault({**kafka.client_settings, **authority.trust()})
    assert (step, "it is for another.example" in text) == (Step.TLS, True)


def test_a_listener_that_wants_a_certificate_of_the_client() -> None:
    with EmbeddedKafka(security=(authority := Authority()).listener(client_auth="required")) as kafka:
        step, text, _ = the_fault({**kafka.client_settings, **authority.trust()})
    assert (step, "it wants a certificate of the client" in text) == (Step.TLS, True)


def test_no_login_where_one_is_wanted(logins: EmbeddedKafka) -> None:
    step, text, advice = the_fault({"bootstrap_servers": logins.bootstrap_servers})
    assert (step, "wants a login" in text) == (Step.LOGIN, True)
    assert advice.startswith("set security.protocol=SASL_PLAINTEXT and sasl.mechanism, one of PLAIN, SCRAM")


def test_a_wrong_password(logins: EmbeddedKafka) -> None:
    step, text, advice = the_fault({**logins.settings_for(USER), "sasl_password": "guessed"})
    assert (step, "Authentication failed" in text) == (Step.LOGIN, True)
    assert "sasl.password" in advice
    assert "guessed" not in text + advice


def test_a_wrong_mechanism(logins: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    (listener,) = logins.node._listeners.values()
    monkeypatch.setattr(listener.logins, "mechanisms", ["PLAIN"])
    step, text, advice = the_fault(logins.settings_for(USER))
    assert (step, "this listener offers PLAIN" in text) == (Step.LOGIN, True)
    assert advice == "set sasl.mechanism to one that the listener offers"


def test_a_listener_that_is_advertised_wrongly() -> None:
    with EmbeddedKafka() as kafka:
        host, _, port = closed_port().rpartition(":")
        kafka.node.advertise(host, int(port))
        step, text, advice = the_fault({"bootstrap_servers": kafka.bootstrap_servers})
    assert (step, "it cannot be reached there" in text) == (Step.LISTENERS, True)
    assert "advertised.listeners" in advice


def test_a_partition_without_a_leader(pair: EmbeddedKafka) -> None:
    with lv.KafkaAdmin(**pair.client_settings) as admin:
        admin.create_topics([lv.NewTopic("t", 2, 1)])
        pair.stop_node(2)
        settings = {"bootstrap_servers": pair.bootstrap_servers.split(",")[0]}
    (fault,) = [one for one in faults(settings, topics=["t"]) if one.step is Step.LEADERS]
    assert "no leader for partition" in fault.found


def test_replicas_out_of_sync(pair: EmbeddedKafka) -> None:
    with lv.KafkaAdmin(**pair.client_settings) as admin:
        admin.create_topics([lv.NewTopic("few", 1, 2, {"min.insync.replicas": "2"}), lv.NewTopic("enough", 1, 2)])
    pair.stop_node(2)
    settings = {"bootstrap_servers": pair.bootstrap_servers.split(",")[0]}
    down, few = [one for one in faults(settings, topics=["few", "enough"]) if one.step is Step.REPLICAS]
    assert (down.status, down.about) == (Status.WARNING, "broker 2")
    assert "replicas of 2 partitions of 2 topics" in down.found
    assert (few.status, few.about) == (Status.FAILED, "topic few")
    assert "min.insync.replicas=2" in few.found


def test_a_group_without_members(kafka: Any, new_topic: Callable[..., str]) -> None:
    settings, topic = {"bootstrap_servers": kafka.bootstrap_servers}, new_topic(kafka)
    with lv.KafkaProducer(**settings) as producer:
        for _ in range(3):
            producer.send(topic, b"v")
    with lv.KafkaAdmin(**settings) as admin:
        admin.alter_consumer_group_offsets(topic, {lv.TopicPartition(topic, 0): 1})
    step, text, _ = the_fault(settings, topics=[topic], groups=[topic])
    assert (step, text) == (Step.GROUPS, "it has no members, and 2 records to read")


def test_a_group_whose_records_were_deleted(kafka: Any, new_topic: Callable[..., str]) -> None:
    settings, topic = {"bootstrap_servers": kafka.bootstrap_servers}, new_topic(kafka)
    tp = lv.TopicPartition(topic, 0)
    with lv.KafkaProducer(**settings) as producer:
        producer.send(topic, b"v").result()
    with lv.KafkaAdmin(**settings) as admin:
        admin.alter_consumer_group_offsets(topic, {tp: 0})
        admin.delete_records({tp: 1})
    fault = next(one for one in faults(settings, topics=[topic], groups=[topic]) if one.status is Status.FAILED)
    assert f"it has not read 1 offset that retention deleted, in {topic}-0" in fault.found


def test_a_member_that_commits_nothing(kafka: Any, new_topic: Callable[..., str]) -> None:
    settings, topic = {"bootstrap_servers": kafka.bootstrap_servers}, new_topic(kafka)
    tp = lv.TopicPartition(topic, 0)
    with lv.KafkaProducer(settings) as producer:
        for _ in range(3):
            producer.send(topic, b"v", partition=0, timestamp=now_ms() - 120_000)
    with reading(settings, topic, partitions=1) as consumer:
        consumer.commit({tp: 1})
        (fault,) = faults(settings, topics=[topic], groups=[topic], watch_s=0.1)
    assert (fault.step, fault.status) == (Step.GROUPS, Status.WARNING)
    assert f"member stuck-1 on 127.0.0.1 committed nothing in {topic}-0 while doctor watched: 2 records to read" in fault.found
    assert f"levada consume {topic} -p 0 -o 1 -c 1" in fault.advice


def test_a_group_that_waits_for_the_end_of_a_transaction(kafka: Any, new_topic: Callable[..., str]) -> None:
    settings, topic = {"bootstrap_servers": kafka.bootstrap_servers}, new_topic(kafka)
    with lv.KafkaProducer(settings, transactional_id=f"biller-{topic}") as producer:
        with producer.transaction():
            producer.send(topic, b"v")
        producer.begin_transaction()
        producer.send(topic, b"v").result()
        with reading(settings, topic, partitions=1) as consumer:
            for committed in (1, 2):  # Offset 1 is the marker of the first transaction.
                consumer.commit({lv.TopicPartition(topic, 0): committed})
                found = faults(settings, lambda: now_ms() + 120_000, topics=[topic], groups=[topic], watch_s=0.1)
                group, transaction = [one for one in found if one.step in (Step.GROUPS, Step.TRANSACTIONS)]
                assert (group.step, group.status, group.about) == (Step.GROUPS, Status.WARNING, f"group {topic}")
                assert group.found.startswith(f"it waits for the end of a transaction in {topic}-0: {3 - committed} record")
                assert (transaction.step, transaction.about) == (Step.TRANSACTIONS, f"transaction biller-{topic}")
        producer.abort_transaction()


def test_a_member_that_falls_behind_in_a_hot_partition(embedded: EmbeddedKafka, new_topic: Callable[..., str]) -> None:
    settings, topic = {"bootstrap_servers": embedded.bootstrap_servers}, new_topic(embedded, partitions=2)
    tp = lv.TopicPartition(topic, 0)
    with lv.KafkaProducer(settings) as producer:
        for _ in range(10):
            producer.send(topic, b"v", partition=0, timestamp=now_ms() - 120_000)
        for partition in (0,) * 9 + (1,):
            producer.send(topic, b"v", partition=partition)
    with reading(settings, topic, partitions=2) as consumer:
        offsets = iter(range(10))

        def commits_meanwhile() -> int:
            # doctor asks for the time between its looks.
            consumer.commit({tp: next(offsets)})
            return now_ms()

        (fault,) = faults(settings, commits_meanwhile, topics=[topic], groups=[topic])
    assert (fault.step, fault.status) == (Step.GROUPS, Status.WARNING)
    assert f"stuck-1: more than 60 s behind in {topic}-0" in fault.found
    assert f"90% of the new records of {topic} are in this one of 2 partitions" in fault.found


@contextmanager
def reading(settings: Mapping[str, Any], topic: str, *, partitions: int) -> Iterator[lv.KafkaConsumer[Any, Any]]:
    """A member of a group named as the topic, with all of its partitions. It commits nothing of itself."""
    more = {"client_id": "stuck-1", "group_id": topic, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    with lv.KafkaConsumer({**settings, **more}) as consumer:
        consumer.subscribe([topic])
        deadline_s = time.monotonic() + 30
        while len(consumer.assignment()) < partitions:
            consumer.poll(0.2)
            assert time.monotonic() < deadline_s
        yield consumer


def test_a_group_that_does_not_exist(embedded: EmbeddedKafka) -> None:
    step, text, _ = the_fault({"bootstrap_servers": embedded.bootstrap_servers}, groups=["nobody"])
    assert (step, text) == (Step.GROUPS, "it does not exist")


def test_a_clock_that_differs(kafka: Any) -> None:
    settings = {"bootstrap_servers": kafka.bootstrap_servers}
    fault = next(one for one in faults(settings, lambda: now_ms() - 60_000) if one.step is Step.CLOCK)
    assert "ahead of this machine's" in fault.found


def test_through_a_proxy_the_client_alone_finds_out() -> None:
    with EmbeddedKafka() as kafka, TestProxy(users={USER: PASSWORD}, names={"broker.inside": "127.0.0.1"}) as proxy:
        for server in kafka._servers:
            server._advertised_host = "broker.inside"
            server.node.advertise("broker.inside", server.endpoints[0].port, server.endpoints[0].listener)
        port = kafka.bootstrap_servers.rpartition(":")[2]
        settings = {"bootstrap.servers": f"broker.inside:{port}", "proxy.url": proxy.url("socks5h", "alice:of%20alice")}
        assert faults(settings) == []
        step, text, _ = the_fault({**settings, "proxy.url": proxy.url("socks5h", "alice:wrong")})
        assert (step, "it refuses the user or the password" in text) == (Step.TCP, True)
        step, text, _ = the_fault({**settings, "bootstrap.servers": closed_port()})
        assert "refused its connection: nothing listens there" in text
