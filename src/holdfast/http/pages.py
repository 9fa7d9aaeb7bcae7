"""Pages of listings: their cursors are sealed, and a search ends when a request may wait no longer."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from holdfast.coordination.salt import salt_of
from holdfast.errors import WaitTimeout
from holdfast.http.cursors import Cursors

if TYPE_CHECKING:
    from holdfast.commands import Command
    from holdfast.http.api import Call

T = TypeVar("T")


async def cursors_of(call: Call) -> Cursors:
    """Seals and opens the cursors of this caller."""
    return Cursors(await salt_of(call.app.runtime().home), call.tenant)


async def listed(call: Call, command: Command[T]) -> T:
    """The page that a command finds. Raises ``WaitTimeout`` if it takes too long."""
    try:
        return await call.within(call.longest_wait_seconds, call.perform(command))
    except TimeoutError:
        raise WaitTimeout(
            "too much had to be read to find these: ask for fewer, or for one workflow or status"
        ) from None
