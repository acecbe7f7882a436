"""Assertions that cannot be made: each error names the option to look at, and quotes nothing of a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from levada.errors import ConfigError, TokenError
from levada.net.sasl import jwt
from levada.oauth.assertion import AssertionSettings, assertion, check

serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
pytest.importorskip("jwt")

NOW_S = 1_700_000_000
PASSPHRASE = "planted-passphrase"


@pytest.fixture
def of_a_key(tmp_path: Path) -> dict[str, Any]:
    """Settings with a private key, encrypted as `encrypted.pem` and plain as `plain.pem`."""
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    kinds = {"encrypted.pem": serialization.BestAvailableEncryption(PASSPHRASE.encode()), "plain.pem": serialization.NoEncryption()}
    for name, encryption in kinds.items():
        pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        (tmp_path / name).write_bytes(pem)
    (tmp_path / "nonsense").write_bytes(b"planted \xff")
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "part.json").write_text('{"header": "planted"}')
    (tmp_path / "kid.json").write_text('{"header": {"kid": 7}}')
    (tmp_path / "alg.json").write_text('{"header": {"kid": "7", "alg": "none"}, "payload": {"sub": "of the template"}}')
    return {"private_key_file": "plain.pem", "algorithm": "ES256"}


def settings_of(folder: Path, given: dict[str, Any]) -> AssertionSettings:
    usual: dict[str, Any] = dict.fromkeys(AssertionSettings.__dataclass_fields__)
    settings = {**usual, "claim_exp_seconds": 300, "claim_nbf_seconds": 60, "claim_jti_include": False, **given}
    files = {name: str(folder / value) for name, value in settings.items() if name.endswith("file") and value is not None}
    return AssertionSettings(**{**settings, **files})


WRONG = [
    ({"private_key_file": "encrypted.pem", "private_key_passphrase": "wrong"}, "private.key.passphrase': it does not open the key in "),
    ({"private_key_file": "encrypted.pem"}, "private.key.passphrase': the key in .* is encrypted, and needs it"),
    ({"private_key_passphrase": PASSPHRASE}, "private.key.passphrase': the key in .* is not encrypted, and needs none"),
    ({"private_key_file": "nonsense"}, "private.key.file': .*nonsense holds no private key in PEM"),
    ({"private_key_file": "missing"}, "private.key.file': .*missing cannot be read: No such file or directory"),
    ({"algorithm": "RS256"}, "private.key.file': the key in .*plain.pem cannot sign by RS256"),
    ({"template_file": "nonsense"}, "template.file': .*nonsense is not {"),
    ({"template_file": "list.json"}, "template.file': .*list.json is not {"),
    ({"template_file": "part.json"}, "template.file': .*part.json is not {"),
    ({"template_file": "kid.json"}, "template.file': the header of .*kid.json cannot be sent: "),
    ({"template_file": "missing"}, "template.file': .*missing cannot be read"),
    ({"file": "nonsense"}, "assertion.file': .*nonsense holds no JSON web token"),
    ({"file": "missing"}, "assertion.file': .*missing cannot be read"),
]


@pytest.mark.parametrize(("given", "why"), WRONG)
def test_what_is_wrong_is_told_when_the_client_is_made_and_later(
    tmp_path: Path, of_a_key: dict[str, Any], given: dict[str, Any], why: str
) -> None:
    settings = settings_of(tmp_path, {**of_a_key, **given})
    with pytest.raises(ConfigError, match=f"'sasl.oauthbearer.*{why}") as at_first:
        check(settings, NOW_S)
    with pytest.raises(TokenError, match=why) as later:
        assertion(settings, NOW_S)
    assert "planted" not in f"{at_first.value}{later.value}".replace(str(tmp_path), "")


def test_a_template_is_overruled_by_the_settings(tmp_path: Path, of_a_key: dict[str, Any]) -> None:
    settings = settings_of(tmp_path, {**of_a_key, "template_file": "alg.json", "claim_aud": "kafka"})
    check(settings, NOW_S)
    header, claims, _ = jwt.parts(assertion(settings, NOW_S))
    assert json.dumps(dict(header), sort_keys=True) == '{"alg": "ES256", "kid": "7", "typ": "JWT"}'
    assert (claims["sub"], claims["aud"]) == ("of the template", "kafka")
