"""Paths, intrinsic functions and templates of JSONPath as expressions of Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.asl.intrinsic_functions import Literal
from holdfast.asl.intrinsics import Call, InvalidIntrinsic, compiled_call, is_call
from holdfast.asl.jsontext import is_array, is_object
from holdfast.asl.path_tokens import Children, Function, Indexes
from holdfast.asl.paths import InvalidPath, JsonPath, compiled
from holdfast.asl.templates import COMPUTED
from holdfast.asl.topython.code import Brackets, Code, Prefixed, call, quoted
from holdfast.asl.topython.functions import INTRINSICS
from holdfast.asl.topython.parts import Parts, Pointer, Unconverted

Context = Mapping[tuple[str, ...], str]
"""By the place in the context object: what Python calls it."""


class Scope(Struct, frozen=True):
    """What expressions can see, as Python calls it. ``root`` is what ``$`` means; ``context`` has parts of ``$$``."""

    parts: Parts
    root: str
    context: Context
    variables: Mapping[str, str]

    def about(self, root: str) -> Scope:
        """The same with another value for ``$``."""
        return replace(self, root=root)


def literal(value: Any) -> Code:
    """A JSON value as a literal."""
    if is_object(value):
        return Brackets("{", tuple(Prefixed(f"{quoted(name)}: ", literal(each)) for name, each in value.items()), "}")
    if is_array(value):
        return Brackets("[", tuple(map(literal, value)), "]")
    return quoted(value) if isinstance(value, str) else repr(value)


def template(value: Any, scope: Scope, pointer: Pointer) -> Code:
    """A payload template, with its computed fields."""
    if is_object(value):
        return Brackets("{", tuple(_field(name, each, scope, pointer) for name, each in value.items()), "}")
    if is_array(value):
        return Brackets("[", tuple(template(each, scope, (*pointer, n)) for n, each in enumerate(value)), "]")
    return literal(value)


def _field(name: str, value: Any, scope: Scope, pointer: Pointer) -> Code:
    pointer = (*pointer, name)
    if name.endswith(COMPUTED) and isinstance(value, str):
        return Prefixed(f"{quoted(name.removesuffix(COMPUTED))}: ", computed(value, scope, pointer))
    return Prefixed(f"{quoted(name)}: ", template(value, scope, pointer))


def computed(text: str, scope: Scope, pointer: Pointer) -> Code:
    """A path, or a call of an intrinsic function. What has no plain form is kept in a call that raises."""
    try:
        return _value(compiled_call(text) if is_call(text) else compiled(text), scope)
    except (InvalidIntrinsic, InvalidPath, Unconverted) as why:
        return scope.parts.not_converted(pointer, text, str(why))


def path_keys(path: JsonPath) -> tuple[str | int, ...]:
    """The fields and places along a path. Raises ``Unconverted`` if it may select more than one value."""
    keys: list[str | int] = []
    for token in path.tokens:
        match token:
            case Children(names=(name,)) | Indexes(places=(name,)):
                keys.append(name)
            case _:
                raise Unconverted("a path that selects more than one value")
    return tuple(keys)


def path_code(path: JsonPath, scope: Scope) -> str:
    """What a path leads to. Raises ``Unconverted``."""
    match path.tokens:
        case (*_, Function("length" | "size")):
            return f"len({path_code(replace(path, tokens=path.tokens[:-1]), scope)})"
        case _:
            root, keys = rooted(path.root, path_keys(path), scope)
            return root + subscripts(keys)


def subscripts(keys: tuple[str | int, ...]) -> str:
    """The keys as subscripts: ``["a"][0]``."""
    return "".join(f"[{quoted(key) if isinstance(key, str) else key}]" for key in keys)


def rooted(root: str, keys: tuple[str | int, ...], scope: Scope) -> tuple[str, tuple[str | int, ...]]:
    """The name of what a path begins with, and the keys that are left. Raises ``Unconverted``."""
    if root == "$":
        return scope.root, keys
    if root == "$$":
        return in_context(keys, scope)
    if root[1:] not in scope.variables:
        raise Unconverted(f"no state assigns {root}")
    return scope.variables[root[1:]], keys


def in_context(keys: tuple[str | int, ...], scope: Scope) -> tuple[str, tuple[str | int, ...]]:
    """The same for a place in the context object."""
    for length in range(len(keys), 0, -1):
        if found := scope.context.get(tuple(map(str, keys[:length]))):
            if found == ORIGINAL:
                scope.parts.helper(ORIGINAL)
            return found, keys[length:]
    raise Unconverted("this part of the context object has no counterpart")


ORIGINAL: Final = "original"
"""The input of the execution, kept."""


def _value(value: Call | JsonPath | Literal, scope: Scope) -> Code:
    match value:
        case Call(name, arguments):
            function = INTRINSICS.get((name, len(arguments)))
            if name == "Array":
                return Brackets("[", tuple(_value(each, scope) for each in arguments), "]")
            if name == "Format":
                return _format(arguments, scope)
            if function is None:
                raise Unconverted(f"States.{name} has no plain form")
            return function(arguments, [_value(each, scope) for each in arguments], scope.parts)
        case JsonPath():
            return path_code(value, scope)
        case Literal():
            return literal(value.plain())


def _format(arguments: tuple[Call | JsonPath | Literal, ...], scope: Scope) -> Code:
    match arguments:
        case (Literal(value=str(text)), *rest) if "\\" not in text and text.count("{}") == len(rest):
            pieces = [piece.replace("{", "{{").replace("}", "}}") for piece in text.split("{}")]
            if not rest:
                return quoted(text)
            values = [call(scope.parts.helper("text"), _value(each, scope)) for each in rest]
            return call(f"{quoted('{}'.join(pieces))}.format", *values)
        case _:
            raise Unconverted("the text that is formatted has escapes, or is computed")
