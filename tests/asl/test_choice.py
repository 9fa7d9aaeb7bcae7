"""``StringMatches``: what a pattern means, and that no pattern takes more than one reading of the text."""

from __future__ import annotations

from itertools import product

import pytest

from holdfast.asl.choice import holds
from holdfast.asl.environment import Environment


def matches(value: object, pattern: str) -> bool:
    return holds({"Variable": "$", "StringMatches": pattern}, Environment(value))


@pytest.mark.parametrize(
    ("pattern", "value", "does"),
    [
        ("log-*.txt", "log-1.txt", True),
        ("log-*.txt", "log-.txt", True),
        ("log-*.txt", "a log-1.txt", False),
        ("log-*.txt", "log-1.txt.gz", False),
        ("*", "", True),
        ("*", "two\nlines", True),
        ("**", "a", True),
        ("", "", True),
        ("", "a", False),
        ("a", "ab", False),
        ("ab*ba", "aba", False),
        ("ab*ba", "abba", True),
        ("*a*b*", "ba", False),
        ("*aab*", "aaab", True),
        ("*a*", "b", False),
        ("a.c", "abc", False),
        (r"a\*", "a*", True),
        (r"a\*", "ab", False),
        (r"a\\*", "a\\b", True),
        (r"a\b", r"a\b", True),
        ("*", 1, False),
    ],
)
def test_a_star_stands_for_any_text(pattern: str, value: object, does: bool) -> None:
    assert matches(value, pattern) is does


def meant(value: str, pattern: str) -> bool:
    """The same by the definition: a star is nothing, or one character and the star again."""
    if not pattern:
        return not value
    if pattern[0] == "*":
        return meant(value, pattern[1:]) or (bool(value) and meant(value[1:], pattern))
    return value[:1] == pattern[0] and meant(value[1:], pattern[1:])


def test_short_patterns_mean_what_the_definition_says() -> None:
    patterns = ["".join(each) for length in range(6) for each in product("ab*", repeat=length)]
    values = ["".join(each) for length in range(6) for each in product("ab", repeat=length)]
    wrong = [(value, each) for each in patterns for value in values if matches(value, each) is not meant(value, each)]
    assert wrong == []


def test_a_pattern_with_many_stars_reads_a_long_text_once() -> None:
    """With a regular expression this would not end: it would try each place for each star."""
    pattern, text = "*a" * 40 + "*b", "a" * 10_000
    assert not matches(text, pattern)
    assert matches(text + "b", pattern)
