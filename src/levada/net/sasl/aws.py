"""AWS_MSK_IAM: the client signs a request to AWS (Signature Version 4), and sends the signed request to the broker of Amazon MSK.

The message is the request's query as a JSON object, with lower-case names and the broker's host. The secret key is never sent.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

VERSION: Final = "2020_10_22"
ACTION: Final = "kafka-cluster:Connect"
SERVICE: Final = "kafka-cluster"
GOOD_FOR_S: Final = 900
DATE_FORMAT: Final = "%Y%m%dT%H%M%SZ"
_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_END: Final = "aws4_request"
_UNRESERVED: Final = "-_.~"
_EMPTY: Final = hashlib.sha256(b"").hexdigest()
_QUERY: Final = (
    *("Action", "X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-Security-Token", "X-Amz-SignedHeaders"),
)


@dataclass(frozen=True, slots=True)
class AwsCredentials:
    """The AWS credentials that sign. session_token: only for temporary credentials, else None."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


def signed_message(host: str, region: str, credentials: AwsCredentials, wall_ms: int, user_agent: str) -> bytes:
    """Return the client's signed message, which is valid for 15 minutes.

    host: the broker's host name. region: of AWS, such as eu-west-1. wall_ms: the time of signing in ms since the epoch.
    """
    signed_at = datetime.fromtimestamp(wall_ms // 1000, UTC).strftime(DATE_FORMAT)
    scope = f"{signed_at[:8]}/{region}/{SERVICE}/{_END}"
    said = {
        "action": ACTION,
        "x-amz-algorithm": _ALGORITHM,
        "x-amz-credential": f"{credentials.access_key}/{scope}",
        "x-amz-date": signed_at,
        "x-amz-expires": str(GOOD_FOR_S),
        "x-amz-signedheaders": "host",
        **({} if credentials.session_token is None else {"x-amz-security-token": credentials.session_token}),
    }
    signed = {"version": VERSION, "host": host, "user-agent": user_agent, **said}
    return json.dumps({**signed, "x-amz-signature": signature(signed, credentials.secret_key)}, separators=(",", ":")).encode()


def signature(said: Mapping[str, str], secret_key: str) -> str:
    """Return the signature of a message, in hex. said: all other fields of the message. Raises KeyError if a signed field is missing."""
    _, _, scope = said["x-amz-credential"].partition("/")
    query = {name: said[name.lower()] for name in _QUERY if name.lower() in said}
    encoded = "&".join(f"{quote(name, safe=_UNRESERVED)}={quote(query[name], safe=_UNRESERVED)}" for name in sorted(query))
    request = "\n".join(["GET", "/", encoded, f"host:{said['host']}", "", "host", _EMPTY])
    to_sign = "\n".join([_ALGORITHM, said["x-amz-date"], scope, hashlib.sha256(request.encode()).hexdigest()])
    date, region, service = [*scope.split("/"), "", "", ""][:3]
    return hmac.digest(signing_key(secret_key, date, region, service), to_sign.encode(), "sha256").hex()


def signing_key(secret_key: str, date: str, region: str, service: str) -> bytes:
    """Return the signing key for one day, region and service. date: the day as YYYYMMDD."""
    key = f"AWS4{secret_key}".encode()
    for part in (date, region, service, _END):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
