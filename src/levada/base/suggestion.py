"""Which known name was probably meant by one that is not known."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean '...'?" for an error's text, empty when no known name is near. Case does not count."""
    from difflib import get_close_matches

    folded = {one.casefold(): one for one in known}
    close = get_close_matches(name.casefold(), folded, n=1)
    return f"; did you mean '{folded[close[0]]}'?" if close else ""
