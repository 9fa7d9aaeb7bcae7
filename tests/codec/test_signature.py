"""Signatures: from every source the same input gives the same bytes, and the wrong input a message that helps (G11)."""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import json
import math
import subprocess
import sys
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.codec.signature import INPUT_LIMIT_BYTES, Signature, signature_of
from holdfast.errors import ConfigurationError, HoldfastError, InvalidInput, PayloadTooLarge, SerializationError

if TYPE_CHECKING:
    from nowhere import Hidden  # type: ignore[import-not-found]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Item:
    price: float
    name: str = ""


@dataclasses.dataclass
class Order:
    id: str
    items: list[Item] = dataclasses.field(default_factory=list)
    note: str | None = None


@dataclasses.dataclass(frozen=True)
class Tag:
    """Has no order, so msgspec cannot sort sets of it."""

    name: str


class Row(msgspec.Struct, array_like=True, tag=True):
    number: int
    tags: frozenset[Tag] = frozenset()


class Named(msgspec.Struct, rename="camel", omit_defaults=True):
    first_name: str
    all_tags: set[Tag] = msgspec.field(default_factory=set)
    counts: dict[int, int] = msgspec.field(default_factory=dict)


class Unknown:
    pass


async def checkout(order: Order, note: str = "") -> Order: ...
async def charge(card: str, cents: int, currency: str = "EUR") -> str: ...
def one(order: Order) -> None: ...
def numbers(values: list[int]) -> None: ...
def table(values: dict[str, Any]) -> None: ...
def anything(value) -> None: ...
def nothing() -> None: ...
def everything(a: int, /, b: int, c: int = 3, *rest: int, d: int, e: int = 5, **more: str) -> None: ...
def variadic(*values: int) -> None: ...
def open_ended(**values: int) -> None: ...
def reserved(self: int, class_: int = 0, __struct_fields__: int = 1) -> None: ...
def unordered(tags: set[Tag], counts: dict[int, str] | None = None, row: Row | None = None) -> None: ...
def structs(named: Named) -> None: ...
def plain(x: int, f: float = 0.5, text: str | None = None) -> None: ...


WORKFLOW = signature_of(checkout, "workflow 'checkout'")
STEP = signature_of(charge, "step 'charge'")


def refusal(call, *parts: str, kind: type[HoldfastError] = InvalidInput) -> str:
    with pytest.raises(kind) as caught:
        call()
    for part in parts:
        assert part in str(caught.value)
    return str(caught.value)


# ── What a signature knows ──────────────────────────────────────────────────────────────────────────────────────────


def test_it_knows_the_function():
    assert (STEP.name, STEP.what) == ("charge", "step 'charge'")
    assert signature_of(charge).what == "function 'charge'"
    assert [each.name for each in STEP.parameters] == ["card", "cents", "currency"]
    assert [each.required for each in STEP.parameters] == [True, True, False]
    assert STEP.parameters[1].codec.hint is int
    assert STEP.result.hint is str
    assert signature_of(nothing).result.copy(None, "x", 100) == (b"null", None)
    assert signature_of(anything).parameters[0].codec.hint is Any
    assert (STEP.parameter_count, STEP.accepts_nothing) == (3, False)
    assert (signature_of(nothing).parameter_count, signature_of(nothing).accepts_nothing) == (0, True)


def test_a_decorated_function_shows_what_it_wraps():
    @functools.wraps(charge)
    def wrapper(*args: Any, **kwargs: Any) -> Any: ...

    assert signature_of(wrapper).bind(("tok", 1), {}) == STEP.bind(("tok", 1), {})


def test_parameters_that_the_caller_does_not_give_are_left_out():
    def transact(cursor: Any, /, sku: str, count: int = 1) -> None: ...

    signature = signature_of(transact, given=1)
    assert [each.name for each in signature.parameters] == ["sku", "count"]
    assert signature.unbind(signature.bind(("a",), {})) == (("a", 1), {})


def test_an_unannotated_result_is_plain_json():
    def free(x: int): ...
    def never() -> NoReturn: ...

    assert signature_of(free).result.hint is Any
    assert signature_of(never).result.copy(None, "x", 10)[1] is None


# ── bind ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_same_call_gives_the_same_bytes_however_it_is_written():
    expected = b'{"card":"tok","cents":100,"currency":"EUR"}'
    assert STEP.bind(("tok", 100), {}) == expected
    assert STEP.bind(("tok", 100, "EUR"), {}) == expected
    assert STEP.bind(("tok",), {"cents": 100}) == expected
    assert STEP.bind((), {"currency": "EUR", "cents": 100, "card": "tok"}) == expected
    assert signature_of(nothing).bind((), {}) == b"{}"


def test_equal_values_give_equal_bytes_whatever_their_order():
    signature = signature_of(unordered)
    tags = [Tag(name) for name in "abcdefgh"]
    backwards = tags[::-1]
    first = signature.bind((set(tags), {1: "a", 10: "b"}, Row(1, frozenset(tags))), {})
    second = signature.bind((set(backwards), {10: "b", 1: "a"}, Row(1, frozenset(backwards))), {})
    assert first == second
    named = signature_of(structs)
    assert named.bind((Named("x", set(tags), {2: 1, 1: 2}),), {}) == named.bind(
        (Named("x", set(backwards), {1: 2, 2: 1}),), {}
    )
    free = signature_of(table)
    assert free.bind(({"b": 1, "a": {"d": 1, "c": 2}},), {}) == free.bind(({"a": {"c": 2, "d": 1}, "b": 1},), {})


PROGRAM = """
from test_signature_sets import signature, values
print(signature.bind((values,), {}).decode())
"""
SETS = """
from holdfast.codec.signature import signature_of
def f(values: frozenset[frozenset[str]]) -> None: ...
signature = signature_of(f)
values = frozenset(frozenset((a, b)) for a in "abcd" for b in "wxyz")
"""


def test_sets_are_written_alike_in_every_process(tmp_path):
    (tmp_path / "test_signature_sets.py").write_text(SETS, encoding="utf-8")
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            check=True,
            capture_output=True,
            env={"PYTHONPATH": ":".join([str(tmp_path), *sys.path]), "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1


def test_what_is_bound_is_unbound_as_a_call():
    order = Order("o", [Item(1.5)])
    assert WORKFLOW.unbind(WORKFLOW.bind((order,), {})) == ((order, ""), {})
    signature = signature_of(everything)
    data = signature.bind((1, 2, 3, 4, 5), {"d": 6, "x": "y"})
    assert json.loads(data) == {"a": 1, "b": 2, "c": 3, "rest": [4, 5], "d": 6, "e": 5, "more": {"x": "y"}}
    args, kwargs = signature.unbind(data)
    assert (args, kwargs) == ((1, 2, 3, 4, 5), {"d": 6, "e": 5, "x": "y"})
    inspect.signature(everything).bind(*args, **kwargs)
    assert signature_of(variadic).unbind(signature_of(variadic).bind((1, 2), {})) == ((1, 2), {})
    assert signature_of(open_ended).unbind(signature_of(open_ended).bind((), {"a": 1})) == ((), {"a": 1})


def test_parameters_may_have_any_name():
    signature = signature_of(reserved)
    assert signature.unbind(signature.bind((1,), {"__struct_fields__": 3})) == ((1, 0, 3), {})

    def by_position(a: int, /, **rest: int) -> None: ...

    signature = signature_of(by_position)
    assert signature.unbind(signature.bind((1,), {"a": 2})) == ((1,), {"a": 2})


WRONG_CALLS = [
    (WORKFLOW, (), {}, ["workflow 'checkout' is missing argument 'order'; it takes (order, note)"]),
    (WORKFLOW, (1, 2, 3), {}, ["got 3 arguments by position, 1 too many"]),
    (WORKFLOW, (Order("o"),), {"color": 1}, ["has no parameter 'color'; it takes (order, note)"]),
    (WORKFLOW, (Order("o"),), {"order": 1}, ["got argument 'order' twice"]),
    (WORKFLOW, (17,), {}, ["argument 'order' of workflow 'checkout' should be Order, not int 17"]),
    (WORKFLOW, ({"id": 3},), {}, ["argument 'order'", "at .id: expected str, got int"]),
    (WORKFLOW, (Order("o"), None), {}, ["argument 'note'", "should be str, not None"]),
    (WORKFLOW, (Order("o", [Item("x")]),), {}, ["argument 'order'", "at .items[0].price: expected float, got str"]),  # type: ignore[arg-type]
    (WORKFLOW, (Order("o", [Item(math.inf)]),), {}, ["argument 'order'", "holds inf at .items[0].price"]),
    (STEP, ("tok", 1.0), {}, ["argument 'cents' of step 'charge' should be int, not float 1.0"]),
    (STEP, ("tok", True), {}, ["argument 'cents'", "should be int, not bool True"]),
    (signature_of(nothing), (1,), {}, ["it takes no arguments"]),
    (signature_of(everything), (1, 2), {}, ["missing argument 'd'; it takes (a, b, c, *rest, d, e, **more)"]),
    (signature_of(everything), (), {"a": 1, "b": 2, "d": 3}, ["missing argument 'a'"]),
    (signature_of(variadic), (1, "x"), {}, ["argument 'values'", "at [1]: expected int, got str"]),
    (signature_of(plain), (1, math.nan), {}, ["argument 'f' of function 'plain' is nan"]),
]


@pytest.mark.parametrize(("signature", "args", "kwargs", "parts"), WRONG_CALLS)
def test_a_wrong_call_is_refused_with_the_function_and_the_parameter(signature, args, kwargs, parts):
    refusal(lambda: signature.bind(args, kwargs), *parts)


def test_an_int_for_a_float_is_that_float_and_the_same_input():
    signature = signature_of(plain)
    assert signature.bind((1, 2), {}) == signature.bind((1, 2.0), {}) == b'{"f":2.0,"text":null,"x":1}'
    assert repr(signature.snapshot((1, 2), {})) == "((1, 2.0, None), {})"
    assert WORKFLOW.bind((Order("o", [Item(1)]),), {}) == WORKFLOW.bind((Order("o", [Item(1.0)]),), {})
    assert signature.bind((1, 2), {}, limit_bytes=len(b'{"f":2.0,"text":null,"x":1}'))
    with pytest.raises(PayloadTooLarge):
        signature.bind((1, 2), {}, limit_bytes=len(b'{"x":1,"f":2,"text":null}'))


def test_an_int_as_the_default_of_a_float_is_that_float():
    def price(amount: float = 0) -> None: ...

    signature = signature_of(price)
    assert signature.bind((), {}) == signature.bind((0,), {}) == b'{"amount":0.0}'
    assert repr(signature.unbind(b"{}")) == "((0.0,), {})"
    assert signature.fingerprint_bytes((), {}) == b"[]"


INEXACT_CALLS = [
    (WORKFLOW, (Order("o", [Item(2**53 + 1)]),), ["argument 'order'", "at .items[0].price", "came back as float"]),
    (
        signature_of(plain),
        (1, 2**53 + 1),
        ["argument 'f' of function 'plain' should be float", "no float holds exactly"],
    ),
    (signature_of(anything), ((1, 2),), ["argument 'value'", "tuple of length 2 came back as list"]),
    (signature_of(anything), (Unknown(),), ["argument 'value' of function 'anything' is Unknown", "dataclass"]),
    (WORKFLOW, (Order("o", [Unknown()]),), ["argument 'order'", "holds Unknown at .items[0]"]),  # type: ignore[list-item]
    (WORKFLOW, (Order("o", note="\ud800"),), ["argument 'order'", "text at .note with lone surrogates"]),
]


@pytest.mark.parametrize(("signature", "args", "parts"), INEXACT_CALLS)
def test_an_argument_that_would_come_back_otherwise_is_refused(signature, args, parts):
    refusal(lambda: signature.bind(args, {}), *parts, kind=SerializationError)


def test_what_overrides_the_name_in_messages():
    assert "child 'x'" in refusal(lambda: STEP.bind((), {}, "child 'x'"))
    assert "child 'x'" in refusal(lambda: STEP.parse("[]", "child 'x'"))


def test_the_size_limit_is_exact():
    signature = signature_of(anything)
    data = signature.bind(("x" * 88,), {}, "", 100)
    assert len(data) == 100
    refusal(lambda: signature.bind(("x" * 89,), {}, "", 100), "takes 101 bytes", "100 bytes", kind=PayloadTooLarge)
    refusal(lambda: signature.parse('"' + "x" * 89 + '"', "", 100), "takes 101 bytes", kind=PayloadTooLarge)
    refusal(lambda: signature.bind(("x" * INPUT_LIMIT_BYTES,), {}), kind=PayloadTooLarge)


def test_nesting_is_limited():
    value: Any = 0
    for _ in range(64):
        value = [value]
    signature = signature_of(anything)
    for refused in (
        lambda: signature.bind((value,), {}),
        lambda: signature.fingerprint_bytes(([value],), {}),
        lambda: signature.parse(json.dumps(value)),
        lambda: signature.parse(json.dumps([value])),
        lambda: signature.unbind(msgspec.json.encode({"value": value})),
    ):
        refusal(refused, "more than 64 levels", kind=SerializationError)
    signature.bind((value[0],), {})
    endless: list[Any] = []
    endless.append(endless)
    refusal(lambda: signature.bind((endless,), {}), "contains itself", kind=SerializationError)


def test_a_class_that_left_fields_to_its_defaults_gives_the_same_bytes():
    read_elsewhere = msgspec.json.decode(b'{"id":"o","items":[{"price":1.0}]}', type=Order)
    constructed = Order("o", [Item(1.0)])
    assert WORKFLOW.bind((read_elsewhere,), {}) == WORKFLOW.bind((constructed,), {})


# ── unbind ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_added_parameter_takes_its_default():
    assert STEP.unbind(b'{"card":"tok","cents":1}') == (("tok", 1, "EUR"), {})


def test_input_that_no_longer_fits_is_never_dropped_silently():
    what = "the recorded input of step 'charge' does not fit its parameters"
    later = "keep the older parameters"
    refusal(
        lambda: STEP.unbind(b'{"card":"t","cents":1,"x":2}'), what, "no parameter 'x'", later, kind=SerializationError
    )
    refusal(lambda: STEP.unbind(b'{"card":"t"}'), what, "missing argument 'cents'", later, kind=SerializationError)
    refusal(lambda: STEP.unbind(b'{"card":"t","cents":"x"}'), what, "argument 'cents'", kind=SerializationError)
    keyword = signature_of(everything)
    refusal(lambda: keyword.unbind(b'{"a":1,"b":2}'), "missing argument 'd'", kind=SerializationError)
    refusal(lambda: keyword.unbind(b"[1]"), "expected object, got array", kind=SerializationError)


# ── fingerprint_bytes ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fingerprint_is_the_same_for_the_same_call():
    expected = b'["tok",100]'
    assert STEP.fingerprint_bytes(("tok", 100), {}) == expected
    assert STEP.fingerprint_bytes(("tok",), {"cents": 100}) == expected
    assert STEP.fingerprint_bytes((), {"cents": 100, "card": "tok"}) == expected
    assert STEP.fingerprint_bytes(("tok", 100, "EUR"), {}) == expected
    assert STEP.fingerprint_bytes(("tok", 100), {"currency": "USD"}) == b'["tok",100,"USD"]'
    assert signature_of(nothing).fingerprint_bytes((), {}) == b"[]"


def test_a_fingerprint_tells_calls_apart():
    signature = signature_of(everything)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((1, 2), {"d": 0}),
        ((1, 2, 4), {"d": 0}),
        ((1, 2, 3, 4), {"d": 0}),
        ((1, 2), {"d": 1}),
        ((1, 2), {"d": 0, "e": 6}),
        ((1, 2), {"d": 0, "x": "y"}),
        ((1, True), {"d": 0}),
        ((1, "2"), {"d": 0}),
        ((1, [2]), {"d": 0}),
        ((1, 2.0), {"d": 0}),
    ]
    assert len({signature.fingerprint_bytes(args, kwargs) for args, kwargs in calls}) == len(calls)
    same = signature.fingerprint_bytes((1, 2), {"d": 0})
    assert signature.fingerprint_bytes((1, 2, 3), {"d": 0, "e": 5}) == same
    assert signature.fingerprint_bytes((1,), {"b": 2, "d": 0}) == same


def test_a_new_optional_parameter_leaves_fingerprints_as_they_were():
    def charge(card: str, cents: int, currency: str = "EUR", memo: str | None = None, *, fast: bool = False) -> str: ...

    later = signature_of(charge)
    for args in (("tok", 1), ("tok", 1, "EUR"), ("tok", 1, "USD")):
        assert later.fingerprint_bytes(args, {}) == STEP.fingerprint_bytes(args, {})


def test_a_fingerprint_sorts_what_has_no_order_even_without_a_hint():
    signature = signature_of(anything)
    tags = [Tag(name) for name in "abcdefgh"]
    backwards = tags[::-1]
    assert signature.fingerprint_bytes((set(tags),), {}) == signature.fingerprint_bytes((set(backwards),), {})
    assert signature.fingerprint_bytes(({10: 1, 9: 2},), {}) == signature.fingerprint_bytes(({9: 2, 10: 1},), {})


def test_a_fingerprint_names_the_argument_without_a_json_form():
    call = functools.partial(signature_of(charge, "step 'charge'").fingerprint_bytes, ("tok", Unknown()), {})
    refusal(call, "argument 'cents' of step 'charge' is Unknown", kind=SerializationError)
    call = functools.partial(signature_of(variadic).fingerprint_bytes, (1, Unknown()), {})
    refusal(call, "argument 'values'", "holds Unknown at [1]", kind=SerializationError)
    call = functools.partial(STEP.fingerprint_bytes, ("tok", 1, Unknown()), {})
    refusal(call, "argument 'currency'", kind=SerializationError)
    refusal(lambda: STEP.fingerprint_bytes(("tok",), {}), "missing argument 'cents'")


def test_what_only_fails_in_the_whole_is_told_of_the_whole():
    deep: Any = 0
    for _ in range(sys.getrecursionlimit() * 2):
        deep = [deep]
    refusal(lambda: signature_of(anything).fingerprint_bytes((deep,), {}), "64 levels", kind=SerializationError)
    assert "the input of step" in str(STEP._unencodable(("tok", 1, "EUR"), "step 'charge'", RecursionError()))


# ── parse ───────────────────────────────────────────────────────────────────────────────────────────────────────────

ORDER = '{"id": "o", "items": []}'
PARSED: list[tuple[Any, str, tuple[Any, ...], dict[str, Any]]] = [
    (checkout, f'{{"order": {ORDER}}}', (Order("o"),), {}),
    (checkout, f'{{"note": "x", "order": {ORDER}}}', (Order("o"), "x"), {}),
    (checkout, f'[{ORDER}, "x"]', (Order("o"), "x"), {}),
    (one, ORDER, (Order("o"),), {}),
    (one, f'{{"order": {ORDER}}}', (Order("o"),), {}),
    (one, f"[{ORDER}]", (Order("o"),), {}),
    (numbers, "[1, 2]", ([1, 2],), {}),
    (numbers, "[[1, 2]]", ([1, 2],), {}),
    (numbers, '{"values": [1]}', ([1],), {}),
    (table, '{"values": 1}', ({"values": 1},), {}),
    (table, '{"values": {"a": 1}}', ({"a": 1},), {}),
    (table, '{"values": {"a": 1}, "b": 2}', ({"values": {"a": 1}, "b": 2},), {}),
    (anything, "[1]", ([1],), {}),
    (anything, ' "x"\n', ("x",), {}),
    (anything, "null", (None,), {}),
    (nothing, "{}", (), {}),
    (nothing, "[]", (), {}),
    (variadic, "[1, 2]", (1, 2), {}),
    (variadic, '{"values": [1]}', (1,), {}),
    (open_ended, '{"a": 1}', (), {"a": 1}),
    (open_ended, '{"values": {"a": 1}, "b": 2}', (), {"a": 1, "b": 2}),
    (open_ended, '{"values": 3, "b": 2}', (), {"values": 3, "b": 2}),
    (everything, '{"a": 1, "b": 2, "d": 4, "x": "y"}', (1, 2), {"d": 4, "x": "y"}),
    (plain, '{"x": 1, "f": 2}', (1, 2.0), {}),
    (plain, "[1]", (1,), {}),
]


@pytest.mark.parametrize(("function", "text", "args", "kwargs"), PARSED)
def test_what_a_person_writes_becomes_what_a_call_gives(function, text, args, kwargs):
    signature = signature_of(function)
    expected = signature.bind(args, kwargs)
    assert signature.parse(text) == signature.parse(text.encode()) == expected
    assert signature.parse(expected) == expected


def test_numbers_keep_their_digits():
    def price(amount: Decimal) -> None: ...

    signature = signature_of(price)
    assert signature.parse('{"amount": "1.10"}') == signature.parse("1.10") == signature.bind((Decimal("1.10"),), {})


WRONG_TEXT: list[tuple[Any, str, list[str]]] = [
    (checkout, "", ["the input of function 'checkout' is not JSON: there is none"]),
    (checkout, "  \n ", ["there is none"]),
    (checkout, "{", ["it ends too early"]),
    (checkout, "{'order': 1}", ["at line 1, column 2", '"text"']),
    (checkout, '{"order":\n  1,\n}', ["trailing comma in object at line 3, column 1"]),
    (checkout, '"é" x', ["trailing characters at line 1, column 5"]),
    (checkout, "3", ["should be a JSON object of arguments by name, or an array", "not int 3", "(order, note)"]),
    (checkout, "[]", ["function 'checkout' is missing argument 'order'"]),
    (checkout, "{}", ["function 'checkout' is missing argument 'order'"]),
    (checkout, "[1, 2, 3]", ["got 3 arguments by position, 1 too many"]),
    (checkout, f'{{"order": {ORDER}, "color": 1}}', ["no parameter 'color'"]),
    (checkout, '{"order": {"id": 1}}', ["argument 'order'", "its type Order at .id: expected str, got int"]),
    (checkout, '{"order": {"id": "o", "items": [{}]}}', ["at .items[0]: object missing required field price"]),
    (one, "{}", ["function 'one' is missing argument 'order'"]),
    (one, '{"id": 1}', ["argument 'order'", "at .id: expected str, got int"]),
    (one, '{"order": {"id": 1}}', ["argument 'order'", "at .id: expected str, got int"]),
    (one, "7", ["argument 'order' of function 'one' does not fit its type Order: expected object, got int"]),
    (numbers, '["x"]', ["argument 'values'", "at [0]: expected int, got str"]),
    (nothing, "null", ["takes no arguments"]),
    (nothing, "[1]", ["takes no arguments"]),
    (nothing, '{"a": 1}', ["no parameter 'a'", "takes no arguments"]),
    (open_ended, '{"values": "x", "b": 1}', ["argument 'values'", "expected int, got str"]),
    (everything, '{"a": 1, "b": 2}', ["missing argument 'd'"]),
    (everything, "[1, 2]", ["missing argument 'd'"]),
    (plain, '{"x": 1.5}', ["argument 'x'", "expected int, got float"]),
    (plain, '{"x": 1, "f": 1e999}', ["not JSON", "out of range"]),
    (variadic, "3", ["should be a JSON object"]),
]


@pytest.mark.parametrize(("function", "text", "parts"), WRONG_TEXT)
def test_wrong_text_is_refused_with_the_place_and_what_to_do(function, text, parts):
    refusal(lambda: signature_of(function).parse(text), *parts)


def test_bytes_that_are_no_text_are_refused():
    refusal(lambda: WORKFLOW.parse(b'"\xff"'), "not JSON")


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([checkout, one, numbers, table, nothing, everything, variadic, open_ended, unordered, structs]),
    st.binary(max_size=60)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.floats(),
        lambda part: (
            st.lists(part, max_size=3)
            | st.dictionaries(st.sampled_from(["order", "values", "a", "b", "id", "note", "more"]), part, max_size=3)
        ),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode()),
)
def test_whatever_a_person_writes_is_bound_or_refused(function, text):
    signature = signature_of(function)
    try:
        data = signature.parse(text)
    except InvalidInput:
        return
    args, kwargs = signature.unbind(data)
    assert signature.bind(args, kwargs) == data == signature.parse(data)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=3), part, max_size=3),
    max_leaves=6,
)
ORDERS = st.builds(
    Order,
    st.text(),
    st.lists(st.builds(Item, st.floats(allow_nan=False, allow_infinity=False), st.text()), max_size=3),
    st.none() | st.text(),
)


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        st.tuples(st.just(checkout), st.tuples(ORDERS, st.text())),
        st.tuples(st.just(one), st.tuples(ORDERS)),
        st.tuples(st.just(anything), st.tuples(VALUES)),
        st.tuples(st.just(variadic), st.lists(st.integers(), max_size=3).map(tuple)),
        st.tuples(
            st.just(unordered),
            st.tuples(
                st.sets(st.builds(Tag, st.text())), st.none() | st.dictionaries(st.integers(), st.text(), max_size=3)
            ),
        ),
        st.tuples(
            st.just(structs),
            st.tuples(
                st.builds(
                    Named,
                    st.text(),
                    st.sets(st.builds(Tag, st.text()), max_size=3),
                    st.dictionaries(st.integers(), st.integers(), max_size=3),
                )
            ),
        ),
    )
)
def test_every_source_gives_the_same_bytes(call):
    function, args = call
    signature = signature_of(function)
    data = signature.bind(args, {})
    bound = inspect.signature(function).bind(*args)
    if function is not variadic:
        assert signature.bind((), dict(bound.arguments)) == data
        assert signature.fingerprint_bytes((), dict(bound.arguments)) == signature.fingerprint_bytes(args, {})
    assert signature.parse(data) == data
    read, keywords = signature.unbind(data)
    assert read[: len(args)] == args
    assert keywords == {}
    assert signature.bind(read, {}) == data
    assert signature.fingerprint_bytes(read, {}) == signature.fingerprint_bytes(args, {})


# ── Registration ────────────────────────────────────────────────────────────────────────────────────────────────────


def hidden(order: Hidden) -> None: ...
def hidden_result(order: Order) -> Hidden: ...
def broken(order: list[int][str][1]) -> None: ...  # type: ignore[misc]
def unsupported(order: Order, thing: list[Unknown]) -> None: ...
def unsupported_result() -> Unknown: ...
def wrong_default(count: int = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013
def inexact_default(pair: list[int] = (1, 2)) -> None: ...  # type: ignore[assignment]
def none_default(when: datetime | None = None, id: UUID | None = None, colour: Colour = Colour.RED) -> None: ...


WRONG_FUNCTIONS: list[tuple[Any, type[HoldfastError], list[str]]] = [
    (hidden, ConfigurationError, ["'Hidden' of parameter 'order' of step 's' cannot be resolved", "TYPE_CHECKING"]),
    (hidden_result, ConfigurationError, ["'Hidden' of the result of step 's' cannot be resolved"]),
    (broken, ConfigurationError, ["parameter 'order' of step 's' cannot be resolved"]),
    (unsupported, SerializationError, ["parameter 'thing' of step 's'", "Unknown has no JSON form"]),
    (unsupported_result, SerializationError, ["the result of step 's'", "Unknown has no JSON form"]),
    (wrong_default, ConfigurationError, ["the default of parameter 'count' of step 's' should be int, not None"]),
    (inexact_default, ConfigurationError, ["the default of parameter 'pair'", "tuple of length 2 came back as list"]),
    (print, ConfigurationError, ["step 's' must be a function", "print"]),
    (functools.partial(charge, "x"), ConfigurationError, ["must be a function"]),
    (Order, ConfigurationError, ["must be a function"]),
]


@pytest.mark.parametrize(("function", "kind", "parts"), WRONG_FUNCTIONS)
def test_a_function_that_cannot_be_durable_is_refused_when_registered(function, kind, parts):
    refusal(lambda: signature_of(function, "step 's'"), *parts, kind=kind)


def test_annotations_that_fail_only_together_are_still_refused(monkeypatch):
    def fails(*args: Any, **kwargs: Any) -> Any:
        if isinstance(args[0], type(charge)):
            raise TypeError("odd")
        return {}

    monkeypatch.setattr("holdfast.codec.parameters.typing.get_type_hints", fails)
    refusal(lambda: signature_of(charge, "step 's'"), "annotations of step 's'", "odd", kind=ConfigurationError)


def test_defaults_of_any_hint_are_filled_in():
    signature = signature_of(none_default)
    assert signature.bind((), {}) == b'{"colour":"red","id":null,"when":null}'
    assert signature.unbind(b"{}") == ((None, None, Colour.RED), {})


def test_a_mutable_default_is_never_shared():
    def collect(values: list[int] = []) -> None: ...  # noqa: B006

    signature: Signature = signature_of(collect)
    (first,), _ = signature.unbind(signature.bind((), {}))
    first.append(1)
    assert signature.bind((), {}) == b'{"values":[]}'


@dataclasses.dataclass
class Priced:
    total: float
    parts: list[float]


def test_one_number_under_a_float_hint_is_one_input_however_it_is_written():
    def pay(amount: float, priced: Priced | None = None) -> None: ...

    signature = signature_of(pay)
    written = signature.bind((1.0, Priced(2.0, [3.0])), {})
    assert signature.bind((1, Priced(2, [3])), {}) == written
    for text in ('{"amount":1,"priced":{"total":2,"parts":[3]}}', '[1.0,{"parts":[3.0],"total":2.0}]'):
        assert signature.parse(text) == written
