"""Intrinsic functions as they are written: ``States.Format('Hi {}', $.name)``, compiled to calls."""

from __future__ import annotations

import contextlib
import re
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from holdfast.asl.environment import Environment
from holdfast.asl.errors import INTRINSIC_FAILURE, RUNTIME, EvaluationError
from holdfast.asl.intrinsic_functions import FUNCTIONS, Literal
from holdfast.asl.jsontext import NotJson, read
from holdfast.asl.paths import InvalidPath, JsonPath, PathNotFound, compiled
from holdfast.asl.randomness import Randomness

CALLS_REMEMBERED: Final = 2_048
DEEPEST: Final = 10
"""How deep calls may be nested: AWS's limit."""

_CALL: Final = re.compile(r"States\.(\w+)\s*\(")
_SCALAR: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?|true\b|false\b|null\b")
_TEXT: Final = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_PATH: Final = re.compile(r"\$(?:[^,()\[\]\s]|\(\)|\[(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\]'\"])*\])*")


class InvalidIntrinsic(ValueError):
    """The text is no call of an intrinsic function."""


class Call(Struct, frozen=True):
    """A call, and its text."""

    name: str
    arguments: tuple[Call | JsonPath | Literal, ...]
    text: str


def is_call(text: str) -> bool:
    """Whether a template's text is a call, not a path."""
    return text.startswith("States.")


@lru_cache(CALLS_REMEMBERED)
def compiled_call(text: str) -> Call:
    """The call that a text is. Raises ``InvalidIntrinsic``."""
    parser = _Parser(text)
    call = parser.call(1)
    if text[parser.at :].strip():
        raise InvalidIntrinsic(f"{text!r} cannot be read from character {parser.at + 1} on")
    return call


def call(text: str, environment: Environment, randomness: Randomness) -> Any:
    """The value of a call. Raises ``EvaluationError``; ``PathNotFound`` for an argument that is not there."""
    try:
        return _value(compiled_call(text), environment, randomness)
    except (InvalidIntrinsic, InvalidPath) as invalid:
        raise EvaluationError(RUNTIME, str(invalid)) from invalid


def _value(call: Call, environment: Environment, randomness: Randomness) -> Any:
    values = [_argument(each, environment, randomness) for each in call.arguments]
    try:
        return FUNCTIONS[call.name](values, randomness)
    except (ValueError, OverflowError, RecursionError) as failure:  # all that data can do to a function of Python
        told = f"The function '{call.text}' had the following error: {failure}"
        raise EvaluationError(INTRINSIC_FAILURE, told) from failure


def _argument(argument: Call | JsonPath | Literal, environment: Environment, randomness: Randomness) -> Any:
    match argument:
        case Call():
            return _value(argument, environment, randomness)
        case JsonPath():
            return argument.read(environment)
        case _:
            return argument


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0

    def call(self, depth: int) -> Call:
        begin = self.at
        found = _CALL.match(self._text, self.at)
        if found is None or found[1] not in FUNCTIONS:
            raise InvalidIntrinsic(f"{self._text!r} calls no intrinsic function at character {self.at + 1}")
        if depth > DEEPEST:
            raise InvalidIntrinsic(f"{self._text!r} nests calls more than {DEEPEST} deep")
        self.at = found.end()
        arguments: list[Call | JsonPath | Literal] = []
        self._space()
        while not self._text.startswith(")", self.at):
            arguments.append(self._argument(depth))
            self._space()
            if self._text.startswith(",", self.at):
                self.at += 1
                self._space()
            elif not self._text.startswith(")", self.at):
                raise InvalidIntrinsic(f"{self._text!r} has no comma at character {self.at + 1}")
        self.at += 1
        return Call(found[1], tuple(arguments), self._text[begin : self.at])

    def _argument(self, depth: int) -> Call | JsonPath | Literal:
        text = self._text
        if text.startswith("States.", self.at):
            return self.call(depth + 1)
        if found := _TEXT.match(text, self.at):
            self.at = found.end()
            return Literal(found[1])
        if text.startswith("$", self.at) and (found := _PATH.match(text, self.at)):
            self.at = found.end()
            return compiled(found[0])
        if found := _SCALAR.match(text, self.at):
            with contextlib.suppress(NotJson):
                literal = Literal(read(found[0]))
                self.at = found.end()
                return literal
        raise InvalidIntrinsic(f"{text!r} has an argument that cannot be read at character {self.at + 1}")

    def _space(self) -> None:
        while self._text[self.at : self.at + 1].isspace():
            self.at += 1


__all__ = ["Call", "InvalidIntrinsic", "PathNotFound", "call", "compiled_call", "is_call"]
