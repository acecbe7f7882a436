"""The bytes that one connection has to write: pieces of frames, written with few system calls. Large pieces are not copied.

A piece may belong to somebody else, such as a batch of records. Its owner must not change it until it was written.
"""

from __future__ import annotations

from collections import deque
from itertools import islice

from levada.net.selectable import Pieces
from levada.net.transport import TransportLayer
from levada.wire.varint import Bytes

GATHERED_PIECES = 64
"""How many pieces one system call gets; the system limits the number."""
WORTH_NAMING = 4096
"""Adjacent pieces with fewer bytes are copied into one piece, which is cheaper than passing them separately."""


class Outgoing:
    """The pieces of frames that are still to be written to one connection."""

    __slots__ = ("_at", "_pieces")

    def __init__(self) -> None:
        self._pieces: deque[Bytes] = deque()
        self._at = 0
        """How many bytes of the first piece were written."""

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add(self, frame: Pieces) -> None:
        """Add the pieces of one frame. Adjacent small pieces are joined."""
        if max(map(len, frame)) < WORTH_NAMING:
            self._append(b"".join(frame))
            return
        small: list[Bytes] = []
        for piece in frame:
            if len(piece) < WORTH_NAMING:
                small.append(piece)
                continue
            self._add_joined(small)
            self._append(piece)
            small.clear()
        self._add_joined(small)

    def write(self, transport: TransportLayer, limit: int | None = None) -> bool:
        """Write as much as the transport takes; return whether nothing is left. limit: the maximum number of bytes per write. Raises
        OSError.
        """
        pieces = self._pieces
        while pieces:
            # No view outlives a call: threads take turns here, and see levada.protocol.decoder about views that several threads release.
            first = memoryview(pieces[0])[self._at :]
            if limit is not None or len(pieces) == 1:
                written = transport.write(first[:limit])
            else:
                written = transport.write_pieces([first, *(memoryview(piece) for piece in islice(pieces, 1, GATHERED_PIECES))])
            if not written:
                return False
            self._drop(written)
        return True

    def _add_joined(self, small: list[Bytes]) -> None:
        self._append(b"".join(small))

    def _append(self, piece: Bytes) -> None:
        # A piece without bytes would stay for ever: writing nothing looks like a transport that takes nothing.
        if piece:
            self._pieces.append(piece)

    def _drop(self, written: int) -> None:
        pieces, at = self._pieces, self._at + written
        while pieces and at >= len(pieces[0]):
            at -= len(pieces.popleft())
        self._at = at
