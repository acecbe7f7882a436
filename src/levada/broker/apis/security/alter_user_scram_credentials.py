"""AlterUserScramCredentials: set and delete SCRAM credentials of users (KIP-554)."""

from __future__ import annotations

from typing import TypeAlias

from levada.broker.access.scram_users import MECHANISMS, Key
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.net.sasl.scram import FEWEST_ITERATIONS, ScramCredential
from levada.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

MOST_ITERATIONS = 16_384
"""Kafka's limit for the iterations of a request."""
Change: TypeAlias = ScramCredentialDeletion | ScramCredentialUpsertion


def handle(call: Call) -> AlterUserScramCredentialsResponse:
    """Handle each user separately. As in Kafka, a user that occurs twice is refused, even with different mechanisms."""
    changes: dict[Key, ScramCredential | None] = {}
    errors: dict[str, BrokerError] = {}
    for wanted in _wanted(call.request):
        try:
            if any(wanted.name == user for user, _ in changes):
                raise BrokerError("A user credential cannot be altered twice in the same request", code=ErrorCode.DUPLICATE_RESOURCE)
            key = _checked(call, wanted)
            changes[key] = _credential(wanted, key[1]) if isinstance(wanted, ScramCredentialUpsertion) else None
        except BrokerError as error:
            errors.setdefault(wanted.name, error)
    done = {key: credential for key, credential in changes.items() if key[0] not in errors}
    call.state.cluster.access.scram_users.change(done)
    results = [AlterUserScramCredentialsResult(user=user) for user, _ in done]
    return AlterUserScramCredentialsResponse(results=[*results, *(_failure(user, error) for user, error in errors.items())])


def refuse(request: AlterUserScramCredentialsRequest, version: int, code: ErrorCode) -> AlterUserScramCredentialsResponse:
    """Answer with an error for every user."""
    users = dict.fromkeys(wanted.name for wanted in _wanted(request))
    return AlterUserScramCredentialsResponse(results=[AlterUserScramCredentialsResult(user=user, error_code=code) for user in users])


def _wanted(request: AlterUserScramCredentialsRequest) -> list[Change]:
    return [*request.deletions, *request.upsertions]


def _checked(call: Call, wanted: Change) -> Key:
    """Return the user and the mechanism of a change. Raises BrokerError if the change is not allowed."""
    if not wanted.name:
        raise BrokerError("Username must not be empty", code=ErrorCode.UNACCEPTABLE_CREDENTIAL)
    if wanted.mechanism not in MECHANISMS:
        raise BrokerError("Unknown SCRAM mechanism", code=ErrorCode.UNSUPPORTED_SASL_MECHANISM)
    key = wanted.name, MECHANISMS[wanted.mechanism]
    if isinstance(wanted, ScramCredentialUpsertion):
        _check_iterations(wanted.iterations)
    elif call.state.cluster.access.scram_users.credential(key[1], key[0]) is None:
        raise BrokerError("Attempt to delete a user credential that does not exist", code=ErrorCode.RESOURCE_NOT_FOUND)
    return key


def _credential(wanted: ScramCredentialUpsertion, mechanism: str) -> ScramCredential:
    return ScramCredential.of_salted(mechanism, bytes(wanted.salted_password), bytes(wanted.salt), wanted.iterations)


def _check_iterations(iterations: int) -> None:
    if not FEWEST_ITERATIONS <= iterations <= MOST_ITERATIONS:
        how_many = "few" if iterations < FEWEST_ITERATIONS else "many"
        raise BrokerError(f"Too {how_many} iterations", code=ErrorCode.UNACCEPTABLE_CREDENTIAL)


def _failure(user: str, error: BrokerError) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.reason)


API = Api(AlterUserScramCredentialsRequest, 0, 0, handle, refuse, 0)
