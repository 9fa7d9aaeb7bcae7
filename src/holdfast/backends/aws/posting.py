"""Messages and the wake-up of their receiver, without a transaction: enclosed in its head, or in a parcel.

Small messages are enclosed: one write of the head brings them and wakes it. Many at once, or large ones, or those for a
head that has no room, are put into a parcel. Then the head is marked: it is woken, and counts the parcels that came.
Those that are to come with their wake-up (``Update.whole``) take a transaction if they cannot be enclosed.

Where a sender may stop, or hear no answer:

- Before the parcel: nothing is there.
- Between the parcel and the mark: messages are there, and no owner was woken. The sender was not answered. It sends
  them again, finds them in their places, and wakes (``Update.wakes``). Or the owner reads them earlier, with others.
- At the mark, and its answer is lost: it is sent again, and may wake twice.
- The mark is refused: the messages are taken back, and so is the call. Those that the owner has taken count as sent.
  Messages that several processes may deliver stay (``Update.lasting``): one may have found them there, and told so.
- As it takes them back: no sender was answered. Those that are left are as before the mark: a sender that sends them
  again finds them, or the owner reads them, if the head takes messages again. The others are gone, and are sent again.
- At the removal of the last one, and its answer is lost: nothing shows whether the owner has taken it. So it counts
  neither as sent nor as refused (``StoreUnavailable``), and is sent again.
- An hour later it puts the parcel: its messages are as if sent now, in any form. The receiver recognises old ones.

A sender that puts one message after another waits for each answer. So a reader that sees a message of it, in any form,
sees those before it in a reading after that (``coordination.arrived``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Struct

from holdfast.backends.aws.enclosing import (
    LARGEST_MESSAGE_BYTES,
    Action,
    Full,
    Known,
    entry_bytes,
    is_message,
)
from holdfast.backends.aws.parcels import parcel_of
from holdfast.errors import Refused
from holdfast.items import ABSENT, EXISTS, HEAD, Delete, Item, Put, Update, Write

MOST_ENCLOSED: Final = 20
"""The most messages that one write encloses: each has a place in its expressions, which may have 4 KB."""


class Overtaken(Refused):
    """The wake-up was refused, and the owner had taken the messages ``sorts`` by then. The others were taken back."""

    def __init__(self, refused: Refused, sorts: frozenset[str]) -> None:
        super().__init__(refused.index, refused.item)
        self.sorts = sorts


One = Callable[[Action], Awaitable[object]]
"""Sends what is asked of a single item; answers what was loaded, or why it was refused."""


class Post(Struct, frozen=True):
    """Messages for one head, and the write that wakes it, which comes last in its call."""

    puts: tuple[Put, ...]
    wake: Update
    size_bytes: int

    @property
    def partition(self) -> str:
        """Whose they are."""
        return self.wake.partition

    @property
    def sorts(self) -> tuple[str, ...]:
        """The sort keys of the messages."""
        return tuple(put.item.sort for put in self.puts)

    @property
    def prefix(self) -> str:
        """What their sort keys begin with."""
        return self.puts[0].item.sort[:2]

    @property
    def writes(self) -> tuple[Write, ...]:
        """The same as a call of the store."""
        return (*self.puts, self.wake)


def post_of(writes: Sequence[Write]) -> Post | None:
    """The call as messages for one head, if it is nothing else."""
    if len(writes) < 2 or not (isinstance(wake := writes[-1], Update) and wake.wakes):
        return None
    puts: list[Put] = []
    size = 0
    for write in writes[:-1]:
        if not (isinstance(write, Put) and _is_new_message(write, wake)):
            return None
        puts.append(write)
        size += entry_bytes(write.item.sort, write.item.body)
    post, sorts = Post(tuple(puts), wake, size), {put.item.sort for put in puts}
    return post if len(sorts) == len(puts) and all(sort.startswith(post.prefix) for sort in sorts) else None


def _is_new_message(put: Put, wake: Update) -> bool:
    item = put.item
    numbered = is_message(item.sort) and item.sort[2:3].isdigit()
    plain = item == Item(wake.partition, item.sort, body=item.body)
    return numbered and plain and put.when == ABSENT and wake.sort == HEAD


class Posting:
    """Posts messages. ``one`` sends what is asked of one item, and ``exactly`` a call in whichever way is exact."""

    def __init__(self, known: Known, one: One, exactly: Callable[[Sequence[Write]], Awaitable[object]]) -> None:
        self._known = known
        self._one = one
        self._exactly = exactly

    async def post(self, post: Post, now: float) -> None:
        """Post messages, all of them or none; ``now`` is the time of the loop.

        Raises ``Refused`` with the place of a message, if it is there already, or of the wake-up, if the head is not as
        it says. After ``StoreUnavailable`` the messages may be there, and their owner may not have been woken.
        """
        if any(self._known.is_remembered(post.partition, sort) for sort in post.sorts):
            await self._exactly(post.writes)
        elif not await self._enclosed(post, now):
            await (self._exactly(post.writes) if post.wake.whole else self._in_parcel(post))

    async def _enclosed(self, post: Post, now: float) -> bool:
        """Enclose the messages in their head; false if it does not take them."""
        if post.size_bytes > LARGEST_MESSAGE_BYTES or len(post.puts) > MOST_ENCLOSED:
            return False
        if self._known.are_full((post.partition,), now):
            return False
        action = Action(post.wake, len(post.puts), tuple(enumerate(put.item for put in post.puts)))
        match await self._one(action):
            case Refused() as refused:
                raise refused
            case Full():
                self._known.full(post.partition, now)
                return False
            case _:
                self._known.note((action,))
                return True

    async def _in_parcel(self, post: Post) -> None:
        parcel = parcel_of(post.puts)
        self._known.may_be_in(post.partition, parcel.item.sort, post.sorts)
        if isinstance(await self._one(Action(parcel, 0)), Refused):
            await self._exactly(post.writes)  # a parcel with the same first message is there
            return
        mark = Action(post.wake, len(post.puts), separate=((0, post.puts[0].item),))
        if isinstance(refused := await self._one(mark), Refused):
            if post.wake.lasting:
                raise refused
            taken = await self._take_back(post.partition, post.sorts)
            if len(taken) < len(post.puts):
                raise Overtaken(refused, taken)

    async def _take_back(self, partition: str, sorts: Sequence[str]) -> frozenset[str]:
        """Take messages back. Answers those that the owner has taken."""
        gone: set[str] = set()
        for sort in sorts:
            try:
                await self._exactly((Delete(partition, sort, EXISTS),))
            except Refused:
                gone.add(sort)
        return frozenset(gone)
