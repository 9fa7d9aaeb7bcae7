"""The numbers of a queue that were changed since it was declared. They hold until they are changed back."""

from __future__ import annotations

import dataclasses
from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from holdfast.codec.stored import stored
from holdfast.duration import milliseconds
from holdfast.flow.choose import Rules
from holdfast.flow.rates import Rate


class StoredRate(Struct, frozen=True, array_like=True):
    """A rate as it is stored: ``count`` in ``per_ms`` milliseconds."""

    count: int
    per_ms: int
    burst: int

    def rate(self) -> Rate:
        """The rate."""
        return Rate(self.count, self.per_ms / 1000, self.burst)


class Purge(Struct, frozen=True, array_like=True):
    """An order to end what waits: of a key or of all, what has come up to a time (milliseconds). One that is ``done``
    still holds for what shows itself late. ``later`` are the places of what waited at the order, and yet came after
    that time: in the moment of the order, or by a clock that is ahead.
    """

    key: str | None
    until: int
    done: bool = False
    later: tuple[str, ...] = ()

    def covers(self, key: str, since: int, place: str) -> bool:
        """Whether it is about an execution of this key that waits since then, in this place."""
        return self.key in (None, key) and (since <= self.until or place in self.later)

    def carried_out(self) -> Purge:
        """The same, done. What it names was there to be ended."""
        return replace(self, done=True, later=())


class Settings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was changed; ``UNSET`` is as declared, ``None`` no limit."""

    limit: int | UnsetType = UNSET
    limit_per_key: int | UnsetType | None = UNSET
    rate: StoredRate | UnsetType | None = UNSET
    rate_per_key: StoredRate | UnsetType | None = UNSET
    paused: bool = False
    purges: tuple[Purge, ...] = ()

    def over(self, declared: Rules) -> Rules:
        """The numbers that hold."""
        return dataclasses.replace(
            declared,
            limit=declared.limit if self.limit is UNSET else self.limit,
            limit_per_key=declared.limit_per_key if self.limit_per_key is UNSET else self.limit_per_key,
            rate=declared.rate if self.rate is UNSET else rate_in(self.rate),
            rate_per_key=declared.rate_per_key if self.rate_per_key is UNSET else rate_in(self.rate_per_key),
            paused=self.paused,
        )


AS_DECLARED: Final = Settings()

encode_settings: Final = msgspec.json.Encoder().encode
decode_settings: Final = stored(Settings, "the settings of a queue")


def stored_rate(rate: Rate | None) -> StoredRate | None:
    """A rate as it is stored."""
    return None if rate is None else StoredRate(rate.count, milliseconds(rate.per), rate.burst)


def rate_in(stored: StoredRate | None) -> Rate | None:
    """The rate of a stored one."""
    return None if stored is None else stored.rate()
