"""Messages that fail: tried again, then set aside or stopped at; nothing is lost, and people can mend it."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home

THREE = hf.Retry(max_attempts=3, initial="1ms", backoff=1, jitter=hf.Jitter.NONE)


def declare(app, **options):
    class Line(hf.Actor, app=app, **({"retry": THREE} | options)):
        done: list[int] = hf.field(default_factory=list)

        async def work(self, n: int) -> int:
            self.done.append(n)
            attempts.append(n)
            if n in broken:
                raise ValueError(f"bad {n}")
            return n

        @hf.read
        async def all(self) -> list[int]:
            return self.done

    attempts: list[int] = []
    broken = {13}
    Line.attempts, Line.broken = attempts, broken
    return Line


async def done(line, *numbers):
    return await line.at("l").all() == list(numbers)


async def test_a_message_that_fails_is_parked_and_the_others_go_on(world, eventually):
    app = world.app()
    line = declare(app)
    async with app.worker():
        for n in (1, 13, 2):
            await hf.send(line.at("l").work, n, request_id=f"m-{n}")
        await eventually(lambda: done(line, 1, 2))
        (parked,) = await app.actor("Line", "l").parked()
        assert (parked.id, parked.method, parked.args, parked.attempts) == ("m-13", "work", {"n": 13}, 3)
        assert parked.error.message == "bad 13"
        assert line.attempts == [1, 13, 13, 13, 2]
        assert await app.actor("Line", "l").request_status("m-13") == "parked"
        assert await app.actor("Line", "l").request_status("m-2") == "completed"


async def test_a_parked_message_can_be_put_back_with_other_arguments(world, eventually):
    app = world.app()
    line = declare(app)
    async with app.worker():
        await hf.send(line.at("l").work, 13)
        (parked,) = await eventually(app.actor("Line", "l").parked)
        with pytest.raises(hf.InvalidInput, match="n"):
            await app.actor("Line", "l").unpark(parked.place, args={"n": "x"})
        with pytest.raises(hf.NotFound):
            await app.actor("Line", "l").unpark("p#no such place")
        await app.actor("Line", "l").unpark(parked.place, args=[7])
        await eventually(lambda: done(line, 7))
        assert await app.actor("Line", "l").parked() == ()
        with pytest.raises(hf.NotFound):
            await app.actor("Line", "l").unpark(parked.place)


async def test_a_parked_message_can_be_put_back_as_it_was_or_discarded(world, eventually):
    app = world.app()
    line = declare(app)
    async with app.worker():
        await hf.send(line.at("l").work, 13)
        (parked,) = await eventually(app.actor("Line", "l").parked)
        line.broken.clear()
        await app.actor("Line", "l").unpark(parked.place)
        await eventually(lambda: done(line, 13))
        line.broken.add(4)
        await hf.send(line.at("l").work, 4)
        (parked,) = await eventually(app.actor("Line", "l").parked)
        await app.actor("Line", "l").discard(parked.place)
        assert await app.actor("Line", "l").parked() == ()
        with pytest.raises(hf.NotFound):
            await app.actor("Line", "l").discard(parked.place)


async def test_a_message_parked_by_an_actor_that_was_deleted_can_be_put_back(world, eventually):
    app = world.app()
    line = declare(app)
    async with app.worker():
        await hf.send(line.at("l").work, 13)
        (parked,) = await eventually(app.actor("Line", "l").parked)
        await app.actor("Line", "l").delete()
        line.broken.clear()
        await app.actor("Line", "l").unpark(parked.place)
        await eventually(lambda: done(line, 13))


async def test_an_actor_that_halts_keeps_the_order_and_says_so(world, eventually):
    app = world.app()
    line = declare(app, poison="halt")

    async def halted():
        status = await app.actor("Line", "l").status()
        return status if status.status == "HALTED" else None

    async with app.worker():
        for n in (1, 13, 2):
            await hf.send(line.at("l").work, n)
        status = await eventually(halted)
        waiting = await app.actor("Line", "l").messages()
        assert [each.args for each in waiting] == [{"n": 13}, {"n": 2}]
        assert waiting[0].place == status.halted_by
        assert waiting[0].attempts == 3
        assert await line.at("l").all() == [1]
        with pytest.raises(hf.InvalidState, match="halted"):
            await line.at("l").work(3)
        line.broken.clear()
        await hf.send(line.at("l").work, 4)
        await app.actor("Line", "l").resume()
        await eventually(lambda: done(line, 1, 13, 2, 4))
        with pytest.raises(hf.InvalidState, match="not halted"):
            await app.actor("Line", "l").resume()


async def test_a_halted_actor_refuses_clients_too_and_its_head_is_no_work(world, eventually):
    app, client = world.app(), world.app()
    line = declare(app, poison="halt")
    away = declare(client, poison="halt")

    async def halted():
        return (await app.actor("Line", "l").status()).status == "HALTED"

    async with app.worker(), client:
        await hf.send(line.at("l").work, 13)
        await eventually(halted)
        with pytest.raises(hf.InvalidState, match="halted"):
            await away.at("l").work(1)
        page = await app.runtime().home.store.due(2**60)
        assert page.items == ()


async def test_a_resumed_actor_halts_again_if_nothing_has_changed(world, eventually):
    app = world.app()
    line = declare(app, poison="halt")

    async def halted(attempts):
        return len(line.attempts) == attempts and (await app.actor("Line", "l").status()).status == "HALTED"

    async with app.worker():
        await hf.send(line.at("l").work, 13)
        await eventually(lambda: halted(3))
        await app.actor("Line", "l").resume()
        await eventually(lambda: halted(6))


async def test_calls_are_never_tried_again_and_never_parked(world):
    app, client = world.app(), world.app()
    line = declare(app)
    away = declare(client)
    async with app.worker(), client:
        for each in (line, away):
            with pytest.raises(ValueError, match="bad 13"):
                await each.at("l").work(13)
        assert line.attempts == [13, 13]
        assert await app.actor("Line", "l").parked() == ()


async def test_a_message_of_a_method_that_is_gone_is_parked(world, eventually):
    old = world.app()

    class Old(hf.Actor, app=old, name="Line"):
        async def gone(self) -> None: ...

    async with old:
        await hf.send(Old.at("l").gone)
    app = world.app()
    line = declare(app)
    async with app.worker():
        (parked,) = await eventually(app.actor("Line", "l").parked)
        assert parked.method == "gone"
        assert "no method 'gone'" in parked.error.message
        assert await line.at("l").work(1) == 1


class Killer:
    """A process that dies at once, as by kill -9: leases stay behind."""

    def __init__(self, data):
        self.data = data
        self.died = asyncio.Event()

    def app(self, retry=THREE):
        async def open_shared():
            return open_memory_home(data=self.data)

        app = hf.App("shop", home=open_shared, limits=hf.Limits(sweep_seconds=0.02))
        killer = self

        class Bomb(hf.Actor, app=app, retry=retry):
            n: int = 0

            async def explode(self) -> None:
                killer.died.set()
                await asyncio.Event().wait()

            async def work(self) -> int:
                self.n += 1
                return self.n

        return app, Bomb


@pytest.mark.parametrize("kind", ["message", "call"])
async def test_a_message_that_kills_its_process_is_found(kind, errors_expected):
    killer = Killer(MemoryData())
    client, bomb = killer.app()
    async with client:
        if kind == "message":
            await hf.send(bomb.at("b").explode)
            waits = None
        else:
            waits = asyncio.create_task(bomb.at("b").explode())
            await asyncio.sleep(0.01)
        await hf.send(bomb.at("b").work)
        deaths = 0
        while deaths < 50:
            app, last = killer.app()
            async with app.worker():
                found = asyncio.create_task(until_worked(app))
                died = asyncio.create_task(killer.died.wait())
                await asyncio.wait((found, died), return_when=asyncio.FIRST_COMPLETED)
                for each in (found, died):
                    each.cancel()
                if killer.died.is_set():
                    killer.died.clear()
                    deaths += 1
                    app.employed.abandon()
                    continue
                assert await last.at("b").work() == 2
            break
        assert deaths == 13  # the first, which nobody foresaw, and four for each of three attempts
        if waits is not None:
            with pytest.raises(RuntimeError, match="its process died"):
                await waits
        else:
            (parked,) = await client.actor("Bomb", "b").parked()
            assert "its process died" in parked.error.message


async def until_worked(app):
    while not (status := await app.actor("Bomb", "b").status()).state or not status.state.get("n"):
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("retry", [hf.Retry(only=(OSError,)), hf.Retry(never=(MemoryError,))], ids=["only", "never"])
async def test_which_errors_are_tried_again_says_nothing_about_deaths(retry, errors_expected):
    killer = Killer(MemoryData())
    client, bomb = killer.app(retry)
    async with client:
        await hf.send(bomb.at("b").explode)
        for _ in range(4):  # the first, which nobody foresaw, and three after that: not a whole attempt yet
            app, _bomb = killer.app(retry)
            async with app.worker():
                await killer.died.wait()
                killer.died.clear()
                app.employed.abandon()
        assert await client.actor("Bomb", "b").parked() == ()
