"""The assertion of the JWT bearer grant (RFC 7523, KIP-1139): a JSON web token that the client signs, and exchanges for an access token.

Signing needs the packages PyJWT and cryptography: levada[oauth].
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from levada.errors import ConfigError, KafkaError, TokenError


@dataclass(frozen=True, slots=True)
class AssertionSettings:
    """The settings sasl.oauthbearer.assertion.*. file: a file with a finished assertion; then the other settings are not used."""

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


def check(settings: AssertionSettings, now_s: int) -> None:
    """Raise ConfigError if no assertion can be made: a package is missing, or a file is invalid."""
    if settings.file is None:
        _check_available()
    _made_or(ConfigError, settings, now_s)


def _check_available() -> None:
    try:
        import jwt
    except ImportError as error:
        raise ConfigError("signing assertions needs the package PyJWT: pip install 'levada[oauth]'") from error
    if not jwt.algorithms.has_crypto:
        raise ConfigError("signing assertions needs the package cryptography: pip install 'levada[oauth]'")


def assertion(settings: AssertionSettings, now_s: int) -> str:
    """Return an assertion. Files are read each time, so that they can be replaced. Raises TokenError, without content of the files."""
    return _made_or(TokenError, settings, now_s)


def _made_or(error: type[KafkaError], settings: AssertionSettings, now_s: int) -> str:
    try:
        return _made(settings, now_s)
    except ConfigError as found:
        why = str(found)
    # Raised outside of the handler, so that its traceback has none of the frames in which key and passphrase are variables.
    raise error(why)


def _made(settings: AssertionSettings, now_s: int) -> str:
    if settings.file is not None:
        return _finished(settings.file)
    assert settings.private_key_file is not None, "the configuration has seen to it"
    template = {} if settings.template_file is None else _template(settings.template_file)
    return _signed(template, claims_of(template, settings, now_s), settings.private_key_file, settings)


def _finished(file: str) -> str:
    content = _read("file", file)
    try:
        return content.decode("ascii").strip()
    except ValueError:
        raise _wrong("file", f"{file} holds no JSON web token") from None


def claims_of(template: Mapping[str, Any], settings: AssertionSettings, now_s: int) -> dict[str, Any]:
    """Return the claims of an assertion: those of the template, overridden by those of the settings, iat, exp, nbf and perhaps jti."""
    given = {"aud": settings.claim_aud, "iss": settings.claim_iss, "sub": settings.claim_sub}
    times = {"iat": now_s, "exp": now_s + settings.claim_exp_seconds, "nbf": now_s - settings.claim_nbf_seconds}
    once = {"jti": str(uuid.uuid4())} if settings.claim_jti_include else {}
    return {**template.get("payload", {}), **{name: value for name, value in given.items() if value is not None}, **times, **once}


def _signed(template: Mapping[str, Any], claims: Mapping[str, Any], key_file: str, settings: AssertionSettings) -> str:
    import jwt

    key = _private_key(key_file, settings.private_key_passphrase)
    header = {**template.get("header", {}), "alg": settings.algorithm}
    try:
        return jwt.encode(dict(claims), key, settings.algorithm, headers=header)
    except jwt.InvalidTokenError as error:
        raise _wrong("template.file", f"the header of {settings.template_file} cannot be sent: {error}") from None
    except (TypeError, jwt.PyJWTError):
        raise _wrong("private.key.file", f"the key in {key_file} cannot sign by {settings.algorithm}") from None


def _private_key(file: str, passphrase: str | None) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    pem = _read("private.key.file", file)
    try:
        return load_pem_private_key(pem, passphrase.encode() if passphrase else None)
    except TypeError:
        why = "is not encrypted, and needs none" if passphrase else "is encrypted, and needs it"
        raise _wrong("private.key.passphrase", f"the key in {file} {why}") from None
    except (ValueError, UnsupportedAlgorithm):
        if passphrase and b"ENCRYPTED" in pem:
            raise _wrong("private.key.passphrase", f"it does not open the key in {file}") from None
        raise _wrong("private.key.file", f"{file} holds no private key in PEM") from None


def _template(file: str) -> Mapping[str, Any]:
    content = _read("template.file", file)
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(found.get(part, {}), dict) for part in ("header", "payload")):
        raise _wrong("template.file", f'{file} is not {{"header": {{...}}, "payload": {{...}}}} in JSON')
    return found


def _read(option: str, file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise _wrong(option, f"{file} cannot be read: {error.strerror}") from None


def _wrong(option: str, why: str) -> ConfigError:
    return ConfigError(f"'sasl.oauthbearer.assertion.{option}': {why}")
