"""Intrinsic functions as expressions of Python, where Python has the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from holdfast.asl.intrinsic_functions import HASHES, Literal
from holdfast.asl.intrinsics import Call
from holdfast.asl.paths import JsonPath
from holdfast.asl.topython.code import Brackets, Code, Comprehension, Operation, Prefixed, atom, call, flat, quoted
from holdfast.asl.topython.parts import Parts, Unconverted

Arguments = tuple[Call | JsonPath | Literal, ...]
Intrinsic = Callable[[Arguments, list[Code], Parts], Code]


def _written(argument: Call | JsonPath | Literal) -> Any:
    """The value of an argument that is written in the definition. Raises ``Unconverted`` for another one."""
    if isinstance(argument, Literal):
        return argument.plain()
    raise Unconverted("only with an argument that is written in the definition, not computed")


def _plainly(made: Callable[[list[Code]], Code], *modules: str) -> Intrinsic:
    """A function whose arguments may be anything."""

    def function(_arguments: Arguments, values: list[Code], parts: Parts) -> Code:
        for module in modules:
            parts.helper(module)
        return made(values)

    return function


def _added(arguments: Arguments, values: list[Code], _parts: Parts) -> Code:
    if not any(isinstance(each, Literal) and type(each.value) is int for each in arguments):
        raise Unconverted("only with a number that is written in the definition: Python's + adds texts and lists too")
    return Operation("+", (flat(values[0]), flat(values[1])))


def _item(arguments: Arguments, values: list[Code], _parts: Parts) -> Code:
    if isinstance(place := _written(arguments[1]), int) and place >= 0:
        return f"{atom(values[0])}[{place}]"
    raise Unconverted("a place in an array is an integer from 0 on")


def _range(arguments: Arguments, _values: list[Code], _parts: Parts) -> Code:
    match [_written(each) for each in arguments]:
        case [int(first), int(last), int(step)] if step:
            return f"list(range({first}, {last + (1 if step > 0 else -1)}, {step}))"
        case _:
            raise Unconverted("a range has three integers")


def _split(arguments: Arguments, values: list[Code], _parts: Parts) -> Code:
    separator = _written(arguments[1])
    if isinstance(separator, str) and len(separator) == 1:
        return Comprehension("part", "for part in", f"{atom(values[0])}.split({quoted(separator)})", "if part")
    raise Unconverted("only with one character that separates")


def _contains(arguments: Arguments, values: list[Code], _parts: Parts) -> Code:
    if isinstance(_written(arguments[1]), str):
        return Operation("in", (flat(values[1]), atom(values[0])))
    raise Unconverted("only for a text: Python takes True for 1")


def _hash(arguments: Arguments, values: list[Code], parts: Parts) -> Code:
    if (algorithm := _written(arguments[1])) in HASHES:
        return f"{parts.helper('hashlib')}.{HASHES[algorithm]}({atom(values[0])}.encode()).hexdigest()"
    raise Unconverted("no such algorithm")


def _merged(arguments: Arguments, values: list[Code], _parts: Parts) -> Code:
    if _written(arguments[2]) is not False:
        raise Unconverted("only shallow merging is supported")
    return Brackets("{", tuple(Prefixed("**", each) for each in values[:2]), "}")


INTRINSICS: Final[dict[tuple[str, int], Intrinsic]] = {
    ("ArrayLength", 1): _plainly(lambda values: call("len", *values)),
    ("ArrayGetItem", 2): _item,
    ("ArrayContains", 2): _contains,
    ("ArrayRange", 3): _range,
    ("MathAdd", 2): _added,
    ("MathRandom", 2): _plainly(lambda values: call("hf.random().randrange", *values)),
    ("UUID", 0): _plainly(lambda _values: "str(hf.uuid())"),
    ("JsonToString", 1): _plainly(
        lambda values: call("json.dumps", *values, "ensure_ascii=False", 'separators=(",", ":")'), "json"
    ),
    ("StringToJson", 1): _plainly(lambda values: call("json.loads", *values), "json"),
    ("JsonMerge", 3): _merged,
    ("StringSplit", 2): _split,
    ("Base64Encode", 1): _plainly(lambda values: f"base64.b64encode({atom(values[0])}.encode()).decode()", "base64"),
    ("Base64Decode", 1): _plainly(
        lambda values: Brackets("base64.b64decode(", (values[0], "validate=True"), ").decode()"), "base64"
    ),
    ("Hash", 2): _hash,
}
"""By name and number of arguments: those with a plain form. ``Format`` and ``Array`` take any number."""
