"""What runs inside a turn, as the kernel sees it: values go in, values come out, and the store is never touched."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import UNSET, Struct, UnsetType

from holdfast.items import Item, Write
from holdfast.kernel.entity import Told
from holdfast.kernel.model import Model
from holdfast.kernel.outcomes import Blocked, Conclusion
from holdfast.ports import SqlCursor
from holdfast.replay.entries import Entry, Note

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.replay.journal import Journal


class Deadly(Blocked):
    """Too many processes have died of this entity: it waits to be resumed. ``journal`` is its journal, once loaded."""

    def __init__(self, reason: str, journal: Journal | None = None, *, run: int = 0) -> None:
        super().__init__(reason, run=run)
        self.journal = journal


class Timed(Struct, frozen=True, gc=False):
    """Something to do at ``due_at`` (milliseconds): fire a timer, or look at an operation again."""

    due_at: int
    op: str


class Arrival(Struct, frozen=True, gc=False):
    """An entry on its way into the journal and the body; ``value`` is its decoded result if that is at hand."""

    entry: Entry
    value: Any = UNSET


class Effect(Struct, frozen=True):
    """Something to do in the world, once all that was recorded before is durable (G7).

    ``intent`` is recorded before it starts. ``perform`` answers what it led to, or when to perform it again unless the
    outcome has come by itself until then, or ``None`` if nothing is to come.
    """

    op: str
    perform: Callable[[], Coroutine[Any, Any, Arrival | Timed | None]]
    intent: Entry | None = None


class SqlEffect(Struct, frozen=True):
    """Something to do inside the store's own transaction: its record commits with it, exactly once (G10).

    ``work`` answers what it led to; ``failed`` turns an error of it into an arrival.
    """

    op: str
    step: str
    work: Callable[[SqlCursor], Arrival]
    failed: Callable[[Exception], Arrival]


AnyEffect = Effect | SqlEffect


class Contested(Struct, frozen=True, gc=False):
    """An arrival that counts only if nothing else came first: ``claim`` is written together with its record.

    ``came_first`` is asked with the item in the way of a refused claim: true if something else came first, which is in
    the inbox; false if the claim need not be written.
    """

    op: str
    arrival: Arrival
    claim: Write
    came_first: Callable[[Item | None], Coroutine[Any, Any, bool]]


class Asked(Struct, frozen=True, gc=False):
    """What a program newly wants: effects, timers, what it no longer wants, and marks and writes for the store.

    ``notes`` are for the journal too, but nothing depends on them: they wait for something else to be written.
    ``mismatch``: why this code cannot go on with what is recorded, if it cannot (G13).
    """

    effects: Sequence[AnyEffect] = ()
    timers: Sequence[Timed] = ()
    withdrawn: Sequence[str] = ()
    marks: Sequence[Entry] = ()
    notes: Sequence[Note] = ()
    writes: Sequence[Write] = ()
    mismatch: str | None = None


class Program(Protocol):
    """What runs inside a turn. It never touches the store: values go in, values come out.

    ``start`` says which start of its entity it is of: see ``Programs.start_of``. ``recorded`` is called with entries of
    its journal that are durable now, if anything asks for them. ``held`` are those that its head holds behind its last
    segment, once it has begun. As long as its head has the ``first_revision``, no message has come for it.
    """

    run: int
    first_revision: int
    start: str
    held: tuple[Entry, ...]
    recorded: Callable[[Sequence[Entry]], None] | None

    def at_rest(self, unwritten: tuple[Entry, ...], count: int, *, tried: bool = False) -> bytes | UnsetType:
        """The head's body as a release shall leave it, if it is not as the store has it. It holds what is ``unwritten``
        in any segment: behind the first ``count`` entries. ``tried``: it will not be written, and is never ``UNSET``.
        """
        ...

    def saved(self) -> None:
        """The release is written, and the store has it now."""
        ...

    def at_work(self, epoch: int) -> Told | None:
        """The head's body as a renewal shall leave it, while effects are under way; ``None`` if nothing is new in it.
        ``epoch`` is the owner's.
        """
        ...

    @property
    def mismatch(self) -> str | None:
        """Why this code cannot go on with what is recorded; ``None`` if it can (G13)."""
        ...

    def stuck(self) -> str | None:
        """Why nothing can ever wake it, now that it is at rest; ``None`` if something can."""
        ...

    @property
    def under_way(self) -> Sequence[str]:
        """The operations that it has asked for and that have not ended."""
        ...

    def blocked(self, reason: str, now: int) -> bytes:
        """The head's body as it shall be while other code is waited for."""
        ...

    def begin(self, entries: Sequence[Entry], now: int, *, deaths: int = 0) -> None:
        """Start, replaying ``entries``, and go on from there ``now`` (milliseconds). ``deaths`` processes in a row have
        died since the last of them.
        """
        ...

    def deliver(self, arrival: Arrival) -> bool:
        """Hand over one arrival and run until it waits again; false if it is not wanted any more."""
        ...

    def read(self, message: Item) -> Arrival | None:
        """What an inbox message means to it; ``None`` if nothing."""
        ...

    def acknowledge(self, message: Item) -> Write:
        """The write that takes the message out of the inbox."""
        ...

    def asked(self) -> Asked | None:
        """What it newly wants since it was last asked; ``None`` if nothing."""
        ...

    def due(self, op: str, now: int) -> Arrival | AnyEffect | Contested | None:
        """What a timer that is due means: a firing, another attempt, or nothing any more."""
        ...

    def wants(self, op: str) -> bool:
        """Whether it still waits for this operation."""
        ...

    def concluded(self) -> bool:
        """Whether it has ended."""
        ...

    def conclusion(self, tail: Sequence[Entry], now: int) -> Conclusion:
        """The end; ``tail`` are the last entries, which no segment holds."""
        ...

    def evict(self) -> None:
        """Leave memory."""
        ...


class Programs(Model, Protocol):
    """A programming model of journaled entities."""

    @property
    def claimable(self) -> tuple[str, ...]:
        """The statuses of heads that wait to be worked on, or are."""
        ...

    @property
    def running(self) -> str:
        """The status to set on a claim."""
        ...

    @property
    def suspended(self) -> str:
        """The status to set when an entity waits for something far away."""
        ...

    def pins(self, partition: str) -> bool:
        """Whether an entity of ours may need one version of the code and no other."""
        ...

    async def attend(self, head: Item, host: Host) -> Item | None:
        """Do what is due about an entity in a status that is not ``claimable``, if anything is. Answers its head if it
        is ours now.
        """
        ...

    def start_of(self, head: Item) -> str:
        """Which start an entity is of: another one may have begun in the same place, when the first one was gone."""
        ...

    def open(self, head: Item, host: Host) -> Program:
        """The program of one entity, not yet begun. Raises ``Blocked``."""
        ...

    async def taken_up(self, head: Item, host: Host) -> Program:
        """As ``open``, for a program that is to begin: what it needs besides its head and its journal is read."""
        ...

    def blocked_body(self, head: Item, reason: str, now: int) -> bytes:
        """As ``Program.blocked``, for an entity that this code cannot open."""
        ...

    def parked_body(self, head: Item, reason: str) -> bytes:
        """The head's body as it stays until the entity is resumed."""
        ...
