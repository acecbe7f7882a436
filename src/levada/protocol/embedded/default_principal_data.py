"""DefaultPrincipalData: the client a broker speaks for in an Envelope.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Data, boolean, string


class DefaultPrincipalData(Data, versions="0", flexible="0+"):
    """type is User, as a rule. token_authenticated: by a delegation token."""

    type: str = string()
    name: str = string()
    token_authenticated: bool = boolean()
