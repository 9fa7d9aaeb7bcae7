"""What is looked at, as plain JSON: without secrets, tokens of callbacks and passwords of URLs."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from holdfast.secret import redacted
from holdfast.texts import masked


def shown(value: Any) -> Any:
    """A value as plain JSON data that may be shown.

    >>> shown({"password": {"$secret": "hunter2"}, "token": f"hf1.eyJ9.{'0' * 64}"})
    {'password': '***', 'token': 'hf1.(token)'}
    """
    return json.loads(masked(json.dumps(redacted(msgspec.to_builtins(value)))))
