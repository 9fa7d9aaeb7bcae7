"""Stored values of an older form: each form has a number, and upcasters lead from one to the next.

Actors, documents and events all store the number of the form with the value, so today's code can read what was written
years ago.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from msgspec import json

from holdfast.codec.typed import Codec
from holdfast.containment import contained_call
from holdfast.errors import ConfigurationError, SerializationError

T = TypeVar("T")

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
"""Turns the plain JSON of a value of one schema version into the JSON of the next."""


@dataclass(frozen=True, slots=True)
class Schema(Generic[T]):
    """A type whose stored form has versions, from 1 on: ``upcasters[n]`` turns form n into form n + 1."""

    codec: Codec[T]
    upcasters: Mapping[int, Upcaster]

    @property
    def version(self) -> int:
        """The version that this code writes."""
        return max(self.upcasters, default=0) + 1

    def decode(self, data: bytes, version: int, what: str) -> T:
        """The value that was stored under this version, in the form of this code.

        Raises ``SerializationError``, or whatever an upcaster raises: that is the user's code.
        """
        if version > self.version:
            raise SerializationError(
                f"{what} was written by newer code (schema {version}, here {self.version}): run that"
            )
        if version < self.version:
            plain = json.decode(data)
            for each in range(version, self.version):
                if (upcaster := self.upcasters.get(each)) is None:
                    raise SerializationError(f"{what} has no upcaster from schema {each} to {each + 1}")
                plain = contained_call(upcaster, plain)
            data = json.encode(plain)
        return self.codec.decode(data, what)


def check_upcasters(upcasters: Mapping[int, Upcaster], what: str) -> Mapping[int, Upcaster]:
    """The upcasters, if there is one for every version from 1 on. Raises ``ConfigurationError``."""
    if sorted(upcasters) != list(range(1, len(upcasters) + 1)):
        raise ConfigurationError(
            f"upcasters must be for schema 1, 2 and so on without a gap, got {sorted(upcasters)}: {what} begins at 1"
        )
    return upcasters
