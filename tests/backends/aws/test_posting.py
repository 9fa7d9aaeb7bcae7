"""Messages that only wake their head: they gather, take single writes, and are all there or none, whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from tests.backends.aws.faults import FaultyConnection

from holdfast.backends.aws import DynamoStore, Transport, enclosing, sending
from holdfast.backends.aws.enclosing import LARGEST_MESSAGE_BYTES, MOST_BYTES
from holdfast.backoff import Pauses
from holdfast.errors import Refused, StoreUnavailable
from holdfast.items import ABSENT, EXISTS, Delete, Item, Put, StatusIn, Update, Write

pytestmark = pytest.mark.gentle("it has faults of its own, and counts requests")

OpenStore = Callable[..., Awaitable[DynamoStore]]

OPEN = StatusIn(("open",))
LARGE = b"x" * (LARGEST_MESSAGE_BYTES + 1)
WRITES = ("PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "FIRST_PAUSE_SECONDS", 0.0)


def sort_of(number: int, sender: str = "me") -> str:
    return f"i#{number:020d}#{sender}"


def message(number: int, body: bytes = b"hello", sender: str = "me") -> Put:
    return Put(Item("p", sort_of(number, sender), body=body), ABSENT)


def wake(due_at: int = 5, *, whole: bool = False) -> Update:
    return Update(partition="p", when=OPEN, due_at=due_at, add_revision=1, wakes=True, whole=whole)


NewPost = Callable[[], Awaitable["Post"]]


class Faults:
    """The fault of the next attempts of an operation."""

    def __init__(self) -> None:
        self.of: dict[str, list[str | None]] = {}

    def __call__(self, operation: str) -> str | None:
        waiting = self.of.get(operation)
        return waiting.pop(0) if waiting else None


class Post:
    """A store with an open head, and what happens on the way to it."""

    store: DynamoStore

    def __init__(self, connection: FaultyConnection, faults: Faults) -> None:
        self.connection = connection
        self.faults = faults
        self.once_done: dict[str, Callable[[], Awaitable[None]]] = {}

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Perform a request, and then what is to happen before its answer comes."""
        answer = await self.connection.send(operation, parameters)
        if (then := self.once_done.pop(operation, None)) is not None:
            await then()
        return answer

    def close(self) -> None:
        self.connection.close()

    def forget(self) -> None:
        self.connection.attempts.clear()

    @property
    def writes(self) -> list[str]:
        return [operation for operation, _ in self.connection.attempts if operation in WRITES]

    async def there(self) -> dict[str, bytes]:
        page = await self.store.query("p", prefix="i#")
        return {item.sort: item.body for item in page.items}

    async def revision(self) -> int:
        head = await self.store.get("p")
        assert head is not None
        return head.revision


@pytest.fixture
def new_post(open_store: OpenStore) -> NewPost:
    async def make() -> Post:
        made: list[Post] = []

        def wrap(connection: Any) -> Post:
            faults = Faults()
            made.append(Post(FaultyConnection(connection, faults), faults))
            return made[0]

        store = await open_store(wrap)
        await store.write(Put(Item("p", status="open")))
        (post,) = made
        post.store = store
        post.forget()
        return post

    return make


async def other_store(post: Post) -> DynamoStore:
    """Another process."""
    return DynamoStore(Transport(post.connection.connection, post.store.table, random=Random(8)), post.store.table)


# ── Gathering ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_messages_that_are_sent_during_a_write_share_the_next(new_post: NewPost) -> None:
    post = await new_post()
    numbers = range(1, 1 + 60)
    await asyncio.gather(*(post.store.write(message(number), wake()) for number in numbers))
    assert list(await post.there()) == [sort_of(number) for number in numbers]
    assert await post.revision() == len(numbers)
    assert len(post.writes) <= 2
    assert "TransactWriteItems" not in post.writes


async def test_one_by_one_they_take_one_write_each(new_post: NewPost) -> None:
    post = await new_post()
    for number in range(1, 6):
        await post.store.write(message(number), wake())
    assert post.writes == ["UpdateItem"] * 5


async def test_those_that_do_not_fit_their_head_take_two_single_writes(new_post: NewPost) -> None:
    post = await new_post()
    await post.store.write(message(1, LARGE), wake())
    assert post.writes == ["PutItem", "UpdateItem"]
    assert await post.there() == {sort_of(1): LARGE}


async def test_a_full_head_takes_no_more_until_its_reader_has_found_no_parcel(new_post: NewPost) -> None:
    post = await new_post()
    body = b"y" * 1_000
    filling = MOST_BYTES // len(body) + 1
    for number in range(1, 1 + filling):
        await post.store.write(message(number, body), wake())
    post.forget()
    for number in range(101, 104):
        await post.store.write(message(number, body), wake())
    assert "TransactWriteItems" not in post.writes
    assert post.writes.count("PutItem") == 3
    assert list(await post.there()) == [sort_of(each) for each in (*range(1, 1 + filling), 101, 102, 103)]
    taken = [Delete("p", sort, EXISTS) for sort in await post.there()]
    await post.store.write(Update(partition="p", when=OPEN), *taken)
    assert await post.there() == {}
    other = await other_store(post)  # it has not seen that the head was full
    post.forget()
    await other.write(message(200), wake())
    assert await post.there() == {sort_of(200): b"hello"}
    stored = await post.connection.connection.send("GetItem", _key(post, "@"))
    assert sort_of(200) in stored["Item"]


async def test_the_owner_takes_messages_out_of_more_parcels_than_are_remembered(
    new_post: NewPost, monkeypatch: pytest.MonkeyPatch
) -> None:
    post = await new_post()
    for number in range(1, 13):
        await post.store.write(message(2 * number, LARGE), message(2 * number + 1, LARGE), wake())
    monkeypatch.setattr(enclosing, "MOST_PARCELS", 3)
    owner = await other_store(post)
    there = [item.sort for item in (await owner.query("p", prefix="i#")).items]
    assert len(there) == 24
    for first in range(0, 24, 6):
        await owner.write(
            Update(partition="p", when=OPEN), *(Delete("p", sort, EXISTS) for sort in there[first : first + 6])
        )
    assert await post.there() == {}


async def test_a_page_says_how_many_messages_it_has_seen_in_parcels(new_post: NewPost) -> None:
    post = await new_post()
    for number in range(1, 6):
        await post.store.write(message(2 * number, LARGE), message(2 * number + 1, LARGE), wake())
    page = await post.store.query("p", prefix="i#", limit=7)
    assert (len(page.items), page.behind) == (7, 3)
    page = await post.store.query("p", prefix="i#", after=page.cursor, limit=2)
    assert (len(page.items), page.behind) == (2, 1)
    page = await post.store.query("p", prefix="i#", after=page.cursor, limit=2)
    assert (len(page.items), page.behind, page.cursor) == (1, 0, None)


def _key(post: Post, sort: str) -> dict[str, Any]:
    return {"TableName": post.store.table, "Key": {"p": {"S": "p"}, "s": {"S": sort}}, "ConsistentRead": True}


async def test_another_write_of_the_head_keeps_its_place_among_them(new_post: NewPost) -> None:
    post = await new_post()
    calls: list[tuple[Write, ...]] = [
        (message(1), wake(1)),
        (message(2), wake(2)),
        (Update(partition="p", when=OPEN, status="shut"),),
        (message(3), wake(3)),
    ]
    first, second, third, last = await asyncio.gather(
        *(post.store.write(*call) for call in calls), return_exceptions=True
    )
    assert not any(isinstance(each, BaseException) for each in (first, second, third))
    assert isinstance(last, Refused)
    assert last.index == 1
    assert list(await post.there()) == [sort_of(1), sort_of(2)]


# ── Those that come with their wake-up, or not at all ─────────────────────────────────────────────────────────────────


async def test_small_ones_that_are_whole_share_writes_of_the_head_alone(new_post: NewPost) -> None:
    post = await new_post()
    numbers = range(1, 1 + 40)
    await asyncio.gather(*(post.store.write(message(number), wake(whole=True)) for number in numbers))
    assert list(await post.there()) == [sort_of(number) for number in numbers]
    assert await post.revision() == len(numbers)
    assert set(post.writes) == {"UpdateItem"}
    assert len(post.writes) <= 4


async def test_a_large_one_that_is_whole_takes_a_transaction(new_post: NewPost) -> None:
    post = await new_post()
    await post.store.write(message(1, LARGE), wake(whole=True))
    assert post.writes == ["TransactWriteItems"]
    assert await post.there() == {sort_of(1): LARGE}
    assert await post.revision() == 1


async def test_one_that_is_whole_does_not_go_with_others_into_a_parcel(new_post: NewPost) -> None:
    post = await new_post()
    writes = [post.store.write(message(number, LARGE), wake(whole=number == 3)) for number in range(1, 6)]
    await asyncio.gather(*writes)
    assert await post.there() == {sort_of(number): LARGE for number in range(1, 6)}
    assert post.writes.count("TransactWriteItems") == 1


# ── Each has its own outcome ────────────────────────────────────────────────────────────────────────────────────────


async def test_one_that_is_there_already_refuses_no_other(new_post: NewPost) -> None:
    post = await new_post()
    await post.store.write(message(2, b"before"), wake())
    numbers = range(1, 5)
    outcomes = await asyncio.gather(
        *(post.store.write(message(number), wake()) for number in numbers), return_exceptions=True
    )
    refused = outcomes[1]
    assert isinstance(refused, Refused)
    assert (refused.index, refused.item) == (0, Item("p", sort_of(2), body=b"before"))
    assert sum(isinstance(each, Exception) for each in outcomes) == 1
    assert await post.there() == {sort_of(n): b"before" if n == 2 else b"hello" for n in numbers}


@pytest.mark.parametrize("body", [b"hello", LARGE])
async def test_a_head_that_takes_none_refuses_each_and_keeps_none(body: bytes, new_post: NewPost) -> None:
    post = await new_post()
    await post.store.write(Update(partition="p", status="shut"))
    outcomes = await asyncio.gather(
        *(post.store.write(message(number, body), wake()) for number in range(1, 4)), return_exceptions=True
    )
    assert [(each.index, each.item and each.item.status) for each in outcomes if isinstance(each, Refused)] == [
        (1, "shut")
    ] * 3
    assert await post.there() == {}


# ── Crashes, lost answers, owners in between ────────────────────────────────────────────────────────────────────────


async def test_a_sender_that_stops_before_the_mark_finds_its_message_and_wakes(
    new_post: NewPost, monkeypatch: pytest.MonkeyPatch
) -> None:
    post = await new_post()
    post.faults.of["UpdateItem"] = ["not connected"]
    with monkeypatch.context() as impatient, pytest.raises(StoreUnavailable):
        impatient.setattr(Pauses, "take", lambda _pauses: sending.PATIENCE_SECONDS * 1_000_000)
        await post.store.write(message(1, LARGE), wake())
    assert await post.revision() == 0
    with pytest.raises(Refused) as refused:  # sent again: by the contract it wakes now
        await post.store.write(message(1, LARGE), wake())
    assert (refused.value.index, refused.value.item) == (0, Item("p", sort_of(1), body=LARGE))
    await post.store.write(wake())
    assert await post.there() == {sort_of(1): LARGE}
    assert await post.revision() == 1


async def test_a_sender_that_stops_before_the_parcel_has_left_nothing(
    new_post: NewPost, monkeypatch: pytest.MonkeyPatch
) -> None:
    post = await new_post()
    post.faults.of["PutItem"] = ["not connected"]
    with monkeypatch.context() as impatient, pytest.raises(StoreUnavailable):
        impatient.setattr(Pauses, "take", lambda _pauses: sending.PATIENCE_SECONDS * 1_000_000)
        await post.store.write(message(1, LARGE), wake())
    assert await post.there() == {}
    await post.store.write(message(1, LARGE), wake())
    assert await post.there() == {sort_of(1): LARGE}


@pytest.mark.parametrize("operation", ["PutItem", "UpdateItem"])
async def test_a_lost_answer_doubles_nothing(operation: str, new_post: NewPost) -> None:
    post = await new_post()
    post.faults.of[operation] = ["no answer in time"]
    await asyncio.gather(*(post.store.write(message(number, LARGE), wake()) for number in (1, 2, 3)))
    assert await post.there() == {sort_of(number): LARGE for number in (1, 2, 3)}
    assert await post.revision() >= 1


async def test_what_the_owner_has_taken_before_a_refused_mark_counts_as_sent(new_post: NewPost) -> None:
    post = await new_post()
    owner = await other_store(post)

    async def take_and_shut() -> None:
        page = await owner.query("p", prefix="i#")
        first = page.items[0]
        await owner.write(Update(partition="p", status="shut"), Delete("p", first.sort, EXISTS))

    post.once_done["PutItem"] = take_and_shut
    outcomes = await asyncio.gather(
        *(post.store.write(message(number, LARGE), wake()) for number in (1, 2)), return_exceptions=True
    )
    assert not isinstance(outcomes[0], Exception)
    assert isinstance(outcomes[1], Refused)
    assert outcomes[1].index == 1
    assert await post.there() == {}


@pytest.mark.parametrize("fault", ["not connected", "no answer in time"], ids=["before", "after"])
@pytest.mark.parametrize("count", [1, 3])
async def test_a_sender_that_stops_as_it_takes_messages_back_has_told_nobody_and_doubles_none(
    fault: str, count: int, new_post: NewPost, monkeypatch: pytest.MonkeyPatch
) -> None:
    post = await new_post()
    await post.store.write(Update(partition="p", status="shut"))
    revision, numbers = await post.revision(), range(1, 1 + count)
    # The first of several is taken out of their parcel, which is an update; the last one goes with the parcel.
    post.faults.of = {"DeleteItem": [fault]} if count == 1 else {"UpdateItem": [None, fault]}
    with monkeypatch.context() as impatient:
        impatient.setattr(Pauses, "take", lambda _pauses: sending.PATIENCE_SECONDS * 1_000_000)
        outcomes = await asyncio.gather(
            *(post.store.write(message(number, LARGE), wake()) for number in numbers), return_exceptions=True
        )
    assert all(isinstance(each, StoreUnavailable) for each in outcomes), "neither sent nor refused"
    left = [sort_of(number) for number in numbers if number > 1 or fault == "not connected"]
    again = await other_store(post)
    assert [item.sort for item in (await again.query("p", prefix="i#")).items] == left, "an owner would read these"
    assert await post.revision() == revision, "no owner was woken"
    await again.write(Update(partition="p", status="open"))
    for number in numbers:
        if sort_of(number) in left:
            with pytest.raises(Refused) as found:
                await again.write(message(number, LARGE), wake())
            assert (found.value.index, found.value.item) == (0, message(number, LARGE).item)
            await again.write(wake())
        else:
            await again.write(message(number, LARGE), wake())
    page = await again.query("p", prefix="i#")
    assert {item.sort: item.body for item in page.items} == {sort_of(number): LARGE for number in numbers}
    assert len(page.items) == count
    assert await post.revision() == revision + count


@pytest.mark.parametrize("count", [1, 3])
async def test_no_message_counts_as_sent_if_it_was_taken_back_and_the_answer_was_lost(
    count: int, new_post: NewPost
) -> None:
    post = await new_post()
    await post.store.write(Update(partition="p", status="shut"))
    post.faults.of = {"DeleteItem": ["no answer in time"]}
    outcomes = await asyncio.gather(
        *(post.store.write(message(number, LARGE), wake()) for number in range(1, 1 + count)), return_exceptions=True
    )
    assert all(isinstance(each, Refused | StoreUnavailable) for each in outcomes)
    assert await post.there() == {}


# ── Taking them out ─────────────────────────────────────────────────────────────────────────────────────────────────


async def in_parcels(post: Post, count: int, each: int) -> None:
    for first in range(1, 1 + count * each, each):
        calls = (post.store.write(message(number, LARGE), wake()) for number in range(first, first + each))
        await asyncio.gather(*calls)


async def test_a_parcel_goes_with_its_last_message(new_post: NewPost) -> None:
    post = await new_post()
    await in_parcels(post, 2, 3)
    owner = await other_store(post)
    page = await owner.query("p", prefix="i#")
    assert [item.sort for item in page.items] == [sort_of(number) for number in range(1, 7)]
    for taken in ((1, 2, 4), (3,), (5, 6)):
        await owner.write(Update(partition="p", when=OPEN), *(Delete("p", sort_of(each), EXISTS) for each in taken))
    left = await post.connection.connection.send(
        "Query",
        {
            "TableName": post.store.table,
            "KeyConditionExpression": "p = :p",
            "ExpressionAttributeValues": {":p": {"S": "p"}},
            "ConsistentRead": True,
        },
    )
    assert [item["s"]["S"] for item in left["Items"]] == ["@"]


async def test_two_that_take_from_one_parcel_take_each_message_once(new_post: NewPost) -> None:
    post = await new_post()
    await in_parcels(post, 1, 4)
    one, two = await other_store(post), await other_store(post)
    for store in (one, two):
        assert len((await store.query("p", prefix="i#")).items) == 4
    await one.write(Delete("p", sort_of(2), EXISTS))
    await two.write(Delete("p", sort_of(3), EXISTS))
    with pytest.raises(Refused):
        await two.write(Delete("p", sort_of(2), EXISTS))
    await post.store.write(Delete("p", sort_of(1), EXISTS))
    assert list(await post.there()) == [sort_of(4)]


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 100])
async def test_pages_show_every_message_once_and_in_order(limit: int, new_post: NewPost) -> None:
    post = await new_post()
    await post.store.write(message(50), wake())  # enclosed, in between
    await in_parcels(post, 3, 3)
    senders = [message(number, LARGE, sender) for number in (2, 60) for sender in ("a", "z")]
    await asyncio.gather(*(post.store.write(each, wake()) for each in senders))
    await post.store.write(Update(partition="p"), message(5, LARGE, "plain"))
    expected = sorted([sort_of(50), *map(sort_of, range(1, 10)), *(put.item.sort for put in senders)])
    expected = sorted([*expected, sort_of(5, "plain")])
    for prefix in ("i#", "", "i#0"):
        found: list[str] = []
        after: str | None = None
        while True:
            page = await post.store.query("p", prefix=prefix, after=after, limit=limit)
            assert len(page.items) <= limit
            found += [item.sort for item in page.items if item.sort != "@"]
            if (after := page.cursor) is None:
                break
        assert found == expected, prefix


async def test_lasting_ones_stay_when_their_mark_is_refused(new_post: NewPost) -> None:
    post = await new_post()
    await post.store.write(Update(partition="p", status="shut"))
    lasting = replace(wake(), lasting=True)
    with pytest.raises(Refused) as refused:
        await post.store.write(message(1, LARGE), lasting)
    assert refused.value.index == 1
    other = await other_store(post)
    with pytest.raises(Refused) as found:
        await other.write(message(1, LARGE), lasting)
    assert found.value.index == 0
    assert await post.there() == {sort_of(1): LARGE}
