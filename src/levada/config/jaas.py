"""Reads sasl.jaas.config as data: the name of a login module, and its options. No class is ever loaded.

An example: org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="secret";
"""

from __future__ import annotations

import re
from typing import NamedTuple

from levada.config.option import Secret

_HOME = "org.apache.kafka.common.security."
MECHANISMS = {
    f"{_HOME}plain.PlainLoginModule": ("PLAIN",),
    f"{_HOME}scram.ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    f"{_HOME}oauthbearer.OAuthBearerLoginModule": ("OAUTHBEARER",),
    "com.sun.security.auth.module.Krb5LoginModule": ("GSSAPI",),
    "software.amazon.msk.auth.iam.IAMLoginModule": ("AWS_MSK_IAM",),
}
"""The supported login modules, each with its SASL mechanisms."""

_OPTION = re.compile(r"""\s*([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';]+))""")


class Login(NamedTuple):
    """A login module and its options. module: the name of its Java class."""

    module: str
    options: dict[str, str]


def read(text: str) -> Login:
    """Return the login in the text. Raises ValueError, which does not quote options, since these hold a password.

    Some Spark platforms rename Kafka's classes to kafkashaded.org.apache.kafka...; these names are accepted too.
    """
    head = re.match(r"\s*(?:kafkashaded\.)?([\w.$]+)\s+(required|requisite|sufficient|optional)\b", text, re.IGNORECASE)
    if head is None:
        raise ValueError('expected <login module> required username="..." password="...";')
    if head[1] not in MECHANISMS:
        known = ", ".join(module.rpartition(".")[2] for module in MECHANISMS)
        raise ValueError(f"the login module {head[1]} is not known here; known are Kafka's {known}")
    options: dict[str, str] = {}
    at = head.end()
    while found := _OPTION.match(text, at):
        quoted = found[2] if found[2] is not None else found[3]
        options[found[1]] = Secret(found[4] if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
        at = found.end()
    if text[at:].strip() != ";":
        raise ValueError('expected options as name="value", and a semicolon at the end')
    return Login(head[1], options)
