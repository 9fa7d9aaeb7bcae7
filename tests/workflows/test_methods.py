"""Methods of classes as steps: they have their object at hand, and only the other arguments are recorded (G2)."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf
from holdfast.errors import DuplicateName

ONCE = hf.Retry(max_attempts=1)


class Account:
    """What a client of somebody's service looks like."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.done: list[str] = []


def billing(app):
    class Billing(Account):
        @app.step
        async def charge(self, cents: int, *, note: str = "") -> str:
            self.done.append(f"charge {cents}{note}")
            return f"{self.name} has paid {cents}"

        @charge.undo
        async def refund(self, payment: str) -> None:
            self.done.append(f"refund: {payment}")

        @app.step(name="send_bill", retry=ONCE)
        def send(self, cents: int) -> str:
            self.done.append(f"send {cents}")
            return self.name

        @send.undo
        def recall(self) -> None:
            self.done.append("recall")

        @staticmethod
        @app.step
        async def rate(country: str) -> int:
            return len(country)

    return Billing


async def test_steps_of_a_class_know_their_object(app):
    made = billing(app)
    ann, bob = made("ann"), made("bob")

    @app.workflow
    async def job() -> list[object]:
        paid = await asyncio.gather(ann.charge(5, note="!"), bob.charge(5))
        named = await hf.step(bob.charge, 7, name="charge:7")
        mapped = (await hf.map(ann.charge, [1, 2])).results
        return [*paid, await ann.send(9), await made.rate("be"), await ann.rate("nl"), named, *mapped]

    async with app.worker():
        handle = await job.start(id="j")
        assert await handle == [
            "ann has paid 5",
            "bob has paid 5",
            "ann",
            2,
            2,
            "bob has paid 7",
            "ann has paid 1",
            "ann has paid 2",
        ]
        names = [event.name for event in await handle.history() if "map" not in event.name]
    assert sorted(names[:2]) == ["charge#0/charge#0", "charge#1/charge#0"]
    assert "send_bill#0" in names
    assert ann.done == ["charge 5!", "charge 1", "charge 2", "send 9"]
    assert bob.done == ["charge 5", "charge 7"]
    assert await ann.charge(6) == "ann has paid 6"


async def test_a_step_of_a_class_is_undone_on_its_object(app):
    ann = billing(app)("ann")

    @app.workflow
    async def job() -> None:
        async with hf.saga():
            await ann.charge(5)
            await ann.send(5)
            raise ValueError("no")

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed):
            await job()
    assert ann.done == ["charge 5", "send 5", "recall", "refund: ann has paid 5"]


async def test_another_process_replays_it_with_an_object_of_its_own(world):
    done = []

    def code(app):
        ann = billing(app)("ann")
        ann.done = done

        @app.workflow
        async def job() -> str:
            paid = await ann.charge(5)
            await hf.signal("go")
            return paid + await ann.send(1)

        return job

    first, second = world.app(), world.app()
    before, after = code(first), code(second)
    async with first.worker():
        await before.start(id="j")
        while not done:
            await asyncio.sleep(0)
    async with second.worker():
        await after.handle("j").signal("go")
        assert await after.handle("j").result("60s") == "ann has paid 5ann"
    assert done == ["charge 5", "send 1"]


async def test_a_transaction_may_be_a_method(sqlite_world):
    app = sqlite_world.app()

    class Books(Account):
        @app.transaction
        def enter(self, cursor, cents: int) -> int:
            ((total,),) = cursor.execute("SELECT 1 + ?", (cents,))
            return total + len(self.name)

    books = Books("ann")

    @app.workflow
    async def job() -> int:
        return await books.enter(5)

    async with app.worker():
        assert await job() == 9


async def test_a_step_of_a_class_without_an_object_is_refused(app):
    made = billing(app)

    @app.workflow
    async def job() -> None:
        with pytest.raises(hf.InvalidInput, match="'charge' is a method of Billing: call it on an object"):
            await made.charge(5)
        with pytest.raises(hf.InvalidInput, match="'charge' is a method of Billing: call it on an object"):
            await hf.step(made.charge, 5, name="c")

    async with app.worker():
        await job()
    with pytest.raises(hf.InvalidInput, match="'charge' is a method of Billing: call it on an object"):
        await made.charge(5)


def test_methods_of_one_name_need_names():
    app = hf.App("shop")
    billing(app)
    with pytest.raises(DuplicateName, match="name="):

        class Other:
            @app.step
            async def charge(self) -> None: ...


def test_a_method_as_a_workflow_is_refused():
    app = hf.App("shop")
    with pytest.raises(hf.InvalidInput, match="'run' is a method of Job: another process .* Write it outside"):

        class Job:
            @app.workflow
            async def run(self, n: int) -> None: ...
