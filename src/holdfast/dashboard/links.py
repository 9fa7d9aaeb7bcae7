"""Addresses of pages. Names are in the query, so that every name can be in an address, ``.`` and ``..`` included.

A path would not do: browsers take ``%2E%2E`` as the folder above (URL standard, "double-dot URL path segment"), and an
HTTP API of AWS decodes a path before it passes it on.
"""

from __future__ import annotations

import json
from typing import Any, cast
from urllib.parse import urlencode, urlsplit


def link(root: str, page: str, /, **names: Any) -> str:
    """The address of a page; names that are ``None`` or empty are left out, a list is repeated.

    >>> link("/dashboard", "execution", workflow="checkout", id="../a b")
    '/dashboard/execution?workflow=checkout&id=..%2Fa+b'
    """
    pairs: list[tuple[str, str]] = []
    for name, value in names.items():
        values = cast("list[Any]", value) if isinstance(value, list) else [value]
        pairs += [(name, str(each)) for each in values if each is not None and each != ""]
    query = f"?{urlencode(pairs)}" if pairs else ""
    return f"{root}/{page}{query}"


def on_text(*on: str) -> str:
    """What an action is on, as a field of a form carries it.

    >>> on_text("checkout", "order-17")
    '["checkout","order-17"]'
    """
    return json.dumps(on, separators=(",", ":"))


def safe_way_back(root: str, given: str) -> str:
    """The address to return to, if it is a page of this dashboard; else its first page.

    >>> safe_way_back("/hf", "/hf/executions?status=FAILED"), safe_way_back("/hf", "//evil.example/hf/")
    ('/hf/executions?status=FAILED', '/hf/')
    """
    home = f"{root}/"
    try:
        parts = urlsplit(given)
    except ValueError:
        return home
    path_is_clean = "//" not in parts.path and "\\" not in given and given.isprintable() and given.isascii()
    segments = parts.path.lower().replace("%2e", ".").split("/")
    inside = parts.path.startswith(home) and not {".", ".."} & set(segments)
    return given if not parts.scheme and not parts.netloc and path_is_clean and inside else home
