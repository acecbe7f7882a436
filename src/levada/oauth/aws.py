"""Credentials for AWS_MSK_IAM. They come from botocore if it is installed (levada[aws]), else from environment variables.

botocore finds credentials like every AWS tool: in the environment, profiles, roles, and the metadata services of machines and containers.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

from levada.base.clock import Clock
from levada.credentials import BlockingStep, Exchange, SaslError, unanswered
from levada.errors import ConfigError, TokenError
from levada.net.sasl.aws import AwsCredentials, signed_message

_OF_MSK: Final = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?\Z")
_NO_PROFILES: Final = "'sasl.aws.profile' needs the package botocore: pip install 'levada[aws]'"
_NOWHERE: Final = "there are no AWS credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set"


class AwsMskIam:
    """The mechanism AWS_MSK_IAM.

    region: None for the region in the broker's name, else that of the environment, else botocore's. profile: None for botocore's default;
    raises ConfigError if a profile is given without botocore.
    """

    name = "AWS_MSK_IAM"

    def __init__(self, region: str | None, profile: str | None, clock: Clock, user_agent: str) -> None:
        self._clock = clock
        self._user_agent = user_agent
        self._session = _botocore_session(profile)
        self._region = region

    def begin(self, host: str) -> Exchange:
        """Authenticate to a broker with a signature for its host name."""
        answer = yield (yield BlockingStep(lambda: self._signed(host)))
        try:
            named = json.loads(answer)["request-id"]
        except (ValueError, LookupError, TypeError):
            named = None
        if not named:
            raise SaslError("the broker's answer is not that of Amazon's brokers")

    def _signed(self, host: str) -> bytes:
        found = _OF_MSK.search(host)
        region = self._region or (None if found is None else found[1]) or self._configured_region()
        if region is None:
            raise TokenError(f"{host} names no region of AWS; give sasl.aws.region")
        return signed_message(host, region, self._credentials(), self._clock.wall_ms(), self._user_agent)

    def _configured_region(self) -> str | None:
        """Return the program's own region. The broker may be in another region, so the region in its name takes precedence.

        None if it is not configured. Raises TokenError as _credentials().
        """
        named = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        if named or self._session is None:
            return named
        with _explained():
            return cast("str | None", self._session.get_config_variable("region"))

    def _credentials(self) -> AwsCredentials:
        """Return the current credentials. botocore renews the credentials of roles before they expire.

        Raises TokenError: not retriable if there are no credentials or the configuration cannot be used, retriable after other errors.
        """
        if self._session is None:
            return _of_environment()
        with _explained():
            found = self._session.get_credentials()
            frozen = None if found is None else found.get_frozen_credentials()
        if frozen is None:
            raise TokenError("botocore finds no AWS credentials: in the environment, a profile, a role or a metadata service")
        return AwsCredentials(frozen.access_key, frozen.secret_key, frozen.token)


@contextmanager
def _explained() -> Iterator[None]:
    """Turn errors of botocore into TokenError."""
    from botocore.exceptions import ConfigParseError, ProfileNotFound

    try:
        yield
    except (ConfigParseError, ProfileNotFound) as error:
        raise TokenError(f"botocore cannot use the AWS configuration: {error}; correct it, sasl.aws.profile or AWS_PROFILE") from None
    except Exception as error:
        raise unanswered(f"botocore cannot get AWS credentials: {type(error).__name__}") from None


def _botocore_session(profile: str | None) -> Any:
    """Return a session. None if botocore is not installed; raises ConfigError then if a profile is given."""
    try:
        from botocore.session import Session
    except ImportError as error:
        if profile is not None:
            raise ConfigError(_NO_PROFILES) from error
        return None
    return Session(profile=profile)


def _of_environment() -> AwsCredentials:
    access_key, secret_key = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if not access_key or not secret_key:
        raise TokenError(f"{_NOWHERE}; for profiles and roles: pip install 'levada[aws]'")
    return AwsCredentials(access_key, secret_key, os.environ.get("AWS_SESSION_TOKEN"))
