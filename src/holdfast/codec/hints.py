"""Hints: the properties of a type hint's values, determined once, when a codec is built.

msgspec treats any unknown class as a custom type and would only fail on the first value. A durable function must fail
when it is registered, so every hint is walked to its end here.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

from msgspec import inspect

from holdfast.codec.jsontext import NESTING_LIMIT_LEVELS
from holdfast.codec.models import mentions_sets
from holdfast.codec.shapes import is_model
from holdfast.errors import SerializationError

UNBOUNDED_LEVELS: Final = NESTING_LIMIT_LEVELS + 1

_ATOMS: Final[tuple[tuple[inspect.Type, type], ...]] = (
    (inspect.NoneType(), NoneType),
    (inspect.BoolType(), bool),
    (inspect.IntType(), int),
    (inspect.FloatType(), float),
    (inspect.StrType(), str),
)
"""Hints (without constraints) whose values come back from JSON unchanged, so no proof is needed."""

_SORTABLE: Final = (
    inspect.BoolType,
    inspect.BytesType,
    inspect.DateType,
    inspect.FloatType,
    inspect.IntType,
    inspect.StrType,
    inspect.UUIDType,
)
_KEYS: Final = (
    *_SORTABLE[1:],
    inspect.AnyType,
    inspect.DateTimeType,
    inspect.DecimalType,
    inspect.EnumType,
    inspect.LiteralType,
    inspect.TimeDeltaType,
    inspect.TimeType,
)


@dataclass(frozen=True, slots=True)
class Survey:
    """The properties of a hint's values.

    A value whose exact type is in ``atoms`` needs no check. ``levels`` is how deep a value can nest,
    ``UNBOUNDED_LEVELS`` if that is unknown. ``unordered`` values hold sets or keys that msgspec cannot sort, values
    with
    ``floats`` may hold ints in their place. With ``sets`` they may hold sets.
    """

    atoms: frozenset[type]
    levels: int
    unordered: bool
    floats: bool
    sets: bool


def name_of(hint: Any) -> str:
    """The hint as a programmer would write it.

    >>> name_of(int), name_of(list[int] | None), name_of(None)
    ('int', 'list[int] | None', 'None')
    """
    if hint is None or hint is NoneType:
        return "None"
    if isinstance(hint, type) and type(hint).__module__ != "types" and not hasattr(hint, "__origin__"):
        return hint.__qualname__
    if get_origin(hint) in (Union, UnionType):  # however it was spelled: equal hints share one codec, and one name
        return " | ".join(map(name_of, get_args(hint)))
    return str(hint).replace("typing.", "")


def survey(hint: Any, name: str = "") -> Survey:
    """Walk the hint to its end. Raises ``SerializationError`` if some of its values cannot be carried as typed JSON.

    ``name`` is its name in messages.

    >>> survey(dict[str, list[int]]).levels
    2
    """
    name = name or name_of(hint)
    try:
        info = inspect.type_info(hint)
    except NameError as error:
        raise SerializationError(
            f"{name} cannot be used: one of its annotations names {error.name!r}, which cannot be found. "
            f"Import or define it at module level, outside `if TYPE_CHECKING:` and outside functions"
        ) from error
    except Exception as error:
        raise SerializationError(f"{name} cannot be carried as typed JSON: {_advice(str(error))}") from error
    walk = _Walk(name)
    levels = min(walk.levels(info), UNBOUNDED_LEVELS)
    return Survey(atoms=_atoms_of(info), levels=levels, unordered=walk.unordered, floats=walk.floats, sets=walk.sets)


def _advice(complaint: str) -> str:
    """The complaint of msgspec, and the remedy."""
    complaint = complaint.partition(" - type `")[0].rstrip(".")
    if "more than one" in complaint or "Type unions" in complaint:
        return (
            f"{complaint}. JSON could not tell the members apart: make them msgspec.Struct classes with tag=True, "
            f"or wrap each in a dataclass field of its own. pydantic models are told apart in a parameter or result by "
            f"Annotated[A | B, Field(discriminator=...)]"
        )
    if "Enum" in complaint:
        return f"{complaint}. Give every member a str, or every member an int"
    if "InitVar" in complaint:
        return f"{complaint}. Make them fields, or compute them in a classmethod"
    return (
        f"{complaint}. Use a dataclass, msgspec.Struct, TypedDict, NamedTuple, pydantic model, or plain types such as "
        f"str, int, list and dict"
    )


def _atoms_of(info: inspect.Type) -> frozenset[type]:
    if isinstance(info, inspect.AnyType):
        return frozenset(kind for _, kind in _ATOMS)
    members = info.types if isinstance(info, inspect.UnionType) else (info,)
    atoms = frozenset(kind for member in members for atom, kind in _ATOMS if member == atom)
    # In a union with a type with a textual form (a Decimal, a date), text might come back as that: prove it each time.
    return atoms if len(atoms) == len(members) else frozenset()


class _Walk:
    """One walk over a hint. It remembers the types that it has seen, so that recursive types end."""

    def __init__(self, hint: str) -> None:
        self.unordered = self.floats = self.sets = False
        self._hint = hint
        self._seen: dict[int, int] = {}

    def levels(self, info: inspect.Type) -> int:
        """How deep values of ``info`` can nest; everything below it is judged on the way."""
        known = self._seen.get(id(info))
        if known is not None:
            return known
        self._seen[id(info)] = UNBOUNDED_LEVELS  # for a type that contains itself
        found = self._levels(info)
        self._seen[id(info)] = found
        return found

    def _levels(self, info: inspect.Type) -> int:
        match info:
            case inspect.Metadata(type=inner):
                return self.levels(inner)
            case inspect.UnionType(types=members):
                return max(map(self.levels, members))
            case inspect.AnyType():
                return UNBOUNDED_LEVELS
            case inspect.CustomType(cls=kind):
                return self._custom(kind)
            case inspect.FloatType():
                self.floats = True
                return 0
            case inspect.SetType(item_type=item) | inspect.FrozenSetType(item_type=item):
                self.sets = True
                self.unordered |= not isinstance(item, _SORTABLE)
                return 1 + self.levels(item)
            case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
                return 1 + self.levels(item)
            case inspect.TupleType(item_types=items):
                return 1 + max(map(self.levels, items), default=0)
            case inspect.DictType(key_type=key, value_type=item):
                self._judge_key(key)
                return 1 + self.levels(item)
            case (
                inspect.StructType(fields=fields)
                | inspect.DataclassType(fields=fields)
                | inspect.TypedDictType(fields=fields)
                | inspect.NamedTupleType(fields=fields)
            ):
                return 1 + max((self.levels(field.type) for field in fields), default=0)
            case inspect.RawType() | inspect.ExtType():
                raise SerializationError(f"{self._hint} cannot be carried as typed JSON: it has no type of its own")
            case _:
                return 0

    def _custom(self, kind: type) -> int:
        if kind is not object:
            if not is_model(kind):
                raise SerializationError(
                    f"{self._hint} cannot be carried as typed JSON: {_advice(f'{name_of(kind)} has no JSON form')}"
                )
            self.unordered = True  # a model may have sets, and msgspec does not see them
            self.sets |= mentions_sets(kind)
        return UNBOUNDED_LEVELS

    def _judge_key(self, key: inspect.Type) -> None:
        match key:
            case inspect.Metadata(type=inner):
                self._judge_key(inner)
            case inspect.UnionType(types=members):
                self.unordered = True
                for member in members:
                    self._judge_key(member)
            case inspect.CustomType(cls=kind) if kind is object:
                pass
            case _ if isinstance(key, _KEYS):
                self.floats |= isinstance(key, inspect.FloatType)
                self.unordered |= not isinstance(key, inspect.StrType | inspect.AnyType)
            case _:
                raise SerializationError(
                    f"{self._hint} cannot be carried as typed JSON: the keys of a JSON object are text, so the keys "
                    f"of a dict can be str, int, Enum, UUID and dates. Use a list of pairs instead"
                )
