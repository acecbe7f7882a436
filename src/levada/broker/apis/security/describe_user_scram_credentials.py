"""DescribeUserScramCredentials: the mechanisms for which users have SCRAM credentials (KIP-554)."""

from __future__ import annotations

from collections import Counter

from levada.broker.access.scram_users import MECHANISMS
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(call: Call) -> DescribeUserScramCredentialsResponse:
    """Describe each user separately, or all users. A user that occurs twice is refused."""
    request: DescribeUserScramCredentialsRequest = call.request
    counts = Counter([user.name for user in request.users or ()] or call.state.cluster.access.scram_users.names())
    return DescribeUserScramCredentialsResponse(results=[_describe(call, user, repeated=count > 1) for user, count in counts.items()])


def refuse(request: DescribeUserScramCredentialsRequest, version: int, code: ErrorCode) -> DescribeUserScramCredentialsResponse:
    """Answer with an error, for every user and for all together."""
    results = [_failure(user.name, code, None) for user in request.users or ()]
    return DescribeUserScramCredentialsResponse(error_code=code, results=results)


def _describe(call: Call, user: str, *, repeated: bool) -> DescribeUserScramCredentialsResult:
    if repeated:
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        return _failure(user, ErrorCode.DUPLICATE_RESOURCE, message)
    found = call.state.cluster.access.scram_users.of(user)
    if not found:
        message = f"Attempt to describe a user credential that does not exist: {user}"
        return _failure(user, ErrorCode.RESOURCE_NOT_FOUND, message)
    infos = [CredentialInfo(mechanism=number, iterations=found[name].iterations) for number, name in MECHANISMS.items() if name in found]
    return DescribeUserScramCredentialsResult(user=user, credential_infos=infos)


def _failure(user: str, code: ErrorCode, message: str | None) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(user=user, error_code=code, error_message=message, credential_infos=[])


API = Api(DescribeUserScramCredentialsRequest, 0, 0, handle, refuse, 0)
