"""Executions that were parked, blocked, deleted, or that waited long for their first worker: a fault at any write."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tests.crash.site import Site, at_every_write

import holdfast as hf

MOST_DEATHS = 3
ONCE = hf.Retry(max_attempts=1)
HOUR = 3_600.0


class Deadly(Site):
    """A step kills its process until somebody mends it. While it is parked it is sent the same signal several times."""

    limits = hf.Limits(most_deaths=MOST_DEATHS)

    def __init__(self, victim, plan):
        super().__init__(victim, plan)
        self.kills, self.begun = True, 0

    def build(self, app, ledger):
        @app.step(retry=ONCE)
        async def charge() -> str:
            self.begun += 1
            if self.kills:
                next(each for each in self.world.processes if each.app is app).crash()
                await asyncio.sleep(1)
            return ledger.effect("charged")

        @app.workflow
        async def order() -> list[str]:
            paid = await charge()
            packed = [await hf.signal("packed", str)]
            with suppress(TimeoutError):
                packed.append(await hf.signal("packed", str, timeout="1m"))
            return [paid, *packed]

        async def user():
            return None

        return user

    async def story(self):
        self.open_up()
        await self.ask(lambda app: app.registry.workflow("order").start(id="o"))
        await self.reaches("BLOCKED")
        await asyncio.sleep(90)
        deaths, self.kills = self.begun, False
        for _ in range(3):
            await self.ask(lambda app: app.handle("order", "o").signal("packed", "box", id="scan-1"))
            await asyncio.sleep(10)
        parked = (await self.ask(lambda app: app.handle("order", "o").status())).status
        await self.ask(lambda app: app.handle("order", "o").resume())
        result = await self.ask(lambda app: app.handle("order", "o").result("1h"))
        return deaths, parked, result


def test_a_parked_execution_is_resumed_once_and_has_each_signal_once():
    for place, site in at_every_write(Deadly):
        deaths, parked, result = site.told
        assert (parked, result, site.wrong) == ("BLOCKED", ["charged", "box"], []), place
        assert site.begun - deaths <= 2, place
        assert MOST_DEATHS - 1 <= deaths <= MOST_DEATHS + 1, place  # the one that dies of the fault counts, too
        assert site.world.ledger.accepted


class RolledBack(Site):
    """A deploy that does not fit blocks it; the old code comes back, and it goes on."""

    def __init__(self, victim, plan):
        super().__init__(victim, plan)
        self.version = "1"

    def build(self, app, ledger):
        version = self.version

        @app.step
        async def charge(cents: int) -> str:
            return ledger.effect(f"charged {cents}")

        @app.step
        async def pack() -> str:
            return ledger.effect("packed")

        @app.workflow(version=version)
        async def order() -> list[str]:
            paid = await charge(100 if version == "1" else 200)
            await hf.signal("go")
            return [paid, await pack()]

        async def user():
            return None

        return user

    async def deploy(self, version):
        await self.close_down()
        self.version = version
        self.open_up()

    async def story(self):
        self.open_up()
        await self.ask(lambda app: app.registry.workflow("order").start(id="o"))
        await self.reaches("SUSPENDED")
        await self.deploy("2")
        await self.ask(lambda app: app.handle("order", "o").signal("go", id="go"))
        await self.reaches("BLOCKED")
        await asyncio.sleep(90)
        await self.deploy("1")
        return await self.ask(lambda app: app.handle("order", "o").result("1h"))


def test_a_blocked_execution_goes_on_when_the_code_is_rolled_back():
    for place, site in at_every_write(RolledBack):
        assert (site.told, site.wrong) == (["charged 100", "packed"], []), place
        assert sorted(site.world.ledger.accepted.values()) == ["charged 100", "packed"], place


class Late(Site):
    """Started a day before there is a worker. Its waits and time-outs count from when it comes to them."""

    def build(self, app, ledger):
        @app.step
        async def work(name: str) -> str:
            await asyncio.sleep(20)
            return ledger.effect(name)

        @app.workflow
        async def job() -> list[str]:
            async with asyncio.timeout(60):
                first = await work("first")
            await hf.sleep("10m")
            async with asyncio.timeout(60):
                return [first, await work("second")]

        self.job = job

        async def user():
            return job

        return user

    async def story(self):
        client = await self.world.client()
        job = await client.call(client.user)
        handle = await client.call(lambda: job.start(id="j"))
        await asyncio.sleep(24 * HOUR)
        self.open_up()
        came = self.world.loop.time()
        result = await client.call(lambda: handle.result("1h"))
        took = self.world.loop.time() - came
        await client.stop()
        return result, took


def test_waits_count_durably_from_where_a_late_worker_comes_to_them():
    for place, site in at_every_write(Late):
        result, took = site.told
        assert (result, site.wrong) == (["first", "second"], []), place
        assert 640 <= took <= 640 + 60, place


class Deleted(Site):
    """An execution is deleted, and its id used again."""

    def build(self, app, ledger):
        @app.step
        async def work(n: int) -> int:
            return ledger.effect(n)

        @app.workflow
        async def job(n: int) -> int:
            for each in range(n):  # the second one does nothing: nonces are all alike in a simulation
                await work(each)
                await hf.sleep(1)
            return n

        async def user():
            return None

        return user

    async def story(self):
        self.open_up()
        await self.ask(lambda app: app.registry.workflow("job").start(3, id="j"))
        first = await self.ask(lambda app: app.handle("job", "j").result())
        await self.ask(self.delete)
        await asyncio.sleep(2 * HOUR)  # its places stay taken for one
        left = [each for each in await self.world.database.items() if each.partition.startswith("wf#")]
        await self.ask(lambda app: app.registry.workflow("job").start(0, id="j"))
        return first, left, await self.ask(lambda app: app.handle("job", "j").result())

    async def delete(self, app):
        with suppress(hf.NotFound):
            await app.handle("job", "j").delete()


def test_an_execution_that_is_deleted_leaves_nothing_and_its_id_is_free():
    for place, site in at_every_write(Deleted):
        assert (site.told, site.wrong) == ((3, [], 0), []), place
        assert sorted(site.world.ledger.accepted.values()) == [0, 1, 2], place


class Closed(Site):
    """An actor is deleted, with a message for later, a timer and a parked message, and begins anew."""

    def build(self, app, ledger):
        class Cart(hf.Actor, app=app, retry=ONCE):
            items: list[str] = hf.field(default_factory=list)

            async def add(self, sku: str) -> list[str]:
                if sku == "bad":
                    raise ValueError(sku)
                self.items.append(sku)
                return self.items

            async def remind(self) -> None:
                self.late.after("1m")

            @hf.timer
            async def late(self) -> None:
                self.items.append("late")

        self.cart = Cart

        async def user():
            return Cart

        return user

    async def story(self):
        self.open_up()
        await self.ask(lambda _app: self.cart.at("c", request_id="1").add("lamp"))
        await self.ask(lambda _app: self.cart.at("c", request_id="2").remind())
        await self.ask(lambda _app: hf.send(self.cart.at("c", request_id="3").add, "chair", delay="2m"))
        await self.ask(lambda _app: hf.send(self.cart.at("c", request_id="5").add, "bad"))
        await asyncio.sleep(10)
        await self.ask(lambda app: app.actor("Cart", "c").delete())
        await asyncio.sleep(HOUR)
        return await self.ask(lambda _app: self.cart.at("c", request_id="4").add("desk"))


def test_an_actor_that_is_deleted_begins_anew_with_nothing_of_before():
    for place, site in at_every_write(Closed):
        assert (site.told, site.wrong) == (["desk"], []), place
