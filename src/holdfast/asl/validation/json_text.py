"""A definition as text: its value, where each value in it stands, and what is said of text that is no JSON."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

from holdfast.asl import jsontext
from holdfast.asl.validation.diagnostic import ERROR, INVALID_JSON, SCHEMA, TOO_DEEP, Diagnostic, Path
from holdfast.asl.validation.kinds import is_object

SOURCE_CHARACTERS: Final = 500
"""How much of the text the message of Step Functions' parser repeats."""

NEW_LINE = re.compile("\n")
WORD = re.compile(r"[\w$.-]+")
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)

PUNCTUATION: Final = "{}[],:"

EXPECTED: Final = {
    "Expecting property name": "was expecting double-quote to start field name",
    "Expecting ':'": "was expecting a colon to separate field name and value",
    "Expecting ','": "was expecting comma to separate entries",
    "Illegal trailing comma": "was expecting double-quote to start field name",
}
"""By the beginning of Python's message: what Step Functions' parser was expecting."""


class Place(NamedTuple):
    """A value of a JSON text: where it stands in the structure, and at which character it begins.

    ``again``: an object has a field of this name twice, and this is the later one.
    """

    path: Path
    position: int
    again: bool


def read(definition: object) -> dict[str, Any] | Diagnostic:
    """The object that a definition is, or what is wrong with it."""
    not_an_object = Diagnostic(ERROR, SCHEMA, "Definition must be a valid JSON object")
    if not isinstance(definition, str):
        if not isinstance(definition, Mapping):
            return not_an_object
        try:
            definition = jsontext.written(dict(cast("Mapping[str, Any]", definition)), jsontext.DEFINITION_LEVELS)
        except jsontext.NotJson as error:
            return refused("", error)
    if len(definition) > jsontext.DEFINITION_CHARACTERS:
        told = f"Definition must not be longer than {jsontext.DEFINITION_CHARACTERS} characters"
        return Diagnostic(ERROR, SCHEMA, told)
    if not definition.strip():
        return not_an_object
    try:
        value = jsontext.read(definition, jsontext.DEFINITION_LEVELS)
    except jsontext.NotJson as error:
        return refused(definition, error)
    return value if is_object(value) else not_an_object


def refused(text: str, error: jsontext.NotJson) -> Diagnostic:
    """The diagnostic for a text that is no JSON, or holds what is not carried on."""
    if isinstance(error, jsontext.TooDeep):
        return Diagnostic(ERROR, TOO_DEEP, f"The definition is nested more than {jsontext.DEFINITION_LEVELS} deep")
    if text:
        try:
            json.loads(text)
        except json.JSONDecodeError as malformed:
            return unreadable(text, malformed)
        except ValueError:  # a number of thousands of digits
            pass
    line, column = Lines(text).of(_refused_at(text)) if text else (0, 0)
    return Diagnostic(ERROR, INVALID_JSON, f"The definition is no JSON: {error}", None, line, column)


def _refused_at(text: str) -> int:
    """Where the first value begins that no JSON may have."""
    for token in TOKEN.finditer(text):
        try:
            if token[0] not in PUNCTUATION:
                jsontext.read(token[0])
        except jsontext.NotJson:
            return token.start()
    return 0


def unreadable(text: str, error: json.JSONDecodeError) -> Diagnostic:
    """The diagnostic for a text that is no JSON, in the words of Step Functions' parser."""
    position = error.pos
    if position >= len(text) or error.msg.startswith("Unterminated string"):
        told, end = "Unexpected end-of-input", len(text)
    elif error.msg == "Expecting value" and (word := WORD.match(text, position)):
        expected = "was expecting (JSON String, Number, Array, Object or token 'null', 'true' or 'false')"
        told, end = f"Unrecognized token '{word[0]}': {expected}", word.end()
    else:
        expected = next((each for begin, each in EXPECTED.items() if error.msg.startswith(begin)), error.msg)
        told, end = f"Unexpected character ('{text[position]}' (code {ord(text[position])})): {expected}", position + 1
    line, column = Lines(text).of(end)
    shown = text[:SOURCE_CHARACTERS]
    cut = f"[truncated {len(text) - len(shown)} chars]" if len(text) > len(shown) else ""
    source = f'[Source: (String)"{shown}"{cut}; line: {line}, column: {column}]'
    return Diagnostic(ERROR, INVALID_JSON, f"{told}\n at {source}", None, line, column, source)


class Lines:
    """Where the lines of a text begin: found once, however many characters are asked for."""

    __slots__ = ("_starts",)

    def __init__(self, text: str) -> None:
        self._starts = [0, *(each.end() for each in NEW_LINE.finditer(text))]

    def of(self, position: int) -> tuple[int, int]:
        r"""The line and the column of a character, both beginning at 1.

        >>> Lines("one\ntwo").of(5)
        (2, 2)
        """
        line = bisect_right(self._starts, position)
        return line, position - self._starts[line - 1] + 1


def places(text: str) -> Iterator[Place]:
    """Every value of a text that is JSON, in its order: a field of an object stands where its name does."""
    path: list[str | int] = []
    fields: list[set[str] | None] = []  # of each object or array that is open: the names seen, or None of an array
    name_comes = False
    for token in TOKEN.finditer(text):
        symbol = token[0]
        match symbol:
            case "{" | "[":
                fields.append(set() if symbol == "{" else None)
                name_comes = symbol == "{"
                path.append("" if symbol == "{" else 0)
            case "}" | "]":
                fields.pop()
                path.pop()
                name_comes = False
            case ",":
                name_comes = fields[-1] is not None
                if not name_comes:
                    path[-1] = int(path[-1]) + 1
            case ":":
                name_comes = False
            case _ if name_comes and (names := fields[-1]) is not None:
                name = json.loads(symbol)
                path[-1] = name
                yield Place(tuple(path), token.start(), name in names)
                names.add(name)
                continue
            case _:
                pass
        if fields and fields[-1] is None and symbol not in ",]}" and isinstance(path[-1], int):
            yield Place(tuple(path), token.start(), again=False)
        elif symbol in "{[" and len(fields) > 1 and fields[-2] is None:
            yield Place(tuple(path[:-1]), token.start(), again=False)
