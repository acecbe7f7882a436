"""The errors of a schema registry. A table maps error codes and HTTP statuses to error classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from levada.errors import AuthenticationError, ConnectError, KafkaError, Persisted, TimeoutError

RETRIABLE_STATUSES: Final = frozenset({408, 429, 500, 502, 503, 504})
NOTHING_DONE: Final = frozenset({429, 503})
"""The retriable statuses that mean that the request was not executed. Even requests that must not be executed twice are retried then."""


class RegistryError(KafkaError):
    """Base class of the errors of a schema registry. `persisted` is NO, because serializers run before a record is sent."""

    persisted = Persisted.NO


class RegistryUnavailableError(RegistryError, ConnectError, TimeoutError):
    """No address of the registry answered within `default.api.timeout.ms` and the allowed number of retries.

    Also raised if the answer to a request was lost that must not be sent twice, such as delete_subject(), and if Glue refuses a request for
    now or is still checking a schema. causes: text about the last failure of each address, by address.

    Check the addresses, and repeat the call. After a lost answer, first look whether the request was executed.
    """

    retriable = True

    def __init__(self, message: str, causes: Mapping[str, str]) -> None:
        width = max((len(address) for address in causes), default=0)
        super().__init__("\n".join([message, *(f"  {address:<{width}}  {cause}" for address, cause in causes.items())]))
        self.causes = dict(causes)


class RegistryAnswerError(RegistryError):
    """The registry answered with an error.

    status: the HTTP status. error_code: the registry's error code, such as 40401, or the HTTP status if the answer has no code. reason: the
    message of the registry. url: the URL of the request, without credentials. For some codes the message says what to do.
    """

    def __init__(self, what: str, *, status: int, error_code: int, reason: str, url: str) -> None:
        self.status = status
        self.error_code = error_code
        self.reason = reason
        self.url = url
        advice = ADVICE.get(error_code) or ADVICE.get(status)
        super().__init__(f"{what}: {reason} ({error_code} from {url})" + (f"; {advice}" if advice else ""))

    @property
    def retriable(self) -> bool:  # type: ignore[override]
        """Whether the same request may succeed later, judged by the HTTP status."""
        return self.status in RETRIABLE_STATUSES


class RegistryNotFoundError(RegistryAnswerError):
    """The subject, version, schema or setting does not exist. Register it, or correct the name, version or id."""

    @property
    def _is_about_data(self) -> bool:
        """Whether the answer has an error code of a registry. Otherwise it is from a proxy, or from another server at the address."""
        return self.error_code != 404


class IncompatibleSchemaError(RegistryAnswerError):
    """The schema is not compatible with the registered schemas of its subject, as the subject's compatibility level requires.

    Change the schema or the level. With SchemaRegistryClient, test_compatibility() returns the reasons, and set_compatibility() changes the
    level.
    """


class InvalidSchemaError(RegistryAnswerError):
    """The registry cannot parse the schema, or refuses it. Correct the schema: the message has the registry's reason."""


class RegistryAuthenticationError(RegistryAnswerError, AuthenticationError):
    """The registry requires credentials, or has refused the configured ones. Correct them: `basic.auth.user.info` or a `bearer.auth`
    setting of SchemaRegistryClient; with Glue, the credentials of AWS.
    """


class RegistryAuthorizationError(RegistryAnswerError):
    """The user does not have the permission for this request. An administrator of the registry has to grant it."""


class RegistryProtocolError(RegistryError):
    """The answer is not valid for a schema registry, is too large, or redirects; or references between schemas cannot be followed.

    Probably another server listens at this address: check it. The text says if max.response.bytes or a schema is the cause.
    """


ADVICE: Final[Mapping[int, str]] = {
    401: "check basic.auth.user.info or bearer.auth.token",
    403: "ask for the permission for this user",
    409: "test_compatibility() returns the reasons; set_compatibility() changes the rule",
    429: "the registry limits the number of requests",
    40404: "it was deleted softly: register it again, or delete it with permanent=True",
    40405: "delete it without permanent=True first",
    40406: "it was deleted softly: register it again, or delete it with permanent=True",
    40407: "delete it without permanent=True first",
    42206: "delete the schemas that refer to it first",
}

_BY_CODE: Final[Mapping[int, type[RegistryAnswerError]]] = {
    401: RegistryAuthenticationError,
    403: RegistryAuthorizationError,
    404: RegistryNotFoundError,
    409: IncompatibleSchemaError,
    42201: InvalidSchemaError,
}


def answer_error(what: str, status: int, error_code: int, reason: str, url: str) -> RegistryAnswerError:
    """Return the error for an answer. Its class depends on the error code, or on the HTTP status if the code has no class.

    what: the name of the request.
    """
    # A code of five digits begins with a status. Apicurio Registry answers 40405 to 40407 with the status 409.
    status_of_code = error_code // 100 if error_code >= 10_000 else status
    kind = _BY_CODE.get(error_code) or _BY_CODE.get(status_of_code, RegistryAnswerError)
    return kind(what, status=status, error_code=error_code, reason=reason, url=url)
