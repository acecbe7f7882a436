"""sasl.jaas.config, read as data: which of the login modules that Kafka's users have, and its options. No class is ever loaded.

org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="secret";
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
"""The mechanisms of each login module that there is here."""

_OPTION = re.compile(r"""\s*([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';]+))""")


class Login(NamedTuple):
    """module: its class, in Java; options: what it was given."""

    module: str
    options: dict[str, str]


def read(text: str) -> Login:
    """Read one entry. Raises ValueError, which quotes nothing of it: it holds a password.

    Kafka's classes as a Spark platform has renamed them (kafkashaded.org.apache.kafka...) are known, too.
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
