"""The options of a start, checked."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from holdfast.clock import moment
from holdfast.deferred import LazyModule
from holdfast.duration import LONGEST_SECONDS, Duration, milliseconds
from holdfast.errors import InvalidInput
from holdfast.workflows.record import OnParentEnd, check_new_id, check_on_parent_end, check_tags

if TYPE_CHECKING:
    from holdfast.flow.declarations import Queued
    from holdfast.workflows import launch as launching
    from holdfast.workflows.launch import Launch
    from holdfast.workflows.record import Parent
else:  # options are there before something is started with them
    launching = LazyModule("holdfast.workflows.launch", globals())

Tags = dict[str, str]


class StartOptions(Struct, frozen=True, kw_only=True):
    """What a start may say next to the workflow's arguments. ``None``: nothing is said. Times are milliseconds."""

    id: str | None = None
    tags: Tags | None = None
    timeout_ms: int | None = None
    delay_ms: int = 0
    at_ms: int | None = None
    on_parent_end: OnParentEnd | None = None
    queued: Queued | None = None

    def order(  # noqa: PLR0913 - who asks for it, and what is its own
        self,
        input: bytes,
        now: int,
        *,
        new_id: str,
        tags: Tags,
        parent: Parent | None = None,
        starter: Parent | None = None,
        root: str = "",
        shares: tuple[str, ...] = (),
        trace: str = "",
    ) -> Launch:
        """What to start now. ``new_id`` and ``tags`` are for those that name none. Raises ``InvalidInput``."""
        starts_at = now + self.delay_ms if self.at_ms is None else self.at_ms
        if starts_at - now > LONGEST_SECONDS * 1000:
            raise InvalidInput(
                f"an execution begins within {LONGEST_SECONDS / 86_400:.0f} days, not at {moment(starts_at)}"
            )
        return launching.Launch(
            id=new_id if self.id is None else self.id,
            input=input,
            tags=tags if self.tags is None else self.tags,
            parent=parent,
            starter=starter,
            root=root,
            timeout_ms=self.timeout_ms,
            starts_at=starts_at,
            queued=self.queued,
            shares=shares,
            trace=trace,
        )


NO_OPTIONS: Final = StartOptions()


def start_options(
    *,
    id: str | None = None,
    tags: Tags | None = None,
    timeout: Duration | None = None,
    delay: Duration | None = None,
    at: datetime | None = None,
    on_parent_end: OnParentEnd | None = None,
    queued: Queued | None = None,
) -> StartOptions:
    """The options of a start, checked. Raises ``InvalidInput``."""
    if queued is not None and queued.delay_ms:
        if delay is not None:
            raise InvalidInput("a start has one delay: its own, or that of queued=hf.Queued(delay=...)")
        delay = queued.delay
    if delay is not None and at is not None:
        raise InvalidInput("a start has a delay, or a time at which it is due (at), not both")
    return StartOptions(
        id=None if id is None else check_new_id(id),
        tags=None if tags is None else check_tags(tags),
        timeout_ms=None if timeout is None else milliseconds(timeout),
        delay_ms=0 if delay is None else milliseconds(delay),
        at_ms=None if at is None else _milliseconds_of(at),
        on_parent_end=None if on_parent_end is None else check_on_parent_end(on_parent_end),
        queued=queued,
    )


def _milliseconds_of(at: datetime) -> int:
    given: Any = at  # whatever its annotation says
    if not isinstance(given, datetime) or given.tzinfo is None:
        raise InvalidInput(f"at is a datetime with its time zone, such as datetime.now(UTC), not {at!r}")
    return math.ceil(round(at.timestamp() * 1000, 3))
