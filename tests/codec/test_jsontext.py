"""JSON text: canonical form and depth."""

# ruff: noqa: DTZ001 - naive datetimes are among the values

from __future__ import annotations

import dataclasses
import enum
import itertools
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.codec.jsontext import NESTING_LIMIT_LEVELS, canonical, canonical_by_parts, encode, nests_too_deep


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"
    GREEN = "green"


@dataclasses.dataclass(frozen=True)
class Tag:
    name: str
    inner: frozenset[Colour] = frozenset()


class Row(msgspec.Struct, array_like=True, tag=True, frozen=True):
    number: int
    tags: frozenset[Tag] = frozenset()


class Named(msgspec.Struct, rename="camel", omit_defaults=True):
    first_name: str
    all_tags: set[Tag] = msgspec.field(default_factory=set)


class Wrapped:
    """A model that is one plain value as JSON."""

    model_fields: dict[str, Any] = {"root": None}  # noqa: RUF012 - as pydantic has it

    def __init__(self, root: Any) -> None:
        self.root = root

    def model_dump(self, *, mode: str, by_alias: bool, round_trip: bool) -> Any:
        return self.root

    @classmethod
    def model_validate(cls, data: Any) -> Wrapped:
        return cls(data)


MIXED = [1, "a", None, 2.5, True, (1, 2), frozenset({3}), Colour.RED, Tag("x", frozenset(Colour)), datetime(2024, 1, 1)]


def test_members_of_any_kind_are_sorted():
    encodings = {canonical(set(order)) for order in itertools.islice(itertools.permutations(MIXED), 50)}
    assert len(encodings) == 1
    times = [datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC)]
    backwards = times[::-1]
    assert canonical(set(times)) == canonical(set(backwards))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"b": 1, "a": 2}, b'{"a":2,"b":1}'),
        ({2: "x", 10: "y"}, b'{"10":"y","2":"x"}'),
        ({Colour.RED: 1, Colour.BLUE: 2}, b'{"blue":2,"red":1}'),
        (
            Row(1, frozenset({Tag("b"), Tag("a")})),
            b'["Row",1,[{"inner":[],"name":"a"},{"inner":[],"name":"b"}]]',
        ),
        (Named("x", {Tag("b", frozenset(Colour))}), None),
        (Named("x"), b'{"firstName":"x"}'),
        (Wrapped(5), b"5"),
        (Wrapped([2, 1]), b"[2,1]"),
        ([(2, 1), {"b": {"d", "c"}}], b'[[2,1],{"b":["c","d"]}]'),
    ],
)
def test_canonical_form(value, expected):
    if expected is None:
        expected = b'{"allTags":[{"inner":["blue","green","red"],"name":"b"}],"firstName":"x"}'
    assert canonical_by_parts(value) == expected
    assert canonical({"in": value, 1: 2}) == b'{"1":2,"in":' + expected + b"}"


def test_keys_that_become_one_are_left_as_they_are():
    assert canonical({1: "a", "1": "b"}) == b'{"1":"b"}'


def test_what_has_no_form_is_refused_by_name():
    with pytest.raises(TypeError, match="object is not a type that JSON can carry"):
        encode([object()])
    with pytest.raises(TypeError, match="object is not a type"):
        canonical([object()])


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(), part, max_size=3),
)


@given(PLAIN)
def test_both_ways_agree_on_plain_values_and_lose_nothing(value):
    assert canonical(value) == canonical_by_parts(value)
    assert msgspec.json.decode(canonical(value)) == value == msgspec.json.decode(encode(value))


def depth_of(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


@given(PLAIN, st.integers(0, NESTING_LIMIT_LEVELS + 2), st.text(alphabet='[]{}"\\x'))
def test_depth_is_what_a_slow_count_says(value, levels, text):
    whole = [value, text, {text: text}]
    for level in range(levels):
        whole = [whole, text] if level % 2 else {text: whole, "more": [[], {}]}
    assert nests_too_deep(encode(whole)) == (depth_of(whole) > NESTING_LIMIT_LEVELS)


@given(st.binary(max_size=300) | st.text(alphabet='[]{}"\\,', max_size=400).map(str.encode))
def test_text_that_is_no_json_is_judged_without_an_error(data):
    nests_too_deep(data)
