"""The codec: what it carries exactly, what it refuses, and how it says so (G2, G12)."""

# ruff: noqa: DTZ001, DTZ901 - naive datetimes are among the values

from __future__ import annotations

import contextlib
import dataclasses
import enum
import math
import re
import subprocess
import sys
import threading
import typing
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, TypedDict, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.nesting import nested

from holdfast.codec.exactness import difference
from holdfast.codec.jsontext import NESTING_LIMIT_LEVELS, nests_too_deep
from holdfast.codec.typed import codec_for, encode_untyped
from holdfast.errors import InvalidInput, PayloadTooLarge, SerializationError

WHAT = "result of step 'charge'"
ENOUGH_BYTES = 1_000_000
T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Kind(enum.StrEnum):
    A = "a"
    B = "b"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


@dataclasses.dataclass
class Item:
    price: float
    name: str = ""


@dataclasses.dataclass
class Order:
    id: str
    items: list[Item]
    note: str | None = None


class BigOrder(Order):
    pass


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0


@dataclasses.dataclass
class Box(Generic[T]):
    content: T
    more: list[T] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Tree:
    label: str
    children: list[Tree] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Growing:
    size: int

    def __post_init__(self) -> None:
        self.size += 1


@dataclasses.dataclass
class WithInitVar:
    size: dataclasses.InitVar[int]


@dataclasses.dataclass(eq=False)
class ByIdentity:
    number: int


@dataclasses.dataclass
class Hidden:
    shown: int
    hidden: int = dataclasses.field(default=0, compare=False, repr=False)


class Circle(msgspec.Struct, tag=True):
    radius: float


class Square(msgspec.Struct, tag=True, rename="camel"):
    side_length: float


class Sparse(msgspec.Struct, omit_defaults=True):
    number: int = 0
    tags: set[str] = msgspec.field(default_factory=set)


class Row(msgspec.Struct, array_like=True, tag=True):
    number: int
    members: frozenset[Colour]


class Pair(NamedTuple):
    left: int
    right: str = ""


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Unknown:
    pass


UserId = NewType("UserId", int)
MIXED_LITERAL = Literal["a", 1] | None
Positive = Annotated[int, msgspec.Meta(gt=0)]
AMSTERDAM = ZoneInfo("Europe/Amsterdam")
TWICE = datetime(2024, 10, 27, 2, 30, tzinfo=AMSTERDAM)
"""An hour that the end of summer time repeats."""


def copied(hint: Any, value: Any) -> Any:
    codec = codec_for(hint)
    data, copy = codec.copy(value, WHAT, ENOUGH_BYTES)
    assert data in {codec.encode(value), codec.encode(copy), codec.encode(codec.decode_steady(data))}
    again = codec_for(hint).decode(data)
    assert difference(copy, again) is None
    return copy


def complaint(hint: Any, value: Any) -> str:
    with pytest.raises(SerializationError) as caught:
        codec_for(hint).copy(value, WHAT, ENOUGH_BYTES)
    message = str(caught.value)
    assert message.startswith(WHAT)
    return message


# ── What comes back ─────────────────────────────────────────────────────────────────────────────────────────────────

CARRIED: list[tuple[Any, Any]] = [
    (str, "é\n\x00\U0001f600"),
    (int, 2**64),
    (int, -(2**200)),
    (int | None, None),
    (bool, True),
    (float, -0.0),
    (float, 5e-324),
    (float, 1e22),
    (int | float, 1),
    (int | float, 1.0),
    (None, None),
    (type(None), None),
    (bytes, b"\x00\xff"),
    (Any, {"a": [1, 1.0, "x", None, True, 2**70, {"b": {}}]}),
    (object, {"a": [1]}),
    (list[object], [1, "a", None]),
    (list, [1, [2]]),
    (dict, {"b": 1, "a": 2}),
    (Order, Order("o", [Item(1.5), Item(2.0, "x")])),
    (list[Point], [Point(1), Point(2, 3)]),
    (Order | None, None),
    (Tree, Tree("a", [Tree("b", [Tree("c")])])),
    (Box[date], Box(date(2024, 2, 29), [date.min, date.max])),
    (Box[Box[int]], Box(Box(1), [Box(2, [3])])),
    (ByIdentity, ByIdentity(3)),
    (Hidden, Hidden(1, 2)),
    (Circle | Square, Square(2.0)),
    (list[Circle | Square], [Circle(1.0), Square(2.0)]),
    (Sparse, Sparse()),
    (Sparse, Sparse(3, {"a", "b"})),
    (Row, Row(1, frozenset(Colour))),
    (Pair, Pair(1, "a")),
    (Movie, {"title": "M"}),
    (Movie, {"title": "M", "year": 1931}),
    (Colour, Colour.RED),
    (Size, Size.LARGE),
    (Kind, Kind.A),
    (Rights, Rights.READ | Rights.WRITE),
    (MIXED_LITERAL, "a"),
    (MIXED_LITERAL, 1),
    (UserId, UserId(3)),
    (Positive, 3),
    (tuple[int, str], (1, "a")),
    (tuple[int, ...], (1, 2, 3)),
    (tuple[()], ()),
    (set[int], {1, 2}),
    (frozenset[str], frozenset("ab")),
    (set[Point], {Point(1), Point(2)}),
    (set[frozenset[int]], {frozenset({1, 2}), frozenset()}),
    (dict[int, str], {1: "a", -2: "b"}),
    (dict[Colour, int], {Colour.RED: 1}),
    (dict[UUID, int], {UUID(int=5): 1}),
    (dict[date, int], {date(2024, 1, 1): 1}),
    (dict[Literal["a", "b"], int], {"a": 1}),
    (dict[str, Item], {"a": Item(1.0)}),
    (Decimal, Decimal("1.00")),
    (Decimal, Decimal("-0")),
    (Decimal, Decimal("NaN")),
    (Decimal, Decimal("sNaN")),
    (Decimal, Decimal("-Infinity")),
    (UUID, UUID(int=2**128 - 1)),
    (datetime, datetime(2024, 1, 2, 3, 4, 5, 6)),
    (datetime, datetime(2024, 1, 2, tzinfo=UTC)),
    (datetime, datetime.max),
    (date, date.min),
    (time, time(1, 2, 3, 4)),
    (time, time(1, 2, tzinfo=timezone(timedelta(hours=-5)))),
    (timedelta, timedelta(microseconds=1)),
    (timedelta, timedelta(microseconds=-1)),
    (timedelta, timedelta.max),
    (timedelta, timedelta.min),
    (typing.Mapping[str, int], {"a": 1}),
    (list[Annotated[int, msgspec.Meta(title="a count")]], [1]),
    (typing.Sequence[int], [1]),
    (dict[str, Any], {"x": [1, {"y": None}]}),
    (T, {"a": 1}),
]


@pytest.mark.parametrize(("hint", "value"), CARRIED)
def test_a_value_comes_back_in_type_and_value(hint, value):
    copy = copied(hint, value)
    assert type(copy) is type(value)
    assert difference(value, copy) is None


@pytest.mark.parametrize("fold", [0, 1])
def test_an_aware_datetime_keeps_its_instant_and_offset_but_not_the_name_of_its_zone(fold):
    value = TWICE.replace(fold=fold)
    copy = copied(datetime, value)
    assert copy.utcoffset() == value.utcoffset() == timedelta(hours=2 - fold)
    assert copy.timestamp() == value.timestamp()
    assert not isinstance(copy.tzinfo, ZoneInfo)


WIDENED: list[tuple[Any, Any, Any]] = [
    (float, 3, 3.0),
    (float, 10**22, 1e22),
    (float | None, -1, -1.0),
    (Annotated[float, msgspec.Meta(ge=0)], 0, 0.0),
    (list[float], [1, 2.5], [1.0, 2.5]),
    (tuple[str, float], ("a", 1), ("a", 1.0)),
    (set[float], {1, 2}, {1.0, 2.0}),
    (dict[str, float], {"a": 1}, {"a": 1.0}),
    (dict[float, str], {1: "a"}, {1.0: "a"}),
    (Order, Order("o", [Item(1), Item(2.5)]), Order("o", [Item(1.0), Item(2.5)])),
    (list[Circle | Square], [Square(2)], [Square(2.0)]),
]


@pytest.mark.parametrize(("hint", "value", "same"), WIDENED)
def test_an_int_where_the_hint_says_float_becomes_that_float_in_the_bytes_too(hint, value, same):
    data, copy = codec_for(hint).copy(value, WHAT, ENOUGH_BYTES)
    assert data == codec_for(hint).encode(same)
    assert repr(copy) == repr(same)


def test_an_int_that_becomes_a_float_counts_as_long_as_that_is():
    codec = codec_for(list[float])
    assert codec.copy([1, 2], WHAT, limit_bytes=9) == (b"[1.0,2.0]", [1.0, 2.0])
    with pytest.raises(PayloadTooLarge):
        codec.copy([1, 2], WHAT, limit_bytes=8)


def test_a_copy_shares_nothing_that_can_change():
    value = Order("o", [Item(1.0)])
    copy = copied(Order, value)
    copy.items[0].name = "changed"
    assert value.items[0].name == ""


def test_a_dict_keeps_its_order():
    assert list(copied(dict[str, int], {"b": 1, "a": 2, "c": 3})) == ["b", "a", "c"]


def test_a_function_that_never_returns_may_say_so():
    assert codec_for(typing.NoReturn).copy(None, WHAT, ENOUGH_BYTES) == (b"null", None)
    assert codec_for(typing.Never).name == "Never"


# ── Generated hints with generated values ───────────────────────────────────────────────────────────────────────────

whole_minutes = (
    st.timezones()
    .flatmap(lambda zone: st.datetimes(timezones=st.just(zone)))
    .filter(lambda value: not (value.utcoffset() or timedelta()).total_seconds() % 60)
)
HASHABLE = [
    (str, st.text()),
    (int, st.integers()),
    (bytes, st.binary()),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (Colour, st.sampled_from(Colour)),
    (Size, st.sampled_from(Size)),
    (UUID, st.uuids()),
    (date, st.dates()),
    (timedelta, st.timedeltas()),
    (Decimal, st.decimals(allow_nan=False)),
    (datetime, st.datetimes().map(lambda value: value.replace(fold=0))),
]
LEAVES = [
    *HASHABLE,
    (bool, st.booleans()),
    (None, st.none()),
    (Kind, st.sampled_from(Kind)),
    (Rights, st.sampled_from([Rights(number) for number in range(4)])),
    (datetime, whole_minutes),
    (time, st.times().map(lambda value: value.replace(fold=0))),
    (Decimal, st.decimals(allow_nan=True)),
    (Positive, st.integers(min_value=1)),
    (Point, st.builds(Point, st.integers(), st.integers())),
    (Pair, st.builds(Pair, st.integers(), st.text())),
    (Any, st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda part: st.lists(part, max_size=3))),
]
KEYS = [each for each in HASHABLE if each[0] not in {float, datetime}]


def grown(parts: st.SearchStrategy[tuple[Any, Any]]) -> st.SearchStrategy[tuple[Any, Any]]:
    return st.one_of(
        parts.map(lambda part: (list[part[0]], st.lists(part[1], max_size=4))),
        parts.map(lambda part: (tuple[part[0], ...], st.lists(part[1], max_size=4).map(tuple))),
        st.tuples(parts, parts).map(lambda two: (tuple[two[0][0], two[1][0]], st.tuples(two[0][1], two[1][1]))),
        parts.map(lambda part: (Box[part[0]], st.builds(Box, part[1], st.lists(part[1], max_size=2)))),
        parts.map(lambda part: (typing.Optional[part[0]], st.none() | part[1])),  # noqa: UP045 - of any hint
        st.tuples(st.sampled_from(KEYS), parts).map(
            lambda two: (dict[two[0][0], two[1][0]], st.dictionaries(two[0][1], two[1][1], max_size=3))
        ),
        st.sampled_from(HASHABLE).map(lambda part: (set[part[0]], st.sets(part[1], max_size=4))),
        st.sampled_from(HASHABLE).map(lambda part: (frozenset[part[0]], st.frozensets(part[1], max_size=4))),
    )


HINTS = st.recursive(st.sampled_from(LEAVES), grown, max_leaves=4)
HINTS_AND_VALUES = HINTS.flatmap(lambda pair: pair[1].map(lambda value: (pair[0], value)))


@settings(max_examples=400, deadline=None)
@given(HINTS_AND_VALUES)
def test_any_value_of_any_hint_comes_back(pair):
    hint, value = pair
    assert difference(value, copied(hint, value)) is None


@settings(max_examples=300, deadline=None)
@given(HINTS, st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
@example((int, None), b"1" * 100_000)
@example((Tree, None), b'{"label":"","children":[' * 100_000)
@example((list, None), b"[" * 100_000 + b"]" * 100_000)
@example((Movie, None), b'{"title":"","other":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
def test_whatever_the_bytes_are_decoding_fails_only_in_one_way(pair, data):
    with contextlib.suppress(SerializationError):
        codec_for(pair[0]).decode(data)


@settings(max_examples=300, deadline=None)
@given(HINTS_AND_VALUES, st.data())
def test_flipped_bits_are_refused_or_give_a_value_of_the_type(pair, data):
    hint, value = pair
    encoded = bytearray(codec_for(hint).encode(value))
    encoded[data.draw(st.integers(0, len(encoded) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with contextlib.suppress(SerializationError):
        codec_for(hint).decode(bytes(encoded))


# ── What is refused, and how it is said ─────────────────────────────────────────────────────────────────────────────

REFUSED: list[tuple[Any, Any, list[str]]] = [
    (str, 17, ["should be str, not int 17"]),
    (int, True, ["should be int, not bool True"]),
    (int, 1.0, ["should be int, not float 1.0"]),
    (bool, 1, ["should be bool, not int 1"]),
    (float, 2**53 + 1, ["should be float, not int 9007199254740993, which no float holds exactly", "as int"]),
    (float, True, ["should be float, not bool True"]),
    (list[float], [1, Size.LARGE], ["at [1]"]),
    (None, 3, ["should be None, not int 3"]),
    (float, math.nan, ["is nan", "JSON has no such number", "None"]),
    (Any, -math.inf, ["is -inf"]),
    (float | None, math.nan, ["is nan"]),
    (Order, Order("o", [Item(1.0), Item(math.nan)]), ["holds nan at .items[1].price"]),
    (Order, Order("o", [Item(1), Item(True)]), ["at .items[1].price"]),
    (Order, Order("o", [Item(1), Item(2**53 + 1)]), ["at .items[1].price, int 9007199254740993 came back as float"]),
    (Order, Order("o", [Item("1")]), ["does not fit its type Order at .items[0].price", "expected float, got str"]),  # type: ignore[arg-type]
    (Order, {"id": "o"}, ["missing required field items"]),
    (Order, BigOrder("o", []), ["BigOrder came back as Order", "subclass", "tag=True"]),
    (Any, Order("o", []), ["Order came back as dict", "annotate", "Order"]),
    (Any, {"a": (1, 2)}, ["at ['a'], tuple of length 2 came back as list", "type hint is Any"]),
    (list, [{1}], ["at [0], set of length 1 came back as list"]),
    (Any, {1: 2}, ["(a key), int 1 came back as str"]),
    (Any, Colour.RED, ["Colour came back as str"]),
    (Any, Decimal(1), ["Decimal came back as str"]),
    (list[int], (1, 2), ["tuple of length 2 came back as list"]),
    (set[int], {1, 2.0}, ["expected int, got float"]),
    (set[int | bool], frozenset({1}), ["frozenset of length 1 came back as set"]),
    (dict[str, int], OrderedDict(a=1), ["OrderedDict", "came back as dict"]),
    (dict[str, int], Counter("a"), ["Counter", "came back as dict"]),
    (dict[int | str, int], {1: 1, "1": 2}, ["[1]", "came back as nothing", "two keys became one"]),
    (dict[str, Any], {"a": {(1, 2): 3}}, ["holds a dict at ['a']", "keys cannot be text", "list of pairs"]),
    (dict[str, Any], {"a": [Unknown()]}, ["holds Unknown at ['a'][0]", "dataclass"]),
    (Any, Unknown(), ["is Unknown", "Make Unknown a dataclass"]),
    (Movie, {"title": "M", "stars": 3}, ["at ['stars'], int 3 came back as nothing", "no place for it"]),
    (dict[Literal["a"], int], {"b": 1}, ["(a key)", "not one of the allowed values"]),
    (Pair, (1, "a"), ["tuple of length 2 came back as Pair"]),
    (Growing, Growing(1), ["at .size, int 2 came back changed", "__post_init__"]),
    (Positive, -1, ["not int -1", ">= 1"]),
    (str, "\ud800", ["holds text", "lone surrogates"]),
    (list[str], ["a", "\ud800"], ["holds text at [1]", "lone surrogates"]),
    (datetime, datetime(2024, 1, 1, fold=1), ["datetime came back changed", "fold=1"]),
    (time, time(1, fold=1), ["time came back changed"]),
    (time, time(1, tzinfo=AMSTERDAM), ["time came back changed"]),
    (datetime, datetime(2024, 1, 1, tzinfo=timezone(timedelta(seconds=30))), ["came back changed", "with seconds"]),
    (datetime, datetime(1900, 1, 1, tzinfo=AMSTERDAM), ["came back changed"]),
    (list[int], [1, 2, "x"], ["at [2]", "expected int, got str"]),
    (Literal[1], True, ["should be Literal[1], not bool True"]),
]


@pytest.mark.parametrize(("hint", "value", "parts"), REFUSED)
def test_what_does_not_come_back_is_refused_with_the_place_and_what_to_do(hint, value, parts):
    message = complaint(hint, value)
    for part in parts:
        assert part in message


def test_an_integer_too_long_for_python_to_write_is_refused():
    assert "is int, which cannot be carried" in complaint(int, 10**5000)
    assert "[...]" in complaint(dict[int, Any], {10**4000: object()})


def test_a_fault_far_down_is_still_told():
    deep: Any = Unknown()
    for _ in range(NESTING_LIMIT_LEVELS + 20):
        deep = [deep]
    assert "cannot be carried" in complaint(list, deep)


def test_a_value_is_encoded_by_its_own_class_where_only_the_receiver_knows_the_hint():
    assert encode_untyped(Point(1), "the value", 100) == b'{"x":1,"y":0}'
    assert encode_untyped(None, "the value", 100) == b"null"
    with pytest.raises(SerializationError, match=r"the value does not come back.*\[0\], Point came back as dict"):
        encode_untyped([Point(1)], "the value", 100)


def test_messages_show_no_text_and_no_content():
    canary = "s3cret"
    for hint, value in [
        (int, canary),
        (Colour, canary),
        (list[Literal["a"]], [canary]),
        (Order, Order(canary, [Item(canary)])),  # type: ignore[arg-type]
        (Any, {"a": (canary,)}),
        (Any, [Unknown(), canary]),
        (set[int], {canary}),
    ]:
        assert canary not in complaint(hint, value)


UNSUPPORTED: list[tuple[Any, list[str]]] = [
    (Unknown, ["Unknown", "no JSON form", "dataclass"]),
    (list[Unknown], ["list[", "Unknown has no JSON form"]),
    (Callable[[int], int], ["Callable", "no JSON form"]),
    (complex, ["complex has no JSON form"]),
    (type[int], ["type has no JSON form"]),
    (deque[int], ["deque has no JSON form"]),
    (OrderedDict[str, int], ["OrderedDict has no JSON form"]),
    (Item | Order, ["Item", "Order", "tag=True"]),
    (str | date, ["tag=True"]),
    (list[int] | set[int], ["tag=True"]),
    (dict[str, int] | Order, ["tag=True"]),
    (Mixed, ["Mixed", "every member a str, or every member an int"]),
    (WithInitVar, ["WithInitVar", "InitVar", "classmethod"]),
    (dict[tuple[int, int], int], ["keys", "list of pairs"]),
    (dict[bool, int], ["keys", "list of pairs"]),
    (dict[int | bool, int], ["keys", "list of pairs"]),
    (dict[Annotated[bool, msgspec.Meta(title="x")], int], ["keys", "list of pairs"]),
    ("Order", ["Order"]),
    (msgspec.Raw, ["Raw"]),
    (5, ["5"]),
]


@pytest.mark.parametrize(("hint", "parts"), UNSUPPORTED)
def test_a_hint_that_json_cannot_carry_is_refused_when_the_codec_is_built(hint, parts):
    with pytest.raises(SerializationError) as caught:
        codec_for(hint)
    for part in parts:
        assert part in str(caught.value)


@dataclasses.dataclass
class Dangling:
    other: Nowhere  # type: ignore[name-defined]  # noqa: F821


def test_a_class_whose_annotations_cannot_be_resolved_is_refused():
    with pytest.raises(SerializationError, match=r"Dangling.*'Nowhere'.*TYPE_CHECKING"):
        codec_for(Dangling)


def test_other_keys_than_text_are_fine_where_json_can_keep_them():
    for hint in (dict[int | Colour, int], dict[Annotated[int, msgspec.Meta(gt=0)], int], dict[object, int]):
        codec_for(hint)


# ── Limits ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_size_limit_is_exact():
    codec = codec_for(str)
    assert codec.copy("x" * 98, WHAT, 100)[0] == b'"' + b"x" * 98 + b'"'
    with pytest.raises(PayloadTooLarge, match=r"result of step 'charge' takes 101 bytes.*limit of 100 bytes.*blob"):
        codec.copy("x" * 99, WHAT, 100)


@pytest.mark.parametrize("hint", [Any, list, dict[str, Any]])
def test_nesting_is_limited_when_writing_and_when_reading(hint):
    codec = codec_for(hint)
    fits, too_deep = nested(NESTING_LIMIT_LEVELS - 1), nested(NESTING_LIMIT_LEVELS)
    if hint is list or hint is Any:
        fits, too_deep = [fits], [too_deep]
    else:
        fits, too_deep = {"a": fits}, {"a": too_deep}
    assert codec.decode(codec.encode(fits)) == fits == copied(hint, fits)
    for refused in (
        lambda: codec.copy(too_deep, WHAT, ENOUGH_BYTES),
        lambda: codec.encode(too_deep),
        lambda: codec.decode(msgspec.json.encode(too_deep)),
    ):
        with pytest.raises(SerializationError, match="more than 64 levels"):
            refused()


def test_values_without_end_are_refused():
    endless: list[Any] = []
    endless.append(endless)
    tree = Tree("a")
    tree.children.append(tree)
    for hint, value in ((list, endless), (Any, endless), (Tree, tree), (list, nested(100_000))):
        assert "contains itself" in complaint(hint, value)
        with pytest.raises(SerializationError, match="contains itself"):
            codec_for(hint).encode(value)


def test_depth_is_counted_outside_strings():
    assert not nests_too_deep(msgspec.json.encode(["[" * 200, '"' + "{" * 200, "\\"]))
    assert nests_too_deep(msgspec.json.encode(["]" * 200, '\\"', nested(64)]))
    assert not nests_too_deep(msgspec.json.encode([[]] * 1000))
    mixed: Any = 0
    for level in range(NESTING_LIMIT_LEVELS + 1):
        assert not nests_too_deep(msgspec.json.encode(mixed)), level
        mixed = [mixed] if level % 3 else {"a": mixed}
    assert nests_too_deep(msgspec.json.encode(mixed))
    assert not nests_too_deep(msgspec.json.encode([{"a": "}" * 9}] * 1000))


# ── Decoding ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_stored_value_that_no_longer_fits_says_where_and_what_to_do():
    with pytest.raises(
        SerializationError, match=r"the result .* type Order at \.items\[0\]\.price: expected float"
    ) as caught:
        codec_for(Order).decode(b'{"id":"o","items":[{"price":"x"}]}', "the result of step 'charge'")
    assert "new fields with defaults" in str(caught.value)
    with pytest.raises(SerializationError, match=r"the stored value does not fit the type int: expected int"):
        codec_for(int).decode(b'"x"')


def test_a_field_that_older_data_lack_takes_its_default_and_is_written_from_then_on():
    older = codec_for(Order).decode(b'{"id":"o","items":[{"price":1.0}]}')
    assert older == Order("o", [Item(1.0)])
    data, copy = codec_for(Order).copy(older, WHAT, ENOUGH_BYTES)
    assert data == codec_for(Order).encode(Order("o", [Item(1.0)])) == codec_for(Order).encode(copy)
    assert b'"note":null' in data
    assert b'"name":""' in data


def test_codecs_are_made_once_per_hint_and_by_any_thread():
    assert codec_for(list[Order]) is codec_for(list[Order])
    unhashable = Annotated[int, []]
    assert codec_for(unhashable).decode(b"1") == 1
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(50):
                assert codec_for(Box[int]).copy(Box(1), WHAT, ENOUGH_BYTES)[1] == Box(1)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


# ── pydantic models, and what behaves like one ──────────────────────────────────────────────────────────────────────


class Ducky:
    """The least that counts as a model."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ducky) and other.number == self.number

    __hash__ = None  # type: ignore[assignment]

    def model_dump(self, *, mode: str, by_alias: bool, round_trip: bool) -> Any:
        assert (mode, by_alias, round_trip) == ("json", True, True)
        return {"number": self.number}

    @classmethod
    def model_validate(cls, data: Any) -> Ducky:
        if not isinstance(data.get("number"), int):
            raise ValueError("number must be an int")  # noqa: TRY004 - as a validator raises
        return cls(data["number"])


def test_a_model_is_known_by_its_methods():
    assert copied(Ducky, Ducky(3)) == Ducky(3)
    assert copied(dict[str, list[Ducky]], {"a": [Ducky(3)]}) == {"a": [Ducky(3)]}
    assert copied(Box[Ducky], Box(Ducky(1))) == Box(Ducky(1))
    assert copied(Ducky | None, None) is None
    assert "at [0]: number must be an int" in complaint(list[Ducky], [Ducky("x")])  # type: ignore[arg-type]
    assert "Ducky came back as dict" in complaint(Any, Ducky(1))


def test_pydantic_models_come_back_or_are_refused():
    pydantic = pytest.importorskip("pydantic")

    class Line(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(strict=True)
        sku: str = pydantic.Field(alias="SKU")
        when: datetime
        price: Decimal
        tags: frozenset[str] = frozenset()
        parts: tuple[int, ...] = ()

        @pydantic.computed_field
        def shout(self) -> str:
            return self.sku.upper()

    line = Line(
        SKU="a", when=datetime(2024, 1, 1, tzinfo=UTC), price=Decimal("1.10"), tags=frozenset({"x", "y"}), parts=(1, 2)
    )
    assert copied(Line, line) == line
    assert copied(Box[Line], Box(line, [line])) == Box(line, [line])
    assert copied(dict[str, list[Line]], {"a": [line]}) == {"a": [line]}

    class Loose(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="allow")
        number: int
        secret: pydantic.SecretStr | None = None  # type: ignore[valid-type]
        anything: Any = None

    assert copied(Loose, Loose(number=1, other=[1])) == Loose(number=1, other=[1])
    assert "at .secret, SecretStr came back changed" in complaint(
        Loose, Loose(number=1, secret=pydantic.SecretStr("x"))
    )
    assert "at .anything, tuple of length 1 came back as list" in complaint(Loose, Loose(number=1, anything=(1,)))
    assert "__pydantic_extra__['other'], tuple" in complaint(Loose, Loose(number=1, other=(1,)))

    with pytest.raises(SerializationError, match=r"number: Input should be a valid integer") as caught:
        codec_for(Loose).decode(b'{"number":"s3cret"}')
    assert "s3cret" not in str(caught.value)
    with pytest.raises(SerializationError, match="custom type"):
        codec_for(Loose | Line)


# ── G12 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_pydantic_is_never_imported():
    program = "import sys, holdfast.codec.signature, holdfast.failure; sys.exit('pydantic' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_serialization_errors_are_invalid_input():
    with pytest.raises(InvalidInput):
        codec_for(int).copy("x", WHAT, ENOUGH_BYTES)  # type: ignore[arg-type]


def test_names_of_hints_read_as_written():
    names = {
        "int": int,
        "None": None,
        "list[int]": list[int],
        "int | None": int | None,
        "Any": Any,
        "Literal['a']": Literal["a"],
        "Order": Order,
    }
    assert {name: codec_for(hint).name for name, hint in names.items()} == {name: name for name in names}
    assert re.fullmatch(r".*Box\[int\]", codec_for(Box[int]).name)
