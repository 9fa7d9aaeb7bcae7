"""Sources as syntax trees, parsed with the garbage collector held back.

A collection may log an error that nobody has seen, and a traceback that is formatted parses source itself. Within
``ast.parse`` that ends in ``SystemError: AST constructor recursion depth mismatch`` on CPython before 3.11.10
(gh-106905).
"""

from __future__ import annotations

import ast
import gc


def parsed(source: str, path: str = "<unknown>") -> ast.Module:
    """See ``ast.parse``."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source, path)
    finally:
        if was_enabled:
            gc.enable()
