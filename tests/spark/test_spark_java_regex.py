"""Java's patterns for topic names, in Python's words."""

from __future__ import annotations

from typing import Any

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


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        *[(r"[a-z&&[^b]]", "classes within classes ([a[b]], &&)"), (r"a[b[c]]", "classes within classes ([a[b]], &&)")],
        *[(r"\p{IsAlphabetic}", r"\p{IsAlphabetic}"), (r"[\P{Digit}]", r"\P{Digit}"), (r"\h+", r"\h"), (r"\V", r"\V")],
        *[(r"\0101", r"\0"), (r"[\0101]", r"\0"), (r"(a)\112", r"\112"), (r"\x{41}", r"\x{"), (r"\cA", r"\c"), (r"\e", r"\e")],
        *[(r"a\b{g}", r"\b{"), (r"\Ga", r"\G"), (r"\R", r"\R"), (r"\X", r"\X"), (r"(?<n>a)\k<n>", r"\k"), (r"\N{DIGIT ONE}", r"\N")],
        *[(r"(?x)[a b]", "(?x"), (r"(?iU)a", "(?iU"), (r"(?i-d:a)", "(?i-d")],
    ],
)
def test_what_python_cannot_do_is_refused_by_name(pattern: str, what: str) -> None:
    with pytest.raises(ConfigError) as refused:
        translate(pattern, "subscribePattern")
    assert str(refused.value) == (
        f"option 'subscribePattern': {pattern!r} has {what}, which Python does not have, or has with another meaning; "
        "write the pattern without it"
    )


@pytest.mark.parametrize("pattern", ["(", "[a", "*a", "(?<=a|bc)d", "a(?i)b"])
def test_a_bad_pattern_says_what_is_wrong(pattern: str) -> None:
    with pytest.raises(ConfigError, match=r"Python cannot use the regular expression .*: "):
        translate(pattern, "subscribePattern")


@pytest.mark.spark
def test_java_itself_finds_the_same(spark: Any) -> None:
    names = ["a", "A", "b", "aa", "ab", "aa1", "aa12", "aJ", "a.b", "a-b", "a_b", "1", "orders", "P", "-"]
    patterns = [
        *(r"\x41", r"\u0061", r"[\x41-\x42]", r"\t|a", r"[^\v]", r"\Qa.b\E", r"[\Qa-\E]", r"\Qa\Eb", r"\Qab\E?", r"[^\Q^\Ea]"),
        *(r"a++b?", r"a?+b", r"a{2}+", r"(?>a+)b", r"a\Z", r"a\z", r"\Aa", r"\ba\b", r"(a)\1", r"(a)\1(?!1)", r"(?<n1>a)b"),
        *(r"(?i:B)", r"(?i)\p{Upper}", r"\p{Punct}", r"[^\p{Alpha}]", r"[]a]", r"[^]a]", r"[(?<]|b", r"[(?d]"),
    ]
    java = spark._jvm.java.util.regex.Pattern
    found = {pattern: [name for name in names if java.compile(pattern).matcher(name).find()] for pattern in patterns}
    assert {pattern: [name for name in names if translate(pattern, "subscribePattern").search(name)] for pattern in patterns} == found
