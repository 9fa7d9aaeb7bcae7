"""A shop in which things are prepared for every action, and what becomes of them is looked at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tests.dashboard.test_actions import until

import holdfast as hf

On = tuple[str, ...]
EXECUTIONS = "/dashboard/executions"


class World:
    """A shop whose executions and actors fail until they are mended."""

    def __init__(self, app: hf.App) -> None:
        self.app, self.is_mended, self.totals = app, False, dict[str, int]()
        world = self

        self.limits = [app.limit(f"limit-{n}", permits=1) for n in range(3)]
        self.queues = [app.queue(f"queue-{n}", limit=1) for n in range(3)]
        self.queued_workflows: list[hf.Workflow[[], None]] = []
        for n, queue in enumerate(self.queues):

            async def holder() -> None:
                await hf.sleep("1h")

            holder.__name__ = holder.__qualname__ = f"holder_{n}"
            self.queued_workflows.append(app.workflow(queue=queue)(holder))

        @app.step(retry=hf.Retry(max_attempts=2, initial="1h", max_delay="1h"))
        async def carry() -> str:
            if not world.is_mended:
                raise ConnectionError("no carrier")
            return "carried"

        @app.step(retry=hf.Retry(max_attempts=1))
        async def pay() -> str:
            if not world.is_mended:
                raise KeyError("card")
            return "paid"

        @app.workflow
        async def shipment() -> str:
            return await carry()

        @app.workflow
        async def purchase() -> str:
            return await pay()

        @app.workflow(versions="pinned")
        async def pinned() -> str:
            return await hf.signal("decision")

        class Till(hf.Actor, app=app, retry=hf.Retry(max_attempts=1), poison="halt"):
            total: int = 0

            async def add(self, amount: int) -> int:
                if not world.is_mended:
                    raise ZeroDivisionError(amount)
                self.total += amount
                world.totals[self.key] = self.total
                return self.total

        class Shelf(hf.Actor, app=app, retry=hf.Retry(max_attempts=1)):
            async def put(self, sku: str) -> None:
                if not world.is_mended:
                    raise ZeroDivisionError(sku)

        self.till, self.shelf = Till, Shelf

    async def start(self, workflow: str, *args: Any) -> list[On]:
        for n in range(3):
            await self.app.registry.workflow(workflow).start(*args, id=f"x{n}")
        return [(workflow, f"x{n}") for n in range(3)]

    async def started(self, workflow: str, *args: Any) -> list[On]:
        """Three executions whose bodies wait."""
        found = await self.start(workflow, *args)
        for on in found:
            await until(lambda on=on: self.waits(on))
        return found

    async def waits(self, on: On) -> bool:
        return bool((await self.app.handle(*on).status()).waits)

    async def status(self, on: On) -> str:
        return (await self.app.handle(*on).status()).status

    def becomes(self, status: str) -> Callable[[On], Awaitable[bool]]:
        async def holds(on: On) -> bool:
            return await self.status(on) == status

        return holds

    # ── What is acted on ────────────────────────────────────────────────────────────────────────────────────────────

    async def waiting(self) -> list[On]:
        return await self.started("approval", 5)

    async def parcels(self) -> list[On]:
        return await self.started("parcel")

    async def pinned(self) -> list[On]:
        return await self.started("pinned")

    async def failed(self) -> list[On]:
        found = await self.start("purchase")
        for on in found:
            await until(lambda on=on: self.becomes("FAILED")(on))
        self.is_mended = True
        return found

    async def in_backoff(self) -> list[On]:
        found = await self.start("shipment")
        for on in found:
            await until(lambda on=on: self.is_in_backoff(on))
        self.is_mended = True
        return found

    async def is_in_backoff(self, on: On) -> bool:
        return any(each.attempt == 2 for each in (await self.app.handle(*on).status()).waits)

    async def paused(self) -> list[On]:
        found = await self.waiting()
        for on in found:
            await self.app.handle(*on).pause()
            await until(lambda on=on: self.becomes("PAUSED")(on))
        return found

    async def ended(self) -> list[On]:
        self.is_mended = True
        found = await self.start("purchase")
        for on in found:
            await until(lambda on=on: self.becomes("COMPLETED")(on))
        return found

    async def queued(self) -> list[On]:
        """An execution with the slot of each of three queues, and another that waits there."""
        for n, each in enumerate(self.queued_workflows):
            for name in ("first", "second"):
                await each.start(id=f"{name}-{n}")
            await until(lambda n=n: self.has_slot(n))
        return []

    async def has_slot(self, number: int) -> bool:
        return len((await self.queues[number].status()).slots) == 1

    async def queued_and_paused(self) -> list[On]:
        for each in self.queues:
            await each.pause()
        for n, each in enumerate(self.queued_workflows):
            await each.start(id=f"first-{n}")
        return []

    async def queued_and_changed(self) -> list[On]:
        for each in self.queues:
            await each.change(limit=7)
        return []

    async def is_queue_paused(self, on: On) -> bool:
        return (await self._queue(on).status()).paused

    async def is_queue_open(self, on: On) -> bool:
        return not (await self._queue(on).status()).paused

    async def is_queue_as_declared(self, on: On) -> bool:
        return (await self._queue(on).status()).limit == 1

    async def is_queue_changed(self, on: On) -> bool:
        status = await self._queue(on).status()
        return status.limit == 7 and status.rate is not None and status.rate.burst == 10

    async def is_queue_empty(self, on: On) -> bool:
        return not (await self._queue(on).status()).waiting

    def _queue(self, on: On) -> hf.Queue:
        queue: hf.Queue = self.app.registry.queues[on[0].partition("/")[2]]
        return queue

    async def limits_changed(self) -> list[On]:
        for each in self.limits:
            await each.change(permits=7)
        return []

    async def limited(self) -> list[On]:
        return []

    async def is_limit_changed(self, on: On) -> bool:
        limit: hf.Limit = self.app.registry.limits[on[0].partition("/")[2]]
        status = await limit.status()
        return status.permits == 0 and status.rate is not None and status.rate.burst == 10

    async def is_limit_as_declared(self, on: On) -> bool:
        limit: hf.Limit = self.app.registry.limits[on[0].partition("/")[2]]
        return (await limit.status()).permits == 1

    async def halted(self) -> list[On]:
        for n in range(3):
            await hf.send(self.till.at(f"k{n}").add, 1)
        await until(lambda: self.are_halted(3))
        self.is_mended = True
        return []

    async def are_halted(self, count: int) -> bool:
        return len((await self.app.list_actors("Till", status="HALTED")).items) == count

    async def idle(self) -> list[On]:
        self.is_mended = True
        for n in range(3):
            await self.till.at(f"k{n}").add(1)
        return []

    async def parked(self) -> list[On]:
        for n in range(3):
            await hf.send(self.shelf.at("ann").put, f"tea-{n}")
        await until(lambda: self.are_parked(3))
        self.is_mended = True
        return []

    async def are_parked(self, count: int) -> bool:
        return len((await self.app.parked()).items) == count

    # ── What becomes of it ──────────────────────────────────────────────────────────────────────────────────────────

    async def is_forked(self, on: On) -> bool:
        listed = (await self.app.executions(on[0])).executions
        return len([each for each in listed if each.id.startswith("fork-")]) == 3

    async def is_gone(self, on: On) -> bool:
        try:
            await self.app.handle(*on).status()
        except hf.NotFound:
            return True
        return False

    async def is_open(self, on: On) -> bool:
        return await self.status(on) in {"READY", "SUSPENDED"}

    async def has_total(self, on: On) -> bool:
        return self.totals.get(on[1]) == 1

    async def goes_on(self, on: On) -> bool:
        return (await self.app.actor(*on).status()).status != "HALTED"

    async def is_no_actor(self, on: On) -> bool:
        return on not in {(each.actor, each.key) for each in (await self.app.list_actors("Till")).items}

    async def is_nothing_parked(self, _on: On) -> bool:
        return await self.are_parked(0)
