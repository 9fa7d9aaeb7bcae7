"""The ``Store`` port on one table of DynamoDB.

| verb | requests | units, items of up to 1 KB |
|---|---|---|
| ``write`` of one item | 1 | 1 written, also if it is refused |
| ``write`` of n items | 1, and 1 for each ``load`` | 2 n written, also if it is refused |
| a head enters the index ``heads``, if there is one | 0 | 1 written |
| a head enters or leaves the index ``due`` | 0 | 1 written, each; 2 if its due time moves |
| ``get`` | 1 | 1 read for each 4 KB |
| ``query`` | 1 per page of 1 MB | 1 read for each 4 KB of the page |
| ``due`` | 1, and 1 for each 100 heads | 1 or 2 read, and 1 per head |
| ``due``, if more than 200 heads are in the index | 1 for each part, and the same | a half read for each part … |
| the settings, every five minutes | 1 | 1 read |
| ``scan`` | 1 for each MB of the table | the whole table is read: 1 for each 4 KB of it |
| ``scan``, by the index | 16, and 1 for each 100 heads | a half for each 4 KB of entries, 8 at least, and 1 per head |
| ``partitions`` | 1 for each 1,000 items or MB | the same |
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from holdfast.backends.aws.due import Choose, DueIndex
from holdfast.backends.aws.enclosing import (
    NOT_IN_CALL,
    Action,
    Full,
    Gone,
    Known,
    actions_of,
    is_message,
    refusal,
    repeated,
    unknown,
    was_applied,
    would_hold,
)
from holdfast.backends.aws.failures import Cancelled, ConditionFailed
from holdfast.backends.aws.gathering import Gathering
from holdfast.backends.aws.inventory import list_partitions, scan_heads
from holdfast.backends.aws.lanes import Lanes
from holdfast.backends.aws.layout import Attributes, decode, encode
from holdfast.backends.aws.listing import is_cursor, kind_of, list_heads
from holdfast.backends.aws.meter import Meter
from holdfast.backends.aws.posting import Post, Posting, post_of
from holdfast.backends.aws.reading import Reader
from holdfast.backends.aws.requests import Writing, enters_index
from holdfast.backends.aws.settings import KnownSettings, Settings
from holdfast.backends.aws.transport import RequestRefused, Transport
from holdfast.clock import Clock, SystemClock
from holdfast.errors import InvalidInput, Refused, StoreUnavailable, StoreUnusable
from holdfast.ids import new_id
from holdfast.items import HEAD, Delete, Item, Put, Update, Write, place
from holdfast.ports import SALT_PARTITION, SALT_SORT, Page, Partitions

PAGE_ITEMS: Final = 1000
"""The most items one page holds, whatever limit the caller gives."""

NONCE_BYTES: Final = 8

MOST_TRIES: Final = 20

Loaded = dict[int, Item]
"""The items that a call loads, by the places of their writes."""

DEFAULTS: Final = Settings()


class DynamoStore:
    """Items in a table.

    Writes of one partition are applied in the order of their calls, also across several items; writes of different
    partitions concurrently. Reads are consistent, except that ``due`` may not see the latest writes yet.

    Without ``settings`` the defaults apply, whatever the table says.

    A write whose answer was lost is sent again, and recognises itself by its nonce. If another writer has changed the
    item meanwhile, its outcome is unknown, and it ends in ``StoreUnavailable``, like a write without an answer.

    Leased heads are due by their ``due_at``, which their owners leave unchanged. So ``due`` finds what a dead process
    has left behind, and a lease costs no more than its write. A head with nothing due is found by its next caller.
    """

    def __init__(
        self,
        transport: Transport,
        table: str,
        *,
        settings: KnownSettings | None = None,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self.table = table
        self._settings = settings
        self._clock: Clock = SystemClock() if settings is None else settings.clock
        self._on_close = on_close
        self._transport = transport
        self._lanes = Lanes()
        self._known = Known()
        self._reader = Reader(transport, table, self._known)
        self._posting = Posting(self._known, self._write_one, self._write)
        self._gathering = Gathering(self._lanes, self._post)
        self._due = DueIndex(transport, table, self._read_parts)
        self._closed = False

    @property
    def clock(self) -> Clock:
        """The clock of the home."""
        return self._clock

    @property
    def meter(self) -> Meter:
        """What this store has cost so far."""
        return self._transport.meter

    def write(self, *writes: Write) -> asyncio.Future[Sequence[Item | None]]:
        """See ``Store.write``. At most 100 items and 4 MB at once."""
        if self._closed:
            answer: asyncio.Future[Sequence[Item | None]] = asyncio.get_running_loop().create_future()
            answer.set_exception(_closed())
            return answer
        if (post := post_of(writes)) is not None:
            return self._gathering.add(post)
        partitions = {place(write)[0] for write in writes}
        self._gathering.close(partitions)
        return self._lanes.run(partitions, lambda: self._write(writes))

    async def _post(self, post: Post) -> None:
        await self._posting.post(post, asyncio.get_running_loop().time())

    async def _write_one(self, action: Action) -> Loaded | Refused | Full | Gone:
        """What is asked of one item, in a write of its own."""
        settings = await self._settings_now() if enters_index(action.write) else DEFAULTS
        return await self._one(action, self._writing(settings))

    def _writing(self, settings: Settings) -> Writing:
        token = new_id()
        nonce = bytes.fromhex(token)[:NONCE_BYTES]
        now_ms = self._clock.now_ms()
        return Writing(self.table, nonce, token, now_ms, settings.parts, self._streamed_until(settings))

    async def _write(self, writes: Sequence[Write]) -> Sequence[Item | None]:
        if len({place(write) for write in writes}) < len(writes):
            raise InvalidInput("the writes of one call must touch different items")
        if not writes:
            return ()
        settings = await self._settings_now() if any(map(enters_index, writes)) else DEFAULTS
        now = asyncio.get_running_loop().time()
        full = self._known.are_full((place(write)[0] for write in writes), now)
        looked: set[str] = set()
        for _ in range(MOST_TRIES):
            for partition in unknown(writes, self._known):
                looked.add(partition)
                await self._reader.look(partition, writes)
            if (repeat := repeated(writes, self._known)) is not None:
                raise await self._first_refusal(writes[: repeat.index]) or repeat
            actions = actions_of(writes, self._known, full)
            writing = self._writing(settings)
            match await (self._one(actions[0], writing) if len(actions) == 1 else self._several(actions, writing)):
                case Full(partition):
                    full.add(partition)
                    self._known.full(partition, now)
                case Gone(partition, sorts):
                    self._known.forget(partition, sorts)
                case Refused(index=index) as refused:
                    partition, sort = place(writes[index])
                    deletes = isinstance(writes[index], Delete) and is_message(sort)
                    if not deletes or refused.item is not None or partition in looked:
                        raise refused
                    self._known.forget(partition, (sort,))  # it may have come back, in the other form
                case loaded:
                    self._known.note(actions)
                    return [loaded.get(index) for index in range(len(writes))]
        raise StoreUnavailable(
            f"messages of {place(writes[0])[0]!r} kept changing while they were written: send it again"
        )

    async def _one(self, action: Action, writing: Writing) -> Loaded | Refused | Full | Gone:
        loads = isinstance(action.write, Update) and action.write.load
        try:
            answer = await self._transport.write(writing.one(action))
        except RequestRefused as refused:
            assert isinstance(refused.failure, ConditionFailed)
            there = refused.failure.there
            if _is_mine(there, writing.nonce) or (refused.doubtful and was_applied(action, there)):
                return {action.index: decode(there)} if loads and there is not None else {}
            if refused.doubtful:
                raise self._doubt() from None
            return refusal(action, there) or self._unexplained(action)
        return {action.index: decode(answer["Attributes"])} if loads else {}

    async def _several(self, actions: Sequence[Action], writing: Writing) -> Loaded | Refused | Full | Gone:
        try:
            # Sent again, it is recognised by its token for ten minutes: its answer is the answer to the first.
            await self._transport.write(writing.several(actions))
        except RequestRefused as refused:
            assert isinstance(refused.failure, Cancelled)
            reasons = zip(actions, refused.failure.reasons, strict=True)
            failed = [(action, each.there) for action, each in reasons if each.code == "ConditionalCheckFailed"]
            if not any(_is_mine(there, writing.nonce) for _, there in failed):
                found = [refusal(action, there) or self._unexplained(action) for action, there in failed]
                return min(found, key=lambda each: each.index if isinstance(each, Refused) else NOT_IN_CALL)
        return {
            action.index: await self._load(action.write, writing)
            for action in actions
            if isinstance(action.write, Update) and action.write.load
        }

    async def _first_refusal(self, writes: Sequence[Write]) -> Refused | None:
        """The first of these writes whose condition does not hold."""
        for index, write in enumerate(writes):
            there = await self._reader.item(*place(write))
            if not would_hold(write, there):
                return Refused(index, there)
        return None

    async def _load(self, write: Update, writing: Writing) -> Item:
        """The item after an update in a transaction: DynamoDB does not return it, so it is read."""
        there = await self._reader.stored(write.partition, write.sort)
        if there is None or not _is_mine(there, writing.nonce):
            raise StoreUnavailable(
                f"the write was applied, and {write.partition!r} / {write.sort!r} was changed by another writer before "
                "it could be read: send it again and read the item"
            )
        return decode(there)

    def _doubt(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"the answer of the table {self.table} to a write was lost, and the item has changed since: the write "
            "may or may not have been applied. Send it again and read the item"
        )

    def _unexplained(self, action: Action) -> Refused:
        raise StoreUnavailable(
            f"the table {self.table} refused a write of {place(action.write)}, and the item does not show why: send it "
            "again and read the item"
        )

    async def get(self, partition: str, sort: str = HEAD) -> Item | None:
        """See ``Store.get``."""
        self._check_open()
        return await self._reader.item(partition, sort)

    async def query(self, partition: str, *, prefix: str = "", after: str | None = None, limit: int = 1000) -> Page:
        """See ``Store.query``. A page ends at 1 MB, and the last one may be empty."""
        self._check_open()
        return await self._reader.query(partition, prefix, after, _page_items(limit))

    async def due(self, before: int, *, after: str | None = None, limit: int = 1000) -> Page:
        """See ``Store.due``. Without bodies; leased heads have a ``due_at`` too."""
        self._check_open()
        return await self._due.page(before, after, _page_items(limit))

    async def due_among(self, before: int, after: str | None, choose: Choose) -> Page:
        """Those of ``due`` that ``choose`` chooses by their entries in the index: no others are read."""
        self._check_open()
        return await self._due.page(before, after, PAGE_ITEMS, choose)

    async def _read_parts(self) -> Sequence[str]:
        return (await self._settings_now()).read_parts

    def _streamed_until(self, settings: Settings) -> int | None:
        return None if self._settings is None else settings.streamed_until(self._clock.now_ms())

    async def _settings_now(self) -> Settings:
        return DEFAULTS if self._settings is None else await self._settings.now()

    async def scan(self, prefix: str, *, status: str | None = None, after: str | None = None, limit: int = 100) -> Page:
        """See ``Store.scan``. It reads the whole table, journals included, at one unit for each 4 KB, and answers in no
        order; after ``holdfast aws settings --listing index`` it reads the index ``heads``, and what it answers.
        """
        self._check_open()
        wanted = _page_items(limit)
        if await self._is_indexed(prefix, after):
            return await list_heads(self._transport, self.table, prefix, status, after, wanted)
        return await scan_heads(self._transport, self.table, prefix, status, after, wanted)

    async def _is_indexed(self, prefix: str, after: str | None) -> bool:
        """Whether the next page comes from the index. The pages of one listing all come from one place."""
        if after is not None:
            return is_cursor(after)
        return kind_of(prefix) is not None and not await self.lists_by_scan()

    async def lists_by_scan(self) -> bool:
        """Whether ``scan`` reads the whole table."""
        return (await self._settings_now()).listing == "scan"

    async def adopt(self, salt: str) -> None:
        """See ``Inventory.adopt``."""
        await self.write(Put(Item(SALT_PARTITION, SALT_SORT, status=salt)))

    async def partitions(self, *, after: str | None = None, limit: int = PAGE_ITEMS) -> Partitions:
        """See ``Inventory.partitions``; in no order. It reads the whole table, as ``scan`` does."""
        self._check_open()
        return await list_partitions(self._transport, self.table, after, _page_items(limit))

    def check_fits(self, item: Item) -> None:
        """See ``Inventory.check_fits``: keys and sizes have limits here."""
        encode(item, bytes(NONCE_BYTES))

    def strangers(self) -> Sequence[str]:
        """See ``Inventory.strangers``: the table is ours alone."""
        return ()

    async def close(self) -> None:
        """See ``Store.close``."""
        if not self._closed:
            self._closed = True
            await self._lanes.empty()
            self._transport.close()
            if self._on_close is not None:
                self._on_close()

    def _check_open(self) -> None:
        if self._closed:
            raise _closed()


def _closed() -> StoreUnusable:
    return StoreUnusable("the store is closed; open the home again")


def _is_mine(there: Attributes | None, nonce: bytes) -> bool:
    return there is not None and "n" in there and bytes(there["n"]["B"]) == nonce


def _page_items(limit: int) -> int:
    return max(1, min(limit, PAGE_ITEMS))
