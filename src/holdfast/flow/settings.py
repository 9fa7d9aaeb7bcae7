"""The numbers of a queue that were changed since it was declared. They hold until they are changed back."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from holdfast.codec.stored import stored
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


class Settings(Struct, frozen=True, kw_only=True):
    """What was changed; ``UNSET`` is as declared, ``None`` no limit."""

    limit: int | UnsetType = UNSET
    limit_per_key: int | UnsetType | None = UNSET
    rate: StoredRate | UnsetType | None = UNSET
    rate_per_key: StoredRate | UnsetType | None = UNSET
    paused: bool = False

    def over(self, declared: Rules) -> Rules:
        """The numbers that hold."""
        return replace(
            declared,
            limit=declared.limit if self.limit is UNSET else self.limit,
            limit_per_key=declared.limit_per_key if self.limit_per_key is UNSET else self.limit_per_key,
            rate=declared.rate if self.rate is UNSET else _rate(self.rate),
            rate_per_key=declared.rate_per_key if self.rate_per_key is UNSET else _rate(self.rate_per_key),
            paused=self.paused,
        )


AS_DECLARED: Final = Settings()

encode_settings: Final = msgspec.json.Encoder().encode
decode_settings: Final = stored(Settings, "the settings of a queue")


def _rate(stored: StoredRate | None) -> Rate | None:
    return None if stored is None else stored.rate()
