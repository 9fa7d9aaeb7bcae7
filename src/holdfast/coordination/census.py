"""Finding what is of one kind in a home: by its census, and where it has none by reading the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.errors import InvalidInput
from holdfast.items import HEAD
from holdfast.ports import Page

if TYPE_CHECKING:
    from holdfast.items import Item
    from holdfast.ports import Home

MOST_READS: Final = 10
"""How often one page of a list asks the store. A page may therefore be short, or empty, with a cursor to go on from."""


def reads_all(home: Home) -> bool:
    """Whether what is neither an execution nor an actor is found only by reading all that the home holds, where that is
    billed.
    """
    return home.census is None and home.lists_by_scan is not None


def refuse_whole(home: Home, what: str, *, scan: bool, instead: str = "") -> None:
    """Raise ``InvalidInput`` if the list of ``what`` would read all that the home holds, which is billed, without
    ``scan``. ``instead`` is what else can be done.
    """
    if scan or not reads_all(home):
        return
    remedy = f"{instead}, or add" if instead else "Add"
    raise InvalidInput(
        f"a list of {what} would read the whole table, which is billed: a read unit for each 4 KB. {remedy} --scan to "
        "do that (scan=True in Python, ?scan=true over HTTP)"
    )


async def heads_named(home: Home, prefix: str, *, after: str | None, limit: int) -> Page:
    """Heads whose partition begins with ``prefix``, by name. Without a census they come in the order of a scan, which
    reads the whole table; a page may be short then.
    """
    if home.census is not None:
        return await home.census.heads(prefix, after=after, limit=limit)
    return await home.store.scan(prefix, after=after, limit=limit)


async def entries_named(home: Home, prefixes: tuple[str, ...], *, after: str | None, limit: int) -> Page:
    """Items without heads of the partitions that begin with one of ``prefixes``, of which a census takes one. Without a
    census the names of all partitions are read; a page may be short then, or hold a little more than ``limit``.
    """
    if home.census is not None:
        (prefix,) = prefixes
        return await home.census.entries(prefix, after=after, limit=limit)
    if home.inventory is None:
        return Page(())
    names = await home.inventory.partitions(after=after, limit=limit)
    found: list[Item] = []
    for name in names.names:
        if name.startswith(prefixes):
            page = await home.store.query(name)
            found += [item for item in page.items if item.sort != HEAD]
    return Page(tuple(found), names.cursor)
