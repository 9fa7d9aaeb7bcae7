"""Queues on every home: who begins, who waits, and when a slot is free again."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import structs
from tests.backends.aws import hostile
from tests.flow.held import Stay, declare, gate_of, places, start

import holdfast as hf
from holdfast.commands import perform
from holdfast.commands.execution import Show
from holdfast.flow.choose import Rules, Waiting
from holdfast.flow.gate import books_of
from holdfast.flow.record import PLACE_PREFIX, GateRecord, Slot
from holdfast.items import Item


@pytest.fixture
def stay() -> Stay:
    return Stay()


async def test_no_more_than_the_limit_begin(app: hf.App, stay: Stay, eventually) -> None:
    letter = declare(app, stay, limit=2)
    async with app.worker():
        handles = await start(letter, *[f"a-{number}" for number in range(6)])
        await eventually(lambda: len(stay.inside) == 2)
        statuses = [(await handle.status()).status for handle in handles]
        assert statuses.count("QUEUED") == 4
        for _ in range(6):
            stay.go()
        assert await asyncio.gather(*handles) == [f"a-{number}" for number in range(6)]
        assert stay.most == 2
        await eventually(lambda: _is_empty(app))


async def _is_empty(app: hf.App) -> bool:
    return not (await gate_of(app)).held and not await places(app)


async def test_they_begin_in_the_order_of_their_starts(app: hf.App, stay: Stay, eventually) -> None:
    letter = declare(app, stay, limit=1)
    async with app.worker():
        (first,) = await start(letter, "a-first")
        await eventually(lambda: stay.inside == ["a-first"])
        names = [f"a-{number}" for number in (3, 1, 2)]
        others = []
        for name in names:
            others += await start(letter, name)
            await asyncio.sleep(0.002)  # the order of two starts in one millisecond is not told
        ahead = await letter.start("a-0", id="a-0", queued=hf.Queued(key="a", ahead="1h"))
        stay.go(5)
        await asyncio.gather(first, ahead, *others)
        assert stay.order == ["a-first", "a-0", *names]


async def test_keys_have_limits_of_their_own_and_take_turns(app: hf.App, stay: Stay, eventually) -> None:
    letter = declare(app, stay, limit=3, limit_per_key=2)
    async with app.worker():
        handles = await start(letter, *[f"flood-{number}" for number in range(6)], "small-0", "small-1")
        await eventually(lambda: len(stay.inside) == 3)
        stay.go(8)
        await asyncio.gather(*handles)
        assert (stay.most, stay.most_of["flood"]) == (3, 2)
        small = [each for each in stay.order[:3] if each.startswith("small")]
        assert small == ["small-0"] or (small == ["small-1"] and hostile.is_hostile())  # a page may be torn


async def test_what_was_started_by_a_client_begins_with_the_worker(app: hf.App, stay: Stay) -> None:
    letter = declare(app, stay, limit=1)
    async with app:
        handles = await start(letter, "a-0", "a-1")
        assert (await handles[0].status()).status == "QUEUED"
    stay.go(2)
    async with app.worker():
        assert await asyncio.gather(*handles) == ["a-0", "a-1"]


async def test_a_slot_is_held_while_the_execution_sleeps_and_when_its_worker_stops(app: hf.App, eventually) -> None:
    queue = app.queue("mail", limit=1)

    @app.workflow(queue=queue)
    async def waits() -> str:
        return await hf.signal("go", str)

    async with app.worker():
        first, second = await waits.start(id="1"), await waits.start(id="2")
        await eventually(lambda: _status(first, "SUSPENDED"))
        assert await _status(second, "QUEUED")
    async with app.worker():
        assert list((await gate_of(app)).held) == ["wf#waits#1"]
        await first.signal("go", "on")
        assert await first == "on"
        await second.signal("go", "on")
        assert await second == "on"


async def _status(handle: hf.Handle[str], status: str) -> bool:
    return (await handle.status()).status == status


async def test_a_child_in_the_queue_of_its_parent_shares_the_slot(app: hf.App) -> None:
    queue = app.queue("mail", limit=1)

    @app.workflow(queue=queue)
    async def leaf() -> str:
        return "leaf"

    @app.workflow(queue=queue)
    async def middle() -> str:
        return await leaf()

    @app.workflow
    async def between() -> str:
        return await middle()

    @app.workflow(queue=queue)
    async def root() -> str:
        return await between()

    async with app.worker():
        assert await root() == "leaf"


async def test_a_child_in_another_queue_waits_there(app: hf.App, stay: Stay, eventually) -> None:
    letter = declare(app, stay, limit=1)

    @app.workflow
    async def both() -> list[str]:
        return list(await asyncio.gather(letter("a-0"), letter("a-1")))

    async with app.worker():
        handle = await both.start()
        await eventually(lambda: stay.inside)
        stay.go(2)
        assert await handle == ["a-0", "a-1"]
        assert stay.most == 1


async def test_what_is_retried_waits_again(app: hf.App, stay: Stay, eventually) -> None:
    queue, broken = app.queue("mail", limit=1), [True]

    @app.step(retry=hf.Retry(max_attempts=1))
    async def send(name: str) -> str:
        if broken[0]:
            raise OSError(name)
        return await stay(name)

    @app.workflow(queue=queue)
    async def letter(name: str) -> str:
        return await send(name)

    async with app.worker():
        failed = await letter.start("a", id="a")
        with pytest.raises(hf.ExecutionFailed):
            await failed
        broken[0] = False
        other = await letter.start("b", id="b")
        await eventually(lambda: stay.inside == ["b"])
        await failed.retry()
        assert await _status(failed, "QUEUED")
        stay.go(2)
        assert await asyncio.gather(failed, other) == ["a", "b"]
        assert stay.most == 1


async def test_a_parent_and_its_child_are_retried_in_one_slot(app: hf.App) -> None:
    queue, broken = app.queue("mail", limit=1), [True]

    @app.step(retry=hf.Retry(max_attempts=1))
    async def work() -> str:
        if broken[0]:
            raise OSError("not yet")
        return "done"

    @app.workflow(queue=queue)
    async def child() -> str:
        return await work()

    @app.workflow(queue=queue)
    async def parent() -> str:
        return await child()

    async with app.worker():
        handle = await parent.start(id="p")
        with pytest.raises(hf.ExecutionFailed):
            await handle
        broken[0] = False
        await handle.retry()
        assert await handle == "done"


async def test_what_waits_is_cancelled_without_a_slot(app: hf.App, stay: Stay, eventually) -> None:
    letter = declare(app, stay, limit=1)
    async with app.worker():
        (first, second, third) = await start(letter, "a-0", "a-1", "a-2")
        await eventually(lambda: stay.inside == ["a-0"])
        await second.cancel("not needed")
        with pytest.raises(hf.ExecutionCancelled, match="not needed"):
            await second
        await third.terminate("not at all")
        with pytest.raises(hf.ExecutionTerminated):
            await third
        (fourth,) = await start(letter, "a-3")
        stay.go(2)
        assert await asyncio.gather(first, fourth) == ["a-0", "a-3"]
        assert stay.order == ["a-0", "a-3"]
        await eventually(lambda: _is_empty(app))


async def test_a_parent_learns_that_its_child_was_cancelled_while_it_waited(
    app: hf.App, stay: Stay, eventually
) -> None:
    letter = declare(app, stay, limit=1)

    @app.workflow
    async def parent() -> str:
        try:
            return await letter.options(id="child")("a-1")
        except hf.ExecutionCancelled:
            return "cancelled"

    async with app.worker():
        (first,) = await start(letter, "a-0")
        await eventually(lambda: stay.inside == ["a-0"])
        handle = await parent.start(id="p")
        child = letter.handle("child")
        await eventually(lambda: _waits(child))
        await child.cancel("no")
        assert await handle == "cancelled"
        stay.go()
        await first


async def _waits(handle: hf.Handle[str]) -> bool:
    try:
        return await _status(handle, "QUEUED")
    except hf.NotFound:
        return False


async def test_a_paused_one_keeps_no_place_and_gets_one_when_it_is_resumed(app: hf.App, stay: Stay, eventually) -> None:
    letter = declare(app, stay, limit=1)
    async with app.worker():
        first, second, third = await start(letter, "a-0", "a-1", "a-2")
        await eventually(lambda: stay.inside == ["a-0"])
        await second.pause()
        stay.go()
        await eventually(lambda: stay.inside == ["a-2"])
        assert await _status(second, "PAUSED")
        await second.resume()
        assert await _status(second, "QUEUED")
        stay.go(2)
        assert await asyncio.gather(first, second, third) == ["a-0", "a-1", "a-2"]
        assert stay.most == 1


async def test_a_paused_waiter_that_is_cancelled_ends_without_a_slot(app: hf.App, stay: Stay, eventually) -> None:
    letter = declare(app, stay, limit=1)
    async with app.worker():
        first, second = await start(letter, "a-0", "a-1")
        await eventually(lambda: stay.inside == ["a-0"])
        await second.pause()
        await second.cancel("no")
        with pytest.raises(hf.ExecutionCancelled):
            await second
        stay.go()
        await first
        assert stay.order == ["a-0"]


async def test_its_timeout_ends_it_while_it_waits(app: hf.App, stay: Stay, eventually) -> None:
    letter = declare(app, stay, limit=1)
    async with app.worker():
        (first,) = await start(letter, "a-0")
        await eventually(lambda: stay.inside == ["a-0"])
        late = await letter.start("a-1", id="a-1", timeout="50ms")
        with pytest.raises(hf.ExecutionTimedOut):
            await late
        stay.go()
        await first
        assert stay.order == ["a-0"]


async def test_a_delayed_start_takes_its_place_when_it_is_due(app: hf.App, stay: Stay, eventually) -> None:
    letter = declare(app, stay, limit=1)
    async with app.worker():
        delayed = await letter.start("a-0", id="a-0", queued=hf.Queued(delay="200ms"))
        assert await _status(delayed, "QUEUED") and not await places(app)
        (other,) = await start(letter, "a-1")
        await eventually(lambda: stay.inside == ["a-1"])
        stay.go(2)
        assert await asyncio.gather(delayed, other) == ["a-0", "a-1"]
        assert stay.order == ["a-1", "a-0"]


async def test_a_signal_waits_with_it(app: hf.App, eventually) -> None:
    queue = app.queue("mail", limit=1)

    @app.workflow(queue=queue)
    async def waits() -> str:
        return await hf.signal("go", str)

    async with app.worker():
        first, second = await waits.start(id="1"), await waits.start(id="2")
        await eventually(lambda: _status(first, "SUSPENDED"))
        await second.signal("go", "two")
        await first.signal("go", "one")
        assert await asyncio.gather(first, second) == ["one", "two"]


async def test_a_full_queue_refuses_a_start_and_writes_nothing(app: hf.App, stay: Stay, eventually) -> None:
    letter = declare(app, stay, limit=1, most_waiting=2)
    async with app.worker():
        (first,) = await start(letter, "a-0")
        await eventually(lambda: stay.inside == ["a-0"])
        second, third = await start(letter, "a-1", "a-2")

        async def refuses() -> bool:
            try:
                await start(letter, "a-3")
            except hf.QueueFull:
                return True
            return False

        assert await eventually(refuses)
        assert await app.runtime().home.store.get("wf#letter#a-3") is None
        assert (await letter.start("a-2", id="a-2")).id == "a-2"  # it is there already
        stay.go(3)
        await asyncio.gather(first, second, third)


def test_a_place_that_was_read_before_its_writer_told_of_it_counts_once() -> None:
    place = Waiting(0, f"{PLACE_PREFIX}{7:015}#a-0", "", "wf#letter#a-0")
    books = books_of(Item("flow#shop#mail"), GateRecord(), Rules(limit=1))
    books.came = [place, place]
    assert books.waiting_with_news == 1
    books.chooser.add(place)
    assert books.waiting_with_news == 1
    assert books.chooser.pick(0) == place
    books.held[place.partition] = Slot("", 1, 7)
    assert books.waiting_with_news == 0, "it has its slot"
    books.came = [structs.replace(place, sort=f"{PLACE_PREFIX}{8:015}#a-0")]
    assert books.waiting_with_news == 1, "it waits again"


async def test_a_rate_spaces_what_begins(app: hf.App, eventually) -> None:
    queue = app.queue("mail", rate=hf.Rate(20, per="1s"))

    @app.workflow(queue=queue)
    async def letter() -> None:
        return None

    async with app.worker():
        handles = [await letter.start() for _ in range(4)]
        began = asyncio.get_running_loop().time()
        await asyncio.gather(*handles)
        assert asyncio.get_running_loop().time() - began >= 0.1  # three intervals of 50 ms, less what has passed


async def test_an_execution_of_a_queue_is_forked_into_it(app: hf.App, stay: Stay, eventually) -> None:
    letter = declare(app, stay, limit=1)
    stay.go()
    async with app.worker():
        (first,) = await start(letter, "a-0")
        await first
        (second,) = await start(letter, "a-1")
        await eventually(lambda: stay.inside == ["a-1"])
        forked = await first.fork("f")
        assert await _status(forked, "QUEUED")
        stay.go()
        assert await asyncio.gather(second, forked) == ["a-1", "a-0"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"queue": "mail"}, "what app.queue"),
        ({"queue_key": "to"}, "of no use without a queue"),
        ({"queue_key": "tenant.id"}, "no parameter of it; it has: to"),
        ({"queue_key": ""}, "a path from a parameter"),
    ],
)
def test_a_queue_that_does_not_fit_its_workflow_is_refused_where_it_is_declared(given, told) -> None:
    app = hf.App("shop")
    queue = app.queue("mail")

    async def letter(to: str) -> None: ...

    with pytest.raises(hf.InvalidInput, match=told):
        app.workflow(letter, **({"queue": queue, **given} if given != {"queue_key": "to"} else given))


async def test_a_workflow_without_a_queue_refuses_a_place(app: hf.App) -> None:
    @app.workflow
    async def plain() -> None:
        return None

    async with app:
        with pytest.raises(hf.InvalidInput, match="has no queue"):
            await plain.start(queued=hf.Queued(key="a"))


async def test_what_is_shown_says_that_it_waits_in_a_queue(memory_world, stay: Stay, eventually) -> None:
    app = memory_world.app()
    letter = declare(app, stay, limit=1)
    async with app.worker():
        first, _ = await start(letter, "a-0", "a-1")
        await eventually(lambda: stay.inside == ["a-0"])
        view = await perform(Show("letter", "a-1"), app)
        assert [trouble.title for trouble in view.troubles] == ["it waits in queue mail: its limit is reached"]
        stay.go(2)
        await first


def no_weight(key: str) -> float:
    return {"gold": 2.0, "none": 0.0, "nan": float("nan"), "all": 1e300}[key]


async def test_a_key_without_a_weight_holds_up_no_other(memory_world, caplog) -> None:
    app = memory_world.app()
    queue = app.queue("mail", limit=1, weight=no_weight)

    @app.workflow(queue=queue)
    async def letter(key: str) -> str:
        return key

    async with app.worker():
        keys = ["typo", "none", "nan", "all", "gold"]
        handles = [await letter.options(queued=hf.Queued(key=key)).start(key) for key in keys]
        assert [await each for each in handles] == keys
    assert "the weight of key 'typo' is 0.000001 to 1,000,000, not 'KeyError': 1.0 is taken for it" in caplog.text
    assert "the weight of key 'all' is" in caplog.text
