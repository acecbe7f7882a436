"""Channel: one connection, with at most one frame to be written, and the frames that have been read.

Until it is about to be closed (drain()), a channel reads only while it has no complete frame, so everything that arrived before the other
side closed is delivered before the end is seen. It never waits, and knows its transport but no socket.
"""

from __future__ import annotations

from collections import deque

from levada.errors import IllegalStateError
from levada.net.outgoing import Outgoing
from levada.net.selectable import ChannelState, ConnId, Frame, Pieces
from levada.net.transport import TransportLayer
from levada.protocol.frame import FrameReader
from levada.protocol.frame_memory import FrameMemory

FAIR_SHARE = 8 << 20
"""How many bytes one channel may read in one process() before it is the others' turn."""

LARGE_BYTES = 1 << 14
"""When this much of a frame has come, the rest has probably come too: reading once more is cheaper than waiting for an event."""


class Channel:
    """Reads and writes the bytes of one connection."""

    __slots__ = ("_frames", "_outgoing", "_transport", "closed_by_peer", "conn_id", "staged", "state")

    def __init__(self, conn_id: ConnId, transport: TransportLayer, max_frame_bytes: int, memory: FrameMemory) -> None:
        self.conn_id = conn_id
        self.state = ChannelState.READY if transport.ready else ChannelState.AUTHENTICATE
        self.staged: deque[Frame] = deque()
        self.closed_by_peer = False
        self._transport = transport
        self._frames = FrameReader(max_frame_bytes, memory)
        self._outgoing = Outgoing()

    @property
    def first_bytes(self) -> bytes:
        """The first bytes that the other side has sent."""
        return bytes(self._frames.prefix)

    @property
    def has_parked(self) -> bool:
        """Whether a frame is waiting that is not completely written."""
        return bool(self._outgoing)

    @property
    def has_buffered(self) -> bool:
        """Whether read() has a result although the socket is not readable: a frame, the end of the stream, or an error."""
        return bool(self.staged) or self._frames.fault is not None or self._transport.has_buffered

    @property
    def wants_write(self) -> bool:
        """Whether the handshake waits until the socket can be written to."""
        return self._transport.wants_write

    def handshake(self) -> bool:
        """Continue the transport's handshake as far as possible now; return whether it is done. Raises OSError."""
        self._transport.handshake()
        if self._transport.ready:
            self.state = ChannelState.READY
        return self._transport.ready

    def park(self, frame: Pieces) -> None:
        """Store the pieces of one frame, to be written by flush().

        Raises IllegalStateError while another frame is not completely written.
        """
        if self._outgoing:
            raise IllegalStateError(f"connection {self.conn_id} is still sending its previous request")
        self._outgoing.add(frame)

    def flush(self) -> bool:
        """Write as much of the frame as the transport takes; return whether this call has written its last byte. Raises OSError."""
        return bool(self._outgoing) and self._outgoing.write(self._transport)

    def read(self) -> None:
        """Read until a frame is complete, no bytes are left, the fair share of one step is used up, or the other side has closed.

        A read that did not fill its buffer has emptied the socket, so usually no second read follows (see LARGE_BYTES). Raises OSError, and
        ProtocolError for bytes that are not a frame.
        """
        taken = 0
        while not self.staged and taken < FAIR_SHARE:
            count, size = self._read_some()
            taken += count
            if not count or (count < size and self._frames.pending_bytes < LARGE_BYTES):
                return

    def drain(self) -> None:
        """Read all bytes that have arrived, even beyond a complete frame, because the connection is about to be closed. Raises as read()
        does.
        """
        while self._read_some()[0]:
            pass

    def _read_some(self) -> tuple[int, int]:
        """Return the number of bytes that were read, and the size of the buffer they were read into."""
        buffer = self._frames.get_buffer()
        size = len(buffer)
        count = self._transport.read_into(buffer)
        if count:
            self.staged.extend(self._frames.received(count))
        else:
            self.closed_by_peer = count == 0
        return count or 0, size

    def close(self) -> None:
        """Close the transport."""
        self._transport.close()
