"""Calls that would wait for themselves are refused by name, never a hang."""

from __future__ import annotations

import asyncio
import contextvars
from contextlib import AsyncExitStack

import pytest

import holdfast as hf
from holdfast.actors.calling.chain import take_back


def declare(app, gate=None):
    class Node(hf.Actor, app=app):
        visits: int = 0

        async def walk(self, path: list[str]) -> list[str]:
            """Call the next of the path, and so on; answer who was there."""
            self.visits += 1
            if not path:
                return [self.key]
            if gate is not None:
                await gate(self.key)
            return [self.key, *await Node.at(path[0]).walk(path[1:])]

        async def post(self, path: list[str]) -> None:
            self.visits += 1
            if path:
                await hf.send(Node.at(path[0]).post, path[1:])

        async def check_at(self, other: str) -> int:
            self.visits += 1
            return await Node.at(other).look()

        async def look_back(self, other: str) -> int:
            self.visits += 1
            return await Node.at(other).check_at(self.key)

        @hf.read
        async def look(self) -> int:
            return self.visits

    return Node


class Meeting:
    """Lets each of some nodes come in, and go on when all of them are in."""

    def __init__(self, *keys):
        self.missing = set(keys)
        self.all_in = asyncio.Event()

    async def __call__(self, key):
        self.missing.discard(key)
        if not self.missing:
            self.all_in.set()
        await self.all_in.wait()


@pytest.mark.parametrize("path", [["a", "a"], ["a", "b", "a"], ["a", "b", "c", "b"], ["a", "b", "c", "a"]])
async def test_a_chain_that_comes_back_is_refused_at_once_with_its_names(world, path):
    app = world.app()
    node = declare(app)
    async with app.worker():
        with pytest.raises(hf.CallCycle) as caught:
            await node.at(path[0]).walk(path[1:])
        assert " → ".join(f"Node {key!r}" for key in path) in str(caught.value)
        for key in set(path):
            assert await node.at(key).look() == 0  # all of it was rolled back


async def test_a_chain_that_comes_back_over_two_processes_is_refused(world):
    apps = [world.app(), world.app()]
    one, two = (declare(app) for app in apps)
    async with apps[0].worker(), apps[1].worker():
        await asyncio.gather(one.at("a").walk([]), two.at("b").walk([]))
        with pytest.raises(hf.CallCycle):
            await one.at("a").walk(["b", "a"])
        assert await one.at("a").look() == 1


async def test_reading_and_sending_along_a_circle_is_no_circle(world, eventually):
    app = world.app()
    node = declare(app)

    async def visited():
        return await node.at("a").look() == 3

    async with app.worker():
        await node.at("a").post(["b", "a"])
        assert await node.at("a").look_back("b") in {0, 1, 2}
        await eventually(visited)


async def settle_all(tasks):
    """Every task's result or error, soon."""
    async with asyncio.timeout(60):
        return await asyncio.gather(*tasks, return_exceptions=True)


async def test_two_that_call_each_other_in_one_process_do_not_hang(world):
    app = world.app()
    node = declare(app, Meeting("a", "b"))
    async with app.worker():
        tasks = [asyncio.create_task(node.at(key).walk([other])) for key, other in ("ab", "ba")]
        outcomes = await settle_all(tasks)
    assert sorted(type(each).__name__ for each in outcomes) == ["CallCycle", "list"]


@pytest.mark.parametrize("keys", ["ab", "abc", "abcd"])
async def test_those_that_call_each_other_across_processes_do_not_hang(world, keys):
    apps = [world.app() for _ in keys]
    meeting = Meeting(*keys)
    nodes = [declare(app, meeting) for app in apps]
    async with AsyncExitStack() as stack:
        for app in apps:
            await stack.enter_async_context(app.worker())
        following = keys[1:] + keys[0]
        tasks = [asyncio.create_task(nodes[n].at(key).walk([following[n]])) for n, key in enumerate(keys)]
        outcomes = await settle_all(tasks)
    failed = [each for each in outcomes if isinstance(each, BaseException)]
    assert all(isinstance(each, hf.CallCycle) for each in failed), outcomes
    assert 1 <= len(failed) < len(keys)


async def test_a_circle_half_in_memory_and_half_by_mail_does_not_hang(world):
    """One process: x calls a, which calls b, by mail, which has called, in memory there, y, which calls x, by mail."""
    apps = [world.app(), world.app()]
    meeting = Meeting("a", "y")

    async def gate(key):
        if key in {"a", "y"}:
            await meeting(key)

    one, two = (declare(app, gate) for app in apps)
    async with apps[0].worker(), apps[1].worker():
        tasks = [
            asyncio.create_task(one.at("x").walk(["a", "b"])),
            asyncio.create_task(two.at("b").walk(["y", "x"])),
        ]
        outcomes = await settle_all(tasks)
    failed = [each for each in outcomes if isinstance(each, BaseException)]
    assert len(failed) == 1, outcomes
    assert isinstance(failed[0], hf.CallCycle)


async def test_an_actor_that_was_refused_can_be_called_again(world):
    app = world.app()
    node = declare(app)
    async with app.worker():
        for _ in range(3):
            with pytest.raises(hf.CallCycle):
                await node.at("a").walk(["b", "a"])
        assert await node.at("a").walk(["b", "c"]) == ["a", "b", "c"]


async def test_actors_that_call_others_do_not_run_out_of_places(world):
    app = world.app(limits=hf.Limits(running=2, linger_seconds=0.01, near_seconds=0.01))
    node = declare(app)
    async with app.worker():
        async with asyncio.timeout(60):
            paths = [[f"{n}-{depth}" for depth in range(6)] for n in range(5)]
            assert await asyncio.gather(*(node.at(path[0]).walk(path[1:]) for path in paths)) == paths


# ── Refused means refused ───────────────────────────────────────────────────────────────────────────────────────────


async def test_what_an_earlier_run_has_called_is_not_said_to_be_refused(world):
    """The receiver waits for the caller when that runs again: what it has called in its first run has been applied."""
    app = world.app()
    runs, asking, busy, outside = [], [], asyncio.Event(), contextvars.copy_context()

    @app.workflow
    async def report() -> int:
        return 1

    class Account(hf.Actor, app=app):
        cents: int = 100

        async def give(self, to: str, cents: int) -> None:
            runs.append(1)
            await report.start(id="today")
            self.cents -= cents
            try:
                await Account.at(to).take(cents)
            except hf.CallCycle:
                self.cents += cents
            if len(runs) == 1:
                asking.append(asyncio.create_task(Account.at(to).ask(self.key), context=outside))
                await busy.wait()
                await asyncio.create_task(begin(), context=outside)  # so the commit is refused, and this runs again

        async def take(self, cents: int) -> None:
            self.cents += cents

        async def ask(self, other: str) -> None:
            busy.set()
            await Account.at(other).take(0)

        @hf.read
        async def balance(self) -> int:
            return self.cents

    async def begin():
        await report.start(id="today")

    async with app.worker():
        await Account.at("a").give("b", 10)
        await asyncio.gather(*asking)
        assert (await Account.at("a").balance(), await Account.at("b").balance()) == (90, 110)
    assert len(runs) == 2


async def test_a_call_is_taken_back_with_every_message_of_it(world):
    client = world.app()
    node = declare(client)
    async with client:
        runtime = node.kind.connect()
        for id in ("ours", "other", "ours"):
            await hf.send(node.at("a").post, [], request_id=id)
        assert await take_back("actor#Node#a", "ours", runtime) is None
        assert [each.id for each in await client.actor("Node", "a").messages()] == ["other"]


async def test_a_call_that_was_applied_is_not_taken_back(world):
    app = world.app()
    node = declare(app)
    async with app.worker():
        assert await node.at("a", request_id="ours").walk([]) == ["a"]
        reply = await take_back("actor#Node#a", "ours", node.kind.connect())
        assert bytes(reply.value) == b'["a"]'


async def test_a_caller_that_is_stopped_leaves_no_call_in_a_queue(world):
    """It runs again elsewhere, where it may be told that the call was refused."""
    app = world.app()
    came, go = asyncio.Event(), asyncio.Event()

    async def gate(_key):
        came.set()
        await go.wait()

    node = declare(app, gate)
    async with app.worker():
        first = asyncio.create_task(node.at("a").walk(["b"]))
        await came.wait()
        second = asyncio.create_task(node.at("a").walk([]))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        go.set()
        await first
        assert await node.at("a").look() == 1


async def test_a_call_whose_caller_is_gone_does_not_begin_anew(world):
    """Its commit is refused, so that all of it would run again: its caller may have been told that it was refused."""
    app = world.app()
    runs, ran, begun = [], asyncio.Event(), asyncio.Event()

    @app.workflow
    async def report() -> int:
        return 1

    class Account(hf.Actor, app=app):
        cents: int = 100

        async def take(self, cents: int) -> None:
            runs.append(cents)
            self.cents += cents
            await report.start(id="today")
            ran.set()
            await begun.wait()

        @hf.read
        async def balance(self) -> int:
            return self.cents

        async def add(self, cents: int) -> int:
            self.cents += cents
            return self.cents

    async with app.worker():
        caller = asyncio.create_task(Account.at("b").take(10))
        await ran.wait()
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
        await report.start(id="today")  # so the commit is refused
        begun.set()
        assert await Account.at("b").add(1) == 101
        assert await Account.at("b").balance() == 101
    assert runs == [10]
