"""What the relay and the way to the bus have in common: each empties a queue of events, in turns as everything else.

A queue is emptied by one process at a time. It delivers first and marks then: after a crash between the two an event
is delivered again, and its receiver knows it (G5).
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
from holdfast.kernel.outcomes import Left, Next, Rest
from holdfast.kernel.turn import run_turn
from holdfast.messaging.outbox import RELAYING, WAITING
from holdfast.persist import write_until_known
from holdfast.retry import Retry

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.kernel.model import Model

PAUSES: Final = Retry(initial="500ms", backoff=2, max_delay="8s")
"""How long a relay whose turn has failed holds back, more with each failure in a row. It never gives up."""


class Backoff:
    """How often in a row the turns of an outbox have failed in this process, and until when it holds back."""

    __slots__ = ("_again", "failures", "until_ms")

    def __init__(self, again: Retry = PAUSES) -> None:
        self._again = again
        self.failures = 0
        self.until_ms = 0

    def failed(self, now: int, owner: str) -> None:
        """Hold back, longer than before; the processes of a home each by another while."""
        self.failures += 1
        self.until_ms = now + int(self._again.delay_seconds(self.failures, Random(f"{owner}/{self.failures}")) * 1000)

    def learn(self, failures: int, until_ms: int) -> None:
        """What another process has come to know."""
        self.failures, self.until_ms = failures, until_ms

    def succeeded(self) -> None:
        """It works."""
        self.failures = self.until_ms = 0


class Relay(Entity):
    """A queue that this process empties. ``full``: there may be events in it that the last look did not show."""

    __slots__ = ("full",)

    def __init__(self, partition: str, model: Model) -> None:
        super().__init__(partition, model)
        self.full = True

    @property
    def app(self) -> str:
        """Whose queue it is."""
        return self.partition.partition("#")[2]

    @property
    def loaded(self) -> bool:
        return self.held  # there is nothing else to have in memory

    def own(self, head: Item, *, created: bool = False, taken_over: bool = False, died: bool = False) -> None:
        """See ``Entity``. Each turn begins with what the head says."""
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

    async def may_claim(self, entity: Relay, host: Host, /) -> bool:
        """See ``Stages``. What fails is not tried more often for being woken."""
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
        """See ``Stages``. There is nothing to load: what is in the queue now is looked at next."""
        entity.full, entity.unloaded = True, None

    async def receive(self, entity: Relay, _head: Item | None, _host: Host, /) -> None:
        """See ``Stages``."""
        entity.full = True

    async def run(self, entity: Any, host: Host, /) -> Next:
        """See ``Stages``: carry some events on."""
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
        """See ``Stages``. Whether it was the store or we: it comes again, and is not to be tried each moment."""
        self.patience.failed(host.clock.now_ms(), host.home.owner)
        host.failed(entity, error, again_at=self.patience.until_ms)


async def mark(writes: Sequence[Write], relay: Relay, host: Host) -> None:
    """Note what has become of events, as long as they are ours to carry."""
    still_ours = Update(partition=relay.partition, when=OwnerIs(host.home.owner, relay.epoch))
    try:
        for part in parts_of(writes, host.home.bounds):
            await write_until_known(host.home.store, still_ours, *part, ours=lambda _there: False)
    except Refused as refused:
        raise Fenced(f"{relay.partition}: {refused}") from None
