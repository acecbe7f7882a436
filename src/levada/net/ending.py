"""What an error says about how a connection ended."""

from __future__ import annotations

import errno

from levada.errors import ProtocolError
from levada.net.selectable import Ending
from levada.net.tls.errors import TlsError

_ENDINGS = {
    errno.ECONNREFUSED: Ending.REFUSED,
    errno.ECONNRESET: Ending.RESET,
    errno.EPIPE: Ending.RESET,
    errno.EHOSTUNREACH: Ending.UNREACHABLE,
    errno.ENETUNREACH: Ending.UNREACHABLE,
    errno.ETIMEDOUT: Ending.CONNECT_TIMED_OUT,
}


def ending_of(error: Exception) -> Ending:
    """Return by what a connection ended that met this error."""
    if isinstance(error, ProtocolError):
        return Ending.BAD_FRAME
    if isinstance(error, TlsError):
        return Ending.TLS_REFUSED if error.is_refusal else Ending.TLS_FAILED
    return _ENDINGS.get(error.errno or 0, Ending.FAILED) if isinstance(error, OSError) else Ending.FAILED


def text_of(error: Exception) -> str:
    """Return the short form of an error."""
    if isinstance(error, OSError) and error.errno is not None:
        return errno.errorcode.get(error.errno, str(error))
    return str(error) or type(error).__name__
