"""CreateDelegationToken: create a token to log in as a user, by default the one who sends the request (KIP-48, KIP-373)."""

from __future__ import annotations

from levada.acls import ResourceType
from levada.broker.access.delegation_tokens import FIRST_VERSION_WITH_REQUESTERS, NEVER_MS, USER, Token, parts_of, written
from levada.broker.access.permissions import check, check_may_use_tokens
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse


def handle(call: Call) -> CreateDelegationTokenResponse:
    """Create a delegation token for the client's principal or, if permitted, for another owner."""
    request: CreateDelegationTokenRequest = call.request
    asker = call.session.principal
    owner = written(request.owner_principal_type or "", request.owner_principal_name) if request.owner_principal_name else asker
    try:
        token = _create(call, owner)
    except BrokerError as error:
        return _answer(owner, asker, call.version, error.code)
    answer = _answer(owner, asker, call.version, ErrorCode.NONE)
    answer.issue_timestamp_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms = token.issue_ms, token.expiry_ms, token.max_ms
    answer.token_id, answer.hmac = token.id, call.state.cluster.access.delegation_tokens.hmac_of(token)
    return answer


def refuse(request: CreateDelegationTokenRequest, version: int, code: ErrorCode) -> CreateDelegationTokenResponse:
    """Answer with an error."""
    return _answer("", "", version, code)


def _create(call: Call, owner: str) -> Token:
    request: CreateDelegationTokenRequest = call.request
    check_may_use_tokens(call.session)
    if owner != call.session.principal:
        check(call, ResourceType.USER, owner)
    if any(renewer.principal_type != USER for renewer in request.renewers):
        raise BrokerError("renewers are users", code=ErrorCode.INVALID_PRINCIPAL_TYPE)
    renewers = tuple(written(renewer.principal_type, renewer.principal_name) for renewer in request.renewers)
    tokens = call.state.cluster.access.delegation_tokens
    return tokens.create(owner, call.session.principal, renewers, request.max_lifetime_ms, call.wall_ms)


def _answer(owner: str, asker: str, version: int, code: ErrorCode) -> CreateDelegationTokenResponse:
    owner_type, owner_name = parts_of(owner)
    asker_type, asker_name = parts_of(asker) if version >= FIRST_VERSION_WITH_REQUESTERS else ("", "")
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=asker_type,
        token_requester_principal_name=asker_name,
        issue_timestamp_ms=NEVER_MS,
        expiry_timestamp_ms=NEVER_MS,
        max_timestamp_ms=NEVER_MS,
    )


API = Api(CreateDelegationTokenRequest, 1, 3, handle, refuse, 1)
