"""DefaultPrincipalData: the principal of a client whose request a broker forwards in an Envelope.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Data, boolean, string


class DefaultPrincipalData(Data, versions="0", flexible="0+"):
    """type: usually User. token_authenticated: whether the client used a delegation token."""

    type: str = string()
    name: str = string()
    token_authenticated: bool = boolean()
