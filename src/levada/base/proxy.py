"""The address of a proxy, and the login for it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy for connections to other hosts. scheme: "socks5", "socks5h" or "http". user: "" without a login."""

    scheme: str
    host: str
    port: int
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    @property
    def is_socks(self) -> bool:
        """Whether the proxy speaks SOCKS5; else it is asked with HTTP's CONNECT."""
        return self.scheme != "http"

    @property
    def resolves_names(self) -> bool:
        """Whether the proxy is given host names. With socks5:// they are looked up here, and the proxy is given addresses, as in curl."""
        return self.scheme != "socks5"

    def __str__(self) -> str:
        """Return the URL without the login."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"
