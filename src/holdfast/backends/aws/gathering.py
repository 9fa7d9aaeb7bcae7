"""Group commit for each head: while a write for it is under way, further messages for it gather, and go together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final

from holdfast.backends.aws.enclosing import LARGEST_MESSAGE_BYTES
from holdfast.backends.aws.lanes import Lanes
from holdfast.backends.aws.posting import MOST_ENCLOSED, Overtaken, Post
from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.items import Item, Update

MOST_MESSAGES: Final = 100
MOST_BYTES: Final = 128 * 1024
"""What one item may hold: 400 KB. A parcel is read and written back as a whole."""

Answer = asyncio.Future[Sequence[Item | None]]


class Gathered:
    """Calls that go together."""

    def __init__(self) -> None:
        self.posts: list[Post] = []
        self.answers: list[Answer] = []
        self._sorts: set[str] = set()
        self._bytes = 0

    def takes(self, post: Post) -> bool:
        """Whether there is room for it, its wake-up is like those of the others, and its messages are others."""
        messages, size = (MOST_ENCLOSED, LARGEST_MESSAGE_BYTES) if post.wake.whole else (MOST_MESSAGES, MOST_BYTES)
        fits = len(self._sorts) + len(post.puts) <= messages and self._bytes + post.size_bytes <= size
        return fits and _is_like(self.posts[-1], post) and self._sorts.isdisjoint(post.sorts)

    def add(self, post: Post) -> Answer:
        """Take it in. The future ends with its outcome."""
        answer: Answer = asyncio.get_running_loop().create_future()
        self.posts.append(post)
        self.answers.append(answer)
        self._sorts.update(post.sorts)
        self._bytes += post.size_bytes
        return answer

    def together(self) -> Post:
        """All of them as one. It leaves what they would have left one after another."""
        last = self.posts[-1].wake
        revisions = sum(post.wake.add_revision for post in self.posts)
        wake = Update(
            partition=last.partition,
            when=last.when,
            due_at=last.due_at,
            expires_at=last.expires_at,
            add_revision=revisions,
            wakes=True,
            whole=last.whole,
            lasting=last.lasting,
        )
        puts = tuple(put for post in self.posts for put in post.puts)
        return Post(puts, wake, self._bytes)


def _is_like(one: Post, other: Post) -> bool:
    return one.prefix == other.prefix and _kind_of(one.wake) == _kind_of(other.wake)


def _kind_of(wake: Update) -> tuple[object, ...]:
    return wake.when, wake.expires_at, wake.whole, wake.lasting


class Gathering:
    """The calls that wait for their lanes. ``perform`` posts messages."""

    def __init__(self, lanes: Lanes, perform: Callable[[Post], Awaitable[None]]) -> None:
        self._lanes = lanes
        self._perform = perform
        self._waiting: dict[str, Gathered] = {}

    def add(self, post: Post) -> Answer:
        """Post messages with the next write for their head. The future ends with what came of these."""
        gathered = self._waiting.get(post.partition)
        if gathered is None or not gathered.takes(post):
            gathered = self._waiting[post.partition] = Gathered()
            self._lanes.run((post.partition,), partial(self._go, post.partition, gathered))
        return gathered.add(post)

    def close(self, partitions: Iterable[str]) -> None:
        """Another write for these heads comes: what is posted later goes behind it."""
        for each in partitions:
            self._waiting.pop(each, None)

    async def _go(self, partition: str, gathered: Gathered) -> None:
        if self._waiting.get(partition) is gathered:
            del self._waiting[partition]
        if len(gathered.posts) == 1:
            await self._alone(gathered.posts[0], gathered.answers[0])
            return
        try:
            await self._perform(gathered.together())
        except StoreUnavailable as error:
            for answer in gathered.answers:
                _fail(answer, StoreUnavailable(str(error)))
        except HoldfastError as error:  # one of them is not to be posted, and none was: each has an outcome of its own
            taken = error.sorts if isinstance(error, Overtaken) else frozenset[str]()
            for post, answer in zip(gathered.posts, gathered.answers, strict=True):
                if taken.issuperset(post.sorts):
                    _succeed(answer, post)
                else:
                    await self._alone(post, answer)
        except BaseException as error:
            for answer in gathered.answers:
                _fail(answer, error)
            raise
        else:
            for post, answer in zip(gathered.posts, gathered.answers, strict=True):
                _succeed(answer, post)

    async def _alone(self, post: Post, answer: Answer) -> None:
        try:
            await self._perform(post)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is for who waits for the answer
            _fail(answer, error)
        else:
            _succeed(answer, post)


def _fail(answer: Answer, error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)


def _succeed(answer: Answer, post: Post) -> None:
    if not answer.done():
        answer.set_result((None,) * len(post.writes))
