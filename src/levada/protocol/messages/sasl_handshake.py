"""SaslHandshake (key 17): choose a SASL mechanism.

After version 0 the tokens follow as bare frames, after version 1 in SaslAuthenticate requests.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, array, int16, string


class SaslHandshakeRequest(Request["SaslHandshakeResponse"], key=17, versions="0-1"):
    """The mechanism, such as SCRAM-SHA-256."""

    mechanism: str = string()


class SaslHandshakeResponse(Response, request=SaslHandshakeRequest):
    """The mechanisms that the broker has enabled."""

    error_code: int = int16()
    mechanisms: list[str] = array(string)
