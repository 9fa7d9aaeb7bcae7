"""Everything that a query finds, page after page. A page is asked for when all of the one before it has been taken.

These are no generators: one that is left in its middle would be closed by the event loop, in a task of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Generic, Protocol, Self, TypeVar

from holdfast.errors import InvalidInput
from holdfast.items import Item
from holdfast.ports import Home, Page, Store

PAGE_ITEMS = 1000


async def refuse_scan(home: Home, *, scan: bool) -> None:
    """Raise ``InvalidInput`` if a listing would read all that the home holds, which is billed, without ``scan``."""
    if scan or home.lists_by_scan is None or not await home.lists_by_scan():
        return
    raise InvalidInput(
        "the list would read the whole table, which is billed: a read unit for each 4 KB. Add --scan to do that, or "
        "scan=True in Python and ?scan=true over HTTP; or have lists read an index, a write unit for each new entity: "
        "deploy with --listing, then holdfast aws settings HOME --listing index"
    )


class Paged(Protocol):
    """Some of what there is. ``cursor`` is where to continue; ``None`` is the end."""

    @property
    def cursor(self) -> str | None: ...


P = TypeVar("P", bound=Paged)


class Pages(Generic[P]):
    """Each page that ``read`` answers, the first one behind ``after``."""

    __slots__ = ("_after", "_ended", "_read")

    def __init__(self, read: Callable[[str | None], Awaitable[P]], after: str | None = None) -> None:
        self._read = read
        self._after = after
        self._ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> P:
        if self._ended:
            raise StopAsyncIteration
        page = await self._read(self._after)
        self._after = page.cursor
        self._ended = page.cursor is None
        return page


class Items:
    """The items on these pages, one by one."""

    __slots__ = ("_of_page", "_pages")

    def __init__(self, read: Callable[[str | None], Awaitable[Page]], after: str | None = None) -> None:
        self._pages = Pages(read, after)
        self._of_page: Iterator[Item] = iter(())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        while (item := next(self._of_page, None)) is None:
            self._of_page = iter((await anext(self._pages)).items)
        return item


def items(
    store: Store, partition: str, *, prefix: str = "", after: str | None = None, limit: int = PAGE_ITEMS
) -> AsyncIterator[Item]:
    """The items of a partition whose sort keys begin with ``prefix``, in their order; ``limit`` on a page."""
    return Items(lambda behind: store.query(partition, prefix=prefix, after=behind, limit=limit), after)


def heads(store: Store, prefix: str, *, status: str | None = None, limit: int = PAGE_ITEMS) -> AsyncIterator[Item]:
    """The heads of the partitions that begin with ``prefix``, newest first; ``limit`` on a page."""
    return Items(lambda behind: store.scan(prefix, status=status, after=behind, limit=limit))


def entry_cursor(item: Item) -> str:
    """The cursor behind an item in the order of partition and sort key."""
    return f"{len(item.partition)}:{item.partition}{item.sort}"


def entry_place(cursor: str) -> tuple[str, str]:
    """The partition and the sort key of such a cursor. Raises ``InvalidInput``."""
    digits, _, place = cursor.partition(":")
    if not (digits.isascii() and digits.isdigit() and 0 < int(digits[:9]) < len(place)):
        raise InvalidInput(f"{cursor!r} is not a cursor of this store; pass the cursor of a page")
    return place[: int(digits[:9])], place[int(digits[:9]) :]
