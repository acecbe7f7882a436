"""SchemaRegistryError, and how errors of levada.registry become errors of confluent-kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from levada import errors
from levada.compat.confluent_kafka.error import SerializationError
from levada.registry import RegistryAnswerError, RegistryError


class SchemaRegistryError(Exception):
    """The registry has answered with an error, or could not be asked (both numbers are -1 then)."""

    UNKNOWN = -1

    def __init__(self, http_status_code: int, error_code: int, error_message: str) -> None:
        self.http_status_code = http_status_code
        self.error_code = error_code
        self.error_message = error_message

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return f"{self.error_message} (HTTP status code {self.http_status_code}, SR code {self.error_code})"


@contextmanager
def raising_registry_errors() -> Iterator[None]:
    """Turn errors of levada.registry into SchemaRegistryError, those of serializing into SerializationError, and those of settings into
    ValueError.
    """
    try:
        yield
    except RegistryAnswerError as error:
        raise SchemaRegistryError(error.status, error.error_code, error.reason) from error
    except (RegistryError, errors.TokenError) as error:
        raise SchemaRegistryError(-1, -1, str(error)) from error
    except errors.ConfigError as error:
        raise ValueError(str(error)) from error
    except errors.SerializationError as error:
        raise SerializationError(str(error)) from error
