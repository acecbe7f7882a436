"""What a certificate calls its owner, as one line of text (RFC 2253), in the form that Java gives it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

Subject: TypeAlias = Sequence[Sequence[tuple[str, str]]]
"""As Python's ssl module has it: parts from the outermost to the innermost, each of one or more attributes."""

_KEYWORDS: Final[Mapping[str, str]] = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_SPECIAL: Final = re.compile(r'[,+"\\<>;]|^[ #]| $')


def distinguished_name(subject: Subject) -> str:
    """Return a subject as text, its innermost part first, such as CN=alice,OU=Trading,O=Example."""
    return ",".join("+".join(f"{_KEYWORDS.get(name, name)}={_escaped(value)}" for name, value in part) for part in reversed(subject))


def _escaped(value: str) -> str:
    return _SPECIAL.sub(lambda found: "\\" + found.group(), value)
