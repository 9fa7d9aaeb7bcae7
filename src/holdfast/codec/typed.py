"""Typed JSON by type hints (G12): encode, decode, and copy with proof that nothing was lost.

A codec is built once per type hint, when a function is registered, and fails then if the hint has values that JSON
cannot keep. Nothing is ever pickled, evaluated or imported by a name found in data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from math import isfinite
from types import NoneType
from typing import Any, Final, Generic, Never, NoReturn, TypeVar, cast, overload

from msgspec import json

from holdfast.codec import faults, jsontext
from holdfast.codec.crowding import uncrowded
from holdfast.codec.exactness import Incomplete, complete, difference
from holdfast.codec.hints import UNBOUNDED_LEVELS, name_of, survey
from holdfast.codec.shapes import is_model, load_model
from holdfast.codec.steadying import steadied
from holdfast.codec.tagged import shaped
from holdfast.errors import SerializationError

T = TypeVar("T")

CODECS_REMEMBERED: Final = 4096
"""How many codecs are kept by hint; a hint that has fallen out is surveyed again."""


@dataclass(frozen=True, slots=True, eq=False)
class Codec(Generic[T]):
    """How values of one type hint become JSON and come back. Immutable, and safe to use from several threads.

    ``name`` is the hint as written, ``shape`` is the hint for msgspec. A value whose exact type is in ``atoms``
    survives JSON unseen (a float if it is finite). ``unordered`` says that values may hold sets or keys that only
    ``canonical_by_parts`` brings in order, and ``bounded`` that they cannot nest deeper than the limit. With ``floats``
    values may hold ints in place of floats, and are encoded again when they have become floats; so are values that may
    hold ``sets``, for their order.

    It carries: plain JSON types, dataclasses, ``msgspec.Struct``, ``TypedDict``, ``NamedTuple``, attrs classes,
    pydantic v2 models, enums of all str or all int, ``Literal``, ``datetime``, ``date``, ``time``, ``timedelta``,
    ``Decimal``, ``UUID``, ``bytes``, ``set``, ``frozenset``, ``tuple``, integers of any size, generics and unions of
    these as far as JSON can distinguish the members. Not: nan, infinities, text with lone surrogates, more than 64
    levels. Without a hint, or under ``Any`` and ``object``: plain JSON types only.
    """

    hint: Any
    shape: Any
    name: str
    atoms: frozenset[type]
    unordered: bool
    bounded: bool
    floats: bool
    sets: bool
    _decode: Callable[[bytes], T] = field(repr=False)

    def encode(self, value: T, what: str = "the value") -> bytes:
        """The value as JSON. Does not check that it fits the hint; ``copy`` does.

        Raises ``SerializationError`` if some part of it has no JSON form, or it nests too deep.

        >>> codec_for(list[int]).encode([1, 2])
        b'[1,2]'
        """
        try:
            data = jsontext.encode(value)
        except Exception as error:
            raise faults.unencodable(value, what, error) from error
        if jsontext.nests_too_deep(data):
            raise faults.too_deep(what)
        return data

    def decode(self, data: bytes, what: str = "the stored value") -> T:
        """The value of a JSON text, of the hinted type.

        Raises ``SerializationError``, and nothing else, whatever ``data`` is.

        >>> codec_for(tuple[int, ...]).decode(b"[1, 2]")
        (1, 2)
        """
        if not self.bounded and jsontext.nests_too_deep(data):
            raise faults.too_deep(what)
        try:
            return self._decode(data)
        except Exception as error:
            complaint = faults.complaint_of(error)
            at = f" at {complaint.path}" if complaint.path else ""
            raise SerializationError(
                f"{what} does not fit the type {self.name}{at}: {complaint.text}. If the type has changed since it "
                f"was written, keep it able to read the older form (new fields with defaults)"
            ) from error

    def decode_steady(self, data: bytes, what: str = "the stored value") -> T:
        """Like ``decode``, for a workflow body: its sets have the same order in every process (G2)."""
        value = self.decode(data, what)
        return cast("T", steadied(value)) if self.sets else value

    def steady(self, value: T) -> T:
        """A decoded value without another owner, with its sets in the order of their canonical JSON."""
        return cast("T", steadied(value)) if self.sets else value

    def copy(self, value: T, what: str, limit_bytes: int) -> tuple[bytes, T]:
        """The value as JSON, and as read back from it, proven equal in type and value at every level (G2).

        Use the copy, and keep the bytes: then the first run sees exactly what every replay will see. ``exactness``
        defines what counts as equal. ``what`` names the value in errors: ``"result of step 'charge'"``.

        Raises ``PayloadTooLarge`` if it has more than ``limit_bytes``, and ``SerializationError`` if it does not fit
        the hint or does not come back unchanged.

        >>> codec_for(list[int]).copy([1, 2], "result of step 'count'", limit_bytes=100)
        (b'[1,2]', [1, 2])
        """
        try:
            data = jsontext.encode(value)
        except Exception as error:
            raise faults.unencodable(value, what, error) from error
        if len(data) > limit_bytes:
            raise faults.too_large(len(data), limit_bytes, what)
        kind = type(value)
        if kind in self.atoms and (kind is not float or isfinite(value)):  # type: ignore[arg-type]  # it is a float
            return data, value
        if jsontext.nests_too_deep(data):
            raise faults.too_deep(what)
        try:
            copy = self._decode(data)
            found = difference(value, copy)
        except Incomplete:
            complete(value)
            return self.copy(value, what, limit_bytes)
        except Exception as error:
            raise SerializationError(faults.mismatch(value, self.name, what, faults.complaint_of(error))) from error
        if found is not None:
            raise faults.not_exact(found, value, self.name, what)
        if self.floats or self.sets:
            data = jsontext.encode(self.steady(self._decode(data)) if self.sets else copy)
            if len(data) > limit_bytes:
                raise faults.too_large(len(data), limit_bytes, what)
        return data, copy


@overload
def codec_for(hint: type[T]) -> Codec[T]: ...
@overload
def codec_for(hint: Any) -> Codec[Any]: ...
def codec_for(hint: Any) -> Codec[Any]:
    """The codec of a type hint, the same one for the same hint.

    Raises ``SerializationError``, naming the hint and what to do, if JSON cannot carry every value of it.

    >>> codec_for(dict[str, int]).name
    'dict[str, int]'
    """
    try:
        return _remembered(hint)
    except TypeError:  # some Annotated hints cannot be hashed
        return _build(hint)


def encode_untyped(value: object, what: str, limit_bytes: int) -> bytes:
    """Encode a value whose type hint only the receiver knows: by its own class, proven to come back unchanged."""
    try:
        codec: Codec[Any] = codec_for(cast("Any", type(value)))
    except SerializationError as error:
        raise SerializationError(f"{what}: {error}") from None
    data, _ = codec.copy(value, what, limit_bytes)
    return data


def decoder_of(hint: Any, *, sets: bool) -> Callable[[bytes], Any]:
    """The bare decoder for a hint that was surveyed before; it knows pydantic models. ``sets`` is the result of the
    survey.
    """
    decode = json.Decoder(hint, dec_hook=_decode_other).decode
    return uncrowded(hint, decode, _decode_other) if sets else decode


def _build(hint: Any) -> Codec[Any]:
    # A function that never returns has no result to carry; its annotation may say so.
    seen_as = NoneType if hint is None or hint is Never or hint is NoReturn else hint
    shape = shaped(seen_as)
    found = survey(shape, name_of(seen_as))
    return Codec(
        hint=hint,
        shape=hint if shape is seen_as else shape,
        name=name_of(hint),
        atoms=found.atoms,
        unordered=found.unordered,
        bounded=found.levels < UNBOUNDED_LEVELS,
        floats=found.floats,
        sets=found.sets,
        _decode=decoder_of(shape, sets=found.sets),
    )


_remembered = lru_cache(CODECS_REMEMBERED)(_build)


def _decode_other(kind: type, data: Any) -> Any:
    if kind is object:
        return data
    assert is_model(kind), "the survey of the hint let nothing else pass"
    return load_model(kind, data)
