"""Sessions that end (KIP-368): the client logs in again on the same connection, and nothing that is under way is lost."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

import levada as lv
from levada.base.clock import NEVER_MS, SystemClock
from levada.broker.access.logins import Logins
from levada.broker.network.connection import Listener
from levada.broker.node.node import BrokerNode
from levada.client.network.connection_states import reauthentication_ms
from levada.errors import DisconnectError, SaslAuthenticationError
from levada.net.sasl import jwt
from levada.protocol.messages.metadata import MetadataRequest
from levada.testing import Simulation
from levada.testing.simulation import EPOCH_MS
from login_kit import logins_for

USERS = {"alice": "secret"}
SETTINGS: dict[str, Any] = {
    "bootstrap_servers": "kafka:9092",
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "SCRAM-SHA-256",
    "sasl_username": "alice",
    "sasl_password": "secret",
}


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(seed=5) as sim:
        yield sim


def kafka(sim: Simulation, logins: Logins, **settings: Any) -> BrokerNode:
    listener = Listener("SASL_PLAINTEXT", "SASL_PLAINTEXT", logins)
    node = BrokerNode(host="kafka", port=9092, wall_offset_ms=EPOCH_MS, listeners=[listener], **settings)
    sim.network.add_server(node, "kafka", 9092)
    return node


def logins_of(node: BrokerNode) -> int:
    return node.faults.requests["SaslHandshake"]


def test_H16_the_time_is_between_85_and_95_percent_of_the_session() -> None:
    found = [reauthentication_ms(100_000, 7, Random(seed)) for seed in range(200)]
    assert min(found) >= 85_007
    assert max(found) <= 95_007
    assert max(found) - min(found) > 8_000
    assert reauthentication_ms(0, 7, Random(1)) == NEVER_MS


def test_H16_a_client_logs_in_again_on_its_connection_while_records_flow(sim: Simulation) -> None:
    node = kafka(sim, logins_for(USERS), connections_max_reauth_ms=2_000)
    producer = sim.producer(**SETTINGS, linger_ms=0)
    consumer = sim.consumer(**SETTINGS, auto_offset_reset="earliest")
    node.create_topic("t")
    consumer.assign([lv.TopicPartition("t", 0)])
    read: list[bytes | None] = []
    for number in range(300):
        producer.send("t", b"%d" % number)
        sim.advance(100)
        read += [record.value for record in consumer.poll(timeout=0)]
    producer.flush()
    read += [record.value for record in consumer.poll(timeout=5)]
    assert read == [b"%d" % number for number in range(300)]
    made = len(sim.network.connections_made)
    assert made <= 6, "no connection was closed for its session's end"
    assert logins_of(node) > 4 * made
    assert node.faults.requests["ApiVersions"] == made, "what the broker speaks is known already"
    producer.close()
    consumer.close()


def test_H16_answers_to_requests_before_the_login_are_kept(sim: Simulation) -> None:
    node = kafka(sim, logins_for(USERS), connections_max_reauth_ms=2_000)
    node.create_topic("t")
    producer = sim.producer(**SETTINGS, linger_ms=0)
    producer.send("t", b"first").result()
    node.faults.delay("Produce", 1_500)
    sim.advance(1_000)
    behind = producer.send("t", b"answered late")
    sim.advance(950)
    after = producer.send("t", b"sent after the login")
    assert (behind.result().offset, after.result().offset) == (1, 2)
    assert logins_of(node) > 1
    producer.close()


def test_H16_a_connection_that_nobody_used_for_long_still_logs_in_again(sim: Simulation) -> None:
    node = kafka(sim, logins_for(USERS), connections_max_reauth_ms=2_000)
    admin = sim.admin(**SETTINGS, metadata_max_age_ms=10_000_000)
    for _ in range(2):  # The first call is over the bootstrap address.
        admin.list_topics()
    made = len(sim.network.connections_made)
    before = logins_of(node)
    sim.advance(60_000)
    assert logins_of(node) == before, "an idle connection is left alone"
    admin.list_topics()
    assert (len(sim.network.connections_made), logins_of(node)) == (made, before + 1)
    admin.close()


def test_KIP368_a_client_that_does_not_log_in_again_is_cut_off(sim: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka(sim, logins_for(USERS), connections_max_reauth_ms=2_000)
    monkeypatch.setattr("levada.client.network.connection_states._LEAST_OF_LIFETIME", 10.0)
    monkeypatch.setattr("levada.client.network.connection_states._MOST_OF_LIFETIME", 10.0)
    client = sim.client(**SETTINGS, metadata_max_age_ms=10_000_000)
    for _ in range(2):
        client.request(MetadataRequest(topics=[]))
    sim.advance(2_500)
    with pytest.raises(DisconnectError, match="the broker closed the connection"):
        client.request(MetadataRequest(topics=[]))
    client.close()


def test_M_D13_a_password_that_is_changed_ends_calls_at_the_next_login_and_loses_nothing(sim: Simulation) -> None:
    logins = logins_for(USERS)
    node = kafka(sim, logins, connections_max_reauth_ms=2_000)
    node.create_topic("t")
    producer = sim.producer(**SETTINGS, linger_ms=0, delivery_timeout_ms=40_000)
    producer.send("t", b"acknowledged").result()
    logins._scram.set_passwords({"alice": "another"})
    sim.advance(2_500)
    with pytest.raises(SaslAuthenticationError, match="invalid credentials"):
        sim.admin(**SETTINGS).list_topics()
    logins._scram.set_passwords({"alice": "secret"})
    sim.advance(5_000)
    producer.send("t", b"later").result()
    assert [record.value for record in sim.scan("t", **SETTINGS)] == [b"acknowledged", b"later"]
    producer.close()


def test_M_D13_tokens_change_while_data_flows(sim: Simulation) -> None:
    node = kafka(sim, logins_for(oauth="unsecured"))
    node.create_topic("t")
    given: list[str] = []

    def token() -> lv.OAuthToken:
        now_s = (EPOCH_MS + sim.now_ms) / 1000
        given.append(jwt.unsecured({"sub": "alice", "exp": now_s + 10, "jti": len(given)}))
        # The machine's clock says how long it is good for the client; the simulated one for the broker.
        return lv.OAuthToken(given[-1], SystemClock().wall_ms() / 1000 + 10)

    settings: dict[str, Any] = {"bootstrap_servers": "kafka:9092", "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
    producer = sim.producer(**settings, sasl_oauth_token_provider=token, linger_ms=0)
    for number in range(200):
        producer.send("t", b"%d" % number)
        sim.advance(250)
    producer.flush()
    made = len(sim.network.connections_made)
    assert made <= 4
    assert node.log("t").end_offset == 200
    assert len(given) >= 5
    assert logins_of(node) > made
    producer.close()


def test_M_D6_wrong_credentials_make_no_storm_of_attempts(sim: Simulation) -> None:
    node = kafka(sim, logins_for(USERS))
    producer = sim.producer(**{**SETTINGS, "sasl_password": "guessed"}, max_block_ms=500)
    for _ in range(60):
        with pytest.raises(SaslAuthenticationError):
            producer.send("t", b"v").result()
        sim.advance(500)
    # Half a minute, with at most a second between attempts.
    assert logins_of(node) <= 40
    producer.close()


def test_M_D13_a_client_that_every_node_begins_to_refuse_ends_calls_at_once(sim: Simulation) -> None:
    logins = logins_for(USERS)
    kafka(sim, logins, connections_max_reauth_ms=2_000)
    admin = sim.admin(**SETTINGS)
    admin.create_topics([lv.NewTopic("t")])
    logins._scram.set_passwords({"alice": "another"})
    sim.advance(2_500)
    began_ms = sim.now_ms
    for call in (admin.list_topics, admin.describe_cluster, lambda: admin.create_topics([lv.NewTopic("u")])):
        with pytest.raises(SaslAuthenticationError, match=r"kafka:9092: SCRAM-SHA-256: .*invalid credentials"):
            call()
    assert sim.now_ms - began_ms < 3_000, "and not after the time of the call"
    logins._scram.set_passwords({"alice": "secret"})
    sim.advance(5_000)
    assert admin.list_topics() == ["t"]
    admin.close()


def test_M_D13_a_member_that_every_node_refused_for_some_time_goes_on(sim: Simulation) -> None:
    logins = logins_for(USERS)
    kafka(sim, logins, connections_max_reauth_ms=2_000).create_topic("t")
    consumer = sim.consumer(**SETTINGS, group_id="g", group_protocol="consumer", auto_offset_reset="earliest")
    consumer.subscribe(["t"])
    consumer.poll(timeout=5)
    logins._scram.set_passwords({"alice": "another"})
    for _ in range(20):
        assert not consumer.poll(timeout=0.5)
    logins._scram.set_passwords({"alice": "secret"})
    sim.advance(2_000)
    with sim.producer(**SETTINGS) as producer:
        producer.send("t", b"v").result()
    assert [record.value for record in consumer.poll(timeout=5)] == [b"v"]
    consumer.close()
