"""Errors of TLS, in a module that does not load OpenSSL, so that code that only catches them need not load it either."""

from __future__ import annotations

from levada.errors import ConfigError


class TlsError(OSError):
    """The TLS handshake failed, or the TLS connection broke.

    is_refusal: whether the cause lasts until someone changes the settings, so that a retry is useless: one side does not accept the other's
    certificate, versions or ciphers, for example, or the listener does not use TLS.
    """

    def __init__(self, text: str, *, is_refusal: bool) -> None:
        super().__init__(text)
        self.is_refusal = is_refusal


class TlsFileError(ConfigError):
    """A file that a TLS setting names, or the text in its place, cannot be used.

    option: the setting. reason: why it cannot be used, without the name of the setting.
    """

    def __init__(self, option: str, reason: str, *, what: str = "", advice: str = "") -> None:
        super().__init__(f"'{option}'{what and f': {what}'} {reason}{advice and f'; {advice}'}")
        self.option = option
        self.reason = reason
