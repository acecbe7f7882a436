"""DescribeDelegationToken: the tokens of some owners, or of all (KIP-48)."""

from __future__ import annotations

from collections.abc import Collection

from levada.acls import ResourceType
from levada.broker.access.delegation_tokens import FIRST_VERSION_WITH_REQUESTERS, Token, parts_of, written
from levada.broker.access.permissions import check_may_use_tokens, may
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


def handle(call: Call) -> DescribeDelegationTokenResponse:
    """Return the delegation tokens that the client may see and whose owner, requester or renewer is one of the requested owners. If the
    request's list of owners is null, return all that the client may see.
    """
    request: DescribeDelegationTokenRequest = call.request
    try:
        check_may_use_tokens(call.session)
    except BrokerError as error:
        return refuse(request, call.version, error.code)
    if not call.state.cluster.access.delegation_tokens.is_enabled:
        return refuse(request, call.version, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None if request.owners is None else [written(owner.principal_type, owner.principal_name) for owner in request.owners]
    tokens = [token for token in call.state.cluster.access.delegation_tokens if _is_wanted(token, owners) and _may_see(call, token)]
    return DescribeDelegationTokenResponse(tokens=[_described(call, token) for token in tokens])


def refuse(request: DescribeDelegationTokenRequest, version: int, code: ErrorCode) -> DescribeDelegationTokenResponse:
    """Answer with an error."""
    return DescribeDelegationTokenResponse(error_code=code)


def _is_wanted(token: Token, owners: Collection[str] | None) -> bool:
    return owners is None or any(token.belongs_to(owner) for owner in owners)


def _may_see(call: Call, token: Token) -> bool:
    is_own = token.belongs_to(call.session.principal)
    return is_own or may(call, ResourceType.DELEGATION_TOKEN, token.id) or may(call, ResourceType.USER, token.owner)


def _described(call: Call, token: Token) -> DescribedDelegationToken:
    owner_type, owner_name = parts_of(token.owner)
    requester_type, requester_name = parts_of(token.requester) if call.version >= FIRST_VERSION_WITH_REQUESTERS else ("", "")
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issue_ms,
        expiry_timestamp=token.expiry_ms,
        max_timestamp=token.max_ms,
        token_id=token.id,
        hmac=call.state.cluster.access.delegation_tokens.hmac_of(token),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name) for kind, name in map(parts_of, token.renewers)
        ],
    )


API = Api(DescribeDelegationTokenRequest, 1, 3, handle, refuse, 1)
