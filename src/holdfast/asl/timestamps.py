"""RFC 3339 times as Amazon States Language takes them: a ``T`` between date and time, and a ``Z`` or an offset."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Final

MOMENTS_REMEMBERED: Final = 256

_TIMESTAMP: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):(\d\d))")


def parse_timestamp(text: str) -> datetime | None:
    """The time that a text is, in UTC; ``None`` if it is none.

    >>> parse_timestamp("2026-01-01T02:00:00.5+01:00")
    datetime.datetime(2026, 1, 1, 1, 0, 0, 500000, tzinfo=datetime.timezone.utc)
    >>> parse_timestamp("2026-01-01 02:00:00Z")
    """
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(each) for each in found.groups()[:6])
    sign, hours, minutes = found.group(8, 9, 10)
    offset = timedelta() if sign is None else timedelta(hours=int(hours), minutes=int(minutes)) * int(f"{sign}1")
    microsecond = int((found[7] or "").ljust(6, "0")[:6] or 0)
    try:
        local = datetime(year, month, day, hour, minute, second, microsecond, timezone(offset))
        return local.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


@lru_cache(MOMENTS_REMEMBERED)
def iso_milliseconds(at_ms: int) -> str:
    """A time as AWS prints it in the context object: ``2026-01-01T00:00:00.000Z``. States in a row have the same."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
