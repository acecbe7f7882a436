"""Delegation tokens in the embedded broker (KIP-48): who may ask, how long they live, and what logs in with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import levada as lv
from broker_kit import START_MS, Bench, Client
from levada.broker.access.delegation_tokens import DelegationTokens
from levada.broker.config.settings import BrokerSettings
from levada.broker.disk.data_dir import DataDir
from levada.broker.network.connection import Listener
from levada.error_codes import ErrorCode
from levada.errors import ConfigError, SaslAuthenticationError
from levada.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from levada.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from levada.protocol.messages.describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
from levada.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from levada.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from levada.testing import EmbeddedKafka
from login_kit import logins_for

SECRET = "planted-secret-key"
DAY_MS = 86_400_000
BROKER = 4


@pytest.fixture
def bench() -> Bench:
    return Bench(delegation_token_secret_key=SECRET, listeners=[Listener("S", "SASL_PLAINTEXT", logins_for({})), Listener("P")])


def logged_in(bench: Bench, user: str, *, by_token: bool = False) -> Client:
    client = bench.client("S")
    session = bench.node._connections[client.id].session
    session.principal, session.is_by_token, session.login = f"User:{user}", by_token, None
    return client


def create(client: Client, *renewers: str, version: int = 3, **fields: Any) -> Any:
    named = [CreatableRenewers(principal_type="User", principal_name=name) for name in renewers]
    return client.ask(CreateDelegationTokenRequest(renewers=named, **{"max_lifetime_ms": -1, **fields}), version)


def described(client: Client, *owners: str) -> list[Any]:
    named = [DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners]
    tokens: list[Any] = client.ask(DescribeDelegationTokenRequest(owners=named or None)).tokens
    return tokens


def test_a_token_belongs_to_who_asks_and_ends(bench: Bench) -> None:
    token = create(logged_in(bench, "alice"))
    assert (token.error_code, token.principal_name, token.token_requester_principal_name) == (0, "alice", "alice")
    assert (token.issue_timestamp_ms, token.expiry_timestamp_ms, token.max_timestamp_ms) == (
        START_MS,
        START_MS + DAY_MS,
        START_MS + 7 * DAY_MS,
    )
    assert len(token.hmac) == 64


def test_a_lifetime_is_as_short_as_asked_for_and_never_longer_than_allowed(bench: Bench) -> None:
    client = logged_in(bench, "alice")
    assert create(client, max_lifetime_ms=1000).expiry_timestamp_ms == START_MS + 1000
    assert create(client, max_lifetime_ms=30 * DAY_MS).max_timestamp_ms == START_MS + 7 * DAY_MS


def test_owner_and_renewers_renew_and_nobody_else(bench: Bench) -> None:
    token = create(logged_in(bench, "alice"), "bob", owner_principal_type="User", owner_principal_name="carol")
    assert (token.principal_name, token.token_requester_principal_name) == ("carol", "alice")
    renewal = RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=2 * DAY_MS)
    bench.advance(1000)
    for user in ("bob", "carol"):
        assert logged_in(bench, user).ask(renewal).expiry_timestamp_ms == START_MS + 1000 + DAY_MS
    for user in ("alice", "dave"):
        assert logged_in(bench, user).ask(renewal).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert [len(described(logged_in(bench, "dave"), user)) for user in ("alice", "bob", "carol", "dave")] == [1, 1, 1, 0]


def test_a_token_is_renewed_up_to_its_maximum_and_not_after_its_end(bench: Bench) -> None:
    client = logged_in(bench, "alice")
    token = create(client, max_lifetime_ms=DAY_MS + 500)
    renewal = RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=-1)
    bench.advance(DAY_MS)
    assert client.ask(renewal).expiry_timestamp_ms == token.max_timestamp_ms
    bench.advance(501)
    assert client.ask(renewal).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED


def test_tokens_that_have_ended_are_forgotten_every_hour(bench: Bench) -> None:
    client = logged_in(bench, "alice")
    bench.advance()
    create(client, max_lifetime_ms=10)
    bench.advance(3_599_999)
    assert len(described(client)) == 1
    bench.advance(1)
    assert described(client) == []


def test_a_token_is_expired_later_or_at_once(bench: Bench) -> None:
    client = logged_in(bench, "alice")
    token = create(client)
    later = client.ask(ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=500))
    assert later.expiry_timestamp_ms == START_MS + 500
    assert client.ask(ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1)).expiry_timestamp_ms == START_MS
    assert described(client) == []
    again = client.ask(ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1))
    assert again.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_tokens_are_described_by_who_has_to_do_with_them(bench: Bench) -> None:
    create(logged_in(bench, "alice"), "bob")
    create(logged_in(bench, "carol"))
    client = logged_in(bench, "dave")
    assert [token.principal_name for token in described(client)] == ["alice", "carol"]
    assert [token.principal_name for token in described(client, "bob")] == ["alice"]
    assert client.ask(DescribeDelegationTokenRequest(owners=[])).tokens == []


@pytest.mark.parametrize("request_type", [CreateDelegationTokenRequest, RenewDelegationTokenRequest, DescribeDelegationTokenRequest])
def test_who_has_not_logged_in_or_has_only_a_token_may_not_ask(bench: Bench, request_type: Any) -> None:
    for client in (bench.client("P"), logged_in(bench, "alice", by_token=True)):
        assert client.ask(request_type()).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@pytest.mark.parametrize("request_type", [CreateDelegationTokenRequest, ExpireDelegationTokenRequest, DescribeDelegationTokenRequest])
def test_without_a_secret_key_there_are_no_tokens(request_type: Any) -> None:
    bench = Bench(listeners=[Listener("S", "SASL_PLAINTEXT", logins_for({}))])
    assert logged_in(bench, "alice").ask(request_type()).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def test_renewers_are_users(bench: Bench) -> None:
    group = CreatableRenewers(principal_type="Group", principal_name="g")
    answer = logged_in(bench, "alice").ask(CreateDelegationTokenRequest(renewers=[group], max_lifetime_ms=-1))
    assert answer.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


@pytest.mark.parametrize("version", [1, 2])
def test_older_versions_have_no_owner_and_no_requester(bench: Bench, version: int) -> None:
    client = logged_in(bench, "alice")
    token = create(client, version=version)
    (again,) = client.ask(DescribeDelegationTokenRequest(owners=None), version).tokens
    assert [(one.principal_name, one.token_requester_principal_name) for one in (token, again)] == [("alice", "")] * 2


def test_tokens_outlive_a_restart(tmp_path: Path) -> None:
    settings = BrokerSettings(delegation_token_secret_key=SECRET)
    data_dir = DataDir(tmp_path, settings)
    tokens = DelegationTokens(settings, lambda: "id", None, lambda kept: data_dir.keep_section("t", kept))
    tokens.create("User:alice", "User:alice", ("User:bob",), -1, 0)
    data_dir.close()
    again = DataDir(tmp_path, settings)
    assert list(DelegationTokens(settings, lambda: "id", again.section("t"), lambda kept: None)) == list(tokens)
    again.close()
    assert SECRET not in (tmp_path / "cluster.json").read_text()


# Logging in


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(users={"alice": "secret"}, delegation_token_secret_key=SECRET) as kafka:
        yield kafka


@pytest.fixture
def token(kafka: EmbeddedKafka) -> lv.DelegationToken:
    with lv.KafkaAdmin(**kafka.settings_for("alice")) as admin:
        return admin.create_delegation_token()


def with_token(kafka: EmbeddedKafka, token: lv.DelegationToken, **other: Any) -> dict[str, Any]:
    login = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_username": token.token_id, "sasl_password": token.password}
    return {**kafka.client_settings, **login, "sasl_tokenauth": True, **other}


def test_a_token_logs_in_as_its_owner(kafka: EmbeddedKafka, token: lv.DelegationToken) -> None:
    with lv.KafkaAdmin(**with_token(kafka, token)) as admin:
        admin.list_topics()
        assert {(session.principal, session.is_by_token) for session in kafka.node.sessions()} == {("User:alice", True)}


def test_a_token_is_no_user_and_a_user_no_token(kafka: EmbeddedKafka, token: lv.DelegationToken) -> None:
    for settings in (
        with_token(kafka, token, sasl_tokenauth=False),
        with_token(kafka, token, sasl_password="secret"),
        {**kafka.settings_for("alice"), "sasl_tokenauth": True},
    ):
        admin = lv.KafkaAdmin(**settings)
        with pytest.raises(SaslAuthenticationError, match="invalid credentials"), admin:
            admin.list_topics(timeout=20)


def test_a_token_that_was_expired_logs_in_no_more(kafka: EmbeddedKafka, token: lv.DelegationToken) -> None:
    with lv.KafkaAdmin(**kafka.settings_for("alice")) as admin:
        admin.expire_delegation_token(token)
    admin = lv.KafkaAdmin(**with_token(kafka, token))
    with pytest.raises(SaslAuthenticationError), admin:
        admin.list_topics(timeout=20)


def test_M_D11_secrets_of_tokens_are_not_shown(kafka: EmbeddedKafka, token: lv.DelegationToken) -> None:
    assert token.password not in repr(token)
    assert SECRET not in repr(kafka.node.settings)
    with pytest.raises(ConfigError) as error:
        BrokerSettings.of(delegation_token_secret_key=b"planted")
    assert "planted" not in str(error.value)
    client = Bench(delegation_token_secret_key=SECRET).client()
    resource = DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=["delegation.token.secret.key"])
    (setting,) = client.ask(DescribeConfigsRequest(resources=[resource])).results[0].configs
    assert (setting.value, setting.is_sensitive) == (None, True)
