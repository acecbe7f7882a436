"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, KIP-84): both sides prove that they know a password that neither of them sends.

    client  n,,n=user,r=NONCE            server  r=NONCE+MORE,s=salt,i=iterations
    client  c=biws,r=NONCE+MORE,p=proof  server  v=signature, or e=error

A broker stores keys that are derived from the password. Someone who steals these keys can impersonate the broker, but cannot log in as
the user.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from levada.credentials import Messages, SaslError

HASHES: Final[Mapping[str, str]] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
FEWEST_ITERATIONS: Final = 4096
MOST_ITERATIONS: Final = 1 << 20
"""The most iterations that a client accepts from a broker. They take about a second."""
_HEADER: Final = "n,,"
_BINDING: Final = "c=biws"
"""The field `c` of the client's last message: _HEADER in base64, which means no channel binding."""
_NONCE_BYTES: Final = 24
_LONGEST_REASON: Final = 200
_MANDATORY_EXTENSION: Final = "m"
"""The name of a mandatory extension (RFC 5802). A side that does not support the extension has to end the exchange."""
TOKENAUTH: Final = "tokenauth"
"""The extension that says, if it is `true`, that user and password are a delegation token's id and hmac (KIP-48)."""


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The values that a broker stores instead of a user's password."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"

    @classmethod
    def of(cls, mechanism: str, password: str, *, salt: bytes | None = None, iterations: int = FEWEST_ITERATIONS) -> ScramCredential:
        """Return the credential for a password. salt: None for a random salt."""
        salt = secrets.token_bytes(_NONCE_BYTES) if salt is None else salt
        return cls.of_salted(mechanism, salted(mechanism, password, salt, iterations), salt, iterations)

    @classmethod
    def of_salted(cls, mechanism: str, salted_password: bytes, salt: bytes, iterations: int) -> ScramCredential:
        """Return the credential for a salted password, such as one from AlterUserScramCredentials."""
        return cls(salt, iterations, stored_key(mechanism, salted_password), _mac(mechanism, salted_password, b"Server Key"))


def salted(mechanism: str, password: str | bytes, salt: bytes, iterations: int) -> bytes:
    """Return the salted password, which is PBKDF2 of the password."""
    data = password.encode() if isinstance(password, str) else password
    return hashlib.pbkdf2_hmac(HASHES[mechanism], data, salt, iterations)


def stored_key(mechanism: str, salted_password: bytes) -> bytes:
    """Return the key with which the broker checks the client's proof."""
    return _hash(mechanism, _mac(mechanism, salted_password, b"Client Key"))


def client(mechanism: str, user: str, password: str, *, nonce: str | None = None, with_token: bool = False) -> Messages:
    """Run the client's side of SCRAM: both sides prove that they know the password. Raises SaslError.

    nonce: None for a random nonce. with_token: whether user and password are the id and the hmac of a delegation token (KIP-48).
    """
    nonce = secrets.token_urlsafe(_NONCE_BYTES) if nonce is None else nonce
    first = f"n={_escaped(user)},r={nonce}" + (f",{TOKENAUTH}=true" if with_token else "")
    server_first = _text((yield f"{_HEADER}{first}".encode()))
    found = _fields(server_first)
    both_nonces, salt, iterations = found.get("r", ""), _decoded(found.get("s", "")), _iterations(found.get("i", ""))
    if not both_nonces.startswith(nonce) or both_nonces == nonce:
        raise SaslError("the broker's nonce does not begin with the client's, or adds nothing to it")
    without_proof = f"{_BINDING},r={both_nonces}"
    said = f"{first},{server_first},{without_proof}".encode()
    password_key = salted(mechanism, password, salt, iterations)
    key = _mac(mechanism, password_key, b"Client Key")
    proof = _xor(key, _mac(mechanism, _hash(mechanism, key), said))
    last = _fields(_text((yield f"{without_proof},p={_encoded(proof)}".encode())))
    if "e" in last:
        raise SaslError(f"the broker refuses: {last['e'][:_LONGEST_REASON]}")
    signature = _mac(mechanism, _mac(mechanism, password_key, b"Server Key"), said)
    if not hmac.compare_digest(signature, _decoded(last.get("v", ""))):
        raise SaslError("the broker does not know the password: its signature is wrong, so it may not be the broker it claims to be")


Find: TypeAlias = Callable[[str, Mapping[str, str]], ScramCredential | None]
"""Called with a user name and the client's extensions. Returns the credential; None if the user has none."""


class ScramServer:
    """The broker's side of SCRAM, for one connection.

    user: the user name in the client's first message; "" before. extensions: the SCRAM extensions in that message, such as tokenauth.
    """

    def __init__(self, mechanism: str, find: Find, *, nonce: str | None = None) -> None:
        self.user = ""
        self.extensions: Mapping[str, str] = {}
        self._mechanism = mechanism
        self._find = find
        self._nonce = secrets.token_urlsafe(_NONCE_BYTES) if nonce is None else nonce
        self._credential: ScramCredential | None = None
        self._said = ""
        self._both_nonces = ""

    def first(self, message: bytes) -> bytes:
        """Return the answer to the client's first message. Raises SaslError if the message is invalid or the user has no credential."""
        text = _text(message)
        if not text.startswith(_HEADER):
            raise SaslError("the first message of SCRAM begins with n,,: no channel is bound, and the user acts as nobody else")
        bare = text.removeprefix(_HEADER)
        found = _fields(bare)
        self.user, self.extensions = _unescaped(found.get("n", "")), {name: value for name, value in found.items() if len(name) > 1}
        self._credential = self._find(self.user, self.extensions)
        if self._credential is None or not found.get("r"):
            raise SaslError("unknown user, or no nonce")
        self._both_nonces = found["r"] + self._nonce
        answer = f"r={self._both_nonces},s={_encoded(self._credential.salt)},i={self._credential.iterations}"
        self._said = f"{bare},{answer}"
        return answer.encode()

    def last(self, message: bytes) -> bytes:
        """Check the client's proof, and return the server's signature. Raises SaslError if the message is invalid or the proof is wrong."""
        assert self._credential is not None, "first() comes before last()"
        without_proof, comma, proof = _text(message).rpartition(",p=")
        if not comma or not hmac.compare_digest(without_proof.encode(), f"{_BINDING},r={self._both_nonces}".encode()):
            raise SaslError("the last message of SCRAM does not repeat what was agreed upon")
        said = f"{self._said},{without_proof}".encode()
        key = _xor(_decoded(proof), _mac(self._mechanism, self._credential.stored_key, said))
        if not hmac.compare_digest(_hash(self._mechanism, key), self._credential.stored_key):
            raise SaslError("wrong password")
        return f"v={_encoded(_mac(self._mechanism, self._credential.server_key, said))}".encode()


def _iterations(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not FEWEST_ITERATIONS <= (count := int(text[:20])) <= MOST_ITERATIONS:
        raise SaslError(f"the broker asks for {text[:20]!r} iterations; from {FEWEST_ITERATIONS} to {MOST_ITERATIONS} are accepted")
    return count


def _text(message: bytes) -> str:
    try:
        return bytes(message).decode()
    except UnicodeDecodeError as error:
        raise SaslError("a message of SCRAM is text in UTF-8") from error


def _fields(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not name or not equals or name in found:
            raise SaslError("a message of SCRAM is made of name=value, each once")
        if name == _MANDATORY_EXTENSION:
            raise SaslError(f"a message of SCRAM has the mandatory extension {value[:_LONGEST_REASON]!r}, which is not known here")
        found[name] = value
    return found


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, ValueError) as error:
        raise SaslError("a value in a message of SCRAM is not base64") from error


def _escaped(user: str) -> str:
    return user.replace("=", "=3D").replace(",", "=2C")


def _unescaped(user: str) -> str:
    return user.replace("=2C", ",").replace("=3D", "=")


def _mac(mechanism: str, key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, HASHES[mechanism])


def _hash(mechanism: str, data: bytes) -> bytes:
    return hashlib.new(HASHES[mechanism], data).digest()


def _xor(one: bytes, other: bytes) -> bytes:
    if len(one) != len(other):
        raise SaslError("a proof has the wrong length")
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
