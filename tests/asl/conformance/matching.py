"""Comparing with what is expected, where the recorder has put placeholders for what differs from run to run."""

from __future__ import annotations

import json
import re
from typing import Any

PLACEHOLDER = re.compile(
    r"<[\w<>-]+?:\d+>"  # <uuid:1>, <<task_token>:1>
    r"|<[\w-]+>"  # <region>, <ArnPart_0idx>, <lambda_function_name>
    r"|\b111111111111\b"  # the account
    r"|\b(?:start|stop|entered)-(?:date|time)\b|\b(?:date|timestamp)\b|\bs\w+_role_arn\b|\bactivity_arn\b"
)


def same(expected: Any, actual: Any, *, wild: bool) -> bool:
    """Whether two JSON values are equal; with ``wild``, placeholders in the expected one stand for anything."""
    if wild and isinstance(expected, str):
        return matches(expected, actual)
    if isinstance(expected, dict) and isinstance(actual, dict):
        return expected.keys() == actual.keys() and all(
            same(each, actual[name], wild=wild) for name, each in expected.items()
        )
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(
            same(*pair, wild=wild) for pair in zip(expected, actual, strict=True)
        )
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    return expected == actual


def matches(expected: str, actual: Any) -> bool:
    """Whether a text is what is expected, placeholders aside."""
    if expected == actual or PLACEHOLDER.fullmatch(expected):
        return True
    if expected.startswith("arn:") and isinstance(actual, str) and actual.startswith("arn:"):
        return True
    if not isinstance(actual, str):
        return False
    pattern, at = "", 0
    for found in PLACEHOLDER.finditer(expected):
        pattern += re.escape(expected[at : found.start()]) + ".*?"
        at = found.end()
    return re.fullmatch(pattern + re.escape(expected[at:]), actual, re.DOTALL) is not None


def alike(expected: Any, actual: Any) -> bool:
    """Whether a result that chance decides has the shape that is expected; a text stands for anything."""
    if isinstance(expected, str):
        return True
    if isinstance(expected, dict) and isinstance(actual, dict):
        return expected.keys() == actual.keys() and all(alike(each, actual[name]) for name, each in expected.items())
    return type(expected) is type(actual)


def parsed(text: Any) -> Any:
    """The JSON in a text, or the text."""
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


def shown(value: Any) -> str:
    """A value for a line of a report."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 400 else text[:400] + "…"
