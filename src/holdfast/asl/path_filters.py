"""The filters of JSONPath: ``?(@.price < 10 && @.name =~ /a.*/i)``, compiled to functions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from operator import ge, gt, le, lt
from typing import Any, Final, Protocol

from holdfast.asl.jsontext import is_array, is_number, is_object, same
from holdfast.asl.path_budget import spend
from holdfast.asl.path_tokens import InvalidPath, PathNotFound
from holdfast.asl.patterns import Pattern, pattern

Predicate = Callable[[Any, Any], bool]
"""Gets a value (``@``) and the root of the path (``$``)."""
Operand = Callable[[Any, Any], Any]


class AnyPath(Protocol):
    """A compiled path."""

    @property
    def root(self) -> str: ...

    @property
    def definite(self) -> bool: ...

    def find(self, root: Any, /) -> Any:
        """Its value. Raises ``PathNotFound``."""
        ...


ParsePath = Callable[[str, int], tuple[AnyPath, int]]

_NOTHING: Final = object()
CHARACTERS_AT_ONCE: Final = 1_000
"""What is compared of a text for each node that a path may look at."""
_OPERATOR: Final = re.compile(
    r"\s*(==|!=|<=|>=|<|>|=~|in\b|nin\b|subsetof\b|anyof\b|noneof\b|size\b|empty\b|contains\b)\s*"
)
_LITERAL: Final = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?|true\b|false\b|null\b")
_STRING: Final = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""")
_REGEX: Final = re.compile(r"/((?:[^/\\]|\\.)*)/([imsux]*)")


def parse_filter(text: str, at: int, parse_path: ParsePath) -> tuple[Predicate, int]:
    """The predicate that begins at ``at`` with its parenthesis, and where it ends. Raises ``InvalidPath``."""
    parser = _FilterParser(text, at, parse_path)
    predicate = parser.grouped()
    return predicate, parser.at


class _FilterParser:
    def __init__(self, text: str, at: int, parse_path: ParsePath) -> None:
        self._text = text
        self.at = at
        self._parse_path = parse_path

    def grouped(self) -> Predicate:
        self._expect("(")
        inner = self._either()
        self._expect(")")
        return inner

    def _either(self) -> Predicate:
        parts = [self._both()]
        while self._skip("||"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else lambda value, root: any(part(value, root) for part in parts)

    def _both(self) -> Predicate:
        parts = [self._one()]
        while self._skip("&&"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else lambda value, root: all(part(value, root) for part in parts)

    def _one(self) -> Predicate:
        if self._skip("!"):
            inner = self._one()
            return lambda value, root: not inner(value, root)
        self._space()
        if self._text.startswith("(", self.at):
            return self.grouped()
        left = self._operand()
        found = _OPERATOR.match(self._text, self.at)
        if found is None:
            return lambda value, root: left(value, root) is not _NOTHING
        self.at = found.end()
        right = self._operand()
        compare = _OPERATORS[found[1]]

        def holds(value: Any, root: Any) -> bool:
            one = left(value, root)
            spend(1 + (len(one) // CHARACTERS_AT_ONCE if isinstance(one, str) else 0))
            return compare(one, right(value, root))

        return holds

    def _operand(self) -> Operand:
        self._space()
        if self._text[self.at : self.at + 1] in ("@", "$"):
            return self._path()
        literal = self._literal()
        return lambda _value, _root: literal

    def _path(self) -> Operand:
        path, self.at = self._parse_path(self._text, self.at)

        def read(value: Any, root: Any) -> Any:
            spend(1)
            try:
                return path.find(value if path.root == "@" else root)
            except PathNotFound:
                return _NOTHING

        return read

    def _literal(self) -> Any:
        text = self._text
        if found := _STRING.match(text, self.at):
            self.at = found.end()
            return re.sub(r"\\(.)", r"\1", found[1] if found[1] is not None else found[2])
        if found := _REGEX.match(text, self.at):
            self.at = found.end()
            return pattern(found[1], any_case="i" in found[2])
        if found := _LITERAL.match(text, self.at):
            self.at = found.end()
            return json.loads(found[0])
        if self._skip("["):
            return self._list()
        raise InvalidPath(f"{text!r} has a filter that cannot be read at character {self.at + 1}")

    def _list(self) -> list[Any]:
        values: list[Any] = []
        while not self._skip("]"):
            self._space()
            values.append(self._literal())
            self._skip(",")
        return values

    def _space(self) -> None:
        while self._text[self.at : self.at + 1].isspace():
            self.at += 1

    def _skip(self, what: str) -> bool:
        self._space()
        if not self._text.startswith(what, self.at):
            return False
        self.at += len(what)
        return True

    def _expect(self, what: str) -> None:
        if not self._skip(what):
            raise InvalidPath(f"{self._text!r} has no {what!r} at character {self.at + 1}")


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def holds(left: Any, right: Any) -> bool:
        both_numbers = is_number(left) and is_number(right)
        both_texts = isinstance(left, str) and isinstance(right, str)
        return (both_numbers or both_texts) and compare(left, right)

    return holds


def _equal(left: Any, right: Any) -> bool:
    if left is right:
        return True
    if left is _NOTHING or right is _NOTHING:
        return False
    alike = type(left) is type(right) and (is_array(left) or is_object(left)) and len(left) == len(right)
    spend(_held(left) if alike else 1)
    return same(left, right)


def _held(value: Any) -> int:
    """How many values one is, with all within it."""
    if is_object(value) or is_array(value):
        return 1 + sum(map(_held, value.values() if is_object(value) else value))
    return 1


def _within(left: Any, right: Any) -> bool:
    return is_array(right) and any(_equal(left, each) for each in right)


def _matches(left: Any, right: Any) -> bool:
    return isinstance(left, str) and isinstance(right, Pattern) and right.fits(left)


def _contains(left: Any, right: Any) -> bool:
    if isinstance(left, str):
        return isinstance(right, str) and right in left
    return _within(right, left)


def _counted(value: Any) -> bool:
    return is_array(value) or isinstance(value, str)


def _any_of(left: Any, right: Any) -> bool:
    return is_array(left) and any(_within(each, right) for each in left)


_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<": _ordered(lt),
    "<=": _ordered(le),
    ">": _ordered(gt),
    ">=": _ordered(ge),
    "=~": _matches,
    "in": _within,
    "nin": lambda left, right: not _within(left, right),
    "contains": _contains,
    "anyof": _any_of,
    "noneof": lambda left, right: not _any_of(left, right),
    "subsetof": lambda left, right: is_array(left) and all(_within(each, right) for each in left),
    "size": lambda left, right: _counted(left) and is_number(right) and len(left) == right,
    "empty": lambda left, right: _counted(left) and (not left) is right,
}
