"""The assertion of the JWT bearer grant (RFC 7523, KIP-1139): a JSON web token that the client signs, and gives for a token.

It needs the package PyJWT with its cryptography: levada[oauth].
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from levada.errors import ConfigError, TokenError


@dataclass(frozen=True, slots=True)
class AssertionSettings:
    """The settings sasl.oauthbearer.assertion.*. file: a finished assertion, instead of all others."""

    file: str | None
    private_key_file: str | None
    private_key_passphrase: str | None = field(repr=False)
    algorithm: str
    template_file: str | None
    claim_aud: str | None
    claim_iss: str | None
    claim_sub: str | None
    claim_exp_seconds: int
    claim_nbf_seconds: int
    claim_jti_include: bool


def check_available() -> None:
    """Raise ConfigError where the package that signs is missing."""
    try:
        import jwt
    except ImportError as error:
        raise ConfigError("signing assertions needs the package PyJWT: pip install 'levada[oauth]'") from error
    if not jwt.algorithms.has_crypto:
        raise ConfigError("signing assertions needs the package cryptography: pip install 'levada[oauth]'")


def assertion(settings: AssertionSettings, now_s: int) -> str:
    """Return an assertion; files are read each time, so that they can be replaced. Raises TokenError, which quotes no content."""
    try:
        if settings.file is not None:
            return Path(settings.file).read_text().strip()
        assert settings.private_key_file is not None, "the configuration has seen to it"
        template = {} if settings.template_file is None else json.loads(Path(settings.template_file).read_text())
        return _signed(template, claims_of(template, settings, now_s), Path(settings.private_key_file).read_bytes(), settings)
    except OSError as error:
        raise TokenError(f"a file of sasl.oauthbearer.assertion cannot be read: {error.strerror}: {error.filename}") from None
    except ValueError:
        raise TokenError(
            "a file of sasl.oauthbearer.assertion is not what it has to be: a private key in PEM, a template in JSON"
        ) from None


def claims_of(template: Mapping[str, Any], settings: AssertionSettings, now_s: int) -> dict[str, Any]:
    """Return what an assertion says: what the template has, and over it what the settings have."""
    given = {"aud": settings.claim_aud, "iss": settings.claim_iss, "sub": settings.claim_sub}
    times = {"iat": now_s, "exp": now_s + settings.claim_exp_seconds, "nbf": now_s - settings.claim_nbf_seconds}
    once = {"jti": str(uuid.uuid4())} if settings.claim_jti_include else {}
    return {**template.get("payload", {}), **{name: value for name, value in given.items() if value is not None}, **times, **once}


def _signed(template: Mapping[str, Any], claims: Mapping[str, Any], key: bytes, settings: AssertionSettings) -> str:
    import jwt
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    passphrase = settings.private_key_passphrase
    try:
        private_key: Any = load_pem_private_key(key, None if passphrase is None else passphrase.encode())
        return jwt.encode(dict(claims), private_key, settings.algorithm, headers=template.get("header", {}))
    except (TypeError, jwt.PyJWTError) as error:
        # Of cryptography, TypeError: a passphrase that is missing, or not needed.
        raise TokenError(
            f"sasl.oauthbearer.assertion.private.key.file cannot sign by {settings.algorithm}: {type(error).__name__}"
        ) from None
