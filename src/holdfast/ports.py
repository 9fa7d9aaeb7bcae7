"""The ports: what Holdfast requires of its stores. The whole contract of a backend is on this page.

A *home* is one set of backends, named by a URL. Features compose these few verbs and never add to them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from msgspec import Struct

from holdfast.bus import EventBus
from holdfast.finder import Finder
from holdfast.hints import Hint, News
from holdfast.items import HEAD, Bounds, Item, Write
from holdfast.letters import DeadLetters
from holdfast.watched import Metered, Services

T = TypeVar("T")


class Page(Struct, frozen=True):
    """Some items in order. For the next page pass ``cursor`` as ``after``; ``None`` is the end.

    ``whole``: none is missing that came before one of them, even if pages tear. ``behind`` counts those that follow.
    """

    items: tuple[Item, ...]
    cursor: str | None = None
    whole: bool = False
    behind: int = 0


class Store(Protocol):
    """Items under conditions. Every read sees every write that was acknowledged before it began."""

    def write(self, *writes: Write) -> Awaitable[Sequence[Item | None]]:
        """Apply all writes or none, durably, in the order of the calls; the writes of one call touch different items.

        A message (an item whose sort key begins with ``i#`` or ``o#``) is put by a call that writes its head too: a
        store may keep both in one place; see ``Update.wakes``. It goes when its head is deleted or replaced.
        Returns one entry per write: the item for an ``Update`` with ``load``, else ``None``. Raises ``Refused`` for
        the first write whose condition does not hold, and ``StoreUnavailable`` if the outcome is unknown.
        """
        ...

    async def get(self, partition: str, sort: str = HEAD) -> Item | None:
        """The item, or ``None``. The body is included; the caller judges expiry."""
        ...

    async def query(self, partition: str, *, prefix: str = "", after: str | None = None, limit: int = 1000) -> Page:
        """The items of one partition whose sort key begins with ``prefix``, in the order of their sort keys.

        ``after`` is any sort key; the cursor is the last item's.
        """
        ...

    async def due(self, before: int, *, after: str | None = None, limit: int = 1000) -> Page:
        """Heads that the sweep should check, earliest first: free ones with ``due_at`` at or before ``before``
        (milliseconds), leased ones with ``lease_until``. Leased heads whose ``due_at`` is later, or missing, may be
        left out: an entity's accepted work is in its ``due_at`` until its owner releases it (G1). The headers are
        enough: bodies may be left out.
        """
        ...

    async def scan(self, prefix: str, *, status: str | None = None, after: str | None = None, limit: int = 100) -> Page:
        """The heads whose partition begins with ``prefix``, newest first where the store knows the order."""
        ...

    async def close(self) -> None:
        """Finish the accepted writes and close everything."""
        ...


class WakeUp(Struct, frozen=True, omit_defaults=True, tag_field="holdfast", tag="ring"):
    """A wake-up as a message, for homes where it is one: check this entity, not before ``due_at`` (milliseconds).

    Its JSON is ``{"holdfast":"ring","partition":"wf#checkout#order-17"}``, with ``due_at`` if it is not 0.
    """

    partition: str
    due_at: int = 0


class Doorbell(Protocol):
    """Hints that an entity may have changed. A wake-up may be lost, late, early or doubled: the state is the truth."""

    def ring(self, hint: str | News) -> None:
        """Make every other process of this home, or one that is invoked, check the entity, or hear the news of it;
        returns at once.
        """
        ...

    def listen(self, heard: Callable[[Hint], None]) -> None:
        """Call ``heard`` on the event loop for each hint of another process."""
        ...

    def alive(self, owner: str) -> bool:
        """False only if the process that owns leases under this name is known to be gone."""
        ...

    def peers(self) -> frozenset[str]:
        """The owner names of the other open homes that this process can see."""
        ...

    async def close(self) -> None:
        """Stop listening; leases under this home's owner name now count as left by a dead process."""
        ...


BLOB_MARK: Final = b"\0"
"""A body that is a reference to a blob begins with this, and the blob's digest. No other body does."""

INLINE_BYTES: Final = 64 * 1024
"""The largest body that stays in its item, unless the home says otherwise."""


class Blobs(Protocol):
    """Bytes that are too large for an item, named by their digest. The content of a digest never changes."""

    async def put(self, digest: str, data: bytes, keep_until: int) -> None:
        """Store it, durably, if it is missing; keep it at least until then (milliseconds), even without references."""
        ...

    def read(self, digest: str) -> AsyncIterator[bytes]:
        """Its bytes, piece by piece; none if it is missing."""
        ...


class Seal(Protocol):
    """Turns bodies into stored bytes, and back; usually encryption. Both methods are called on the event loop."""

    def seal(self, data: bytes, place: bytes) -> bytes:
        """The bytes to store at ``place`` for ``data``. They may differ each time."""
        ...

    def unseal(self, sealed: bytes, place: bytes) -> bytes:
        """The data again; any error means that these bytes were not sealed for this place."""
        ...


class SqlCursor(Protocol):
    """The cursor of a transactional step: the user's own SQL in the transaction that records the step."""

    def execute(self, statement: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> Any:
        """Run one statement and return an iterable of rows."""
        ...


class SqlTransactions(Protocol):
    """An optional port of SQL stores: writes decided by SQL that commits with them."""

    def transact(self, work: Callable[[SqlCursor], tuple[Sequence[Write], T]]) -> Awaitable[T]:
        """Run ``work`` inside the store's next transaction and apply the writes it returns, all or nothing.

        ``work`` is synchronous and short: it runs while the store holds its write lock. If it raises, or a write is
        refused, everything it did is rolled back and the error reaches the caller.
        """
        ...


class Sequencer(Protocol):
    """An optional port of stores with one writer: writes that are decided when it is their turn."""

    def write_after(
        self, partition: str, sort: str, decide: Callable[[Item | None], Sequence[Write]]
    ) -> Awaitable[Sequence[Item | None]]:
        """Apply the writes that ``decide`` makes of an item as it is then: no other write comes between. Otherwise like
        ``write``.

        ``decide`` is synchronous and short, may run in another thread, and may be run again.
        """
        ...


LATE_MS: Final = 3_600_000
"""A head that has expired is absent at once, and is deleted this much later. A process that was stopped in its entity
and wakes up meanwhile finds its place taken, and what begins there continues its count of epochs and runs (G3)."""


class Purges(Protocol):
    """An optional port of stores that do not drop expired items, and blobs without references, by themselves."""

    async def purge(self, now: int, limit: int) -> int:
        """Delete up to ``limit`` heads with all their items, and other items, that expired at or before ``now``
        (milliseconds), and blobs without references whose time is over; returns how many.
        """
        ...


class Cleaner(Protocol):
    """An optional port of homes in which items and blobs are left over that neither store nor worker deletes."""

    async def clean(self, until: float) -> int:
        """Delete some of them, and stop at ``until``, in the loop's time; returns how many. Call it once an hour."""
        ...


class Census(Protocol):
    """An optional port of stores that find what is of one kind by an index, without reading the rest.

    The kind of a partition is the beginning of its name, up to and with the first ``#``.
    """

    async def count(self, kind: str) -> Mapping[str, int]:
        """The number of heads of a kind in each status; those that have expired are counted until they are purged."""
        ...

    async def heads(self, prefix: str, *, after: str | None = None, limit: int = 1000) -> Page:
        """The heads whose partition begins with ``prefix``, in the order of their names."""
        ...

    async def entries(self, prefix: str, *, after: str | None = None, limit: int = 1000) -> Page:
        """The items without heads of the partitions that begin with ``prefix``, in the order of partition and sort
        key.
        """
        ...


class Partitions(Struct, frozen=True):
    """Some names of partitions. For the next page pass ``cursor`` as ``after``; ``None`` is the end."""

    names: tuple[str, ...]
    cursor: str | None = None


class Inventory(Protocol):
    """An optional port of stores that can list all their items, for moving house."""

    async def partitions(self, *, after: str | None = None, limit: int = 1000) -> Partitions:
        """The partitions that hold an item, with a head or without, each once, oldest first where the store knows the
        order. A page may be short, or empty, although there are more.
        """
        ...

    def check_fits(self, item: Item) -> None:
        """Raise ``InvalidInput`` or ``PayloadTooLarge`` for an item of another home that this store could not store."""
        ...

    def strangers(self) -> Sequence[str]:
        """Data in the same place that are not Holdfast's, and so are not carried: a line each."""
        ...

    async def adopt(self, salt: str) -> None:
        """Use the salt of the home whose items were moved here, from the next opening on."""
        ...


AHEAD_MS: Final = 75_000
"""How far sweeps that call processes look ahead. They come once a minute, so each begins before the time ends that the
one before has looked at."""


class Invoker(Protocol):
    """An optional port of homes without a resident worker, where each wake-up is a billed message (G14).

    If it is present, the doorbell is used only for work that no process here does. Callers that wait for news poll.
    """

    def wake_at(self, partition: str, due_at: int) -> None:
        """Have a worker check the entity at a time (milliseconds) or a little later; returns at once. A hint too.

        A time that is far enough away for a sweep to see it coming (``AHEAD_MS``) may be left to the sweep.
        """
        ...

    async def call(self, wake_ups: Sequence[WakeUp]) -> Sequence[WakeUp]:
        """Have workers check these entities, each when it is due. Returns those for which none could be called."""
        ...

    async def sent(self) -> None:
        """Wait until all wake-ups have left this process, or have failed."""
        ...


class Postponed(Struct, frozen=True):
    """A message that was received from a queue, is not done, and is to be delivered again after ``seconds``."""

    queue: str
    receipt: str
    seconds: float


class Redelivery(Protocol):
    """The queues from which a function is handed messages."""

    async def postpone(self, messages: Sequence[Postponed], /) -> str:
        """Have messages delivered again at their time, not when their queue would do so by itself.

        A hint: what cannot be done is told as text, and empty text means that all of it was done.
        """
        ...


class Laggards(Protocol):
    """An optional port of homes whose accepted work a stream of changes shows first, and sweeps find only later."""

    async def keep(self, partitions: Sequence[str]) -> int:
        """Have sweeps find those of these entities for which there is still something to do; answers how many."""
        ...


class Sweeps(Protocol):
    """An optional port of homes whose workers divide among them what their sweeps look at."""

    async def due(self, before: int, *, after: str | None, code: str, has_room: bool, is_new: bool = False) -> Page:
        """The share of this worker in ``Store.due``. All workers with the same ``code`` together look at everything,
        each at least every few seconds. One without room has no share while others have room; new ones divide it alone.

        What a worker leaves behind that dies is found by the others within 20 seconds. A page may be short.
        """
        ...

    async def leave(self) -> None:
        """This worker looks no more: the others have its share at once."""
        ...


class Versions(Protocol):
    """An optional port of homes whose code is published in versions that stay, and can be invoked by name after newer
    ones have replaced them.
    """

    @property
    def own(self) -> str:
        """The name of the version that this process runs; empty if its code was not published."""
        ...

    async def call(self, version: str, wake_up: WakeUp) -> str | None:
        """Have that version check an entity: ``None`` once it will be invoked, perhaps twice; else why it cannot be.

        Raises ``StoreUnavailable`` if it may not have been invoked, and another attempt may succeed.
        """
        ...


SALT_PARTITION: Final = "home#"
SALT_SORT: Final = "salt"
"""The item whose status is the salt, if the store has no better place for it."""


def everything(_partition: str) -> bool:
    """The processes of most homes work on whatever they have code for."""
    return True


class Home(Struct, frozen=True):
    """One set of backends and this process's name in it. ``owner`` is unique per open home.

    With ``blobs``, bodies of more than ``inline_bytes`` go there; without, they stay in their items. If the store
    ``packs`` bodies, their packed size counts. ``bounds`` are the limits of one call of the store, if they are lower
    than any caller would need. ``writes_are_paid``: work that can wait shares a write; ``units_of`` an item are those
    of a write of it, if its size matters. ``reads_are_paid``: waiting callers poll seldom. ``pages_tear``: a page of a
    query is no snapshot, and may show a part of a commit. ``heads_go_first``: an expired head may be deleted before the
    other items of its partition. ``hears_peers``: the doorbell knows the home's other processes. ``salt`` was drawn
    when the home was created, and is unique; empty: read it when it is needed. ``token`` returns what a caller on this
    machine must send to the home's API, which only its owner can read. ``sealed``: bodies are stored sealed, so no
    other place, such as a log, may hold their values. ``serves`` says of a partition whether this process works on it,
    if it has the code. ``divide`` has the index of what is due in a number of parts, where it has parts; it may be
    called again and again. ``lists_by_scan`` says whether a listing reads all that is stored, where that is billed.
    """

    url: str
    owner: str
    store: Store
    doorbell: Doorbell
    transactions: SqlTransactions | None = None
    purges: Purges | None = None
    cleaner: Cleaner | None = None
    blobs: Blobs | None = None
    inline_bytes: int = INLINE_BYTES
    packs: bool = False
    sequencer: Sequencer | None = None
    inventory: Inventory | None = None
    census: Census | None = None
    finder: Finder | None = None
    invoker: Invoker | None = None
    metered: Metered | None = None
    versions: Versions | None = None
    laggards: Laggards | None = None
    sweeps: Sweeps | None = None
    redelivery: Redelivery | None = None
    services: Services | None = None
    dead_letters: DeadLetters | None = None
    writes_are_paid: bool = False
    units_of: Callable[[Item], int] | None = None
    reads_are_paid: bool = False
    pages_tear: bool = False
    heads_go_first: bool = False
    hears_peers: bool = True
    bounds: Bounds | None = None
    bus: EventBus | None = None
    salt: str = ""
    token: Callable[[], str] | None = None
    sealed: bool = False
    serves: Callable[[str], bool] = everything
    divide: Callable[[int], Awaitable[None]] | None = None
    lists_by_scan: Callable[[], Awaitable[bool]] | None = None
