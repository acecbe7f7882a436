"""Since which version of each API the client has to wait after a throttled response (KIP-219).

Before that version the broker delayed its response instead, and the client does nothing. Nor does it wait after APIs that are not listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from levada.protocol.schema import Request

THROTTLED_SINCE: Mapping[int, int] = {
    0: 6,
    1: 8,
    2: 3,
    3: 6,
    8: 4,
    9: 4,
    10: 2,
    11: 3,
    12: 2,
    13: 2,
    14: 2,
    15: 2,
    16: 2,
    18: 2,
    19: 3,
    20: 2,
    21: 1,
    22: 1,
    24: 1,
    25: 1,
    26: 1,
    28: 1,
    29: 1,
    30: 1,
    31: 1,
    32: 2,
    33: 1,
    34: 1,
    35: 1,
    37: 1,
    38: 1,
    39: 1,
    40: 1,
    41: 1,
    42: 1,
    43: 0,
    44: 0,
    45: 0,
    46: 0,
    47: 0,
    50: 0,
    51: 0,
    64: 0,
    65: 0,
    66: 0,
    75: 0,
}


def throttle_ms(request_type: type[Request], version: int, response: Any) -> int:
    """Return for how many milliseconds the broker asks the client to send nothing; 0 if it does not."""
    since = THROTTLED_SINCE.get(request_type.API_KEY)
    if since is None or version < since:
        return 0
    return max(int(getattr(response, "throttle_time_ms", 0)), 0)
