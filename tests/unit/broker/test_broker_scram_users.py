"""AlterUserScramCredentials and DescribeUserScramCredentials (KIP-554)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import levada as lv
from broker_kit import Bench, Client
from levada.broker.access.scram_users import ScramUsers
from levada.error_codes import ErrorCode
from levada.errors import SaslAuthenticationError
from levada.net.sasl.scram import ScramCredential, salted
from levada.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from levada.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from levada.testing import EmbeddedKafka

SHA_256, SHA_512 = 1, 2
SALT = b"salt of a test"


@pytest.fixture
def client() -> Client:
    return Bench().client()


def upsertion(user: str = "alice", mechanism: int = SHA_256, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(name=user, mechanism=mechanism, iterations=iterations, salt=SALT, salted_password=b"salted")


def deletion(user: str = "alice", mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=user, mechanism=mechanism)


def alter(client: Client, *changes: Any) -> dict[str, int]:
    request = AlterUserScramCredentialsRequest(
        deletions=[one for one in changes if isinstance(one, ScramCredentialDeletion)],
        upsertions=[one for one in changes if isinstance(one, ScramCredentialUpsertion)],
    )
    return {result.user: result.error_code for result in client.ask(request).results}


def described(client: Client, *users: str) -> dict[str, Any]:
    answer = client.ask(DescribeUserScramCredentialsRequest(users=[UserName(name=user) for user in users] or None))
    return {
        result.user: ErrorCode.of(result.error_code).name
        if result.error_code
        else {info.mechanism: info.iterations for info in result.credential_infos}
        for result in answer.results
    }


def test_credentials_are_created_replaced_and_deleted(client: Client) -> None:
    assert alter(client, upsertion(), upsertion("bob")) == {"alice": 0, "bob": 0}
    assert alter(client, upsertion(mechanism=SHA_512, iterations=5000)) == {"alice": 0}
    assert described(client) == {"alice": {SHA_256: 4096, SHA_512: 5000}, "bob": {SHA_256: 4096}}
    assert alter(client, upsertion(iterations=8192), deletion("bob")) == {"alice": 0, "bob": 0}
    assert alter(client, deletion(mechanism=SHA_512)) == {"alice": 0}
    assert described(client) == {"alice": {SHA_256: 8192}}


def test_what_is_wrong_for_a_user_leaves_it_as_it_was(client: Client) -> None:
    alter(client, upsertion())
    assert alter(client, upsertion(iterations=5000), upsertion(mechanism=SHA_512), upsertion("bob")) == {
        "alice": ErrorCode.DUPLICATE_RESOURCE,
        "bob": 0,
    }
    assert described(client) == {"alice": {SHA_256: 4096}, "bob": {SHA_256: 4096}}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([upsertion(iterations=4095)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion(iterations=16_385)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion("")], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion(mechanism=0)], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ([deletion()], ErrorCode.RESOURCE_NOT_FOUND),
        ([upsertion(), upsertion()], ErrorCode.DUPLICATE_RESOURCE),
    ],
)
def test_what_is_refused(client: Client, changes: list[Any], code: ErrorCode) -> None:
    assert list(alter(client, *changes).values()) == [code]
    assert described(client) == {}


def test_descriptions_of_who_is_not_there_and_who_stands_twice(client: Client) -> None:
    alter(client, upsertion())
    assert described(client, "alice", "nobody", "bob", "bob") == {
        "alice": {SHA_256: 4096},
        "nobody": "RESOURCE_NOT_FOUND",
        "bob": "DUPLICATE_RESOURCE",
    }


def test_a_password_that_is_given_again_keeps_its_credential() -> None:
    kept: list[Any] = []
    users = ScramUsers(None, kept.append)
    users.set_passwords({"alice": "secret"})
    again = ScramUsers(kept[0], kept.append)
    again.set_passwords({"alice": "secret"})
    assert len(kept) == 1
    again.set_passwords({"alice": "another"})
    assert len(kept) == 2
    assert again.credential("SCRAM-SHA-256", "alice") != users.credential("SCRAM-SHA-256", "alice")


def test_a_user_logs_in_at_once_and_after_a_restart_with_what_was_altered(tmp_path: Path) -> None:
    listeners = ["PLAINTEXT", "SASL_PLAINTEXT"]
    login: dict[str, Any] = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_username": "alice"}
    key = salted("SCRAM-SHA-512", "secret", SALT, 4096)
    wanted = ScramCredentialUpsertion(name="alice", mechanism=SHA_512, iterations=4096, salt=SALT, salted_password=key)
    with EmbeddedKafka(listeners=listeners, data_dir=tmp_path) as kafka:
        with lv.KafkaClient(bootstrap_servers=kafka.bootstrap_servers) as client:
            client.request(AlterUserScramCredentialsRequest(upsertions=[wanted]))
        with lv.KafkaAdmin(**kafka.settings_at("SASL_PLAINTEXT"), **login, sasl_password="secret") as admin:
            admin.list_topics()
    with EmbeddedKafka(listeners=listeners, data_dir=tmp_path) as kafka:
        with lv.KafkaAdmin(**kafka.settings_at("SASL_PLAINTEXT"), **login, sasl_password="secret") as admin:
            admin.list_topics()
        with lv.KafkaClient(bootstrap_servers=kafka.bootstrap_servers) as client:
            client.request(AlterUserScramCredentialsRequest(deletions=[deletion(mechanism=SHA_512)]))
        refused = lv.KafkaAdmin(**kafka.settings_at("SASL_PLAINTEXT"), **login, sasl_password="secret")
        with pytest.raises(SaslAuthenticationError), refused as admin:
            admin.list_topics()


def test_M_D11_no_key_is_shown() -> None:
    users = ScramUsers(None, lambda kept: None)
    users.change({("alice", "SCRAM-SHA-256"): ScramCredential(b"planted", 4096, b"planted", b"planted")})
    assert "planted" not in repr(users.of("alice"))
