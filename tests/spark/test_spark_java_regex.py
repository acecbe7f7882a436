"""Java's patterns for topic names, in Python's words."""

from __future__ import annotations

import pytest

from levada.errors import ConfigError
from levada.spark.options.java_regex import translate


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        ("orders", ["orders"], ["my-orders", "orders-1"]),
        (r"a\.b.*", ["a.b", "a.bc"], ["axb"]),
        (r"\Qa.b+\E-\d+", ["a.b+-1"], ["axb-1", "a.bb-1"]),
        (r"\Qa.b", ["a.b"], ["axb"]),
        (r"(?<env>dev|test)-\w+", ["dev-x", "test-y"], ["prod-x"]),
        (r"\p{Lower}+", ["abc"], ["Abc", "a1"]),
        (r"[\p{Alnum}_]+", ["a_1"], ["a-1"]),
        (r"\P{Digit}+", ["abc"], ["a1"]),
        (r"(?!__).*", ["orders"], ["__consumer_offsets"]),
        (r"[]a]+", ["]a"], ["b"]),
        (r"x++y?+", ["xxy"], ["y"]),
        (r"t\z", ["t"], ["tt"]),
        (r"(?i)ORDERS", ["orders"], ["order"]),
        (r"a&&b", ["a&&b"], ["a"]),
    ],
)
def test_what_matches(pattern: str, matches: list[str], others: list[str]) -> None:
    found = translate(pattern, "subscribePattern")
    assert [name for name in matches if not found.fullmatch(name)] == []
    assert [name for name in others if found.fullmatch(name)] == []


@pytest.mark.parametrize("pattern", [r"[a-z&&[^b]]", r"[a[bc]]", r"\p{IsAlphabetic}", r"\R", r"\X", r"\h+", r"[\P{Digit}]", r"\k<env>"])
def test_what_only_java_knows_is_refused_by_name(pattern: str) -> None:
    with pytest.raises(ConfigError, match=r"option 'subscribePattern': .* which only Java knows; write the pattern without it"):
        translate(pattern, "subscribePattern")


@pytest.mark.parametrize("pattern", ["(", "[a", "*a"])
def test_a_bad_pattern_says_what_is_wrong(pattern: str) -> None:
    with pytest.raises(ConfigError, match="is no regular expression: "):
        translate(pattern, "subscribePattern")
