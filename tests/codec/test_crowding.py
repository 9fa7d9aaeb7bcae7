"""Members of sets that were chosen to have one hash are found before a set of them is built."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar
from uuid import UUID

import msgspec
import pydantic
import pytest
from msgspec import Meta, Raw
from msgspec.json import encode

from holdfast.codec.collisions import MOST_ALIKE, numbers_collide
from holdfast.codec.crowding import uncrowded
from holdfast.codec.signature import signature_of
from holdfast.codec.typed import codec_for
from holdfast.errors import InvalidInput, SerializationError

MODULUS = 2**61 - 1
"""A number has the hash that it leaves when it is divided by this."""

WORD = 2**64
FIRST, SECOND, LAST = 11400714785074694791, 14029467366897019727, 2870177450012600261
"""Of xxHash, by which Python makes one hash out of those of a tuple's parts."""


def pairs(count: int) -> list[tuple[int, int]]:
    """Pairs of whole numbers that have one hash: to one in eight that come first there is one that goes with it."""
    found: list[tuple[int, int]] = []
    want, number = 12345 * pow(FIRST, -1, WORD) % WORD, 0
    turned_back = (want >> 31 | want << 33) % WORD
    while len(found) < count:
        number += 1
        begun = (LAST + number * SECOND) % WORD
        begun = (begun << 31 | begun >> 33) % WORD * FIRST
        other = (turned_back - begun) * pow(SECOND, -1, WORD) % WORD
        if other < MODULUS:
            found.append((number, other))
    return found


def as_float(number: int) -> float:
    """A float with the hash of this number, 0 if there is none: doubling turns the 61 bits of a hash around."""
    for doubled in range(61):
        digits = number * 2**doubled % MODULUS
        if digits < 2**53:
            return digits * 2.0**-doubled
    return 0.0


def sets_of_two(count: int) -> list[frozenset[int]]:
    """The hash of a frozenset is the XOR of those of its members, each stirred by steps that can be taken back."""
    found: list[frozenset[int]] = []
    number = 0
    while len(found) < count:
        number += 1
        stirred = (number ^ 89869747 ^ number << 16) * 3644798167 % WORD
        left = (12345 ^ stirred) * pow(3644798167, -1, WORD) % WORD ^ 89869747
        other = (left ^ left << 16 ^ left << 32 ^ left << 48) % WORD
        if other < MODULUS:
            found.append(frozenset({number, other}))
    return found


PAIRS = pairs(4_000)
FLOATS = [(float(x), as_float(y)) for x, y in PAIRS if as_float(y)]
SETS = sets_of_two(1_000)


Number = TypeVar("Number")


@dataclass(frozen=True)
class Point:
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Place(Generic[Number]):
    at: tuple[Number, Number]


class Corner(NamedTuple):
    x: int
    y: int


class Spot(pydantic.BaseModel, frozen=True):
    x: int
    y: int


class Sheet(TypedDict):
    pairs: NotRequired[set[tuple[int, int]]]


class Cell(msgspec.Struct, frozen=True, array_like=True, tag="cell"):
    x: int
    y: int


@dataclass
class Drawing:
    name: str
    points: set[Point] = field(default_factory=set)


class Row(msgspec.Struct, array_like=True, tag="row"):
    n: int
    pairs: frozenset[tuple[int, int]]


class Tree(msgspec.Struct, rename="camel"):
    left_side: Tree | None = None
    all_pairs: set[tuple[int, int]] = msgspec.field(default_factory=set)


def points(given: list[tuple[int, int]]) -> list[dict[str, int]]:
    return [{"x": x, "y": y} for x, y in given]


HOSTILE: dict[str, tuple[Any, Any]] = {
    "pairs": (set[tuple[int, int]], PAIRS),
    "tuples of any length": (frozenset[tuple[int, ...]], PAIRS),
    "anything in tuples": (set[tuple[Any, ...]], PAIRS),
    "with text behind": (set[tuple[int, int, str]], [(*pair, "a") for pair in PAIRS]),
    "of floats": (set[tuple[float, float]], FLOATS),
    "of UUIDs": (set[tuple[UUID, UUID]], [(UUID(int=x), UUID(int=y)) for x, y in PAIRS]),
    "of decimals": (set[tuple[Decimal, Decimal]], [(str(x), f"{y}.0") for x, y in PAIRS]),
    "of decimals written as numbers": (set[tuple[Decimal, Decimal]], [(x, Raw(b"%d.00" % y)) for x, y in PAIRS]),
    "bounded numbers": (set[tuple[Annotated[int, Meta(ge=0)], Annotated[int, Meta(title="y")]]], PAIRS),
    "frozensets": (set[frozenset[int]], SETS),
    "frozen dataclasses": (set[Point], points(PAIRS)),
    "tuples in frozen dataclasses": (set[Place[int]], [{"at": pair} for pair in PAIRS]),
    "named tuples": (set[Corner], PAIRS),
    "frozen structs": (set[Cell], [("cell", *pair) for pair in PAIRS]),
    "frozen models": (set[Spot], points(PAIRS)),
    "one of several": (set[tuple[int, int] | str], ["a", *PAIRS]),
    "sets in dataclasses in lists": (list[Drawing], [{"name": "a"}, {"name": "b", "points": points(PAIRS)}]),
    "sets in arrays": (dict[str, Row | None], {"a": ["row", 1, PAIRS]}),
    "sets in sets": (set[tuple[str, frozenset[tuple[int, int]]]], [("a", PAIRS)]),
    "sets in a type that holds itself": (Tree, {"leftSide": {"leftSide": {"allPairs": PAIRS}}}),
    "sets in typed dicts in tuples": (tuple[str, Sheet | None], ("a", {"pairs": PAIRS})),
}


def refusal(hint: Any, data: bytes) -> str:
    """What is said of data that are refused at once."""
    codec = codec_for(hint)
    began = time.process_time()
    with pytest.raises(SerializationError) as refused:
        codec.decode(data)
    assert time.process_time() - began < 1.0
    return str(refused.value)


def test_the_attacks_are_ones():
    assert {len(set(map(hash, each))) for each in (PAIRS, FLOATS, SETS)} == {1}
    assert min(len(FLOATS), len(SETS)) > 2 * MOST_ALIKE
    assert not numbers_collide(encode(PAIRS)), "the numbers by themselves are like any"


@pytest.mark.parametrize("name", HOSTILE)
def test_members_with_one_hash_are_refused_at_once(name):
    hint, given = HOSTILE[name]
    assert "set has over 100 members of one hash" in refusal(hint, encode(given))


def test_the_error_says_where_they_are():
    assert "at [...].points: set has over 100" in refusal(
        list[Drawing], encode([{"name": "", "points": points(PAIRS)}])
    )


def test_what_comes_behind_them_saves_nobody():
    ended = encode(PAIRS)[:-1]
    assert "one hash" in refusal(set[tuple[int, int]], ended + b',"no pair"]')
    assert "malformed" in refusal(set[tuple[int, int]], ended + b",?]")


def test_a_key_that_comes_again_hides_nothing():
    hidden = b'{"leftSide":{"allPairs":%s,"all\\u0050airs":[]}}' % encode(PAIRS)
    assert json.loads(hidden) == {"leftSide": {"allPairs": []}}
    assert "key twice" in refusal(Tree, hidden)


def test_an_argument_with_them_is_refused_by_name():
    def draw(name: str, drawing: Drawing) -> None: ...

    text = encode({"name": "a", "drawing": {"name": "b", "points": points(PAIRS)}})
    with pytest.raises(InvalidInput, match=r"argument 'drawing' of .*draw.* at \.points: set has over 100"):
        signature_of(draw).parse(text)


def test_what_cannot_be_read_is_not_written():
    with pytest.raises(SerializationError, match="one hash"):
        codec_for(set[tuple[int, int]]).copy(set(PAIRS[:200]), "the result", limit_bytes=1_000_000)


def test_as_many_as_are_taken_are_taken():
    codec = codec_for(Drawing)
    most = {"name": "a", "points": points(PAIRS[:MOST_ALIKE])}
    assert len(codec.decode(encode(most)).points) == MOST_ALIKE
    again = points([*PAIRS[:50] * 20, *((n, -n) for n in range(2_000))])
    assert len(codec.decode(encode({"name": "a", "points": again})).points) == 50 + 2_000, (
        "one member many times is one"
    )


def test_sets_come_back_as_they_were_and_in_their_order():
    codec = codec_for(list[Drawing])
    drawings = [Drawing("a:b", {Point(n, -n) for n in range(1_000)})] * 2
    data, copy = codec.copy(drawings, "the result", limit_bytes=1_000_000)
    assert copy == drawings
    assert [point.x for point in codec.decode_steady(data)[0].points] == sorted(range(1_000), key=str)


@pytest.mark.parametrize(
    "hint",
    [
        set[str],
        set[int],
        frozenset[UUID],
        set[tuple[str, ...]],
        set[frozenset[str]],
        set[tuple[Literal["a"], bytes | None]],
        list[tuple[int, int]],
        dict[str, set[Any]],
    ],
)
def test_where_nobody_can_choose_hashes_nothing_is_looked_at(hint):
    decode = msgspec.json.Decoder(hint).decode
    assert uncrowded(hint, decode, lambda kind, data: data) is decode
