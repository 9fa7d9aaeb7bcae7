"""Which code an execution began on, and what other code may do with it (G13)."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from enum import StrEnum
from types import CodeType, FunctionType
from typing import Any, Final, cast

from holdfast.errors import InvalidInput

CODE_MARK: Final = "!code/"
"""Before the version of other code that has gone on with an execution: the name of a mark in its journal."""


class VersionPolicy(StrEnum):
    """``COMPATIBLE``: newer code goes on with old executions, matching operations by identity. ``PINNED``: only the
    version that began an execution may go on with it; others report it as blocked.
    """

    COMPATIBLE = "compatible"
    PINNED = "pinned"


def policy_named(name: VersionPolicy | str) -> VersionPolicy:
    """The policy of this name."""
    try:
        return VersionPolicy(name)
    except ValueError:
        raise InvalidInput(f"no version policy is called {name!r}; there are: {', '.join(VersionPolicy)}") from None


def code_version(function: Callable[..., Any]) -> str:
    """A digest of what the function does, and of the plain functions of its own module that it calls.

    Comments, docstrings, layout and decorators do not count, nor does the inside of steps.
    """
    called = [_described_function(each) for each in _called_functions(function)]
    own = _described_function(function)
    return _digest(repr([own, *sorted(called)]) if called else own)


def old_code_version(function: Callable[..., Any]) -> str:
    """The same of the function alone: the version in records of the old format."""
    return _digest(_described_function(function))


def _digest(described: str) -> str:
    return hashlib.blake2b(described.encode(), digest_size=6).hexdigest()


def _described_function(function: Callable[..., Any]) -> str:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        code = function.__code__
        return repr((code.co_code, code.co_names, code.co_varnames))
    _strip(tree)
    return repr(_described(tree))


def _called_functions(function: Callable[..., Any]) -> list[FunctionType]:
    """The functions that one refers to, directly or through others, as far as they are of its module."""
    found: dict[FunctionType, None] = {}
    ahead: list[Any] = [function]
    while ahead:
        for name, value in _referred(ahead.pop()):
            if not isinstance(value, FunctionType) or value is function or value in found:
                continue
            if value.__module__ == function.__module__ and not name.startswith("__"):
                found[value] = None
                ahead.append(value)
    return list(found)


def _referred(function: Any) -> Iterator[tuple[str, Any]]:
    """What a function's names mean: variables around it, and those of its module."""
    code = getattr(function, "__code__", None)
    if code is None:
        return
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        with contextlib.suppress(ValueError):  # it has no value yet
            yield name, cell.cell_contents
    for name in _names_in(code):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _described(node: object) -> object:
    """A syntax tree, described alike on every Python: newer ones have fields that are empty in older code."""
    if isinstance(node, ast.AST):
        fields = [
            (name, _described(value)) for name, value in ast.iter_fields(node) if value is not None and value != []
        ]
        return (type(node).__name__, *fields)
    return list(map(_described, cast("list[object]", node))) if isinstance(node, list) else node


def _strip(tree: ast.AST) -> None:
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        node.decorator_list = []
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            node.body = node.body[1:] or [ast.Pass()]
