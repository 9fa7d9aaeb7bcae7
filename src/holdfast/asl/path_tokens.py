"""The parts of a JSONPath, and what they select. Errors have Jayway's words, which AWS passes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import pstdev
from typing import Any, Final

from msgspec import Struct

from holdfast.asl.jsontext import compact, is_array, is_number, is_object
from holdfast.asl.path_budget import CHARACTERS_A_NODE, spend

Found = tuple[str, Any]
"""A value, and the path to it as Jayway prints it; empty below what is not definite, where no error can name it."""


class InvalidPath(ValueError):
    """The text is no path."""


class PathNotFound(LookupError):
    """Nothing is at the end of a definite path."""

    def __str__(self) -> str:
        return str(self.args[0])


class Children(Struct, frozen=True):
    """``.name``, ``['name']`` or ``['a','b']``."""

    names: tuple[str, ...]

    @property
    def definite(self) -> bool:
        return len(self.names) == 1

    def __str__(self) -> str:
        return "[" + ",".join(f"'{name}'" for name in self.names) + "]"


class Indexes(Struct, frozen=True):
    """``[0]`` or ``[0,2]``; negative places count from the end."""

    places: tuple[int, ...]

    @property
    def definite(self) -> bool:
        return len(self.places) == 1

    def __str__(self) -> str:
        return "[" + ",".join(map(str, self.places)) + "]"


class Slice(Struct, frozen=True):
    """``[start:end]``."""

    start: int | None
    end: int | None
    definite: bool = False

    def __str__(self) -> str:
        return f"[{'' if self.start is None else self.start}:{'' if self.end is None else self.end}]"


class Wildcard(Struct, frozen=True):
    """``.*`` or ``[*]``."""

    definite: bool = False

    def __str__(self) -> str:
        return "[*]"


class Filter(Struct, frozen=True):
    """``[?(...)]``. ``holds`` gets a value, and the root of the path."""

    holds: Callable[[Any, Any], bool]
    definite: bool = False

    def __str__(self) -> str:
        return "[?]"


class Function(Struct, frozen=True):
    """``.length()`` and the like, at the end of a path."""

    name: str
    definite: bool = True

    def __str__(self) -> str:
        return f".{self.name}()"


class Descend(Struct, frozen=True):
    """``..`` and what is looked for at every depth."""

    token: Children | Indexes | Slice | Wildcard | Filter | Function
    definite: bool = False

    def __str__(self) -> str:
        return f"..{self.token}"


Step = Children | Indexes | Slice | Wildcard | Filter | Function
Token = Step | Descend


def evaluate(tokens: tuple[Token, ...], root: Any, *, definite: bool) -> Any:
    """What the tokens select from ``root``: one value if they are definite, else a list.

    Raises ``PathNotFound`` for a definite path without a value.
    """
    found = [("$", root)]
    upstream = definite  # where a path is not, what is missing selects nothing
    for number, token in enumerate(tokens):
        leaf = number == len(tokens) - 1
        if isinstance(token, Function):
            values = [value for _, value in found]
            return _call(token, values[0] if all(each.definite for each in tokens) and values else values)
        found = [each for path, value in found for each in _select(token, path, value, root, upstream, leaf=leaf)]
        upstream = upstream and token.definite
    if not definite:
        values = [value for _, value in found]
        if any(_repeats(token) for token in tokens):
            _spend_all(values)
        return values
    if not found:
        raise PathNotFound("No results for path: $" + "".join(map(str, tokens)))
    return found[0][1]


def _repeats(token: Token) -> bool:
    """Whether a token may find the same value twice, by itself and within another one."""
    match token:
        case Children(names=places) | Indexes(places=places):
            return len(set(places)) < len(places)
        case _:
            return isinstance(token, Descend)


def _spend_all(values: list[Any]) -> None:
    """Count all that values hold, each as often as it is there: it will be written that often."""
    rest = list(values)
    while rest:
        value = rest.pop()
        if isinstance(value, str):
            spend(len(value) // CHARACTERS_A_NODE)
        elif is_object(value) or is_array(value):
            spend(len(value))
            rest.extend(value.values() if is_object(value) else value)


NOTHING: Final = object()


def follow(tokens: tuple[Token, ...], value: Any) -> Any:
    """The fast way along fields and places; ``NOTHING`` if there is anything else, or nothing there."""
    for token in tokens:
        if isinstance(token, Children) and is_object(value):
            value = value.get(token.names[0], NOTHING)
        elif isinstance(token, Indexes) and is_array(value):
            place = token.places[0]
            value = value[place] if -len(value) <= place < len(value) else NOTHING
        else:
            return NOTHING
        if value is NOTHING:
            return NOTHING
    return value


def _select(token: Token, path: str, value: Any, root: Any, upstream: bool, *, leaf: bool) -> Iterator[Found]:  # noqa: FBT001 - what one token needs to know of the whole path
    match token:
        case Children():
            yield from _children(token, path, value, upstream, leaf=leaf)
        case Indexes() | Slice():
            yield from _places(token, path, value, upstream)
        case Wildcard():
            yield from _each(value)
        case Filter(holds):
            candidates = _each(value) if isinstance(value, list) else iter(((path, value),))
            yield from (each for each in candidates if holds(each[1], root))
        case Descend(inner):
            for deep in _all_below(value):
                yield from _below(inner, deep, root)
        case Function():
            raise PathNotFound(f"a function can only end a path, and {token} is within it")


def _children(token: Children, path: str, value: Any, upstream: bool, *, leaf: bool) -> Iterator[Found]:  # noqa: FBT001 - as in _select
    if not is_object(value):
        if not upstream:
            return
        kind = "null" if value is None else _java_class(value)
        raise PathNotFound(
            f"Expected to find an object with property {token} in path {path} but found '{kind}'. This is not a json "
            "object according to the JsonProvider: 'com.jayway.jsonpath.spi.json.JacksonJsonProvider'."
        )
    spend(len(token.names))
    for name in token.names:
        if name in value:
            yield f"{path}['{name}']", value[name]
        elif upstream and token.definite and not leaf:
            raise PathNotFound(f"Missing property in path {path}['{name}']")


def _places(token: Indexes | Slice, path: str, value: Any, upstream: bool) -> Iterator[Found]:  # noqa: FBT001 - as in _select
    if not is_array(value):
        if not upstream:
            return
        if value is None:
            raise PathNotFound(f"The path {path} is null")
        raise PathNotFound(f"Filter: {token} can only be applied to arrays. Current context is: {compact(value)}")
    if isinstance(token, Slice):
        places = list(range(len(value))[token.start : token.end])
    else:
        places = [place if place >= 0 else place + len(value) for place in token.places]
    spend(len(places))
    for place in places:
        if 0 <= place < len(value):
            yield f"{path}[{place}]", value[place]


def _each(value: Any) -> Iterator[Found]:
    if is_object(value) or is_array(value):
        spend(len(value))
        yield from (("", each) for each in (value.values() if is_object(value) else value))


def _all_below(value: Any) -> Iterator[Any]:
    """A value and all within it, each before what is in it."""
    rest = [value]
    while rest:
        value = rest.pop()
        yield value
        rest.extend(reversed([each for _, each in _each(value)]))


def _below(token: Token, value: Any, root: Any) -> Iterator[Found]:
    if isinstance(token, Filter) and not isinstance(value, list):
        return
    yield from _select(token, "", value, root, False, leaf=True)  # noqa: FBT003 - nothing below is definite


def _java_class(value: Any) -> str:
    match value:
        case bool():
            return "java.lang.Boolean"
        case str():
            return "java.lang.String"
        case int():
            return "java.lang.Integer"
        case float():
            return "java.lang.Double"
        case _:
            return "java.util.ArrayList"


def _call(function: Function, value: Any) -> Any:
    numbers: list[Any] = [each for each in value if is_number(each)] if is_array(value) else []
    match function.name:
        case "length" | "size" if is_array(value) or is_object(value) or isinstance(value, str):
            return len(value)
        case "keys" if is_object(value):
            return list(value)
        case "min" | "max" | "sum" | "avg" | "stddev" if numbers:
            return _AGGREGATES[function.name](numbers)
        case "first" | "last" if is_array(value) and value:
            return value[0 if function.name == "first" else -1]
        case _:
            raise PathNotFound(f"the function {function} has no value here")


_AGGREGATES: Final[dict[str, Callable[[list[Any]], Any]]] = {
    "min": min,
    "max": max,
    "sum": sum,
    "avg": lambda numbers: sum(numbers) / len(numbers),
    "stddev": pstdev,
}
