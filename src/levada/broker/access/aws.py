"""AWS_MSK_IAM on the broker's side. Amazon's brokers let AWS verify a signature; here a test configures the accounts."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from levada.credentials import SaslError
from levada.net.sasl import aws


class AwsAccounts:
    """The AWS accounts that may log in with AWS_MSK_IAM. secrets: secret access keys by access key. The access key is used as the user
    name.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._secrets = dict(secrets)

    def check(self, message: bytes, wall_ms: int) -> tuple[str, bytes]:
        """Verify the signature of a client's message; return its access key and the broker's answer. Raises SaslError.

        wall_ms: the present time in milliseconds since the epoch.
        """
        said = _object(message)
        access_key, _, scope = said.get("x-amz-credential", "").partition("/")
        secret = self._secrets.get(access_key)
        if secret is None or said.get("version") != aws.VERSION or said.get("action") != aws.ACTION or f"/{aws.SERVICE}/" not in scope:
            raise SaslError("an unknown access key, or not a request to connect to Kafka")
        _check_time(said, wall_ms)
        try:
            expected = aws.signature(said, secret)
        except KeyError as error:
            raise SaslError(f"the message has no {error}") from None
        if not hmac.compare_digest(expected, said.get("x-amz-signature", "")):
            raise SaslError("the signature is wrong")
        return access_key, json.dumps({"version": aws.VERSION, "request-id": hashlib.sha256(message).hexdigest()[:32]}).encode()


def _object(message: bytes) -> dict[str, str]:
    try:
        found: Any = json.loads(message)
    except (ValueError, RecursionError) as error:
        raise SaslError("the message of AWS_MSK_IAM is not JSON") from error
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise SaslError("the message of AWS_MSK_IAM is not a JSON object of strings")
    return found


def _check_time(said: Mapping[str, str], wall_ms: int) -> None:
    try:
        signed_s = datetime.strptime(said.get("x-amz-date", ""), aws.DATE_FORMAT).replace(tzinfo=UTC).timestamp()
        lasts_s = int(said.get("x-amz-expires", ""))
    except ValueError as error:
        raise SaslError("the message has no valid x-amz-date or x-amz-expires") from error
    if not 0 < lasts_s <= aws.GOOD_FOR_S or not signed_s - aws.GOOD_FOR_S <= wall_ms / 1000 <= signed_s + lasts_s:
        raise SaslError("the signature has expired or is not valid yet")
