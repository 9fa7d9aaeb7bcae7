"""The journal of one entity: segments appended at the next free place, each under its writer's epoch (DESIGN idea 5).

A segment is written once, at position n, if nothing is there. A writer that finds its place taken by a newer epoch
has been fenced out; one that finds an older owner's segment adopts it and goes on behind it, which only happens while
taking over.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from operator import eq
from typing import Final

from holdfast.coordination.lease import Fenced
from holdfast.errors import Refused
from holdfast.items import ABSENT, Bounds, Item, OwnerIs, Put, Update, Write, parts_of
from holdfast.persist import write_until_known
from holdfast.ports import Store
from holdfast.replay.entries import (
    Aside,
    Entry,
    Note,
    Parked,
    Pending,
    Resumed,
    TakenOver,
    deaths_in_a_row,
    decode_entries,
    encode_entries,
    joined,
    standing,
)

SEGMENT_PREFIX: Final = "j#"
FIRST_EPOCH: Final = 1
"""The epoch of an entity's first owner: no process has written a journal before. One that is created with a journal is
created with this epoch."""

LONGEST_SEGMENT_ENTRIES: Final = 2_000
"""More than this go into several segments; a torn series is only an earlier checkpoint."""

MOST_NOTES_IN_HEAD: Final = 32
"""More operations and waits than this are noted in a segment: a head is written often."""


def segment_sort(run: int, position: int) -> str:
    """The sort key of a segment: runs apart, positions in order."""
    return f"{SEGMENT_PREFIX}{run:06d}#{position:010d}"


class Journal:
    """What is recorded of one run, and what is about to be.

    ``record`` only buffers; ``commit`` makes the buffer durable. ``entries`` are those loaded from the store.
    ``held`` are behind the last segment, in the head, which has kept them since the last rest: the next segment brings
    them along. ``told`` is called with what a segment has made durable.

    ``deaths`` is how many processes in a row have died of it, as far as is recorded. ``keeps_aside``: a retry has kept
    back what was finished, so that ``count`` is not what another process will count.
    """

    __slots__ = (
        "_bounds",
        "_owner",
        "_pending",
        "_resumed",
        "_run",
        "_store",
        "buffer",
        "count",
        "deaths",
        "entries",
        "epoch",
        "held",
        "keeps_aside",
        "partition",
        "position",
        "told",
    )

    def __init__(
        self, store: Store, partition: str, run: int, owner: str, epoch: int, bounds: Bounds | None = None
    ) -> None:
        self._store = store
        self.partition = partition
        self._run = run
        self._owner = owner
        self._bounds = bounds
        self.epoch = epoch
        self.position = 0
        self.count = 0
        self.deaths = 0
        self.keeps_aside = False
        self.entries: Sequence[Entry] = ()
        self.buffer: list[Entry] | tuple[()] = ()
        self.held: tuple[Entry, ...] = ()
        self.told: Callable[[Sequence[Entry]], None] | None = None
        self._pending: tuple[Pending, ...] = ()
        self._resumed: tuple[Resumed, ...] = ()

    async def load(self) -> None:
        """Read every segment of the run, once. Raises ``Fenced`` if one of them has a newer writer: behind it, even the
        empty segment that fences older owners would take a place that is not ours.

        It ends where a segment is missing. A page that is no snapshot may show one that a fenced owner still writes,
        and not the one before: ``fence`` adopts both, each at its place.
        """
        after: str | None = None
        loaded: list[Entry] = []
        while True:
            page = await self._store.query(self.partition, prefix=f"{SEGMENT_PREFIX}{self._run:06d}#", after=after)
            for item in page.items:
                if item.sort != segment_sort(self._run, self.position):
                    break
                if item.epoch > self.epoch:
                    raise Fenced(f"{self.partition} is owned under epoch {item.epoch}")
                loaded += decode_entries(item.body)
                self.position += 1
            if (after := page.cursor) is None:
                break
        self._loaded(loaded)

    def _loaded(self, entries: list[Entry]) -> None:
        self.deaths = deaths_in_a_row(entries, self.deaths)
        self.entries = standing([*self.entries, *entries])
        self.count = len(self.entries)
        self.keeps_aside = Aside in map(type, self.entries)

    async def fence(self, died_by: int | None = None) -> None:
        """Claim the next place, before anything else is done after a takeover (G3).

        The segment is empty, unless the last owner's process died: then it says so, and that it was noticed at
        ``died_by`` (milliseconds).
        """
        entries = () if died_by is None else (TakenOver(died_by),)
        while True:
            try:
                await self._append(entries)
            except Refused as refused:
                assert refused.item is not None
                if refused.item.epoch >= self.epoch:
                    raise Fenced(f"{self.partition} is owned under epoch {refused.item.epoch}") from None
                self._loaded(decode_entries(refused.item.body))
                self.position += 1
            else:
                self.position += 1
                self.deaths = deaths_in_a_row(entries, self.deaths)
                return

    def record(self, entry: Entry) -> None:
        """Remember an entry; it becomes durable with the next commit."""
        self.buffer = self.buffer or []
        self.buffer.append(entry)

    # ── Notes: they become durable with what is written anyway, and nothing waits for them ──────────────────────────

    def note(self, entry: Note) -> None:
        """Remember what comes before the next entry and is no reason to write."""
        match entry:
            case Pending():
                self._pending += (entry,)
            case Resumed():
                self._resumed += (entry,)

    def unwritten(self) -> tuple[Entry, ...]:
        """What no segment holds, in order: what the head has held since the last rest, and all that came after it."""
        return (*self.held, *self._resumed, *self.buffer, *self._joined())

    def notes(self) -> tuple[Entry, ...]:
        """The same without what is recorded: it is to be written by itself."""
        return (*self.held, *self._resumed, *self._joined())

    def tail(self) -> Sequence[Entry]:
        """The same without notes, which say nothing once the entity has ended."""
        if not self.held:
            return self.buffer
        return [*(entry for entry in self.held if not isinstance(entry, Note)), *self.buffer]

    def _joined(self) -> tuple[Pending, ...]:
        if len(self._pending) > 1:
            self._pending = (joined(self._pending),)
        return self._pending

    @property
    def has_many_notes(self) -> bool:
        """Whether they are too many to ride in the head."""
        notes = (each for each in (*self.held, *self._pending) if isinstance(each, Pending))
        return sum(len(each.operations) + len(each.waits) for each in notes) > MOST_NOTES_IN_HEAD

    def record_notes(self) -> None:
        """Make entries of the notes, which the next commit writes: what they say of times comes before all others."""
        self.buffer = [*self._resumed, *self.buffer, *self._pending]
        self._pending = self._resumed = ()

    def rested(self) -> None:
        """The entity was released, and its head holds what is ``unwritten`` now."""
        self.held, self.buffer = self.unwritten(), ()
        self._pending = self._resumed = ()

    async def commit(self, *others: Write) -> None:
        """Make everything recorded so far durable, with ``others`` in the same write. Raises ``Fenced``.

        Of more ``others`` than one write takes, the last come behind it: a message whose receipt is still missing is
        recognised when it comes again.
        """
        parts = list(parts_of(others, self._bounds)) if others else []
        if self.buffer and (self.held or self._pending or self._resumed):
            self.record_notes()
            self.buffer, self.held = [*self.held, *self.buffer], ()
        while self.buffer:
            entries = self.buffer[:LONGEST_SEGMENT_ENTRIES]
            self.buffer = self.buffer[LONGEST_SEGMENT_ENTRIES:] or ()
            try:
                await self._append(entries, *(() if self.buffer or not parts else parts.pop(0)))
            except Refused as refused:
                raise Fenced(f"{self.partition}: {refused}") from None
            self._appended(entries)
        for part in parts:
            await self._write_as_owner(*part)

    async def record_with(self, entry: Entry, *claim: Write) -> None:
        """Make one more entry durable behind all others, and what was noted with it, if the ``claim`` in the same write
        is not refused. Raises ``Refused`` if it is, and ``Fenced``.
        """
        entries = [*self.held, *self._resumed, entry, *self._pending]
        try:
            await self._append(entries, *claim)
        except Refused as refused:
            if refused.index > 0:
                raise
            raise Fenced(f"{self.partition}: {refused}") from None
        self.held = ()
        self._pending = self._resumed = ()
        self._appended(entries)

    def _appended(self, entries: Sequence[Entry]) -> None:
        self.position += 1
        self.count += len(entries)
        if self.told is not None:
            self.told(entries)
        if self.deaths:
            self.deaths = deaths_in_a_row(entries, self.deaths)

    async def park(self, at: int, left: Update) -> None:
        """Leave the entity as ``left`` says, and let deaths count from zero after this. Raises ``Fenced``."""
        try:
            await self._append((Parked(at),), left)
        except Refused as refused:
            raise Fenced(f"{self.partition}: {refused}") from None
        self.position += 1

    def next_segment(self, entry: Entry) -> Put:
        """The write that appends an entry, with what the head holds before it; ``appended`` once it is applied."""
        return self.segment([*self.held, entry])

    def segment(self, entries: Sequence[Entry]) -> Put:
        """The write that puts ``entries`` into the next place."""
        item = Item(
            partition=self.partition,
            sort=segment_sort(self._run, self.position),
            owner=self._owner,
            epoch=self.epoch,
            body=encode_entries(entries),
        )
        return Put(item, ABSENT)

    def appended(self, entry: Entry) -> None:
        """``next_segment`` was written for us."""
        entries, self.held = [*self.held, entry], ()
        self._appended(entries)

    def _append(self, entries: Sequence[Entry], *others: Write) -> Awaitable[None]:
        put = self.segment(entries)
        return write_until_known(self._store, put, *others, ours=partial(eq, put.item))

    async def _write_as_owner(self, *others: Write) -> None:
        """Without a segment to be fenced by, the writes depend on the head (G3)."""
        still_ours = Update(partition=self.partition, when=OwnerIs(self._owner, self.epoch))
        try:
            await write_until_known(self._store, still_ours, *others, ours=lambda _there: False)
        except Refused as refused:
            raise Fenced(f"{self.partition}: {refused}") from None
