"""How an execution ends without a slot: what a gate has to be told by those who know executions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from holdfast.items import Item
    from holdfast.kernel.host import Host


class Ends(Struct, frozen=True):
    """``purge`` ends an execution that waits, if it has waited since that time or longer; false if it goes on to wait:
    it has begun before, and has been asked to stop. ``give_up`` has an execution never come whose place was written
    long ago; false if it has come.
    """

    purge: Callable[[Item, int, str, Host], Awaitable[bool]]
    give_up: Callable[[str, Host], Awaitable[bool]]
