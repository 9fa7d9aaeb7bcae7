"""Which code an execution began on, and what other code may do with it (G13)."""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Callable
from enum import StrEnum
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
    """A digest of what the function's body does: comments, docstrings, layout and decorators do not count."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        code = function.__code__
        described = repr((code.co_code, code.co_names, code.co_varnames))
    else:
        _strip(tree)
        described = repr(_described(tree))
    return hashlib.blake2b(described.encode(), digest_size=6).hexdigest()


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
