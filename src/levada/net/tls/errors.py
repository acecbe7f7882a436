"""What is wrong with a connection's TLS, without OpenSSL: whoever uses connections may ask."""

from __future__ import annotations


class TlsError(OSError):
    """TLS with the other side did not come about, or broke.

    is_refusal: whether one side does not accept the other, so that trying again is pointless until something is changed.
    """

    def __init__(self, text: str, *, is_refusal: bool) -> None:
        super().__init__(text)
        self.is_refusal = is_refusal
