"""Simple expressions of JSONata as expressions of Python: paths, literals, objects, comparisons, sums and texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from holdfast.asl.jsonata_reading import Token, expression_in, tokens
from holdfast.asl.jsontext import is_array, is_object
from holdfast.asl.topython.code import Brackets, Chain, Code, Operation, Prefixed, atom, call, flat, quoted
from holdfast.asl.topython.expressions import Scope, in_context, literal, subscripts
from holdfast.asl.topython.parts import Pointer, Unconverted

CONSTANTS: Final = {"true": "True", "false": "False", "null": "None"}


class Bound(Struct, frozen=True):
    """What ``$states`` has at a place of a state, as Python calls it."""

    scope: Scope
    states: dict[str, str]


def evaluated(value: Any, bound: Bound, pointer: Pointer) -> Code:
    """A value of a JSONata state, with its expressions. What has no plain form is kept in a call that raises."""
    if is_object(value):
        fields = value.items()
        return Brackets(
            "{",
            tuple(Prefixed(f"{quoted(key)}: ", evaluated(each, bound, (*pointer, key))) for key, each in fields),
            "}",
        )
    if is_array(value):
        return Brackets("[", tuple(evaluated(each, bound, (*pointer, n)) for n, each in enumerate(value)), "]")
    source = expression_in(value) if isinstance(value, str) else None
    return literal(value) if source is None else expression(source, bound, pointer)


def expression(source: str, bound: Bound, pointer: Pointer) -> Code:
    """One expression, without its braces."""
    return _made(source, bound, pointer, lambda reader: reader.whole().code)


def condition(value: Any, bound: Bound, pointer: Pointer) -> Code:
    """The condition of a Choice."""
    source = expression_in(value) if isinstance(value, str) else None
    if source is None:
        return literal(value)
    return _made(source, bound, pointer, lambda reader: _as_condition(reader.whole()))


def _made(source: str, bound: Bound, pointer: Pointer, made: Callable[[_Reader], Code]) -> Code:
    try:
        return made(_Reader(source, bound))
    except Unconverted as why:
        return bound.scope.parts.not_converted(pointer, source, str(why))


MOST_DEEP: Final = 50
"""What nests deeper is no plain Python."""


class _Read(Struct, frozen=True):
    """A part of an expression. ``keys`` are those of a path, ``is_flag`` says that it can only be true or false."""

    code: Code
    is_flag: bool = False
    is_literal: bool = False
    is_text: bool = False
    path: tuple[str, tuple[str | int, ...]] | None = None


def _as_condition(read: _Read) -> Code:
    if read.is_flag:
        return read.code
    if read.path is not None:
        return Operation("is", (flat(read.code), "True"))
    raise Unconverted("this is not only true or false")


class _Reader:
    """Reads an expression from its tokens, an operator at a time."""

    def __init__(self, source: str, bound: Bound) -> None:
        self._tokens: list[Token] = list(tokens(source))
        self._bound = bound
        self._at = 0
        self._depth = 0

    def whole(self) -> _Read:
        read = self._either()
        if self._at < len(self._tokens):
            raise Unconverted(f"{self._next()!r} has no plain form here")
        return read

    def _next(self) -> str:
        return self._tokens[self._at].text if self._at < len(self._tokens) else ""

    def _take(self, *texts: str) -> str:
        """The next symbol, if it is one of these."""
        token = self._tokens[self._at] if self._at < len(self._tokens) else None
        if token is None or token.kind == "text" or token.text not in texts:
            return ""
        self._at += 1
        return token.text

    def _need(self, text: str) -> None:
        if not self._take(text):
            raise Unconverted(f"{self._next()!r} has no plain form here")

    def _either(self) -> _Read:
        self._depth += 1
        if self._depth > MOST_DEEP:
            raise Unconverted(f"it nests more than {MOST_DEEP} levels deep")
        read = self._chain("or", lambda: self._chain("and", self._comparison))
        self._depth -= 1
        return read

    def _chain(self, operator: str, operand: Callable[[], _Read]) -> _Read:
        read = [operand()]
        while self._take(operator):
            read.append(operand())
        if len(read) == 1:
            return read[0]
        if not all(each.is_flag for each in read):
            raise Unconverted(f"Python's {operator!r} answers one of its sides, unless both are true or false")
        return _Read(Chain(operator, tuple(each.code for each in read)), is_flag=True)

    def _comparison(self) -> _Read:
        left = self._sum()
        operator = self._operator()
        if not operator:
            return left
        right = self._sum()
        if operator == "=" and left.path is not None and right.is_literal and flat(right.code) != "None":
            root, keys = left.path
            found = flat(call(self._bound.scope.parts.helper("at"), root, *map(literal, keys)))
            if flat(right.code) in ("0", "1", "True", "False"):
                raise Unconverted("Python takes True for 1, and JSONata does not")
            return _Read(Operation("==", (found, flat(right.code))), is_flag=True)
        if operator in ("=", "!="):
            raise Unconverted("only a path and a literal are compared so")
        return _Read(Operation(operator, (atom(left.code), atom(right.code))), is_flag=True)

    def _operator(self) -> str:
        first = self._take("=", "!", "<", ">")
        return first + self._take("=") if first and first != "=" else first

    def _sum(self) -> _Read:
        left = self._operand()
        while symbol := self._take("+", "-", "&"):
            right = self._operand()
            if symbol == "&":
                text = self._bound.scope.parts.helper("text")
                pieces = (
                    left.code.parts if left.is_text and isinstance(left.code, Operation) else (self._text(left, text),)
                )
                left = _Read(Operation("+", (*pieces, self._text(right, text))), is_text=True)
                continue
            if not any(each.is_literal and flat(each.code)[:1].isdigit() for each in (left, right)):
                raise Unconverted("only with a number that is written there: Python's + adds texts and lists too")
            left = _Read(Operation(symbol, (flat(left.code), atom(right.code))))
        return left

    def _text(self, read: _Read, function: str) -> str:
        return atom(read.code) if read.is_text else flat(call(function, read.code))

    def _operand(self) -> _Read:
        if self._at >= len(self._tokens):
            raise Unconverted("it ends where a value should be")
        if self._take("("):
            read = self._either()
            self._need(")")
            return read
        if self._take("{"):
            return self._object()
        token = self._tokens[self._at]
        self._at += 1
        if token.kind == "text" and token.text[0] != "`" and "\\" not in token.text:
            return _Read(quoted(token.text[1:-1]), is_literal=True, is_text=True)
        if token.kind == "name" and token.text.isdigit():
            return _Read(token.text + self._fraction(), is_literal=True)
        if token.text in CONSTANTS:
            return _Read(CONSTANTS[token.text], is_flag=token.text != "null", is_literal=True)
        if token.kind == "name" and token.text.startswith("$") and len(token.text) > 1:
            return self._call(token.text) if self._take("(") else self._path(token.text[1:])
        raise Unconverted(f"{token.text!r} has no plain form here")

    def _fraction(self) -> str:
        if not self._take("."):
            return ""
        if not self._next().isdigit():
            raise Unconverted("a number ends with a dot")
        self._at += 1
        return f".{self._tokens[self._at - 1].text}"

    def _object(self) -> _Read:
        fields: list[Code] = []
        while not self._take("}"):
            name = self._operand()
            if not (name.is_literal and name.is_text):
                raise Unconverted("the names of fields are computed")
            self._need(":")
            fields.append(Prefixed(f"{flat(name.code)}: ", self._either().code))
            if self._next() != "}":
                self._need(",")
        return _Read(Brackets("{", tuple(fields), "}"))

    def _call(self, function: str) -> _Read:
        if function == "$uuid" and self._take(")"):
            return _Read("str(hf.uuid())")
        if function not in ("$exists", "$not"):
            raise Unconverted(f"{function} has no plain form")
        argument = self._either()
        self._need(")")
        if function == "$not" and argument.is_flag:
            return _Read(Prefixed("not ", argument.code), is_flag=True)
        if function == "$exists" and argument.path is not None:
            root, keys = argument.path
            return _Read(call(self._bound.scope.parts.helper("has"), root, *map(literal, keys)), is_flag=True)
        raise Unconverted(f"{function} has no plain form here")

    def _path(self, variable: str) -> _Read:
        keys: list[str | int] = []
        while symbol := self._take(".", "["):
            token = self._tokens[self._at] if self._at < len(self._tokens) else None
            if token is None or token.kind != "name" or token.text.startswith("$"):
                raise Unconverted("a path with something else than names and places")
            self._at += 1
            if symbol == "[":
                if not token.text.isdigit():
                    raise Unconverted("a path with a filter")
                self._need("]")
                keys.append(int(token.text))
            else:
                keys.append(token.text)
        root, rest = self._rooted(variable, tuple(keys))
        return _Read(root + subscripts(rest), path=(root, rest))

    def _rooted(self, variable: str, keys: tuple[str | int, ...]) -> tuple[str, tuple[str | int, ...]]:
        if variable != "states":
            if variable not in self._bound.scope.variables:
                raise Unconverted(f"no state assigns ${variable}")
            return self._bound.scope.variables[variable], keys
        match keys:
            case ("context", *more):
                return in_context(tuple(more), self._bound.scope)
            case (str(part), *more) if part in self._bound.states:
                return self._bound.states[part], tuple(more)
            case _:
                raise Unconverted("$states has no such part here")
