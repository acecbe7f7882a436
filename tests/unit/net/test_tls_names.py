"""What a certificate calls its owner, as one line."""

from __future__ import annotations

import pytest

from levada.net.tls.transport import Subject, distinguished_name


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        ((), ""),
        (((("countryName", "DE"),), (("organizationName", "Example"),), (("commonName", "alice"),)), "CN=alice,O=Example,C=DE"),
        (((("organizationalUnitName", "a"), ("commonName", "b")),), "OU=a+CN=b"),
        (((("commonName", 'a,b+c"d\\e<f>g;h'),),), 'CN=a\\,b\\+c\\"d\\\\e\\<f\\>g\\;h'),
        (((("commonName", "#a b "),),), "CN=\\#a b\\ "),
        (((("serialNumber", "7"),),), "serialNumber=7"),
    ],
)
def test_a_subject_is_told_as_java_tells_it(subject: Subject, text: str) -> None:
    assert distinguished_name(subject) == text
