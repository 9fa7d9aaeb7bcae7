"""Shapes: the fields of a class in JSON, and pydantic models, which are recognised by their methods alone.

Everything here concerns classes of the running program, never names found in data (G12).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, Protocol, TypeGuard, cast

from msgspec import Struct, json

CLASSES_REMEMBERED: Final = 4096
"""How many classes are kept in the cache of their fields; more than any program has."""


KEY_LIMIT_CHARACTERS: Final = 64
"""Messages show the keys of dicts up to this length."""


class Model(Protocol):
    """The part of a pydantic v2 model that Holdfast uses. pydantic itself is never imported."""

    def model_dump(self, *, mode: str, by_alias: bool, round_trip: bool) -> Any:
        """The model as plain JSON data."""
        ...

    @classmethod
    def model_validate(cls, data: Any, /) -> Model:
        """A model made from plain data; raises ``ValueError`` if they do not fit."""
        ...


def is_model(kind: type) -> TypeGuard[type[Model]]:
    """Whether ``kind`` behaves like a pydantic v2 model."""
    return callable(getattr(kind, "model_dump", None)) and callable(getattr(kind, "model_validate", None))


def dump_model(model: Model) -> Any:
    """The model as plain JSON data that ``load_model`` understands: by alias, without computed fields."""
    return model.model_dump(mode="json", by_alias=True, round_trip=True)


def load_model(kind: type[Model], data: Any) -> Model:
    """The model that the data describe; raises ``ValueError`` if they do not fit."""
    # pydantic's strict models accept text for a date in JSON, but not in a Python dict: these data were JSON.
    from_json: Callable[[bytes], Model] | None = getattr(kind, "model_validate_json", None)
    try:
        return kind.model_validate(data) if from_json is None else from_json(json.encode(data))
    except ValueError as error:
        errors_of: Callable[..., list[dict[str, Any]]] | None = getattr(error, "errors", None)
        if errors_of is None:
            raise
        # pydantic's own message quotes the data, which may be secret.
        errors = errors_of(include_url=False, include_context=False, include_input=False)
        complaints = (".".join(map(str, each["loc"])) + ": " + each["msg"] for each in errors)
        raise ValueError("; ".join(complaints)) from None


def fields_of(kind: type) -> tuple[tuple[str, str], ...] | None:
    """The fields of a structured class as (attribute, key in JSON), or ``None`` if it is not a structured class.

    ``msgspec.Struct``, dataclasses, attrs classes and pydantic models are structured. Values that a pydantic model
    keeps outside its fields (extra and private ones) count as fields without a key (``""``).

    >>> @dataclasses.dataclass
    ... class Point:
    ...     x: int
    ...     y: int
    >>> fields_of(Point), fields_of(int)
    ((('x', 'x'), ('y', 'y')), None)
    """
    return _fields_of(kind)


@lru_cache(CLASSES_REMEMBERED)
def _fields_of(kind: Any) -> tuple[tuple[str, str], ...] | None:
    if issubclass(kind, Struct):
        return tuple(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    if dataclasses.is_dataclass(kind):
        return tuple((field.name, field.name) for field in dataclasses.fields(kind))
    attributes = cast("tuple[Any, ...] | None", getattr(kind, "__attrs_attrs__", None))
    if attributes is not None:
        return tuple((attribute.name, attribute.name) for attribute in attributes)
    fields = cast("dict[str, Any] | None", getattr(kind, "model_fields", None))
    if is_model(kind) and isinstance(fields, dict):
        named = tuple((name, _alias_of(name, field)) for name, field in fields.items())
        return (*named, ("__pydantic_extra__", ""), ("__pydantic_private__", ""))
    return None


def parts_of(value: object) -> Iterator[tuple[str, Any]]:
    """The direct parts of a value, each with the step to it: ``[2]``, ``['key']``, ``.field``.

    >>> list(parts_of({"a": [1, 2]})), list(parts_of([1, 2])), list(parts_of("text"))
    ([("['a']", [1, 2])], [('[0]', 1), ('[1]', 2)], [])
    """
    if isinstance(value, dict):
        for key, part in cast("dict[Any, Any]", value).items():
            yield step_to(key), part
    elif isinstance(value, list | tuple | set | frozenset):
        for index, part in enumerate(cast("list[Any]", value)):
            yield f"[{index}]", part
    else:
        for name, _ in fields_of(type(value)) or ():
            if hasattr(value, name):
                yield f".{name}", getattr(value, name)


def step_to(key: object) -> str:
    """The step into a dict, for paths in messages.

    >>> step_to("total"), step_to(3), step_to((1, 2))
    ("['total']", '[3]', '[...]')
    """
    shown = (type(key) is int and abs(key) < 10**20) or (isinstance(key, str) and len(key) <= KEY_LIMIT_CHARACTERS)
    return f"[{key!r}]" if shown else "[...]"


def _alias_of(name: str, field: Any) -> str:
    alias = getattr(field, "serialization_alias", None) or getattr(field, "alias", None)
    return alias if isinstance(alias, str) else name
