"""What can go wrong with a registry. A registry's answer becomes an error by one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from levada.errors import AuthenticationError, ConnectError, KafkaError, Persisted, TimeoutError

RETRIABLE_STATUSES: Final = frozenset({408, 429, 500, 502, 503, 504})
NOTHING_DONE: Final = frozenset({429, 503})
"""Of these, the ones that say the request was not carried out, so that even what must not be done twice is tried again."""


class RegistryError(KafkaError):
    """Base of everything that is about a schema registry. No record was written: a serializer runs before that."""

    persisted = Persisted.NO


class RegistryUnavailableError(RegistryError, ConnectError, TimeoutError):
    """No address of the registry gave an answer, with all retries, within `default.api.timeout.ms`.

    causes: what became of each address last.
    """

    retriable = True

    def __init__(self, message: str, causes: Mapping[str, str]) -> None:
        width = max((len(address) for address in causes), default=0)
        super().__init__("\n".join([message, *(f"  {address:<{width}}  {cause}" for address, cause in causes.items())]))
        self.causes = dict(causes)


class RegistryAnswerError(RegistryError):
    """The registry answered with an error.

    status: of HTTP. error_code: the registry's own, such as 40401, or the status where it gave none. reason: its message. url: what was
    asked, without credentials.
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
        """Whether the same request may succeed later."""
        return self.status in RETRIABLE_STATUSES


class RegistryNotFoundError(RegistryAnswerError):
    """The subject, version, schema or setting does not exist."""


class IncompatibleSchemaError(RegistryAnswerError):
    """The schema does not fit those that are registered under its subject, by the subject's compatibility level."""


class InvalidSchemaError(RegistryAnswerError):
    """The registry cannot read the schema, or refuses it."""


class RegistryAuthenticationError(RegistryAnswerError, AuthenticationError):
    """The registry wants credentials, or refused those it was given."""


class RegistryAuthorizationError(RegistryAnswerError):
    """This user may not do that."""


class RegistryProtocolError(RegistryError):
    """The answer is not what a registry answers: probably something else listens at this address."""


ADVICE: Final[Mapping[int, str]] = {
    401: "set basic.auth.user.info or bearer.auth.token",
    403: "ask for the permission for this user",
    409: "test_compatibility() tells what stands against it; set_compatibility() changes the rule",
    429: "the registry limits how often it may be asked",
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
    """Return the error for an answer, with the most specific type there is."""
    kind = _BY_CODE.get(error_code) or _BY_CODE.get(status, RegistryAnswerError)
    return kind(what, status=status, error_code=error_code, reason=reason, url=url)
