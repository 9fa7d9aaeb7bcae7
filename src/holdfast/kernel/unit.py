"""The unit of work: what a running handler sends leaves with the commit of its state, or not at all (G4, G5)."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Self

from holdfast.clock import Clock
from holdfast.errors import ConfigurationError, InvalidState
from holdfast.items import HEAD, Item, Put, Write
from holdfast.kernel.identity import Identity
from holdfast.ports import Home

if TYPE_CHECKING:
    from holdfast.coordination.inbox import Sender


class Unit:
    """What one run of a handler wants written with its commit.

    ``chain`` are the entities that wait for this run, outermost first, itself included. ``identity`` is what identifies
    the run on every repeat of it, if anything does: what it calls derives its own identity from that. ``clock`` is
    the app's, ``home`` where the commit will be. ``fence`` is the epoch under which a handler runs.
    """

    __slots__ = ("_clock", "_home", "_outer", "chain", "closed", "fence", "identity", "to_wake", "writes")

    def __init__(
        self, chain: tuple[str, ...], identity: Identity | None, clock: Clock, home: Home, fence: int | None = None
    ) -> None:
        self._clock = clock
        self._home = home
        self.chain = chain
        self.identity = identity
        self.fence = fence
        self.writes: list[Write] = []
        self.to_wake: list[str] = []
        self.closed = False
        self._outer: Unit | None = None

    def add(self, partition: str, *writes: Write) -> None:
        """Apply ``writes`` with the commit, and have ``partition`` looked at afterwards."""
        self.refuse_if_closed()
        self.writes += writes
        self.to_wake.append(partition)

    def departs(self, partition: str) -> bool:  # noqa: ARG002 - that depends on the kind of unit
        """Whether what goes there leaves by ``depart``: the commit is not to reach that partition."""
        return False

    def depart(self, to: str, sort: str, body: bytes) -> None:
        """Deliver an item to another partition after the commit, which remembers it until it is delivered."""
        raise NotImplementedError

    def refuse_if_closed(self) -> None:
        """Raise ``InvalidState`` if no commit takes along what is still sent."""
        if self.closed:
            raise InvalidState(
                "this task has outlived the handler that started it: what it sends has no commit to go with"
            )

    def refuse_elsewhere(self, home: Home, what: str) -> None:
        """Raise ``ConfigurationError`` if ``what`` would be written to another home: no commit reaches two of them."""
        if home.url != self._home.url:
            raise ConfigurationError(
                f"{what} is on {home.url}, and the handler that is running commits on {self._home.url}: nothing can "
                "leave with that commit for another home. Do it from a step, or outside the handler"
            )

    def head_to_be(self, partition: str) -> Item | None:
        """The head that this run, or one that commits with it or before it, is going to put there."""
        for write in self.writes:
            if isinstance(write, Put) and write.item.partition == partition and write.item.sort == HEAD:
                return write.item
        return None

    def next_sort(self, sender: Sender) -> str:
        """The inbox place of a message that this run sends, behind its earlier ones (G6)."""
        return sender.next_sort()

    def waiting(self) -> AbstractContextManager[None]:
        """Within the block the handler waits for others: another one that has a limit of its own, or the store."""
        return nullcontext()

    def __enter__(self) -> Self:
        """The handler runs: what it sends within the block comes here, and what comes later is refused."""
        self._outer = current_unit.get()
        current_unit.set(self)
        return self

    def __exit__(self, *_raised: object) -> None:
        current_unit.set(self._outer)
        self.close()

    def close(self) -> None:
        """Refuse what is still sent: no commit will take it along."""
        self.closed = True

    def now_ms(self) -> int:
        """The time for the handler, in milliseconds since the Unix epoch."""
        return self._clock.now_ms()


current_unit: ContextVar[Unit | None] = ContextVar("holdfast_unit", default=None)
