"""KafkaAdmin manages users of SCRAM, quotas and delegation tokens: both APIs, every broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final
from uuid import uuid4

import pytest

import levada as lv
from api_kit import EVERYWHERE, api_and_broker
from kafka_cluster import PASSWORD, USER
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, KafkaError
from levada.testing import EmbeddedKafka, SimulatedKafka

PATIENCE_S = 20
SHA_256: Final = "SCRAM-SHA-256"
SHA_512: Final = "SCRAM-SHA-512"
DAY_MS = 86_400_000


@pytest.fixture(params=EVERYWHERE)
def kafka(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, embedded: Any) -> Iterator[Any]:
    yield from api_and_broker(request, monkeypatch)


@pytest.fixture
def admin(kafka: Any) -> Iterator[Any]:
    with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        yield admin


def until(is_so: Callable[[], bool]) -> None:
    """Wait until a broker has learned what its controller knows."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def described(admin: Any, *users: str) -> Any:
    """What is known of users: their credentials, or None where they have none."""
    return {user: None if isinstance(found, Exception) else found for user, found in outcomes(admin, *users).items()}


def outcomes(admin: Any, *users: str) -> Any:
    try:
        return admin.describe_user_scram_credentials(users)
    except BrokerError as error:
        return {user: failed or error.results[user] for user, failed in error.outcomes.items()}


# Users


def test_X4_users_are_created_changed_and_deleted(admin: Any) -> None:
    alice, bob = (f"{name}-{uuid4().hex}" for name in ("alice", "bob"))
    created = [lv.UserScramCredentialUpsertion(alice, "secret"), lv.UserScramCredentialUpsertion(bob, b"of bob", SHA_512, 8192, b"salt")]
    assert admin.alter_user_scram_credentials(created) == {alice: None, bob: None}
    known = {alice: (lv.ScramCredentialInfo(SHA_256, 4096),), bob: (lv.ScramCredentialInfo(SHA_512, 8192),)}
    until(lambda: described(admin, alice, bob) == known)
    everybody = admin.describe_user_scram_credentials()
    assert {user: everybody[user] for user in known} == known
    changes = [lv.UserScramCredentialUpsertion(alice, "another", iterations=5000), lv.UserScramCredentialDeletion(bob, SHA_512)]
    admin.alter_user_scram_credentials(changes)
    until(lambda: described(admin, alice, bob) == {alice: (lv.ScramCredentialInfo(SHA_256, 5000),), bob: None})
    admin.alter_user_scram_credentials([lv.UserScramCredentialDeletion(alice)])


def test_X4_each_user_has_an_outcome_of_its_own(admin: Any) -> None:
    alice, bob = (f"{name}-{uuid4().hex}" for name in ("alice", "bob"))
    with pytest.raises(BrokerError) as error:
        admin.alter_user_scram_credentials([lv.UserScramCredentialDeletion(bob), lv.UserScramCredentialUpsertion(alice, "secret")])
    assert error.value.code == ErrorCode.RESOURCE_NOT_FOUND
    assert str(error.value).startswith(f"alter the SCRAM credentials of user '{bob}': ")
    assert error.value.outcomes[alice] is None
    until(lambda: described(admin, alice)[alice] is not None)
    admin.alter_user_scram_credentials([lv.UserScramCredentialDeletion(alice)])


def test_X4_iterations_that_brokers_do_not_take(admin: Any) -> None:
    with pytest.raises(BrokerError, match=r"Too few iterations.*UNACCEPTABLE_CREDENTIAL"):
        admin.alter_user_scram_credentials([lv.UserScramCredentialUpsertion("alice", "secret", iterations=100)])


# Quotas


def test_X4_quotas_are_set_found_and_removed(admin: Any) -> None:
    user, client = f"u-{uuid4().hex}", f"c-{uuid4().hex}"
    quotas: dict[lv.ClientQuotaEntity, dict[str, float | None]] = {
        lv.ClientQuotaEntity(user=user): {"producer_byte_rate": 1e9, "request_percentage": 500.5},
        lv.ClientQuotaEntity(user=user, client_id=client): {"consumer_byte_rate": 1e9},
        lv.ClientQuotaEntity(user=user, client_id=lv.ClientQuotaName.DEFAULT): {"controller_mutation_rate": 1e6},
        lv.ClientQuotaEntity(client_id=client): {"producer_byte_rate": 2e9},
    }

    def found(**parts: Any) -> Any:
        return admin.describe_client_quotas(lv.ClientQuotaFilter(**parts))

    assert admin.alter_client_quotas(quotas, validate_only=True) == dict.fromkeys(quotas)
    assert found(user=user) == {}
    admin.alter_client_quotas(quotas)
    until(lambda: bool(found(client_id=client, strict=True)))
    assert found(user=user) == {entity: limits for entity, limits in quotas.items() if entity.user}
    assert set(found(user=user, strict=True)) == {lv.ClientQuotaEntity(user=user)}
    assert set(found(user=user, client_id=lv.ClientQuotaName.DEFAULT)) == {lv.ClientQuotaEntity(user, lv.ClientQuotaName.DEFAULT)}
    assert len(found(user=user, client_id=lv.ClientQuotaName.ANY)) == 2
    assert set(quotas) <= set(admin.describe_client_quotas())
    admin.alter_client_quotas({entity: dict.fromkeys(limits) for entity, limits in quotas.items()})
    until(lambda: not found(user=user) and not found(client_id=client))


def test_X4_each_entity_has_an_outcome_of_its_own(admin: Any) -> None:
    good, bad = lv.ClientQuotaEntity(user=f"u-{uuid4().hex}"), lv.ClientQuotaEntity(client_id="c")
    with pytest.raises(BrokerError) as error:
        admin.alter_client_quotas({bad: {"byte_rate": 1.0}, good: {"producer_byte_rate": 1e9}})
    assert str(error.value).startswith("alter the quotas of client-id 'c': ")
    assert error.value.outcomes == {bad: error.value, good: None}
    admin.alter_client_quotas({good: {"producer_byte_rate": None}})


# Tokens


@pytest.fixture(scope="module")
def with_tokens() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(users={USER: PASSWORD}, delegation_token_secret_key="secret") as kafka:
        yield kafka


@pytest.fixture(scope="module", params=["embedded", *(pytest.param(name, marks=pytest.mark.kafka) for name in ("kafka44", "kafka39"))])
def login(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What a client needs, but for who it is."""
    if request.param == "embedded":
        kafka: EmbeddedKafka = request.getfixturevalue("with_tokens")
        return kafka.client_settings
    settings: dict[str, Any] = request.getfixturevalue(request.param).settings_for("SASL_PLAINTEXT")
    return settings


@pytest.fixture
def alice(login: dict[str, Any]) -> Iterator[lv.KafkaAdmin]:
    with lv.KafkaAdmin(**login, sasl_mechanism="PLAIN", sasl_username=USER, sasl_password=PASSWORD) as admin:
        yield admin


def test_X4_a_token_lives_and_dies(alice: lv.KafkaAdmin, login: dict[str, Any]) -> None:
    renewer = f"User:r-{uuid4().hex}"
    token = alice.create_delegation_token(renewers=[renewer], max_lifetime_ms=2 * DAY_MS)
    assert (token.owner, token.requester, token.renewers) == (f"User:{USER}", f"User:{USER}", (renewer,))
    assert token.max_timestamp - token.issue_timestamp == 2 * DAY_MS
    until(lambda: len(alice.describe_delegation_token([renewer])) == 1)
    (again,) = alice.describe_delegation_token([renewer])
    assert again == token
    with lv.KafkaAdmin(
        **login, sasl_mechanism=SHA_256, sasl_username=token.token_id, sasl_password=token.password, sasl_tokenauth=True
    ) as admin:
        admin.list_topics()
        with pytest.raises(BrokerError, match="DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"):
            admin.create_delegation_token()
    expiry = alice.renew_delegation_token(token, period_ms=3_600_000)
    assert token.issue_timestamp < expiry < token.expiry_timestamp
    ended = alice.expire_delegation_token(token.hmac)
    assert token.issue_timestamp <= ended < expiry
    until(lambda: not alice.describe_delegation_token([renewer]))
    with pytest.raises(BrokerError, match=r"renew a delegation token.*DELEGATION_TOKEN_NOT_FOUND"):
        alice.renew_delegation_token(token)


def test_X4_a_token_for_another_user(alice: lv.KafkaAdmin) -> None:
    carol = f"User:carol-{uuid4().hex}"
    token = alice.create_delegation_token(owner=carol, renewers=[f"User:{USER}"])
    assert (token.owner, token.requester) == (carol, f"User:{USER}")
    until(lambda: alice.describe_delegation_token([carol]) == [token])
    alice.expire_delegation_token(token)


def test_jaas_logs_in_with_a_token(with_tokens: EmbeddedKafka) -> None:
    with lv.KafkaAdmin(**with_tokens.settings_for(USER)) as admin:
        token = admin.create_delegation_token()
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    jaas = f'{module} required username="{token.token_id}" password="{token.password}" tokenauth="true";'
    with lv.KafkaAdmin(**with_tokens.client_settings, sasl_mechanism=SHA_512, sasl_jaas_config=jaas) as admin:
        admin.list_topics()


def test_a_session_ends_with_its_token() -> None:
    """The client would have to log in again by then, and a token that has ended does not (KIP-368)."""
    with EmbeddedKafka(users={USER: PASSWORD}, delegation_token_secret_key="secret") as kafka:
        with lv.KafkaAdmin(**kafka.settings_for(USER)) as admin:
            token = admin.create_delegation_token(max_lifetime_ms=300)
        settings = {**kafka.client_settings, "sasl_mechanism": SHA_256, "sasl_tokenauth": True}
        with lv.KafkaAdmin(**settings, sasl_username=token.token_id, sasl_password=token.password) as admin:
            until(lambda: _is_refused(admin))


def _is_refused(admin: lv.KafkaAdmin) -> bool:
    try:
        admin.list_topics(timeout=0.1)
    except KafkaError as error:
        return "invalid credentials" in str(error)
    return False


# Arguments


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (
            lambda admin: admin.alter_user_scram_credentials([lv.UserScramCredentialUpsertion("a", "b", "SCRAM-SHA-1")]),
            ValueError,
            "'SCRAM-SHA-1' is no mechanism of SCRAM",
        ),
        (
            lambda admin: admin.alter_user_scram_credentials([lv.UserScramCredentialUpsertion("a", "")]),
            ValueError,
            "the password of user 'a' must be text or bytes, and not empty",
        ),
        (
            lambda admin: admin.alter_user_scram_credentials([lv.UserScramCredentialUpsertion("", "planted")]),
            ValueError,
            "a user is named by text that is not empty",
        ),
        (
            lambda admin: admin.alter_user_scram_credentials([lv.UserScramCredentialUpsertion("a", "b", iterations=10**9)]),
            ValueError,
            "at most 1048576 iterations are possible",
        ),
        (
            lambda admin: admin.alter_user_scram_credentials(lv.UserScramCredentialDeletion("a")),
            TypeError,
            "expected a list of UserScramCredentialUpsertion",
        ),
        (lambda admin: admin.describe_user_scram_credentials("alice"), TypeError, "expected a list of users"),
        (
            lambda admin: admin.alter_client_quotas({"alice": {"producer_byte_rate": 1}}),
            TypeError,
            "quotas are those of a ClientQuotaEntity",
        ),
        (
            lambda admin: admin.alter_client_quotas({lv.ClientQuotaEntity(user=lv.ClientQuotaName.ANY): {}}),
            TypeError,
            "must be a name or ClientQuotaName.DEFAULT",
        ),
        (
            lambda admin: admin.alter_client_quotas({lv.ClientQuotaEntity(user="a"): {"producer_byte_rate": "1"}}),
            TypeError,
            "the limit of 'producer_byte_rate' must be a number",
        ),
        (lambda admin: admin.describe_client_quotas({"user": "a"}), TypeError, "expected a ClientQuotaFilter"),
        (lambda admin: admin.create_delegation_token(owner="alice"), ValueError, "a principal is text such as 'User:alice'"),
        (lambda admin: admin.create_delegation_token(renewers="User:alice"), TypeError, "expected a list of principals"),
        (lambda admin: admin.renew_delegation_token("token"), TypeError, "a delegation token is named by itself or by its hmac"),
    ],
)
def test_wrong_arguments_are_told_where_they_are_passed(call: Callable[[Any], Any], error: type[Exception], told: str) -> None:
    with SimulatedKafka() as kafka, kafka.admin() as admin, pytest.raises(error) as raised:
        call(admin)
    assert told in str(raised.value)


def test_M_D11_passwords_of_users_are_not_shown() -> None:
    assert "planted" not in repr(lv.UserScramCredentialUpsertion("alice", "planted", salt=b"planted"))
