"""Unions of pydantic models with a discriminator: pydantic decodes them, msgspec sees one class in their place."""

from __future__ import annotations

import sys
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from holdfast.codec.shapes import is_model


def shaped(hint: Any) -> Any:
    """The hint for msgspec: each ``Annotated[A | B, Field(discriminator=...)]`` in it is one class that decodes
    as pydantic does. The hint itself if there is none.
    """
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated and _is_told_apart(hint):
        members = [member for member in get_args(parts[0]) if member is not NoneType]
        union: Any = Union[tuple(members)]  # noqa: UP007 - put together at run time
        stand_in = _stand_in(Annotated[(union, *hint.__metadata__)], members)
        return stand_in if len(members) == len(get_args(parts[0])) else stand_in | None
    shapes = tuple(shaped(part) for part in parts) if origin is not Annotated else (shaped(parts[0]), *parts[1:])
    if all(shape is part for shape, part in zip(shapes, parts, strict=True)):
        return hint
    if origin in (Union, UnionType):
        return Union[shapes]  # noqa: UP007 - put together at run time
    rebuilt: Any = Annotated if origin is Annotated else origin
    return rebuilt[shapes]


def _is_told_apart(hint: Any) -> bool:
    union = get_args(hint)[0]
    members = [member for member in get_args(union) if member is not NoneType]
    return (
        get_origin(union) in (Union, UnionType)
        and len(members) > 1
        and all(isinstance(member, type) and is_model(member) for member in members)
        and any(getattr(each, "discriminator", None) is not None for each in hint.__metadata__)
    )


def _stand_in(hint: Any, members: list[Any]) -> Any:
    adapter: Any = sys.modules["pydantic"].TypeAdapter(hint)  # code that has models has imported it
    methods: dict[str, Any] = {
        "model_dump": _dump,
        "model_validate": staticmethod(adapter.validate_python),
        "model_validate_json": staticmethod(adapter.validate_json),
        "model_fields": {member.__name__: SimpleNamespace(annotation=member) for member in members},
    }
    name = " | ".join(member.__name__ for member in members)
    return _AnyOf(name, (), methods | {"members": tuple(members)})


def _dump(value: Any, **options: Any) -> Any:
    return value.model_dump(**options)


class _AnyOf(type):
    members: tuple[type, ...]

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.members)
