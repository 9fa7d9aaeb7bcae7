"""What the relay and the relay to the bus have in common: each empties a queue of events, in turns.

One process at a time empties a queue. It delivers events first and marks them afterwards. After a crash in between,
an event is delivered again, and its receiver recognises it (G5).
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from holdfast.coordination.lease import Closed, Fenced, Held
from holdfast.errors import Refused
from holdfast.items import Item, OwnerIs, Update, Write, parts_of
from holdfast.kernel.entity import Entity, Unloaded
from holdfast.kernel.host import settled
from holdfast.kernel.outcomes import Ended, Left, Next, Rest
from holdfast.kernel.turn import run_turn
from holdfast.messaging.outbox import RELAYING, WAITING, app_of
from holdfast.persist import write_until_known
from holdfast.retry import Retry

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.kernel.model import Model

PAUSES: Final = Retry(initial="500ms", backoff=2, max_delay="8s")
"""The pause of a relay whose turn has failed; it grows with each failure in a row. Attempts never end."""


class Backoff:
    """How many turns of a queue have failed in a row in this process, and until when the next one waits."""

    __slots__ = ("_again", "failures", "until_ms")

    def __init__(self, again: Retry = PAUSES) -> None:
        self._again = again
        self.failures = 0
        self.until_ms = 0

    def failed(self, now: int, owner: str) -> None:
        """Wait longer than before. The pauses of a home's processes differ."""
        self.failures += 1
        self.until_ms = now + int(self._again.delay_seconds(self.failures, Random(f"{owner}/{self.failures}")) * 1000)

    def learn(self, failures: int, until_ms: int) -> None:
        """Take over what another process has recorded."""
        self.failures, self.until_ms = failures, until_ms

    def succeeded(self) -> None:
        """A turn has succeeded: no pause any more."""
        self.failures = self.until_ms = 0


class Relay(Entity):
    """A queue that this process empties. ``full``: it may hold events that the last query did not return."""

    __slots__ = ("full",)

    def __init__(self, partition: str, model: Model) -> None:
        super().__init__(partition, model)
        self.full = True

    @property
    def app(self) -> str:
        """The app that the queue belongs to."""
        return app_of(self.partition)

    @property
    def loaded(self) -> bool:
        return self.held  # nothing else is in memory

    def own(self, head: Item, *, created: bool = False, taken_over: bool = False, died: bool = False) -> None:
        """See ``Entity``. Each turn begins with the head."""
        super().own(head, created=created, taken_over=taken_over, died=died)
        self.unloaded = Unloaded(head)

    def interrupt(self) -> None:
        self.wake()


class Relaying(Struct, frozen=True, kw_only=True):
    """The programming model of one queue, and the stages of its turns. One per worker."""

    partition: str
    patience: Backoff
    blocked: str = ""
    claimable: tuple[str, ...] = (WAITING, RELAYING)
    running: str = RELAYING

    def serves(self, partition: str) -> bool:
        """See ``Model``."""
        return partition == self.partition

    def turn(self, entity: Any, host: Host) -> Coroutine[Any, Any, None]:
        """See ``Model``."""
        return run_turn(entity, self, host)

    def ahead(self, _entity: Relay, _host: Host, /) -> Ended | None:
        """See ``Stages``."""
        return None

    async def may_claim(self, entity: Relay, host: Host, /) -> bool:
        """See ``Stages``. A wake-up does not shorten the pause after a failure."""
        if host.clock.now_ms() >= self.patience.until_ms:
            return True
        host.check_at(entity.partition, self.patience.until_ms)
        return False

    async def refused(self, _entity: Relay, _claim: Held | Closed, _host: Host, /) -> Item | None:
        """See ``Stages``."""
        return None

    async def resume(self, _entity: Any, _host: Host, /) -> None:
        """See ``Stages``."""

    async def load(self, entity: Any, _unloaded: Unloaded, _host: Host, /) -> None:
        """See ``Stages``. There is nothing to load: the next stage queries the events."""
        entity.full, entity.unloaded = True, None

    async def receive(self, entity: Relay, _head: Item | None, _host: Host, /) -> None:
        """See ``Stages``."""
        entity.full = True

    async def run(self, entity: Any, host: Host, /) -> Next:
        """See ``Stages``: deliver a batch of events."""
        raise NotImplementedError

    async def rest(self, entity: Any, host: Host, /) -> Rest:
        """See ``Stages``."""
        return Rest(WAITING, host.clock.now_ms() if entity.full else None)

    def left(self, entity: Relay, left: Left, host: Host, /) -> None:
        """See ``Stages``."""
        settled(entity, left, host)

    async def fenced(self, _entity: Relay, /) -> None:
        """See ``Stages``."""

    async def failed(self, entity: Relay, error: Exception, host: Host, /) -> None:
        """See ``Stages``. Whatever failed may fail again, so the next turn waits."""
        self.patience.failed(host.clock.now_ms(), host.home.owner)
        host.failed(entity, error, again_at=self.patience.until_ms)


async def mark(writes: Sequence[Write], relay: Relay, host: Host) -> None:
    """Write the outcome of events, as long as this process holds their queue. Raises ``Fenced`` if it does not."""
    still_ours = Update(partition=relay.partition, when=OwnerIs(host.home.owner, relay.epoch))
    try:
        for part in parts_of(writes, host.home.bounds):
            await write_until_known(host.home.store, still_ours, *part, ours=lambda _there: False)
    except Refused as refused:
        raise Fenced(f"{relay.partition}: {refused}") from None
