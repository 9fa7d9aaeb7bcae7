"""JSONPath as AWS has it: Jayway's dialect, where a path is *definite* (one value, or an error) or yields a list.

``compiled(text)`` answers a ``JsonPath``; ``path.read(environment)`` its value. A path begins with ``$`` (the input),
``$$`` (the context object) or ``$name`` (a variable).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import nullcontext
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from holdfast.asl.environment import Environment
from holdfast.asl.errors import RUNTIME, EvaluationError
from holdfast.asl.path_budget import budgeted, within_a_path
from holdfast.asl.path_filters import Predicate, parse_filter
from holdfast.asl.path_tokens import (
    NOTHING,
    Children,
    Descend,
    Filter,
    Function,
    Indexes,
    InvalidPath,
    PathNotFound,
    Slice,
    Step,
    Token,
    Wildcard,
    evaluate,
    follow,
)
from holdfast.asl.patterns import limited

PATHS_REMEMBERED: Final = 4_096

_ROOT: Final = re.compile(r"\$\$|\$([A-Za-z_]\w*)?")
_NAME: Final = re.compile(r"[^.\[\]()\s,'\"*?@]+")
_NAME_IN_FILTER: Final = re.compile(r"[^.\[\]()\s,'\"*?@=<>!~&|]+")
"""Without the characters of operators, which need no blank before them: ``@.a==1``."""
_INTEGERS: Final = re.compile(r"\s*-?\d+\s*(,\s*-?\d+\s*)*\]")
_SLICE: Final = re.compile(r"\s*(-?\d*)\s*:\s*(-?\d*)\s*\]")
_QUOTED: Final = re.compile(r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\s*""")
_ESCAPED: Final = re.compile(r"((?:\\u[0-9A-Fa-f]{4})+)|\\(.)", re.DOTALL)
_CONTROLS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class JsonPath(Struct, frozen=True):
    """A compiled path. ``root`` is ``$``, ``$$`` or ``$name``."""

    text: str
    root: str
    tokens: tuple[Token, ...]
    definite: bool

    def read(self, environment: Environment) -> Any:
        """The value that a definite path leads to, or the list of those that another one selects.

        Raises ``PathNotFound`` if there is none at the end of a definite path.
        """
        return self.find(self._root_of(environment))

    def find(self, root: Any) -> Any:
        """The same, from a value for the root. Raises ``EvaluationError`` if it would take too long."""
        if self.definite and (value := follow(self.tokens, root)) is not NOTHING:
            return value
        if within_a_path():
            return evaluate(self.tokens, root, definite=self.definite)
        with budgeted(self.text), limited(self.text) if "=~" in self.text else nullcontext():
            return evaluate(self.tokens, root, definite=self.definite)

    def _root_of(self, environment: Environment) -> Any:
        match self.root:
            case "$":
                return environment.input
            case "$$":
                return environment.context
            case name:
                try:
                    return environment.variables[name[1:]]
                except KeyError:
                    raise UnknownVariable(name[1:]) from None


class UnknownVariable(PathNotFound):
    """A path names a variable that no state has assigned."""

    def __init__(self, name: str) -> None:
        super().__init__(f"No results for path: $['{name}']")
        self.name = name


@lru_cache(PATHS_REMEMBERED)
def compiled(text: str) -> JsonPath:
    """The path that a text is. Raises ``InvalidPath``.

    >>> compiled("$.a[0].b").find({"a": [{"b": 7}]})
    7
    >>> compiled("$.a[*].b").find({"a": [{"b": 7}, {}]})
    [7]
    """
    return _Parser(text).whole()


def reference_keys(text: str) -> tuple[str | int, ...]:
    """The fields and places of a reference path: ``$.a['b'][0]``. Raises ``InvalidPath``."""
    path = compiled(text)
    keys: list[str | int] = []
    for token in path.tokens:
        match token:
            case Children(names=(name,)) | Indexes(places=(name,)):
                keys.append(name)
            case _:
                raise InvalidPath(f"{text!r} is no reference path: it may select more than one value")
    return tuple(keys)


def read_definite(text: str, environment: Environment) -> Any:
    """The value at a path. Raises ``EvaluationError`` in AWS's words for ``InputPath`` and ``OutputPath``."""
    try:
        return compiled(text).read(environment)
    except PathNotFound as missing:
        raise EvaluationError(RUNTIME, f"Invalid path '{text}' : {missing}") from missing
    except InvalidPath as invalid:
        raise EvaluationError(RUNTIME, f"Invalid path '{text}' : {invalid}") from invalid


class _Parser:
    """Reads one path from a text; a filter's paths are read from its middle."""

    def __init__(self, text: str, start: int = 0, *, root: str = "") -> None:
        self.text = text
        self.at = start
        self._root = root

    def whole(self) -> JsonPath:
        path = self.path()
        if self.at != len(self.text):
            raise InvalidPath(f"{self.text!r} cannot be read from character {self.at + 1} on")
        return path

    def path(self) -> JsonPath:
        begin = self.at
        root = self._read_root()
        tokens: list[Token] = []
        while self.at < len(self.text) and self.text[self.at] in ".[":
            tokens.append(self._token())
        definite = all(token.definite for token in tokens) or (bool(tokens) and isinstance(tokens[-1], Function))
        return JsonPath(self.text[begin : self.at], root, tuple(tokens), definite)

    def _read_root(self) -> str:
        if self._root:
            self.at += 1
            return self._root
        found = _ROOT.match(self.text, self.at)
        if found is None:
            raise InvalidPath(f"{self.text!r} does not begin with $")
        self.at = found.end()
        return found[0]

    def _token(self) -> Token:
        text = self.text
        if text.startswith("..", self.at):
            self.at += 2
            if text.startswith("[", self.at):
                return Descend(self._bracket())
            return Descend(self._name())
        if text[self.at] == "[":
            return self._bracket()
        self.at += 1
        return self._name()

    def _name(self) -> Step:
        if self.text.startswith("*", self.at):
            self.at += 1
            return Wildcard()
        found = (_NAME_IN_FILTER if self._root else _NAME).match(self.text, self.at)
        if found is None:
            raise InvalidPath(f"{self.text!r} has no name at character {self.at + 1}")
        self.at = found.end()
        if self.text.startswith("()", self.at):
            self.at += 2
            return Function(found[0])
        return Children((found[0],))

    def _bracket(self) -> Step:
        self.at += 1
        text = self.text
        if found := re.compile(r"\s*\*\s*\]").match(text, self.at):
            self.at = found.end()
            return Wildcard()
        if found := _INTEGERS.match(text, self.at):
            places = tuple(int(each) for each in text[self.at : found.end() - 1].split(","))
            self.at = found.end()
            return Indexes(places)
        if found := _SLICE.match(text, self.at):
            self.at = found.end()
            return Slice(_integer(found[1]), _integer(found[2]))
        if text.startswith("?", self.at):
            return self._filter()
        return self._names()

    def _names(self) -> Children:
        names: list[str] = []
        while found := _QUOTED.match(self.text, self.at):
            quoted = found[1] if found[1] is not None else found[2]
            names.append(_ESCAPED.sub(_unescaped, quoted))
            self.at = found.end()
            closing = self.text[self.at : self.at + 1]
            self.at += 1
            if closing == "]":
                return Children(tuple(names))
            if closing != ",":
                break
        raise InvalidPath(f"{self.text!r} has a bracket that cannot be read at character {self.at + 1}")

    def _filter(self) -> Filter:
        predicate, self.at = parse_filter(self.text, self.at + 1, _path_within)
        closing = re.compile(r"\s*\]").match(self.text, self.at)
        if closing is None:
            raise InvalidPath(f"{self.text!r} has a filter without an end")
        self.at = closing.end()
        return Filter(predicate)


def _unescaped(found: re.Match[str]) -> str:
    """What an escape in a quoted name stands for, by Jayway's ``Utils.unescape``. Raises ``InvalidPath``."""
    if not found[1]:
        return _CONTROLS.get(found[2], found[2])
    try:
        return bytes.fromhex(found[1].replace("\\u", "")).decode("utf-16-be")
    except UnicodeDecodeError:
        raise InvalidPath("a name has half of a surrogate pair, which is no character of Unicode") from None


def _integer(text: str) -> int | None:
    return int(text) if text else None


def _path_within(text: str, at: int) -> tuple[JsonPath, int]:
    parser = _Parser(text, at, root=text[at])
    return parser.path(), parser.at


Variables = Mapping[str, Any]
__all__ = ["InvalidPath", "JsonPath", "PathNotFound", "Predicate", "UnknownVariable", "compiled", "read_definite"]
