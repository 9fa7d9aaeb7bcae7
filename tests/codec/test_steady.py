"""Sets in a steady order: the same in every process, and sets in all else (G2)."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import subprocess
import sys
from decimal import Decimal
from typing import Any, NamedTuple, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from holdfast.codec.signature import signature_of
from holdfast.codec.steady import SteadyFrozenSet, SteadySet
from holdfast.codec.typed import codec_for

WORDS = ["anna", "bob", "carl", "dora", "emil", "fred"]
KINDS = [SteadySet, SteadyFrozenSet]


@dataclasses.dataclass(frozen=True)
class Basket:
    skus: frozenset[str]
    count: int = 0


class Slim(msgspec.Struct, frozen=True):
    skus: set[str]


class Model(BaseModel, frozen=True):
    skus: set[str]
    inner: dict[str, Basket] = {}


class Plain(BaseModel):
    names: list[str]


class Typed(TypedDict):
    skus: set[str]


class Pair(NamedTuple):
    n: int
    skus: set[str]


def members(value: Any) -> list[str]:
    """The members of the one set in a value, in its order."""
    match value:
        case SteadySet() | SteadyFrozenSet():
            return list(value)
        case dict():
            return members(next(iter(value.values())))
        case Pair():
            return members(value.skus)
        case list() | tuple():
            return members(value[0])
        case _:
            return members(value.skus)


@pytest.mark.parametrize(
    ("hint", "wrap"),
    [
        (set[str], set),
        (frozenset[str], frozenset),
        (list[set[str]], lambda words: [set(words)]),
        (tuple[set[str], ...], lambda words: (set(words),)),
        (dict[str, frozenset[str]], lambda words: {"a": frozenset(words)}),
        (set[str] | None, set),
        (Basket, lambda words: Basket(frozenset(words))),
        (Slim, lambda words: Slim(set(words))),
        (Model, lambda words: Model(skus=set(words))),
        (Typed, lambda words: {"skus": set(words)}),
        (Pair, lambda words: Pair(1, set(words))),
        (dict[str, list[Basket]], lambda words: {"a": [Basket(frozenset(words))]}),
    ],
    ids=lambda value: str(value) if not callable(value) or isinstance(value, type) else "",
)
def test_a_set_is_brought_in_order_wherever_it_is(hint, wrap):
    codec = codec_for(hint)
    data, plain = codec.copy(wrap(WORDS[::-1]), "the value", 10_000)
    steady = codec.decode_steady(data)
    assert members(steady) == WORDS
    assert steady == plain
    assert type(steady) is type(plain) or isinstance(steady, (SteadySet, SteadyFrozenSet))
    assert codec.copy(steady, "the value", 10_000) == (data, plain)


def test_sets_inside_sets_and_odd_members_have_an_order_too():
    codec = codec_for(set[frozenset[str] | int | None])
    steady = codec.decode_steady(codec.encode({frozenset("ba"), frozenset("c"), 10, 9, None}))
    assert [repr(each) for each in steady] == ["10", "9", "frozenset({'a', 'b'})", "frozenset({'c'})", "None"]


def test_only_bodies_get_them():
    codec = codec_for(set[str])
    data, handed_on = codec.copy({"b", "a"}, "the value", 100)
    assert data == b'["a","b"]'
    assert type(handed_on) is type(codec.decode(data)) is set


def test_arguments_of_a_body_are_steady_and_those_of_a_step_are_plain():
    def reserve(skus: set[str], n: int = 1) -> None: ...

    signature = signature_of(reserve)
    data = signature.bind(({"b", "a"},), {})
    assert list(signature.unbind_steady(data)[0][0]) == ["a", "b"]
    assert type(signature.snapshot((SteadySet(["b", "a"]),), {})[0][0]) is set
    assert signature.fingerprint_bytes((SteadySet(["b", "a"]),), {}) == signature.fingerprint_bytes(({"a", "b"},), {})


@pytest.mark.parametrize("hint", [int, list[str], dict[str, list[int]], Plain, list[Plain]])
def test_types_without_sets_are_left_alone(hint):
    assert not codec_for(hint).sets


@given(st.sets(st.text() | st.integers()), st.sets(st.text() | st.integers()))
def test_a_steady_set_does_what_a_set_does(one, other):
    for kind in KINDS:
        plain, steady = (set if kind is SteadySet else frozenset)(one), kind(one)
        assert steady == plain
        assert plain == steady
        assert sorted(map(str, steady)) == sorted(map(str, plain))
        for right in (other, frozenset(other), kind(other)):
            assert steady | right == plain | right == steady.union(right)
            assert steady & right == plain & right == steady.intersection(right)
            assert steady - right == plain - right == steady.difference(right)
            assert steady ^ right == plain ^ right == steady.symmetric_difference(right)
            assert right | steady == right | plain
            assert right - steady == right - plain
            assert (steady <= right) == (plain <= right)
            assert type(steady | right) is kind
        made_by, parts = steady.__reduce__()
        for copied in (steady.copy(), copy.copy(steady), copy.deepcopy(steady), made_by(*parts)):
            assert list(copied) == list(steady)
            assert type(copied) is kind


@given(st.lists(st.tuples(st.sampled_from(["add", "discard", "remove", "pop", "clear"]), st.integers(0, 5))))
def test_a_steady_set_keeps_its_order_under_changes(changes):
    steady, order = SteadySet(), []
    for change, member in changes:
        if change == "add":
            steady.add(member)
            order += [] if member in order else [member]
        elif change == "clear":
            steady.clear()
            order.clear()
        elif change == "pop" and order:
            assert steady.pop() == order.pop(0)
        elif change == "remove" and member not in order:
            with pytest.raises(KeyError):
                steady.remove(member)
        elif change in {"discard", "remove"}:
            steady.discard(member)
            order = [each for each in order if each != member]
        assert list(steady) == order
        assert steady == set(order)
        assert len(steady) == len(order)


@pytest.mark.parametrize("change", ["|=", "&=", "-=", "^="])
def test_changes_in_place_keep_identity_and_order(change):
    steady = whole = SteadySet(WORDS)
    plain = set(WORDS)
    match change:
        case "|=":
            steady |= {"zoe", "yan"}
            plain |= {"zoe", "yan"}
        case "&=":
            steady &= {"dora", "bob"}
            plain &= {"dora", "bob"}
        case "-=":
            steady -= {"dora", "bob"}
            plain -= {"dora", "bob"}
        case "^=":
            steady ^= {"dora", "zoe"}
            plain ^= {"dora", "zoe"}
    assert steady is whole
    assert list(steady) == sorted(plain)


def test_a_plain_set_that_is_added_comes_in_order_even_if_json_could_not_carry_it():
    assert list(SteadySet(["z"]) | {"b", "a"}) == ["z", "a", "b"]
    assert list({"b", "a"} | SteadySet(["z"])) == ["a", "b", "z"]
    assert set(SteadySet({1j, "a"})) == {1j, "a"}
    with pytest.raises(TypeError):
        SteadySet() | [1]  # type: ignore[operator]  # that is the test


def test_a_set_finds_its_frozen_twin_among_the_members():
    steady = SteadySet([frozenset("ab"), frozenset("c")])
    steady.remove({"a", "b"})
    assert list(steady) == [frozenset("c")]


def test_text_of_a_steady_set_is_that_of_a_set():
    assert f"{SteadySet(['b', 'a'])} {SteadySet()} {SteadyFrozenSet(['b'])} {SteadyFrozenSet()}" == (
        "{'b', 'a'} set() frozenset({'b'}) frozenset()"
    )


def test_hash_and_dict_key():
    assert {frozenset("ab"): 1}[SteadyFrozenSet("ba")] == 1


def test_text_and_what_looks_like_it_have_one_order():
    assert list(SteadySet({"1", Decimal(1)})) == [Decimal(1), "1"]


class Sparse(msgspec.Struct, omit_defaults=True):
    empty: set[str] = msgspec.field(default_factory=set)
    fixed: frozenset[str] = frozenset({"x"})
    skus: frozenset[str] = frozenset()


def test_what_is_left_out_as_a_default_is_left_out_again():
    """Equal values give equal bytes, whether a client or a body wrote them (G11)."""
    codec = codec_for(Sparse)
    for value in (Sparse(), Sparse(skus=frozenset("ba"))):
        data, _ = codec.copy(value, "the value", 1000)
        assert codec.encode(codec.decode_steady(data)) == data
    assert codec.copy(Sparse(), "the value", 1000)[0] == b"{}"


SCRIPT = """
import json
from holdfast.codec.typed import codec_for
codec = codec_for(dict[str, set[str]])
data, _ = codec.copy({"a": set("zyxwvu")}, "the value", 1000)
steady = codec.decode_steady(data)["a"]
derived = [steady, steady | set("abc"), steady - {"z"}, set("wz") & steady, steady ^ set("zab"), steady.copy()]
print(json.dumps([data.decode(), *map(list, derived)]))
"""


def test_other_processes_with_other_hash_seeds_have_the_same_order():
    told = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    ]
    assert told[0] == told[1] == told[2]
    assert json.loads(told[0])[1] == list("uvwxyz")
