"""Members of sets chosen to have one hash: the time to build such a set grows with the square of their count.

The hash of a tuple, a frozenset or a frozen class of numbers can be computed in any process. msgspec builds a set while
it reads, so the members are read one by one before, and counted by hash. Only hints with such sets pay for it: the rest
keep their decoder unchanged. Numbers themselves are searched for in the text that comes from outside (``collisions``);
a pydantic model builds its sets itself.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, Literal, Union, cast
from uuid import UUID

from msgspec import Raw, ValidationError, inspect, json

from holdfast.codec.collisions import MOST_ALIKE
from holdfast.codec.jsontext import count_keys, encode

_SHORTEST_MEMBER: Final = b"[],"

_Check = Callable[[Any, str], None]
"""Checks the plain data at a path."""

_PLAIN: Final = json.Decoder(float_hook=lambda text: Raw(text.encode()))
"""Numbers stay as they are written: a ``Decimal`` has more digits than a float."""

_SCALARS: Final[dict[type, Any]] = {
    inspect.AnyType: Any,
    inspect.BoolType: bool,
    inspect.BytesType: bytes,
    inspect.DateTimeType: dt.datetime,
    inspect.DateType: dt.date,
    inspect.DecimalType: Decimal,
    inspect.FloatType: float,
    inspect.IntType: int,
    inspect.NoneType: None,
    inspect.StrType: str,
    inspect.TimeDeltaType: dt.timedelta,
    inspect.TimeType: dt.time,
    inspect.UUIDType: UUID,
}
_TUPLE: Final[Any] = tuple  # type checkers want to know at once what is between the brackets
_OF_SECRET_HASH: Final = (
    inspect.BytesType,
    inspect.DateType,
    inspect.EnumType,
    inspect.NoneType,
    inspect.StrType,
)
"""Python draws the hash of these again for each process; ``None`` has one value only."""

_WITH_FIELDS: Final = (inspect.StructType, inspect.DataclassType, inspect.NamedTupleType, inspect.TypedDictType)
_COMPOSITE: Final = (inspect.TupleType, inspect.VarTupleType, inspect.FrozenSetType, inspect.CustomType, *_WITH_FIELDS)


def uncrowded(
    hint: Any, decode: Callable[[bytes], Any], decode_other: Callable[[type, Any], Any]
) -> Callable[[bytes], Any]:
    """The decoder of a hint, which checks the members of sets before it builds them, if that is necessary.

    The decoder raises ``ValidationError``, with the place, if a set holds over ``MOST_ALIKE`` members of one hash.

    >>> codec = json.Decoder(set[str]).decode
    >>> uncrowded(set[str], codec, lambda kind, data: data) is codec
    True
    """
    checks = _Checks(decode_other)
    check = checks.of(inspect.type_info(hint))
    if not checks.needed:
        return decode

    def decode_checked(data: bytes) -> Any:
        if len(data) > MOST_ALIKE * len(_SHORTEST_MEMBER):
            plain = _PLAIN.decode(data)
            if count_keys(data) != count_keys(encode(plain)):  # each value would be built, and the last one kept
                raise ValidationError("Object has a key twice")
            check(plain, "$")
        return decode(data)

    return decode_checked


class _Checks:
    """The checks of all parts of a hint. ``needed`` says whether there is a set to check."""

    def __init__(self, decode_other: Callable[[type, Any], Any]) -> None:
        self.needed = False
        self._decode_other = decode_other
        self._made: dict[int, _Check] = {}

    def of(self, info: inspect.Type) -> _Check:
        """The check for data of this type."""
        known = id(info)
        if known not in self._made:
            self._made[known] = self._later(known)  # for a type that contains itself
            self._made[known] = self._check_of(info)
        return self._made[known]

    def _later(self, known: int) -> _Check:
        def check(data: Any, path: str) -> None:
            self._made[known](data, path)

        return check

    def _check_of(self, info: inspect.Type) -> _Check:
        match info:
            case inspect.Metadata(type=inner):
                return self.of(inner)
            case inspect.UnionType(types=members):
                return _all_of([self.of(each) for each in members])
            case inspect.SetType(item_type=item) | inspect.FrozenSetType(item_type=item):
                return self._members(item) if _is_crowdable(item) else _each(self.of(item))
            case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
                return _each(self.of(item))
            case inspect.TupleType(item_types=items):
                return _by_position([self.of(each) for each in items], 0)
            case inspect.DictType(value_type=item):
                return _values(self.of(item))
            case inspect.NamedTupleType(fields=fields):
                return _by_position([self.of(field.type) for field in fields], 0)
            case inspect.StructType(fields=fields, array_like=True, tag=tag):
                return _by_position([self.of(field.type) for field in fields], 0 if tag is None else 1)
            case (
                inspect.StructType(fields=fields)
                | inspect.DataclassType(fields=fields)
                | inspect.TypedDictType(fields=fields)
            ):
                return _by_name({field.encode_name: self.of(field.type) for field in fields})
            case _:
                return _nothing

    def _members(self, item: inspect.Type) -> _Check:
        self.needed = True
        check, decode = self.of(item), json.Decoder(_hint_of(item), dec_hook=self._decode_other).decode

        def check_members(data: Any, path: str) -> None:
            alike: dict[int, set[bytes]] = {}
            for member in _items_of(data):
                check(member, f"{path}[...]")
                text = encode(member)
                try:
                    one = hash(decode(text))
                except Exception:  # noqa: BLE001 - it fits no set: building ends here, and says why
                    return
                same = alike.setdefault(one, set())
                same.add(text)
                if len(same) > MOST_ALIKE:
                    raise ValidationError(f"Set has over {MOST_ALIKE} members of one hash - at `{path}`")

        return check_members


def _is_crowdable(item: inspect.Type) -> bool:
    """Whether the writer of a set's members can choose their hash, apart from plain numbers."""
    match item:
        case inspect.Metadata(type=inner):
            return _is_crowdable(inner)
        case inspect.UnionType(types=members):
            return any(map(_is_crowdable, members))
        case _:
            return isinstance(item, _COMPOSITE) and _has_open_hash(item, set())


def _has_open_hash(info: inspect.Type, seen: set[int]) -> bool:
    """Whether there is a part whose hash is the same in every process."""
    if id(info) in seen:
        return False
    seen.add(id(info))
    parts: list[inspect.Type]
    match info:
        case inspect.Metadata(type=inner):
            parts = [inner]
        case inspect.UnionType(types=members) | inspect.TupleType(item_types=members):
            parts = list(members)
        case inspect.VarTupleType(item_type=item) | inspect.FrozenSetType(item_type=item):
            parts = [item]
        case _ if isinstance(info, _WITH_FIELDS):
            parts = [field.type for field in cast("inspect.DataclassType", info).fields]
        case inspect.LiteralType(values=values):
            return not all(isinstance(each, str) for each in values)
        case _:
            return not isinstance(info, _OF_SECRET_HASH)
    return any(_has_open_hash(each, seen) for each in parts)


def _hint_of(info: inspect.Type) -> Any:
    """A hint of the same values, without their bounds."""
    match info:
        case inspect.Metadata(type=inner):
            return _hint_of(inner)
        case inspect.UnionType(types=members):
            return Union[tuple(map(_hint_of, members))]  # noqa: UP007 - put together at run time
        case inspect.LiteralType(values=values):
            return Literal[values]
        case inspect.TupleType(item_types=items):
            return _TUPLE[tuple(map(_hint_of, items))]
        case inspect.VarTupleType(item_type=item):
            return _TUPLE[_hint_of(item), ...]
        case inspect.FrozenSetType(item_type=item) | inspect.SetType(item_type=item):
            return frozenset[_hint_of(item)]  # type: ignore[misc]  # put together at run time
        case inspect.ListType(item_type=item):
            return list[_hint_of(item)]  # type: ignore[misc]  # put together at run time
        case inspect.DictType(key_type=key, value_type=item):
            return dict[_hint_of(key), _hint_of(item)]  # type: ignore[misc]  # put together at run time
        case _:
            return getattr(info, "cls", _SCALARS.get(type(info), Any))


def _items_of(data: Any) -> list[Any]:
    return cast("list[Any]", data) if isinstance(data, list) else []


def _nothing(data: Any, path: str) -> None:
    """No check: there is no set."""


def _all_of(checks: list[_Check]) -> _Check:
    def check(data: Any, path: str) -> None:
        for each in checks:
            each(data, path)

    return check


def _each(inner: _Check) -> _Check:
    def check(data: Any, path: str) -> None:
        for item in _items_of(data):
            inner(item, f"{path}[...]")

    return check if inner is not _nothing else _nothing


def _by_position(checks: list[_Check], begin: int) -> _Check:
    def check(data: Any, path: str) -> None:
        for index, (inner, item) in enumerate(zip(checks, _items_of(data)[begin:], strict=False), begin):
            inner(item, f"{path}[{index}]")

    return check


def _values(inner: _Check) -> _Check:
    def check(data: Any, path: str) -> None:
        if isinstance(data, dict):
            for item in cast("dict[str, Any]", data).values():
                inner(item, f"{path}[...]")

    return check if inner is not _nothing else _nothing


def _by_name(checks: dict[str, _Check]) -> _Check:
    def check(data: Any, path: str) -> None:
        if isinstance(data, dict):
            fields = cast("dict[str, Any]", data)
            for name in checks.keys() & fields.keys():
                checks[name](fields[name], f"{path}.{name}")

    return check
