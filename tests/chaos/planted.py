"""The workers of the stories with a planted bug each: a story that cannot go wrong proves nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

from holdfast.actors.turn import aftermath, commit, replies
from holdfast.actors.turn.aftermath import Aftermath
from holdfast.actors.turn.performed import Performed
from holdfast.backends.sqlite import SocketDoorbell
from holdfast.chaos import points
from holdfast.chaos.worker import app
from holdfast.crew.ledger import Bank
from holdfast.items import ALWAYS, EXISTS
from holdfast.messaging import relay

PLANT: Final = "HOLDFAST_CHAOS_PLANT"
"""The environment variable that names the planted bug."""


def spared() -> None:
    """No bug, but nothing happens to anybody."""
    begin = points.ChaosStore.__init__
    points.ChaosStore.__init__ = lambda self, store, _fault: begin(self, store, None)


def the_dead_live() -> None:
    """Nobody's death is ever noticed."""
    SocketDoorbell.alive = lambda _self, _owner: True


def the_living_are_dead() -> None:
    """Leases of the living are taken over at once."""
    SocketDoorbell.alive = lambda _self, _owner: False


def another_key_each_time() -> None:
    """An attempt has the key of its process."""
    charge = Bank.charge
    Bank.charge = lambda self, order, cents, key: charge(self, order, cents, f"{key}/{os.getpid()}")


def mark_first() -> None:
    """The relay takes events out of the outbox before it delivers them."""
    deliver, mark = relay.deliver, relay.mark
    waiting: list[tuple[Any, ...]] = []

    async def deliver_later(*delivery: Any) -> None:
        waiting.append(delivery)

    async def mark_and_deliver(*marked: Any) -> None:
        await mark(*marked)
        while waiting:
            await deliver(*waiting.pop(0))

    relay.deliver, relay.mark = deliver_later, mark_and_deliver


def forgetful() -> None:
    """Nobody remembers what was handled."""

    async def nothing(*_args: Any) -> None: ...

    replies.known_reply, replies.stored_reply = lambda *_args: None, nothing


def uncounted() -> None:
    """Attempts are not counted before they begin."""
    Aftermath.begun = lambda found: Performed(found.before)


def unfenced() -> None:
    """Whoever has lost the lease may still commit."""
    commit.OwnerIs = lambda _owner, _epoch: EXISTS
    commit.RevisionIs = lambda _revision: EXISTS  # a wake-up that came meanwhile would refuse it, too
    aftermath.EXISTS = ALWAYS  # and its message may be gone


PLANTS: Final[dict[str, Callable[[], None]]] = {
    each.__name__: each
    for each in (
        spared,
        the_dead_live,
        the_living_are_dead,
        another_key_each_time,
        mark_first,
        forgetful,
        uncounted,
        unfenced,
    )
}

if PLANT in os.environ:
    PLANTS[os.environ[PLANT]]()

__all__ = ["app"]
