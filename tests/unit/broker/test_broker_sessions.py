"""Who is connected, and the steps that a request goes through."""

from __future__ import annotations

import logging

import pytest

import levada as lv
from broker_kit import Bench, Client
from levada.broker.node.request_pipeline import Handler, chain
from levada.broker.node.state import Answer, Call
from levada.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from levada.testing import EmbeddedKafka


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def client(bench: Bench) -> Client:
    return bench.client()


def test_a_session_learns_the_client_id_and_the_software(bench: Bench, client: Client) -> None:
    (session,) = bench.node.sessions()
    assert (session.principal, session.listener.name, session.client_id) == ("User:ANONYMOUS", "PLAINTEXT", None)
    client.ask(ApiVersionsRequest(client_software_name="kcat", client_software_version="1.2"), 3)
    (session,) = bench.node.sessions()
    assert (session.client_id, session.software_name, session.software_version) == ("test", "kcat", "1.2")


@pytest.mark.parametrize(("name", "version"), [("", 3), ("-", 3), ("kcat", 2)])
def test_software_that_is_badly_named_or_not_in_the_request_is_not_kept(bench: Bench, client: Client, name: str, version: int) -> None:
    client.ask(ApiVersionsRequest(client_software_name=name, client_software_version="1"), version)
    assert bench.node.sessions()[0].software_name == ""


def test_a_connection_that_ended_is_not_listed(bench: Bench, client: Client) -> None:
    bench.node.disconnect(client.id)
    assert bench.node.sessions() == []


def test_log_lines_name_the_client_and_keep_to_one_line(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.node.connect(7, "10.0.0.1:5000")
    bench.node._connections[7].session.client_id = "bad\nINFO everything is fine"
    with caplog.at_level(logging.INFO, "levada.broker"):
        bench.node.receive(7, b"\x00\x00", 0)
    assert caplog.messages[0].startswith("closing connection 7 from 10.0.0.1:5000, client 'bad\\nINFO everything is fine': ")


def test_steps_come_one_after_the_other_and_one_may_answer_by_itself() -> None:
    seen: list[str] = []

    def first(call: Call, rest: Handler) -> Answer:
        seen.append("first")
        answer = rest(call)
        seen.append("first again")
        return answer

    def refuse(call: Call, rest: Handler) -> Answer:
        seen.append("refuse")
        return ApiVersionsResponse(error_code=29)

    def serve(call: Call) -> Answer:
        raise AssertionError("a step has answered")

    assert chain((first, refuse), serve)(None).error_code == 29  # type: ignore[arg-type, union-attr]
    assert seen == ["first", "refuse", "first again"]


def test_an_embedded_kafka_lists_its_connections() -> None:
    with EmbeddedKafka(brokers=2) as kafka, lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers, client_id="lister") as admin:
        admin.list_topics()
        found = [session for session in kafka.connections() if session.client_id == "lister"]
        assert found
        assert {session.software_name for session in found} == {"levada"}
        assert all(session.address.startswith("127.0.0.1:") for session in found)
