"""The fields of a pydantic model, which msgspec does not inspect."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Set as AbstractSet
from typing import Any, cast, get_args, get_origin

from msgspec import Struct

from holdfast.codec.shapes import is_model


def mentions_sets(hint: Any) -> bool:
    """Whether a value of this hint may hold a set. False is certain, true is not.

    >>> mentions_sets(dict[str, list[int]]), mentions_sets(dict[str, frozenset[int]])
    (False, True)
    """
    return _mentions_sets(hint, set())


def _mentions_sets(hint: Any, seen: set[int]) -> bool:
    kind = get_origin(hint) or hint
    if isinstance(kind, type) and issubclass(kind, AbstractSet):
        return True
    if any(_mentions_sets(each, seen) for each in get_args(hint)):
        return True
    if not isinstance(kind, type) or id(kind) in seen:
        return False
    seen.add(id(kind))
    return any(_mentions_sets(each, seen) for each in _fields_of(kind))


def _fields_of(kind: Any) -> list[Any]:
    if is_model(cast("type", kind)):
        fields: dict[str, Any] = getattr(kind, "model_fields", {})
        return [field.annotation for field in fields.values()]
    if not (issubclass(kind, Struct) or dataclasses.is_dataclass(kind) or typing.is_typeddict(kind)):
        return []
    try:
        return list(typing.get_type_hints(kind).values())
    except Exception:  # noqa: BLE001 - an annotation is any expression; the answer is then unknown
        return [set]
