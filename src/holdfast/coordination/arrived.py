"""What has arrived in an inbox or an outbox, without gaps: no entry is taken before an earlier one of its sender (G6).

A page of some stores is no snapshot: each entry is read at its own moment. Such a page may show the second entry of a
commit and not the first, or the later of two writes that both came while it was read (DynamoDB: "Query" next to a
transaction is read-committed, item by item; developer guide, "Isolation levels of transactions").

So nothing is taken that one reading shows, unless its page is whole. All that was committed before an entry of a first
reading is seen by a second one that begins when the first has ended. Of the second reading, an entry is taken if the
first has shown it, or a later one of its sender.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Sequence

from holdfast.items import Item
from holdfast.paging import PAGE_ITEMS, Pages, items
from holdfast.ports import Home, Page


async def arrived(home: Home, partition: str, prefix: str, limit: int | None = None) -> list[Item]:
    """The entries whose sort keys begin with ``prefix``, in their order; the first ``limit`` of them, or all.

    Their keys end with ``#`` and their sender, as those of ``inbox_sort``. Empty only if there are none.
    """
    return list((await _without_gaps(home, lambda: _reading(home, partition, prefix, limit))).items)


async def arrived_next(home: Home, partition: str, prefix: str, known: Container[str]) -> tuple[Sequence[Item], bool]:
    """The first of these entries, as far as the first page on which one is not ``known``; and whether there may be
    more. So the next few of many are found without a look at all of them.
    """
    page = await _without_gaps(home, lambda: _as_far_as_new(home, partition, prefix, known))
    return page.items, page.cursor is not None


async def _without_gaps(home: Home, read: Callable[[], Awaitable[Page]]) -> Page:
    while True:
        seen = await read()
        if seen.whole or not (home.pages_tear and seen.items):
            return seen
        newest = {_sender(item): item.sort for item in seen.items}
        again = await read()
        if taken := tuple(item for item in again.items if item.sort <= newest.get(_sender(item), "")):
            return Page(taken, seen.cursor or again.cursor)


async def _reading(home: Home, partition: str, prefix: str, limit: int | None) -> Page:
    """The first page, with what is on those behind it unless there is a ``limit``."""
    page = await home.store.query(partition, prefix=prefix, limit=PAGE_ITEMS if limit is None else limit)
    if limit is not None or page.cursor is None:
        return page
    others = items(home.store, partition, prefix=prefix, after=page.cursor)
    return Page((*page.items, *[item async for item in others]))


async def _as_far_as_new(home: Home, partition: str, prefix: str, known: Container[str]) -> Page:
    found: list[Item] = []
    page = Page(())
    async for page in Pages(lambda after: home.store.query(partition, prefix=prefix, after=after)):
        found += page.items
        if any(item.sort not in known for item in page.items):
            break
    return page if page.whole else Page(tuple(found), page.cursor)


def _sender(item: Item) -> str:
    return item.sort.rpartition("#")[2]
