"""A home whose ports fail on demand: any home, seen through a ``FaultPlan``.

A write that fails here fails as in the world: it may or may not have been applied, and its sender cannot know. When the
process behind the home dies, its ports are dead at that instant: nothing it still does reaches the store, and no call
ever returns, so that not even a ``finally`` block can act. (Raising an error instead would run its handlers.)
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Final, TypeGuard, TypeVar

from msgspec.structs import replace

from holdfast.backends.memory.store import MemoryStore
from holdfast.errors import Refused
from holdfast.hints import Hint, News
from holdfast.items import ABSENT, EXISTS, HEAD, Delete, Item, Put, Update, Write, place
from holdfast.ports import Blobs, Doorbell, Home, Page, Sequencer, SqlCursor, SqlTransactions, Store
from holdfast.testing.faults import (
    DelayRing,
    DoubleRing,
    EarlyRing,
    FaultCounts,
    FaultPlan,
    LoseRing,
)
from holdfast.testing.faulty_bus import FaultyBus
from holdfast.testing.virtual_time import outside
from holdfast.testing.wire import Sturdy, Victim, Wire, pass_on

T = TypeVar("T")

SHOWN_SHARE: Final = 0.5
"""How many of the items that are written while a page is read are in it."""


class FaultyStore:
    """A store behind a ``Wire``. If it ``posts``, it puts messages first, and then wakes their owner by a write of its
    own (``Update.wakes``), as stores do where each write is paid for.
    """

    def __init__(self, store: Store, wire: Wire, *, posts: bool = False) -> None:
        self._store = store
        self._wire = wire
        self._posts = posts

    def write(self, *writes: Write) -> asyncio.Future[Sequence[Item | None]]:
        """See ``Store.write``."""
        puts, wake = writes[:-1], writes[-1] if writes else None
        if self._posts and puts and _comes_later(wake) and all(map(_is_new, puts)):
            sent = self._wire.send(lambda: self._store.write(*puts))
            answer: asyncio.Future[Sequence[Item | None]] = asyncio.get_running_loop().create_future()
            posting = asyncio.ensure_future(self._post(sent, puts, wake))  # it goes on if its caller goes away
            posting.add_done_callback(lambda done: pass_on(done, answer))
            return answer
        return self._wire.send(lambda: self._store.write(*writes))

    async def _post(self, sent: asyncio.Future[Any], puts: Sequence[Write], wake: Update) -> Sequence[Item | None]:
        await sent
        try:
            await self._wire.send(lambda: self._store.write(wake))
        except Refused as refused:
            if wake.lasting or await self._take_back(puts):
                raise Refused(len(puts), refused.item) from None
        return (None,) * (len(puts) + 1)

    async def _take_back(self, puts: Sequence[Write]) -> bool:
        """Whether some messages were still there."""
        taken = False
        for put in puts:
            gone = Delete(*place(put), EXISTS)
            with contextlib.suppress(Refused):  # its owner has taken it
                await self._wire.send(partial(self._store.write, gone))
                taken = True
        return taken

    async def get(self, partition: str, sort: str = HEAD) -> Item | None:
        """See ``Store.get``."""
        return await self._wire.read(lambda: self._store.get(partition, sort))

    async def query(self, partition: str, *, prefix: str = "", after: str | None = None, limit: int = 1000) -> Page:
        """See ``Store.query``."""
        return await self._wire.read(
            lambda: self._store.query(partition, prefix=prefix, after=after, limit=limit), _torn
        )

    async def due(self, before: int, *, after: str | None = None, limit: int = 1000) -> Page:
        """See ``Store.due``."""
        return await self._wire.read(lambda: self._store.due(before, after=after, limit=limit))

    async def scan(self, prefix: str, *, status: str | None = None, after: str | None = None, limit: int = 100) -> Page:
        """See ``Store.scan``."""
        return await self._wire.read(lambda: self._store.scan(prefix, status=status, after=after, limit=limit))

    async def close(self) -> None:
        """See ``Store.close``."""
        if not self._wire.victim.dead:
            await self._store.close()


class FaultyTransactions:
    """Transactional steps behind a ``Wire``: each counts as one write."""

    def __init__(self, transactions: SqlTransactions, wire: Wire) -> None:
        self._transactions = transactions
        self._wire = wire

    def transact(self, work: Callable[[SqlCursor], tuple[Sequence[Write], T]]) -> asyncio.Future[T]:
        """See ``SqlTransactions.transact``."""
        return self._wire.send(lambda: self._transactions.transact(work))


class FaultyBlobs:
    """Blobs behind a ``Wire``: to store one counts as a write."""

    def __init__(self, blobs: Blobs, wire: Wire) -> None:
        self._blobs = blobs
        self._wire = wire

    async def put(self, digest: str, data: bytes, keep_until: int) -> None:
        """See ``Blobs.put``."""
        await self._wire.send(lambda: self._blobs.put(digest, data, keep_until))

    async def read(self, digest: str) -> AsyncIterator[bytes]:
        """See ``Blobs.read``."""

        async def pieces() -> list[bytes]:
            return [piece async for piece in self._blobs.read(digest)]

        for piece in await self._wire.read(pieces):
            yield piece


class FaultySequencer:
    """Writes that are decided at their turn, behind a ``Wire``."""

    def __init__(self, sequencer: Sequencer, wire: Wire) -> None:
        self._sequencer = sequencer
        self._wire = wire

    def write_after(
        self, partition: str, sort: str, decide: Callable[[Item | None], Sequence[Write]]
    ) -> asyncio.Future[Sequence[Item | None]]:
        """See ``Sequencer.write_after``."""
        return self._wire.send(lambda: self._sequencer.write_after(partition, sort, decide))


class FaultyDoorbell:
    """A doorbell behind a ``Wire``: wake-ups get lost, come late or twice. It receives them in its own process."""

    def __init__(self, doorbell: Doorbell, wire: Wire) -> None:
        self._doorbell = doorbell
        self._wire = wire

    def ring(self, hint: str | News) -> None:
        """See ``Doorbell.ring``."""
        self._wire.victim.when_awake(lambda: self._leave(hint))

    def _leave(self, hint: str | News) -> None:
        fault = self._wire.plan.on_ring()
        if not (fault is None or isinstance(fault, EarlyRing)):
            self._wire.suffer(fault)
        match fault:
            case LoseRing():
                return
            case DelayRing(seconds):
                self._ring_later(seconds, hint)
            case DoubleRing(seconds):
                self._ring_later(seconds, hint)
                outside().run(self._doorbell.ring, hint)
            case EarlyRing() | None:  # it is for the present
                outside().run(self._doorbell.ring, hint)

    def _ring_later(self, seconds: float, hint: str | News) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(seconds, self._doorbell.ring, hint, context=outside())

    def listen(self, heard: Callable[[Hint], None]) -> None:
        """See ``Doorbell.listen``."""
        victim = self._wire.victim

        def pass_on(hint: Hint) -> None:
            asyncio.get_running_loop().call_soon(heard, hint, context=victim.context)

        self._doorbell.listen(pass_on)

    def alive(self, owner: str) -> bool:
        """See ``Doorbell.alive``."""
        return self._doorbell.alive(owner)

    def peers(self) -> frozenset[str]:
        """See ``Doorbell.peers``."""
        return self._doorbell.peers()

    async def close(self) -> None:
        """See ``Doorbell.close``."""
        if not self._wire.victim.dead:
            await self._doorbell.close()


def _comes_later(write: Write | None) -> TypeGuard[Update]:
    return isinstance(write, Update) and write.wakes and not write.whole


def _is_new(write: Write | None) -> bool:
    return isinstance(write, Put) and write.when == ABSENT and write.item.sort != HEAD


def _torn(at_first: Page, at_last: Page, seed: int) -> Page:
    """A page whose items were each read at a moment of its own: those that came meanwhile are in it or not."""
    if at_first.cursor is not None or at_last.cursor is not None:
        return at_last
    random, before = Random(seed), {item.sort for item in at_first.items}
    shown = (item for item in at_last.items if item.sort in before or random.random() < SHOWN_SHARE)
    return Page(tuple(shown))


def faulty_home(
    home: Home, plan: FaultPlan, *, counts: FaultCounts | None = None, victim: Victim | None = None
) -> Home:
    """``home`` as a process under ``plan`` sees it. ``counts`` has the faults that did happen.

    Without a ``victim`` the plan may hold faults of the store and the doorbell, but no crashes and no pauses.
    """
    return on_wire(home, Wire(plan, counts or FaultCounts(), victim or Sturdy()))


def on_wire(home: Home, wire: Wire) -> Home:
    """``home`` with every port behind ``wire``.

    A store in memory posts as one does where writes are paid for. Others post as they do.
    """
    posts = home.writes_are_paid and isinstance(home.store, MemoryStore)
    return replace(
        home,
        store=FaultyStore(home.store, wire, posts=posts),
        doorbell=FaultyDoorbell(home.doorbell, wire),
        blobs=None if home.blobs is None else FaultyBlobs(home.blobs, wire),
        transactions=None if home.transactions is None else FaultyTransactions(home.transactions, wire),
        sequencer=None if home.sequencer is None else FaultySequencer(home.sequencer, wire),
        bus=None if home.bus is None else FaultyBus(home.bus, wire),
    )
