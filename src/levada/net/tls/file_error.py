"""The error of a file that a setting of TLS names: apart, as who only catches it need not load OpenSSL."""

from __future__ import annotations

from levada.errors import ConfigError


class TlsFileError(ConfigError):
    """A file, or the text instead of one, cannot be used. option: the setting. reason: why; it names no setting, as the message does."""

    def __init__(self, option: str, reason: str, *, what: str = "", advice: str = "") -> None:
        super().__init__(f"'{option}'{what and f': {what}'} {reason}{advice and f'; {advice}'}")
        self.option = option
        self.reason = reason
