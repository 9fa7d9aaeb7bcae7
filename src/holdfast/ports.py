"""The ports: what Holdfast asks of the world it runs on. The whole contract of a backend is on this page.

A *home* is one set of backends, named by a URL. Features compose these few verbs and never add to them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from msgspec import Struct

from holdfast.items import HEAD, Bounds, Item, Write

T = TypeVar("T")


class Page(Struct, frozen=True):
    """Some items in order, and where to go on: pass ``cursor`` as ``after``; ``None`` means that was the end."""

    items: tuple[Item, ...]
    cursor: str | None = None


class Store(Protocol):
    """Items under conditions. Every read sees every write that was acknowledged before it began."""

    def write(self, *writes: Write) -> Awaitable[Sequence[Item | None]]:
        """Apply all writes or none, durably, in the order of the calls; the writes of one call touch different items.

        Answers one entry per write: the item for an ``Update`` with ``load``, else ``None``. Raises ``Refused`` for
        the first write whose condition does not hold, and ``StoreUnavailable`` when the outcome is not known.
        """
        ...

    async def get(self, partition: str, sort: str = HEAD) -> Item | None:
        """The item there, or ``None``. The body is included; expiry is for the caller to judge."""
        ...

    async def query(self, partition: str, *, prefix: str = "", after: str | None = None, limit: int = 1000) -> Page:
        """The items of one partition whose sort key begins with ``prefix``, in the order of their sort keys.

        ``after`` is a sort key, of an item or not; the cursor is that of the last item.
        """
        ...

    async def due(self, before: int, *, after: str | None = None, limit: int = 1000) -> Page:
        """Heads somebody should look at, earliest first: free with ``due_at`` at or before ``before`` (milliseconds),
        leased with ``lease_until``. Of the leased ones those may be left out that have no ``due_at`` so early: what is
        accepted for an entity is to be in its ``due_at`` until its owner lets go of it (G1).
        It is their headers that say so: a body may be left out.
        """
        ...

    async def scan(self, prefix: str, *, status: str | None = None, after: str | None = None, limit: int = 100) -> Page:
        """The heads whose partition begins with ``prefix``, newest first where the store knows the order."""
        ...

    async def close(self) -> None:
        """Finish the writes already accepted and let go of everything."""
        ...


class Ring(Struct, frozen=True, omit_defaults=True, tag_field="holdfast", tag="ring"):
    """A ring as a message, for homes where it is one: look at this entity; not before ``due_at`` (milliseconds).

    >>> import msgspec
    >>> msgspec.json.encode(Ring("wf#checkout#order-17"))
    b'{"holdfast":"ring","partition":"wf#checkout#order-17"}'
    """

    partition: str
    due_at: int = 0


class Doorbell(Protocol):
    """Hints that an entity may have moved. A ring may be lost, late, early or doubled: state is truth."""

    def ring(self, partition: str) -> None:
        """Tell every other process of this home, or one that is called, to look at the entity; returns at once."""
        ...

    def listen(self, heard: Callable[[str | None], None]) -> None:
        """Call ``heard`` on the event loop for each ring of another process; ``None`` stands for "look at all"."""
        ...

    def alive(self, owner: str) -> bool:
        """False only if the process that owns leases under this name is known to be gone."""
        ...

    def peers(self) -> frozenset[str]:
        """The owner names of the other open homes that can be heard from here."""
        ...

    async def close(self) -> None:
        """Stop listening; leases under this home's owner name now count as left by a dead process."""
        ...


BLOB_MARK: Final = b"\0"
"""What a body begins with that is a reference to a blob: this, and the blob's digest. No other body does."""

INLINE_BYTES: Final = 64 * 1024
"""The largest body that stays in its item, unless the home says otherwise."""


class Blobs(Protocol):
    """Bytes that are too large for an item, named by their digest. What a digest is of never changes."""

    async def put(self, digest: str, data: bytes, keep_until: int) -> None:
        """Store it, durably, if it is not there; keep it at least until then (milliseconds) whatever refers to it."""
        ...

    def read(self, digest: str) -> AsyncIterator[bytes]:
        """Its bytes, piece by piece; none if it is not there."""
        ...


class Seal(Protocol):
    """What turns bodies into what is stored, and back; encryption, as a rule. Both are called on the event loop."""

    def seal(self, data: bytes, place: bytes) -> bytes:
        """What is stored at ``place`` for ``data``. It may differ each time."""
        ...

    def unseal(self, sealed: bytes, place: bytes) -> bytes:
        """The data again; any error says that these are not bytes that were sealed for this place."""
        ...


class SqlCursor(Protocol):
    """What a transactional step is given: the user's own SQL in the transaction that records the step."""

    def execute(self, statement: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> Any:
        """Run one statement and answer an iterable of rows."""
        ...


class SqlTransactions(Protocol):
    """An extra that only a SQL store has: writes decided by SQL that commits with them."""

    def transact(self, work: Callable[[SqlCursor], tuple[Sequence[Write], T]]) -> Awaitable[T]:
        """Run ``work`` inside the store's next transaction and apply the writes it answers, all or nothing.

        ``work`` is synchronous and short: it runs while the store holds its write lock. If it raises, or a write is
        refused, everything it did is rolled back and the error reaches the caller.
        """
        ...


class Sequencer(Protocol):
    """An extra of stores with one writer: writes that are decided when it is their turn."""

    def write_after(
        self, partition: str, sort: str, decide: Callable[[Item | None], Sequence[Write]]
    ) -> Awaitable[Sequence[Item | None]]:
        """Apply the writes that ``decide`` makes of an item as it is then: nothing comes between. Else as ``write``.

        ``decide`` is synchronous and short, may run in another thread, and may be run again.
        """
        ...


class Purges(Protocol):
    """An extra of stores that do not drop expired items, and blobs that nothing refers to, by themselves."""

    async def purge(self, now: int, limit: int) -> int:
        """Delete up to ``limit`` heads with all their items, and other items, that expired at or before ``now``
        (milliseconds), and blobs without references that need not be kept any more; answers how many.
        """
        ...


class Partitions(Struct, frozen=True):
    """Some names of partitions, and where to go on: pass ``cursor`` as ``after``; ``None`` means that was the end."""

    names: tuple[str, ...]
    cursor: str | None = None


class Inventory(Protocol):
    """An extra of stores that can name everything they hold, for moving house."""

    async def partitions(self, *, after: str | None = None, limit: int = 1000) -> Partitions:
        """The partitions that hold an item, with a head or without, each once, oldest first where the store knows the
        order. A page may be short, or empty, although there are more.
        """
        ...

    def check_fits(self, item: Item) -> None:
        """Raise ``InvalidInput`` or ``PayloadTooLarge`` for an item of another home that this store could not hold."""
        ...

    def strangers(self) -> Sequence[str]:
        """What lies in the same place and is none of Holdfast's, so that nobody carries it: a line each."""
        ...

    async def adopt(self, salt: str) -> None:
        """Have the salt of the home whose items were moved here, from the next opening on."""
        ...


class Seen(Struct, frozen=True):
    """What a cache holds under a key: the value, or ``None``; and how long, in milliseconds, it stays fresh (negative:
    for how long it has been stale) and is kept at all. ``may_fill``: whoever looked is to fetch a newer one.
    """

    value: bytes | None
    fresh_ms: int
    keep_ms: int
    may_fill: bool


class Summons(Protocol):
    """An extra of homes where nobody is there until he is called, and each ring is a message that is paid for (G14).

    Its presence says: a ring of the doorbell is for work that nobody here does. Who only waits for news looks by
    himself.
    """

    def ring_at(self, partition: str, due_at: int) -> None:
        """Have somebody look at the entity at a time (milliseconds) or a little later; returns at once. A hint, too."""
        ...

    async def sent(self) -> None:
        """Wait until all that was rung has left this process, or could not."""
        ...


class Used(Struct, frozen=True):
    """What a process has used of a store so far: units as they are paid for, 1 KB written, 4 KB read."""

    write_units: float = 0
    read_units: float = 0


class Metered(Struct, frozen=True):
    """An extra of homes whose use is paid for and watched: what was used so far, and under which name that is told."""

    namespace: str
    used: Callable[[], Used]


class Versions(Protocol):
    """An extra of homes whose code is published in versions that stay, and can be called by name when newer ones have
    taken their place.
    """

    @property
    def own(self) -> str:
        """The name of the version that this process runs; empty if what it runs was not published."""
        ...

    async def call(self, version: str, ring: Ring) -> str | None:
        """Have that version look at an entity: ``None`` once it will be called, perhaps twice; else why it cannot be.

        Raises ``StoreUnavailable`` if it may not have been called, and may be if it is tried again.
        """
        ...


class BusEvent(Struct, frozen=True):
    """An event that leaves the home: whose it is, what it is called, what it says, as a JSON object."""

    source: str
    type: str
    detail: bytes


class NotTaken(Struct, frozen=True):
    """The bus has not taken an event, or did not say so: it may take it when it is sent again."""

    reason: str


class Unfit(Struct, frozen=True):
    """The bus will never take an event as it is."""

    reason: str


class EventBus(Protocol):
    """An extra of homes from which other systems hear events: at least once, in no order."""

    async def put(self, events: Sequence[BusEvent]) -> Sequence[NotTaken | Unfit | None]:
        """Hand events over, however many. Answers for each, in their order: ``None`` if the bus has it durably.

        What the bus says, also that it is not there, is an answer and not an error.
        """
        ...


class Cache(Protocol):
    """Values that can be computed again, shared by processes, and never overtaken by a slow reader.

    Keys live in groups. Time is the cache's own. Whatever is here may be gone at any moment. Every method raises
    ``StoreUnavailable`` if the cache does not answer, and each may be repeated.
    """

    async def look(self, group: str, key: str, token: str, fill_ms: int) -> Seen:
        """What is there; if it is not fresh and nobody fills it, ``token`` is now the one that may, for ``fill_ms``."""
        ...

    async def fill(
        self, group: str, key: str, token: str, value: bytes, *, fresh_ms: int, keep_ms: int, version: int | None = None
    ) -> bool:
        """Store the value if ``token`` is still the one that may, and no higher version was asked for meanwhile."""
        ...

    async def give_up(self, group: str, key: str, token: str) -> None:
        """Let somebody else fill it."""
        ...

    async def forget(self, group: str, key: str, *, below: int | None = None, keep_ms: int = 0) -> None:
        """Drop the value, and refuse whoever is about to fill it; with ``below``, only what is of a lower version, now
        and for ``keep_ms``.
        """
        ...

    async def forget_all(self, group: str) -> None:
        """``forget`` every key of the group."""
        ...

    async def close(self) -> None:
        """Let go of it."""
        ...


class SessionStore(Protocol):
    """Sessions: named fields that expire together, ``idle_ms`` after they were last looked at, and by ``lifetime_ms``
    after they began. Keys are digests of unguessable ids, so nobody else has one. Each method may be repeated.
    """

    async def begin(self, key: str, fields: Mapping[str, bytes], *, idle_ms: int, lifetime_ms: int) -> None:
        """Begin a session under a fresh key."""
        ...

    async def look(self, key: str, idle_ms: int) -> Mapping[str, bytes] | None:
        """Its fields, if it is there, and let it last from now on; it may lose up to a tenth of ``idle_ms``."""
        ...

    async def change(self, key: str, fields: Mapping[str, bytes], without: Sequence[str] = ()) -> bool:
        """Set and remove fields, and leave the rest, and its end, as they are; false if it is not there."""
        ...

    async def move(self, key: str, new_key: str) -> bool:
        """Give it another key, fresh too, and leave the rest as it is; false if it is not there."""
        ...

    async def end(self, key: str) -> None:
        """Remove it."""
        ...


class Shared(Struct, frozen=True):
    """What processes share besides their home. Either may be missing."""

    cache: Cache | None = None
    sessions: SessionStore | None = None


SALT_PARTITION: Final = "home#"
SALT_SORT: Final = "salt"
"""Where the salt is, as the status of an item, if the store has no better place for it."""


class Home(Struct, frozen=True):
    """One set of backends and this process's name in it. ``owner`` is unique per open home.

    With ``blobs``, bodies of more than ``inline_bytes`` go there; without, they stay in their items. If the store
    ``packs`` bodies, it is their size when they are packed that counts. ``bounds`` is what
    one call of the store takes, if that is less than anybody would ask of it. ``writes_are_paid``: what can wait shares
    a write. ``reads_are_paid``: who waits looks seldom. ``hears_peers``: the doorbell knows the home's other processes.
    ``salt`` was drawn when the home was made, and is no other home's; empty: ask for it when it is needed.
    ``token`` answers what a caller on this machine has to send to the home's API, and only its owner can read.
    """

    url: str
    owner: str
    store: Store
    doorbell: Doorbell
    transactions: SqlTransactions | None = None
    purges: Purges | None = None
    blobs: Blobs | None = None
    inline_bytes: int = INLINE_BYTES
    packs: bool = False
    sequencer: Sequencer | None = None
    inventory: Inventory | None = None
    summons: Summons | None = None
    metered: Metered | None = None
    versions: Versions | None = None
    writes_are_paid: bool = False
    reads_are_paid: bool = False
    hears_peers: bool = True
    bounds: Bounds | None = None
    bus: EventBus | None = None
    salt: str = ""
    token: Callable[[], str] | None = None
