from __future__ import annotations

from pathlib import Path

from levada.protocol.document import document


def test_the_document_is_current() -> None:
    page = Path(__file__).parents[3] / "docs" / "PROTOCOL.md"

    assert page.read_text() == document(), "run `make docs`"


def test_the_document_says_who_uses_an_api() -> None:
    rows = {row.split(" | ")[1].split("]")[0].removeprefix("["): row for row in document().splitlines() if row.startswith("| ")}

    assert rows["Fetch"] == "| 1 | [Fetch](../src/levada/protocol/messages/fetch.py) | 0-18 |  | 12+ | client, broker |"
    assert rows["Envelope"].endswith("| 0 |  | 0+ | nobody yet |")
    assert rows["SaslHandshake"].split(" | ")[4] == "none"
    assert rows["ShareFetch"].split(" | ")[2:4] == ["1-2", "0"]


def test_an_api_of_which_only_old_brokers_versions_are_known_has_no_user() -> None:
    users = {line.split("|")[2].split("]")[0].strip(" ["): line.split("|")[6].strip() for line in document().splitlines() if "](" in line}
    assert (users["Fetch"], users["OffsetForLeaderEpoch"], users["StopReplica"]) == ("client, broker", "client, broker", "nobody yet")
