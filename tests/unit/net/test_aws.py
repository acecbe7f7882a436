"""AWS_MSK_IAM: the signature, held against what AWS publishes, and the broker's side of it."""

from __future__ import annotations

import json

import pytest

from levada.broker.access.aws import AwsAccounts
from levada.credentials import SaslError
from levada.net.sasl import aws

NOW_MS = 1_700_000_000_000
CREDENTIALS = aws.AwsCredentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "token/with+signs=")
ACCOUNTS = AwsAccounts({CREDENTIALS.access_key: CREDENTIALS.secret_key})


def said(**changed: str) -> bytes:
    message = json.loads(aws.signed_message("b-1.kafka.eu-west-1.amazonaws.com", "eu-west-1", CREDENTIALS, NOW_MS, "tests"))
    return json.dumps({**message, **{name.replace("_", "-"): value for name, value in changed.items()}}).encode()


def test_the_key_is_that_of_the_documented_example() -> None:
    key = aws.signing_key("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "20120215", "us-east-1", "iam")
    assert key.hex() == "f4780e2d9f65fa895f9c67b32ce1baf0b0d8a43505a000a1a9e090d414db404d"


def test_a_message_says_who_and_where_and_not_the_secret() -> None:
    message = json.loads(said())
    assert message["host"] == "b-1.kafka.eu-west-1.amazonaws.com"
    assert message["x-amz-credential"] == "AKIDEXAMPLE/20231114/eu-west-1/kafka-cluster/aws4_request"
    assert message["x-amz-expires"] == "900"
    assert "EXAMPLEKEY" not in said().decode()
    assert "EXAMPLEKEY" not in repr(CREDENTIALS)


def test_a_broker_believes_a_right_signature() -> None:
    user, answer = ACCOUNTS.check(said(), NOW_MS + 60_000)
    assert user == "AKIDEXAMPLE"
    assert json.loads(answer)["request-id"]


@pytest.mark.parametrize(
    ("changed", "later_ms", "why"),
    [
        ({"host": "elsewhere"}, 0, "signature is wrong"),
        ({"x_amz_signature": "0" * 64}, 0, "signature is wrong"),
        ({"x_amz_security_token": "another"}, 0, "signature is wrong"),
        ({"action": "kafka-cluster:Delete"}, 0, "not a request to connect"),
        ({"version": "1"}, 0, "not a request to connect"),
        ({"x_amz_credential": "OTHER/20231114/eu-west-1/kafka-cluster/aws4_request"}, 0, "unknown access key"),
        ({"x_amz_date": "yesterday"}, 0, "no valid x-amz-date"),
        ({"x_amz_expires": "90000"}, 0, "expired"),
        ({}, 901_000, "expired"),
        ({}, -901_000, "expired"),
    ],
)
def test_what_a_broker_does_not_believe(changed: dict[str, str], later_ms: int, why: str) -> None:
    with pytest.raises(SaslError, match=why):
        ACCOUNTS.check(said(**changed), NOW_MS + later_ms)


@pytest.mark.parametrize("message", [b"", b"[]", b'{"a":1}', b"\xff", b"{}", b"[" * 100_000], ids=lambda message: repr(message[:9]))
def test_what_is_no_message(message: bytes) -> None:
    with pytest.raises(SaslError):
        ACCOUNTS.check(message, NOW_MS)
