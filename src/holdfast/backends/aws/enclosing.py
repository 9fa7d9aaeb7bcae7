"""Small messages are enclosed in the head that they are for, as attributes of its item.

A message and the wake-up of its receiver are then one single write: half the units of a transaction, and two senders
never cancel each other ("TransactWriteItems" rejects overlapping transactions on one item). The attribute has the sort
key of the message as its name; ``lc`` counts the bytes of all that are enclosed.

When they are many, messages go into a parcel (``posting``), or become items of their own, in a transaction with the
head. There ``si`` or ``so`` counts such writes, by the prefix of the message. While that is there, nothing more of the
prefix is enclosed: a message that comes again finds its place taken in either form. A reader looks at the head first
and at the items after it, so it misses none that was sent before one that it sees in the head. If it finds no such
items, it takes away the count that it has seen; a write that has come since has changed it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from operator import attrgetter, itemgetter
from typing import Final

from msgspec import Struct

from holdfast.backends.aws.layout import Attributes, decode, number
from holdfast.backends.aws.parcels import Parcel
from holdfast.bounded import Bounded
from holdfast.errors import Refused
from holdfast.items import ABSENT, EXISTS, HEAD, Delete, Item, Put, Update, Write, holds, place
from holdfast.ports import Page

PREFIXES: Final = ("i#", "o#")
"""The sort keys of messages: those that have come for an entity, and those that it sends."""

LARGEST_MESSAGE_BYTES: Final = 2 * 1024
"""A larger message is an item of its own: every write of a head is billed for all of it."""

MOST_BYTES: Final = 8 * 1024
"""Above this many enclosed bytes, further messages are items of their own."""

MOST_REMEMBERED: Final = 50_000
MOST_PARCELS: Final = 2_000

FULL_SECONDS: Final = 1.0

SEPARATE: Final = 0


class Action(Struct, frozen=True):
    """What is asked of one item: its write, the messages that it encloses, and the enclosed ones that it removes.

    ``index`` is the place of the write in the call, and each message has its own; ``NOT_IN_CALL`` if only messages of
    this head are in it. ``separate`` are the messages for it that become items. ``freed`` are the bytes of those
    removed. If the item is a parcel, ``taken`` are the messages that the write takes out of it.
    """

    write: Write
    index: int
    adds: tuple[tuple[int, Item], ...] = ()
    separate: tuple[tuple[int, Item], ...] = ()
    removes: tuple[tuple[int, str], ...] = ()
    freed: int = 0
    taken: tuple[str, ...] = ()

    @property
    def added(self) -> int:
        """The bytes that are enclosed."""
        return sum(entry_bytes(item.sort, item.body) for _, item in self.adds)

    @property
    def counted(self) -> dict[str, int]:
        """What is added to the counts of the head."""
        counts = {"lc": self.added - self.freed} | {count_of(item.sort): 1 for _, item in self.separate}
        return {name: count for name, count in counts.items() if count}


NOT_IN_CALL: Final = -1


def is_message(sort: str) -> bool:
    """Whether an item is a message, and so perhaps enclosed in its head."""
    return sort.startswith(PREFIXES)


def count_of(sort: str) -> str:
    """The attribute of a head that counts the writes of messages that became items, with the prefix of this one."""
    return f"s{sort[0]}"


def may_be_messages(prefix: str) -> bool:
    """Whether messages may be among the items whose sort keys begin with ``prefix``."""
    return any(prefix.startswith(each) or each.startswith(prefix) for each in PREFIXES)


def entry_bytes(sort: str, body: bytes) -> int:
    """The bytes that a message adds to the item of its head."""
    return len(sort.encode()) + len(body)


def enclosed_in(head: Attributes) -> list[Item]:
    """The messages that are enclosed in a head, in their order."""
    partition = head["p"]["S"]
    return [Item(partition, name, body=bytes(head[name]["B"])) for name in sorted(head) if is_message(name)]


class Known:
    """Where messages are, as far as this process has seen: the bytes of each that is enclosed in its head,
    ``SEPARATE``, or the sort key of the parcel that it is in.

    A message never moves from one of these to another, so this is never wrong for one that is still there. Parcels only
    become smaller: a write that takes out all that is known to be in one deletes it.
    """

    def __init__(self) -> None:
        self._where = Bounded[tuple[str, str], int | str](MOST_REMEMBERED)
        self._parcels = Bounded[tuple[str, str], Parcel](MOST_PARCELS)
        self._full_until = Bounded[str, float](MOST_REMEMBERED)

    def full(self, partition: str, now: float) -> None:
        """A head encloses nothing more, at this time (seconds): for a moment it is not even asked."""
        self._full_until[partition] = now + FULL_SECONDS

    def are_full(self, partitions: Iterable[str], now: float) -> set[str]:
        """Those of these heads that enclosed nothing more a moment ago."""
        return {each for each in partitions if self._full_until.get(each, now) > now}

    def head(self, head: Attributes) -> list[Item]:
        """A head was read. Answers what is enclosed in it."""
        found = enclosed_in(head)
        for item in found:
            self.enclosed(item)
        return found

    def enclosed(self, item: Item) -> None:
        """A message is enclosed."""
        self._where[item.partition, item.sort] = entry_bytes(item.sort, item.body)

    def separate(self, partition: str, sort: str) -> None:
        """A message is an item of its own, or is not there."""
        if is_message(sort):
            self._where[partition, sort] = SEPARATE

    def parcel(self, partition: str, parcel: Parcel) -> None:
        """A parcel was read."""
        self._parcels[partition, parcel.sort] = parcel
        self.may_be_in(partition, parcel.sort, parcel.bodies)

    def may_be_in(self, partition: str, parcel: str, sorts: Iterable[str]) -> None:
        """These messages are in a parcel of which nothing else is known; if it is there."""
        for sort in sorts:
            self._where[partition, sort] = parcel

    def parcel_with(self, partition: str, sort: str) -> Parcel | None:
        """The parcel that a message is in, as it was last seen; ``None`` if it is in none, or that is not known."""
        if not isinstance(within := self._where.get((partition, sort)), str):
            return None
        found = self._parcels.use((partition, within))
        return found if found is not None and sort in found.bodies else None

    def parcels_with(self, partition: str, sorts: Iterable[str]) -> set[str]:
        """The sort keys of the parcels that these messages are in, as far as they are in one."""
        found = (self._where.get((partition, sort)) for sort in sorts)
        return {within for within in found if isinstance(within, str)}

    def is_remembered(self, partition: str, sort: str) -> bool:
        """Whether this process has put a message there, or has seen it."""
        return (partition, sort) in self._where

    def forget(self, partition: str, sorts: Sequence[str]) -> None:
        """It is not known any more where these are."""
        for sort in sorts:
            self._where.pop((partition, sort), None)

    def note(self, actions: Sequence[Action]) -> None:
        """These were done."""
        for action in actions:
            partition, sort = place(action.write)
            for _, item in action.adds:
                self.enclosed(item)
            self.forget(partition, [gone for _, gone in action.removes])
            if action.taken:
                self._took(partition, sort, action.taken)
            if is_message(sort) and isinstance(action.write, Put):
                self.separate(partition, sort)

    def _took(self, partition: str, parcel: str, sorts: Container[str]) -> None:
        if (before := self._parcels.pop((partition, parcel), None)) is not None:
            self.forget(partition, [sort for sort in before.bodies if sort in sorts])
            self._parcels[partition, parcel] = before.after_taking(sorts)

    def size(self, partition: str, sort: str) -> int | None:
        """The bytes of an enclosed message; ``None`` if it is not known where it is."""
        found = self._where.get((partition, sort))
        if isinstance(found, str):
            return None if self.parcel_with(partition, sort) is None else SEPARATE
        return found

    def is_lost(self, partition: str, sort: str) -> bool:
        """Whether a message may be in a parcel that is not known."""
        return isinstance(self._where.get((partition, sort)), str) and self.parcel_with(partition, sort) is None


def unknown(writes: Sequence[Write], known: Known) -> set[str]:
    """The partitions with messages of which it has to be known where they are: those that are deleted, and those that
    are put again after they may have come in a parcel.
    """
    found: set[str] = set()
    for write in writes:
        partition, sort = place(write)
        if is_message(sort) and (
            known.size(partition, sort) is None if isinstance(write, Delete) else known.is_lost(partition, sort)
        ):
            found.add(partition)
    return found


def repeated(writes: Sequence[Write], known: Known) -> Refused | None:
    """Why a message is not put once more: it is in a parcel."""
    for index, write in enumerate(writes):
        if isinstance(write, Put) and (parcel := known.parcel_with(*place(write))) is not None:
            return Refused(index, Item(*place(write), body=parcel.bodies[write.item.sort]))
    return None


def actions_of(writes: Sequence[Write], known: Known, full: Container[str]) -> list[Action]:
    """The writes of a call as what is asked of each item. The heads of ``full`` enclose no more messages."""
    heads = {place(write)[0]: index for index, write in enumerate(writes) if _may_enclose(write)}
    adds: dict[str, list[tuple[int, Item]]] = {}
    others_of: dict[str, list[tuple[int, Item]]] = {}
    removes: dict[str, list[tuple[int, str]]] = {}
    taken: dict[tuple[str, str], tuple[Parcel, list[str]]] = {}
    others: list[Action] = []
    for index, write in enumerate(writes):
        match write:
            case Put(item) if item.partition in heads and item.partition not in full and _fits(write):
                adds.setdefault(item.partition, []).append((index, item))
            case Delete(partition, sort) if is_message(sort) and known.size(partition, sort):
                removes.setdefault(partition, []).append((index, sort))
            case Delete(partition, sort) if (parcel := known.parcel_with(partition, sort)) is not None:
                taken.setdefault((partition, parcel.sort), (parcel, []))[1].append(sort)
            case Put(item) if item.partition in heads and is_message(item.sort):
                others_of.setdefault(item.partition, []).append((index, item))
                others.append(Action(write, index))
            case _ if heads.get(place(write)[0]) != index:
                others.append(Action(write, index))
            case _:
                pass
    changed: list[Action] = []
    for partition in {**heads, **removes}:
        index = heads.get(partition, NOT_IN_CALL)
        write = writes[index] if partition in heads else Update(partition=partition, when=EXISTS)
        gone = tuple(removes.get(partition, ()))
        freed = sum(known.size(partition, sort) or 0 for _, sort in gone)
        coming = tuple(adds.get(partition, ())), tuple(others_of.get(partition, ()))
        changed.append(Action(write, index, *coming, gone, freed))
    changed += [
        Action(parcel.without(partition, sorts), NOT_IN_CALL, taken=tuple(sorts))
        for (partition, _), (parcel, sorts) in taken.items()
    ]
    return sorted((*others, *changed), key=lambda action: action.index)


def _may_enclose(write: Write) -> bool:
    """Whether this is the write of a head that messages in the same call can be enclosed in."""
    match write:
        case Put(item, when):
            return item.sort == HEAD and when == ABSENT
        case _:
            return isinstance(write, Update) and write.sort == HEAD


def _fits(put: Put) -> bool:
    """Whether a message can be enclosed: a small one that waits to be taken, once.

    Those whose keys have a name in place of a stamp are marked when they are taken, and stay.
    """
    item = put.item
    plain = item == Item(item.partition, item.sort, body=item.body)
    waits = is_message(item.sort) and item.sort[2:3].isdigit()
    return waits and put.when == ABSENT and plain and len(item.body) <= LARGEST_MESSAGE_BYTES


# ── A page ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def merged(found: Page, enclosed: Sequence[Item], prefix: str, after: str | None, limit: int) -> Page:
    """A page of items with those among them that are enclosed in the head, in the order of their sort keys."""
    fitting = {
        item.sort: item for item in enclosed if item.sort.startswith(prefix) and (after is None or item.sort > after)
    }
    if not fitting:
        return found
    every = sorted((fitting | {item.sort: item for item in found.items}).values(), key=attrgetter("sort"))
    shown = [item for item in every if found.cursor is None or item.sort <= found.cursor][:limit]
    if len(shown) == len(every):
        return Page(tuple(shown), found.cursor)
    cursor = shown[-1].sort if len(shown) == limit else found.cursor
    return Page(tuple(shown), cursor, behind=len(every) - len(shown))


# ── A refusal ───────────────────────────────────────────────────────────────────────────────────────────────────────


class Full(Struct, frozen=True):
    """Too much is enclosed in this head already: what does not fit becomes items."""

    partition: str


class Gone(Struct, frozen=True):
    """Messages that were to be removed are not enclosed in this head any more, or their parcel has changed."""

    partition: str
    sorts: tuple[str, ...]


def refusal(action: Action, there: Attributes | None) -> Refused | Full | Gone | None:
    """Why an action was refused, given the item as it was then; ``None`` if nothing of the call explains it.

    The first condition of the call that does not hold counts, as with separate items.
    """
    if action.taken:
        return Gone(place(action.write)[0], action.taken)
    if there is not None and {count_of(item.sort) for _, item in action.adds} & there.keys():
        return Full(place(action.write)[0])  # it may be an item
    head = None if there is None else decode(there)
    refused: list[tuple[int, Item | None]] = []
    if action.index != NOT_IN_CALL and not would_hold(action.write, head):
        refused.append((action.index, head))
    within = {} if there is None else {item.sort: item for item in enclosed_in(there)}
    coming = (*action.adds, *action.separate)
    refused += [(index, within[item.sort]) for index, item in coming if item.sort in within]
    if refused:
        return Refused(*min(refused, key=itemgetter(0)))
    if gone := tuple(sort for _, sort in action.removes if sort not in within):
        return Gone(place(action.write)[0], gone)
    if action.adds and there is not None and int(there.get("lc", number(0))["N"]) > MOST_BYTES:
        return Full(place(action.write)[0])
    return None


def would_hold(write: Write, item: Item | None) -> bool:
    """Whether a write is applied when this is there."""
    return holds(write.when, item) and not (isinstance(write, Update) and item is None)


def was_applied(action: Action, there: Attributes | None) -> bool:
    """Whether the messages that an action has brought are enclosed: then an attempt without an answer was applied."""
    if not action.adds or there is None:
        return False
    within = {item.sort: item for item in enclosed_in(there)}
    return all(within.get(item.sort) == item for _, item in action.adds)
