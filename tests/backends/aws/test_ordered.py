"""Ordered messages of SQS: each is applied once by its deduplication id, in the order of its group, in shared commits.

In virtual time, on a store in memory that cuts answers where a test says so.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace
from tests.backends.aws.cloud import Context
from tests.backends.aws.fifo import VISIBILITY_SECONDS, Fifo

import holdfast as hf
from holdfast.actors.record import REPLY_PREFIX, Call, Reply, encode, fingerprint_of
from holdfast.actors.turn.ordered import MOST_HANDLED, PAGE_PREFIX
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.errors import StoreUnavailable
from holdfast.items import HEAD, Delete, Item, Put, Update
from holdfast.ports import Home
from holdfast.runtime.lambda_ import LambdaHandler
from holdfast.testing import run_virtual
from holdfast.testing.virtual_time import VirtualClock

OTHER = "arn:aws:sqs:eu-west-1:000000000000:other.fifo"


class Cutting:
    """A store whose next commit of an actor, or write number ``fault_at``, meets ``fault``: ``before`` and ``after``
    cut the answer and never come back, ``lost`` is one that was applied and not answered, ``refused`` one that was not
    applied.
    """

    def __init__(self, store: Any, stage: Stage) -> None:
        self._store = store
        self._stage = stage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, *writes: Any) -> Any:
        is_commit = any(isinstance(each, Update) and each.body for each in writes)
        self._stage.writes += 1
        self._stage.commits += is_commit
        meets = is_commit if self._stage.fault_at is None else self._stage.writes == self._stage.fault_at
        fault, self._stage.fault = (self._stage.fault, "") if meets else ("", self._stage.fault)
        if fault in {"before", "refused"}:
            await self._cut(fault == "before")
        answer = await self._store.write(*writes)
        if fault in {"after", "lost"}:
            await self._cut(fault == "after")
        return answer

    async def _cut(self, is_death: bool) -> None:
        self._stage.cut.set()
        if is_death:
            await asyncio.Event().wait()
        raise StoreUnavailable("the answer was lost")


class Stage:
    """One home, environments of a function, and queues."""

    def __init__(self, **options: Any) -> None:
        self.clock = VirtualClock()
        self.data = MemoryData()
        self.queue = Fifo(self.clock.now_ms)
        self.options = options
        self.broken: set[str] = set()
        self.writes = self.commits = 0
        self.fault = ""
        self.fault_at: int | None = None
        self.seconds = 0.0
        self.cut = asyncio.Event()
        self._owners = itertools.count()
        self.ran: list[str] = []
        self.keys: list[str] = []
        self.environments: list[LambdaHandler] = []

    def app(self) -> hf.App:
        owner = f"env-{next(self._owners)}"

        async def open_home() -> Home:
            home = open_memory_home(data=self.data, owner=owner)
            return replace(
                home,
                store=Cutting(home.store, self),
                writes_are_paid=True,
                reads_are_paid=True,
                redelivery=self.queue,
            )

        app = hf.App("shop", home=open_home, clock=self.clock)
        stage = self

        class Till(hf.Actor, app=app, **self.options):
            seen: list[str] = hf.field(default_factory=list)

            async def add(self, what: str) -> int:
                await asyncio.sleep(stage.seconds)
                stage.ran.append(what)
                stage.keys.append(hf.current().idempotency_key)
                if what in stage.broken:
                    raise ValueError(f"{what} is broken")
                self.seen = [*self.seen, what]
                return len(self.seen)

        class Stock(hf.Actor, app=app):
            seen: list[str] = hf.field(default_factory=list)

            async def take(self, what: str) -> None:
                stage.ran.append(f"stock {what}")

        return app

    def environment(self) -> LambdaHandler:
        handler = self.app().lambda_handler()
        self.environments.append(handler)
        return handler

    def add(self, *names: str, group: str = "u1", queue: Fifo | None = None) -> None:
        for name in names:
            assert (queue or self.queue).send(group, {"actor": "Till", "method": "add", "args": [name]}, dedup=name)

    async def seen(self, key: str = "u1") -> list[str]:
        app = self.app()
        async with app:
            state: Any = (await app.actor("Till", key).status()).state
            return list(state["seen"])

    async def parked(self, key: str = "u1") -> list[Any]:
        app = self.app()
        async with app:
            return [each.args for each in await app.actor("Till", key).parked()]

    async def kill(self, handler: LambdaHandler, invocation: asyncio.Task[Any]) -> None:
        worker = handler._worker
        assert worker is not None
        worker.worker.abandon()
        invocation.cancel()
        await asyncio.wait((invocation,))
        handler._worker = None


def play(story: Callable[[Stage], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        stage = Stage(**options)
        await story(stage)
        for each in stage.environments:
            await each.aclose()

    run_virtual(main)


TEN = tuple(f"m{number}" for number in range(10))


def test_a_batch_of_ten_is_one_claim_and_one_commit() -> None:
    async def story(stage: Stage) -> None:
        one = stage.environment()
        stage.add("first")
        await stage.queue.deliver(one)
        stage.writes = stage.commits = 0
        stage.add(*TEN)
        await stage.queue.deliver(one)
        assert (stage.writes, stage.commits) == (2, 1)
        assert not stage.queue.kept
        assert await stage.seen() == ["first", *TEN]

    play(story)


# ── Identity ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_repeat_by_its_deduplication_id_after_the_queues_own_window_is_not_applied_again() -> None:
    async def story(stage: Stage) -> None:
        one = stage.environment()
        stage.add("m1", "m2")
        await stage.queue.deliver_all(one)
        await asyncio.sleep(3600)
        stage.add("m1", "m3", "m2")
        await stage.queue.deliver_all(stage.environment())
        assert await stage.seen() == ["m1", "m2", "m3"]

    play(story)


def test_a_repeat_from_another_queue_is_not_applied_again() -> None:
    async def story(stage: Stage) -> None:
        one, other = stage.environment(), Fifo(stage.clock.now_ms, OTHER)
        stage.add("m1")
        await stage.queue.deliver_all(one)
        stage.add("m1", "m2", queue=other)
        await other.deliver_all(one)
        assert await stage.seen() == ["m1", "m2"]

    play(story)


def test_a_deduplication_id_is_about_one_actor() -> None:
    async def story(stage: Stage) -> None:
        one = stage.environment()
        for group in ("u1", "u2"):
            stage.add("m1", group=group)
        stage.queue.send("u1", {"actor": "Stock", "method": "take", "args": ["m1"]}, dedup="m1 of stock")
        await stage.queue.deliver_all(one)
        assert (await stage.seen("u1"), await stage.seen("u2")) == (["m1"], ["m1"])
        assert stage.ran.count("stock m1") == 1

    play(story)


def test_a_repeat_is_known_when_its_id_has_long_left_the_head() -> None:
    async def story(stage: Stage) -> None:
        one, names = stage.environment(), [f"n{number}" for number in range(5 * MOST_HANDLED)]
        stage.add(*names)
        await stage.queue.deliver_all(one)
        await asyncio.sleep(3600)
        stage.add(*names[:20], "new", *names[100:120])
        await stage.queue.deliver_all(one)
        await asyncio.sleep(3600)
        stage.add(*names[40:60])
        await stage.queue.deliver_all(stage.environment())  # it has read no page yet
        assert await stage.seen() == [*names, "new"]

    play(story)


def test_an_id_in_the_body_is_that_of_a_request_of_any_caller() -> None:
    async def story(stage: Stage) -> None:
        one = stage.environment()
        body = {"actor": "Till", "method": "add", "args": ["m1"], "id": "r1"}
        stage.queue.send("u1", body, dedup="d1")
        stage.queue.send("u1", body, dedup="d2")
        await stage.queue.deliver_all(one)
        asked = {"holdfast": "call", "actor": "Till", "key": "u1", "method": "add", "args": ["m1"], "request_id": "r1"}
        assert await one.invoke(asked) == 1
        assert await stage.seen() == ["m1"]

    play(story)


@pytest.mark.parametrize("code", ["before", "now"])
def test_a_message_that_was_applied_under_its_own_id_is_not_applied_again(code: str) -> None:
    """By code that knew no other id; or by this, before it became a dead letter, which has it as deduplication id."""

    async def story(stage: Stage) -> None:
        one = stage.environment()
        stage.add("m1")
        (message,) = stage.queue.receive()
        if code == "before":
            call: Any = hf_call("add", b'{"what":"m1"}')
            reply = Item("actor#Till#u1", REPLY_PREFIX + message.id, body=encode(Reply(fingerprint_of(call))))
            await open_memory_home(data=stage.data, owner="old").store.write(
                Put(Item("actor#Till#u1", status="READY", revision=1)), Put(reply)
            )
        else:
            await asyncio.sleep(VISIBILITY_SECONDS + 1)
            await stage.queue.deliver(one, forget=True)  # it is applied, and the queue does not hear of it
            stage.queue.kept.clear()
        stage.queue.send("u1", message.body, dedup=message.id)
        if code == "before":
            stage.queue.kept.pop()
            await asyncio.sleep(VISIBILITY_SECONDS + 1)
        await stage.queue.deliver_all(one)
        assert stage.ran == ([] if code == "before" else ["m1"])

    play(story)


def hf_call(method: str, args: bytes) -> Any:
    return Call(id="", method=method, args=Raw(args))


def test_a_queue_that_was_made_anew_under_its_name_begins_its_numbers_again() -> None:
    async def story(stage: Stage) -> None:
        one = stage.environment()
        stage.queue = Fifo(stage.clock.now_ms, first=1_000)
        stage.add("m1", "m2")
        await stage.queue.deliver_all(one)
        await asyncio.sleep(60)  # a name is not free before
        stage.queue = Fifo(stage.clock.now_ms, first=1)
        stage.add("m2", "m3")
        await stage.queue.deliver_all(one)
        assert await stage.seen() == ["m1", "m2", "m3"]

    play(story)


# ── Crashes ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("fault", ["before", "after"])
def test_a_death_at_the_commit_of_a_batch(fault: str) -> None:
    async def story(stage: Stage) -> None:
        one = stage.environment()
        stage.add("m0")
        await stage.queue.deliver(one)
        stage.add("m1", "m2", "m3")
        stage.fault = fault
        invocation = asyncio.ensure_future(stage.queue.deliver(one))
        await stage.cut.wait()
        await stage.kill(one, invocation)
        assert len(stage.queue.kept) == 3
        await stage.queue.deliver_all(stage.environment())
        assert await stage.seen() == ["m0", "m1", "m2", "m3"]
        times = 2 if fault == "before" else 1
        assert [stage.ran.count(name) for name in ("m1", "m2", "m3")] == [times] * 3
        assert len(set(stage.keys)) == 4, "an attempt that is repeated has the key that it had"

    play(story)


@pytest.mark.parametrize("fault", ["before", "after", "lost", "refused"])
def test_a_fault_at_any_write_changes_nothing(fault: str) -> None:
    """Of a batch that moves ids into a page, whose seventh message fails twice: each write in turn."""
    met = 0

    async def story(stage: Stage, at: int) -> None:
        nonlocal met
        one, early = stage.environment(), [f"e{number}" for number in range(MOST_HANDLED - 3)]
        stage.add(*early)
        await stage.queue.deliver_all(one)
        stage.broken = {"m6"}
        stage.add(*TEN)
        stage.fault, stage.fault_at, stage.writes = fault, at, 0
        while stage.queue.kept and not (stage.cut.is_set() and fault in {"before", "after"}):
            invocation = asyncio.ensure_future(stage.queue.deliver(one))
            cut = asyncio.ensure_future(stage.cut.wait())
            await asyncio.wait((invocation, cut), return_when=asyncio.FIRST_COMPLETED)
            if not invocation.done() and fault in {"before", "after"}:
                await stage.kill(one, invocation)
            elif not await invocation:
                await asyncio.sleep(1)
            cut.cancel()
            if stage.ran.count("m6") >= 2:
                stage.broken.clear()
        met += stage.cut.is_set()
        stage.broken.clear()
        await stage.queue.deliver_all(stage.environment())
        assert await stage.seen() == [*early, *TEN]
        assert await stage.parked() == []
        assert len(set(stage.keys)) == len(early) + len(TEN)

    for at in range(1, 8):
        play(partial(story, at=at))
    assert met >= 5, "a test whose faults are not met shows nothing"


@pytest.mark.parametrize("fault", ["lost", "refused"])
def test_a_commit_that_was_not_answered_is_repeated_and_knows_itself(fault: str) -> None:
    async def story(stage: Stage) -> None:
        one = stage.environment()
        stage.add("m0")
        await stage.queue.deliver(one)
        stage.add("m1", "m2")
        stage.fault = fault
        await stage.queue.deliver_all(one)
        assert stage.cut.is_set()
        assert await stage.seen() == ["m0", "m1", "m2"]
        assert stage.ran == ["m0", "m1", "m2"]

    play(story)


def test_an_answer_to_the_queue_that_is_lost() -> None:
    async def story(stage: Stage) -> None:
        one = stage.environment()
        stage.add("m1", "m2")
        await stage.queue.deliver(one, forget=True)
        stage.add("m3")
        await stage.queue.deliver_all(stage.environment())
        assert stage.queue.handed == [("m1", "m2"), ("m1", "m2", "m3")]
        assert stage.ran == await stage.seen() == ["m1", "m2", "m3"]

    play(story)


def test_an_environment_that_was_frozen_comes_back_with_an_old_batch() -> None:
    async def story(stage: Stage) -> None:
        one, two = stage.environment(), stage.environment()
        stage.add("m1", "m2")
        old = stage.queue.event(stage.queue.receive())
        await asyncio.sleep(VISIBILITY_SECONDS + 1)
        stage.add("m3")
        await stage.queue.deliver_all(two)
        many = [f"x{number}" for number in range(3 * MOST_HANDLED)]
        stage.add(*many)
        await stage.queue.deliver_all(two)
        store = open_memory_home(data=stage.data, owner="a day later").store
        for page in (await store.query("actor#Till#u1", prefix=PAGE_PREFIX)).items:  # what TTL deletes: the mark stays
            await store.write(Delete(page.partition, page.sort))
        assert await one.invoke(old) == {"batchItemFailures": []}
        assert await stage.seen() == ["m1", "m2", "m3", *many]

    play(story)


def test_an_owner_that_is_overtaken_in_the_middle_of_its_commit_writes_nothing() -> None:
    async def story(stage: Stage) -> None:
        one, two = stage.environment(), stage.environment()
        stage.add("m0")
        await stage.queue.deliver(one)
        stage.add("m1", "m2")
        old = stage.queue.event(stage.queue.receive())
        store = open_memory_home(data=stage.data, owner="look").store
        held = asyncio.Event()
        stage.broken.add("never")

        async def freeze(*_: Any) -> None:
            head = await store.get("actor#Till#u1", HEAD)
            assert head is not None and head.owner is not None
            await store.write(
                Update(partition="actor#Till#u1", owner=None, lease_until=None, add_epoch=1, status="READY")
            )
            held.set()

        stage.fault = "refused"  # its first commit gets no answer; meanwhile it loses the actor, and another works
        invocation = asyncio.ensure_future(one.invoke(old))
        await stage.cut.wait()
        await freeze()
        await asyncio.sleep(0)
        answer = await invocation
        await asyncio.sleep(VISIBILITY_SECONDS + 1)
        await stage.queue.deliver_all(two)
        assert await stage.seen() == ["m0", "m1", "m2"]
        assert answer["batchItemFailures"] in ([], [{"itemIdentifier": each["messageId"]} for each in old["Records"]])

    play(story)


def test_a_batch_that_two_environments_are_handed_at_once() -> None:
    async def story(stage: Stage) -> None:
        one, two = stage.environment(), stage.environment()
        stage.add("first")
        await stage.queue.deliver(one)
        stage.add(*TEN)
        event = stage.queue.event(stage.queue.receive())
        answers = await asyncio.gather(one.invoke(event), two.invoke(event))
        assert answers == [{"batchItemFailures": []}] * 2
        assert await stage.seen() == ["first", *TEN]

    play(story)


def test_an_actor_that_a_worker_of_ones_own_holds_gets_them_in_its_inbox() -> None:
    async def story(stage: Stage) -> None:
        app, one = stage.app(), stage.environment()
        async with app.worker():
            await app.registry.actors["Till"].cls.at("u1").add("w0")  # type: ignore[attr-defined]
            await app.registry.actors["Till"].cls.at("u1").add("w1")  # type: ignore[attr-defined]
            stage.add("m1", "m2", "m3")
            stage.broken.add("m3")
            await stage.queue.deliver(one)
            assert [each.dedup for each in stage.queue.kept] == ["m3"]
            stage.broken.clear()
            await stage.queue.deliver_all(one)
            stage.add("m4")
            await stage.queue.deliver_all(one)
        await asyncio.sleep(3600)
        stage.add("m1", "m3", "m5")
        await stage.queue.deliver_all(one)
        assert await stage.seen() == ["w0", "w1", "m1", "m2", "m3", "m4", "m5"]
        attempts = [key for what, key in zip(stage.ran, stage.keys, strict=True) if what == "m3"]
        assert len(attempts) == 2 and len(set(attempts)) == 1, "another attempt has the same key (G10)"

    play(story)


# ── Failures ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_that_fails_holds_up_its_group_and_comes_back_after_the_back_off_in_order() -> None:
    async def story(stage: Stage) -> None:
        one = stage.environment()
        stage.broken = {"m2"}
        stage.add("m0", "m1", "m2", "m3", "m4")
        stage.add("other", group="u2")
        began = stage.clock.now_ms()
        await stage.queue.deliver(one)
        assert [each.dedup for each in stage.queue.kept] == ["m2", "m3", "m4"]
        assert await stage.seen() == ["m0", "m1"]
        assert len(stage.queue.postponed) == 3, "those behind it, too: a hidden one blocks the group"
        assert all(0.5 <= each <= 1.0 for each in stage.queue.postponed)
        while len([each for each in stage.ran if each == "m2"]) < 5:
            await stage.queue.deliver(one) or await asyncio.sleep(1)
        seconds = (stage.clock.now_ms() - began) / 1000
        assert 7.5 <= seconds <= 25, "1 + 2 + 4 + 8, of which up to a half is random"
        stage.broken.clear()
        await stage.queue.deliver_all(one)
        assert await stage.seen() == ["m0", "m1", "m2", "m3", "m4"]
        assert await stage.seen("u2") == ["other"]

    play(story)


def test_the_back_off_is_the_classes_choice_and_has_a_limit() -> None:
    async def story(stage: Stage) -> None:
        one = stage.environment()
        stage.broken = {"m1"}
        stage.add("m1")
        while stage.ran.count("m1") < 6:
            await stage.queue.deliver(one) or await asyncio.sleep(1)
        assert stage.queue.postponed == [3.0, 12.0, 20.0, 20.0, 20.0, 20.0]

    jitter = hf.Retry(max_attempts=50, initial="3s", backoff=4, max_delay="20s", jitter=hf.Jitter.NONE)
    play(story, ordered_retry=jitter)


def test_one_that_never_succeeds_is_parked_and_those_behind_it_are_applied_at_once() -> None:
    async def story(stage: Stage) -> None:
        one = stage.environment()
        stage.broken = {"m2"}
        stage.add("m1", "m2", "m3")
        await stage.queue.deliver_all(one)
        assert stage.ran.count("m2") == 3
        assert await stage.seen() == ["m1", "m3"]
        assert await stage.parked() == [{"what": "m2"}]
        stage.broken.clear()
        app = stage.app()
        async with app.worker():
            (parked,) = await app.actor("Till", "u1").parked()
            await app.actor("Till", "u1").unpark(parked.place)
            while await stage.seen() != ["m1", "m3", "m2"]:
                await asyncio.sleep(1)
        await asyncio.sleep(3600)
        stage.add("m2")
        await stage.queue.deliver_all(one)
        assert await stage.seen() == ["m1", "m3", "m2"], "a repeat of what was parked"

    play(story, ordered_retry=hf.Retry(max_attempts=3))


def test_a_class_that_halts_never_lets_others_overtake() -> None:
    async def story(stage: Stage) -> None:
        one = stage.environment()
        stage.broken = {"m1"}
        stage.add("m1", "m2")
        while stage.ran.count("m1") < 8:
            await stage.queue.deliver(one) or await asyncio.sleep(1)
        stage.broken.clear()
        await stage.queue.deliver_all(one)
        assert await stage.seen() == ["m1", "m2"]
        assert await stage.parked() == []

    play(story, ordered_retry=hf.Retry(max_attempts=3), poison="halt")


def test_what_reaches_no_actor_becomes_a_dead_letter_after_a_back_off() -> None:
    async def story(stage: Stage) -> None:
        one = stage.environment()
        stage.queue.receives = 5
        stage.queue.send("u1", "this is no JSON")
        began = stage.clock.now_ms()
        await stage.queue.deliver_all(one)
        stage.add("m1")
        await stage.queue.deliver_all(one)
        assert [each.body for each in stage.queue.dead] == ["this is no JSON"]
        assert stage.clock.now_ms() - began < 60_000
        assert await stage.seen() == ["m1"]

    play(story)


def test_a_queue_whose_visibility_cannot_be_changed_delivers_when_it_would_anyway() -> None:
    async def story(stage: Stage) -> None:
        one = stage.environment()
        stage.broken, stage.queue.broken = {"m1"}, "AccessDenied"
        stage.add("m1", "m2")
        await stage.queue.deliver(one)
        assert one._worker is not None
        assert one._worker.host.telemetry.counts["postpone_failed"] == 1
        stage.broken.clear()
        await stage.queue.deliver_all(one)
        assert await stage.seen() == ["m1", "m2"]

    play(story)


def test_what_an_invocation_has_no_time_for_comes_to_the_next_when_the_lease_is_over() -> None:
    async def story(stage: Stage) -> None:
        one = stage.environment()
        stage.seconds = 3.0
        stage.add(*TEN)
        messages = stage.queue.receive()
        began = stage.clock.now_ms()
        stage.queue.settle(messages, await one.invoke(stage.queue.event(messages), Context(20.0, "request")))
        done = 10 - len(stage.queue.kept)
        assert 3 <= done <= 6, "what has run is committed, and the rest was not begun"
        seen = await stage.seen()
        assert seen in (list(TEN[:done]), list(TEN[: done + 1])), "the last commit may have come too late to be told"
        while stage.queue.kept:
            await stage.queue.deliver(stage.environment()) or await asyncio.sleep(1)
        assert await stage.seen() == list(TEN)
        assert stage.clock.now_ms() - began < 60_000, "not hidden for six minutes"

    play(story)


def test_a_dead_letter_leaves_a_gap_and_comes_back_behind_the_others() -> None:
    async def story(stage: Stage) -> None:
        one = stage.environment()
        stage.queue.receives = 2
        stage.add("m1")
        stage.queue.send("u1", "this is no JSON", dedup="m2")
        stage.add("m3")
        await stage.queue.deliver_all(one)
        assert await stage.seen() == ["m1"], "SQS counts a receipt of m3 for each of m2"
        assert [each.sequence for each in stage.queue.dead] == [2, 3]
        for each in stage.queue.dead:
            body = {"actor": "Till", "method": "add", "args": [f"sent back {each.sequence}"]}
            stage.queue.send("u1", body, dedup=each.id)
        stage.add("m4")
        await stage.queue.deliver_all(one)
        assert await stage.seen() == ["m1", "sent back 2", "sent back 3", "m4"]

    play(story)
