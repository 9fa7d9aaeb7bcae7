"""Conditions and updates in DynamoDB's words mean what ``items`` says, whatever Hypothesis makes up."""

from __future__ import annotations

import itertools
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import UNSET, structs

from holdfast.backends.aws.conditions import Words, condition_expression
from holdfast.backends.aws.layout import (
    LARGEST_ITEM_BYTES,
    decode,
    encode,
    size_bytes,
)
from holdfast.backends.aws.packing import DICTIONARY, LARGEST_PACKED_BYTES, PACKED_FROM_BYTES, packed
from holdfast.backends.aws.store import DynamoStore
from holdfast.errors import InvalidInput, Refused, StoreUnusable
from holdfast.items import (
    ALWAYS,
    HEAD,
    AllOf,
    AnyOf,
    Condition,
    Delete,
    Item,
    Put,
    StatusIn,
    Update,
    Write,
    holds,
    place,
    updated,
)
from holdfast.testing.conformance.histories import CONDITIONS, ITEMS, UPDATES

EXAMPLES_AT_ONCE = 150
ROUNDS = 2
KEYS = itertools.count()

BODIES = st.binary(max_size=20) | st.binary(min_size=1, max_size=9).map(lambda piece: piece * 3_000)
DICTIONARY_CHECKSUM = 3_733_706_179

STORED = st.builds(lambda item, body: structs.replace(item, body=body), ITEMS, BODIES)
CHANGES = st.builds(lambda update, body: structs.replace(update, body=body), UPDATES, st.just(UNSET) | BODIES)


@dataclass(frozen=True, slots=True)
class Case:
    """A write, and what is there before it; each on an item of its own."""

    before: Item | None
    write: Write

    @property
    def applies(self) -> bool:
        there = self.before is not None or not isinstance(self.write, Update)
        return there and holds(self.write.when, self.before)

    @property
    def after(self) -> Item | None:
        match self.write:
            case _ if not self.applies:
                return self.before
            case Put(item):
                return item
            case Update():
                assert self.before is not None
                return updated(self.before, self.write)
            case Delete():
                return None


@st.composite
def cases(draw: st.DrawFn) -> Case:
    number = next(KEYS)
    at = {"partition": f"p{number}", "sort": HEAD if number % 2 else "j/1"}
    before, when = draw(st.none() | STORED), draw(CONDITIONS)
    write: Write
    match draw(st.sampled_from([Put, Update, Delete])):
        case kind if kind is Put:
            write = Put(structs.replace(draw(STORED), **at), when)
        case kind if kind is Update:
            write = structs.replace(draw(CHANGES), **at, when=when, load=True)
        case _:
            write = Delete(at["partition"], at["sort"], when)
    return Case(None if before is None else structs.replace(before, **at), write)


def made_up(count: int) -> list[Case]:
    """So many cases of Hypothesis, made before any is tried, because a test on an event loop cannot be shrunk."""
    found: list[Case] = []
    quietly = settings(max_examples=count, database=None, suppress_health_check=[HealthCheck.too_slow], deadline=None)
    quietly(given(case=cases())(lambda case: found.append(case)))()  # noqa: PLW0108 - it needs a signature
    return found


@pytest.mark.parametrize("number", range(ROUNDS))
async def test_what_holds_here_holds_there(number: int, open_store: Callable[..., Awaitable[DynamoStore]]) -> None:
    store = await open_store()
    judged = Counter[bool]()
    for case in made_up(EXAMPLES_AT_ONCE):
        if case.before is not None:
            await store.write(Put(case.before))
        judged[case.applies] += 1
        if case.applies:
            assert list(await store.write(case.write)) == [case.after if isinstance(case.write, Update) else None]
        else:
            with pytest.raises(Refused) as caught:
                await store.write(case.write)
            assert caught.value.item == case.before, case
        assert await store.get(*place(case.write)) == case.after, case
    assert min(judged[True], judged[False]) > EXAMPLES_AT_ONCE / 10, judged
    await store.close()


@given(item=STORED)
def test_an_item_comes_back_as_it_was(item: Item) -> None:
    wire = encode(item, b"nonce")
    assert decode(wire) == item
    assert ("q" in wire) == (item.sort == HEAD and item.due_at is not None)
    assert ("x" in wire) == (item.expires_at is not None)
    assert len(item.body) // 1_000 <= size_bytes(wire) <= len(item.body) + 400


@pytest.mark.parametrize(("expires_at", "seconds"), [(0, "0"), (1, "1"), (999, "1"), (1_000, "1"), (1_001, "2")])
def test_ttl_deletes_nothing_before_it_expires(expires_at: int, seconds: str) -> None:
    assert encode(Item("p", "i/1", expires_at=expires_at), b"")["x"] == {"N": seconds}


def test_a_large_body_is_compressed_if_that_helps() -> None:
    assert packed(b"x" * PACKED_FROM_BYTES)[0] == "b"
    assert packed(b"x" * (PACKED_FROM_BYTES + 1))[0] == "y"
    assert packed(Random(1).randbytes(9_000))[0] == "b"


def test_a_damaged_body_is_told() -> None:
    wire = encode(Item("p", body=b"x" * 5_000), b"")
    with pytest.raises(StoreUnusable, match="damaged"):
        decode(wire | {"y": {"B": b"nonsense"}})


def test_what_was_packed_without_a_dictionary_is_read() -> None:
    body = b'{"workflow":"work"}' * 100
    wire = encode(Item("p", body=body), b"")
    del wire["y"]
    assert decode(wire | {"z": {"B": zlib.compress(body)}}) == Item("p", body=body)


def test_the_dictionary_is_the_one_with_which_items_were_packed() -> None:
    """Its checksum is in each of them: with another dictionary none could be read."""
    assert zlib.adler32(DICTIONARY) == int.from_bytes(packed(b"x" * (PACKED_FROM_BYTES + 1))[1][2:6], "big")
    assert zlib.adler32(DICTIONARY) == DICTIONARY_CHECKSUM


def test_a_body_that_becomes_too_large_is_refused_before_it_does() -> None:
    packer = zlib.compressobj(9, zdict=DICTIONARY)
    bomb = packer.compress(bytes(LARGEST_PACKED_BYTES + 1)) + packer.flush()
    assert len(bomb) < LARGEST_ITEM_BYTES
    with pytest.raises(StoreUnusable, match="more than 67,108,864 bytes"):
        decode(encode(Item("p", body=b"x" * 5_000), b"") | {"y": {"B": bomb}})


@pytest.mark.parametrize("place", [("", "s"), ("p", ""), ("p" * 2_049, "s"), ("p", "s" * 1_025), ("\ud800", "s")])
def test_a_key_that_dynamodb_would_not_have_is_refused(place: tuple[str, str]) -> None:
    with pytest.raises(InvalidInput):
        encode(Item(*place), b"")


@pytest.mark.parametrize(
    ("condition", "expression"),
    [
        (AllOf((StatusIn(("a", "b")),)), "#st IN (:0, :1)"),
        (AllOf((AllOf((StatusIn(("a",)), StatusIn(("a",)))), ALWAYS)), None),
        (AnyOf((AnyOf(()),)), "attribute_exists(#p) AND attribute_not_exists(#p)"),
    ],
)
def test_no_parentheses_that_dynamodb_calls_redundant(condition: Condition, expression: str | None) -> None:
    words = Words()
    found = condition_expression(condition, words)
    assert "((" not in found.replace("IN (", "")
    assert expression in {None, found}
    assert all(alias in found for alias in (*words.names, *words.values)), "unused ones are refused too"
