"""Envelope (key 58): a broker forwards a client's request to the controller (KIP-590).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, bytestring, int16


class EnvelopeRequest(Request["EnvelopeResponse"], key=58, versions="0", flexible="0+"):
    """The request with its header. request_principal: the client's principal, a DefaultPrincipalData unless a plugin made it."""

    request_data: bytes = bytestring(secret=True)
    request_principal: bytes | None = bytestring(nullable="0+")
    client_host_address: bytes = bytestring()


class EnvelopeResponse(Response, request=EnvelopeRequest):
    """The response with its header."""

    response_data: bytes | None = bytestring(nullable="0+", secret=True)
    error_code: int = int16()
