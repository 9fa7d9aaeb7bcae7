"""Rare coincidences around actors, each played through: what a caller hears, and what is applied, stays exact."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest

import holdfast as hf
from holdfast.actors.turn.failure import DEATHS_PER_ATTEMPT
from holdfast.errors import StoreUnavailable
from holdfast.retry import Retry
from holdfast.testing import FaultsAt, World, run_virtual
from holdfast.testing.faults import Delay, FailRead, LoseAnswer, PauseBefore, ReadFault, WriteFault
from holdfast.testing.world import User, swift

COMMIT = 3
"""The write that commits the first call: before it are a claim, in vain, and the creation of the actor."""

LOOK_FOR_REPLY = 2
"""The read for an earlier reply to the first call with a request id: before it is the sweep at the start."""

ONCE = Retry(max_attempts=1)


class Faults(FaultsAt):
    """Faults at given writes, and at given reads."""

    def __init__(self, writes: Mapping[int, WriteFault], reads: Mapping[int, ReadFault] | None = None) -> None:
        super().__init__(writes)
        self._reads = dict(reads or {})
        self._read = 0

    def on_read(self) -> ReadFault | None:
        self._read += 1
        return self._reads.get(self._read)


def run_in_world(
    play: Callable[[World], Coroutine[Any, Any, Any]], *actors: Callable[[hf.App, World], type[hf.Actor]]
) -> Any:
    """Play a story in a world whose processes have these actors; a process's user answers them by name."""

    async def main() -> Any:
        def build(app: hf.App, _ledger: Any) -> User:
            kinds = {kind.__name__: kind for kind in (make(app, world) for make in actors)}

            async def user() -> Any:
                return kinds

            return user

        world = World(build, limits=swift())
        try:
            return await play(world)
        finally:
            await world.close()

    return run_virtual(main)


def count(app: hf.App, world: World) -> type[hf.Actor]:
    class Count(hf.Actor, app=app):
        number: int = 0

        async def add(self, seconds: float = 0) -> int:
            world.ledger.attempts["add"] += 1
            await asyncio.sleep(seconds)
            self.number += 1
            return self.number

    return Count


def test_a_commit_that_has_to_be_made_anew_repeats_no_call():
    def shop(app, world):
        class Shop(hf.Actor, app=app):
            orders: int = 0

            async def order(self) -> int:
                self.orders += 1
                kinds = world.ledger.notes
                await hf.send(kinds["Count"].at("new").add)
                number = await kinds["Count"].at("old").add()
                await asyncio.sleep(1)
                return number

        return Shop

    async def play(world):
        process = await world.boot()
        kinds = world.ledger.notes = await process.call(process.user)
        ordered = asyncio.create_task(process.call(kinds["Shop"].at("s").order))
        await asyncio.sleep(0.5)
        await process.call(kinds["Count"].at("new").add)  # there was none when the order looked
        number = await ordered
        await process.call(world.quiet)
        return number, {item.partition: item.body for item in await world.database.items() if item.sort == "@"}

    number, bodies = run_in_world(play, count, shop)
    assert number == 1
    assert b'"number":1' in bodies["actor#Count#old"]
    assert b'"number":2' in bodies["actor#Count#new"]
    assert b'"orders":1' in bodies["actor#Shop#s"]


def test_a_turn_that_ends_tells_nobody_before_the_commit_under_way_has_ended():
    async def play(world):
        # The read looks for an earlier reply to the second call, while the first one's commit is under way.
        process = await world.boot(Faults({COMMIT: Delay(after_seconds=2)}, {LOOK_FOR_REPLY: FailRead()}))
        kinds = await process.call(process.user)
        first = asyncio.create_task(process.call(kinds["Count"].at("c").add))
        second = asyncio.create_task(process.call(kinds["Count"].at("c", request_id="1").add))
        return await first, await second, world.counts.counts

    first, second, faults = run_in_world(play, count)
    assert (first, second) == (1, 2)
    assert faults == {"Delay": 1, "FailRead": 1}


def test_a_renewal_that_a_commit_overtakes_is_no_loss_of_the_lease():
    async def play(world):
        # After 5 s the lease is renewed, then a call commits: the renewal comes late, and the commit's answer later.
        faults = {COMMIT + 1: Delay(before_seconds=1.0), COMMIT + 2: Delay(after_seconds=2.0)}
        process = await world.boot(Faults(faults))
        kinds = await process.call(process.user)
        actor = kinds["Count"].at("c")
        await process.call(actor.add)
        calls = [asyncio.create_task(process.call(lambda: actor.add(5.1))) for _ in range(2)]
        done = [await call for call in calls]
        return done, world.ledger.attempts["add"], process.app.telemetry.counts

    done, attempts, events = run_in_world(play, count)
    assert done == [2, 3]
    assert attempts == 3
    assert events["fenced"] == 0


@pytest.mark.parametrize(("request_id", "expected"), [("1", "1"), (None, "StoreUnavailable")])
def test_who_has_a_request_id_hears_the_truth_where_others_are_left_in_doubt(request_id, expected):
    async def play(world):
        # The commit is applied and its answer lost; before it is sent again the process is stopped and taken over.
        process = await world.boot(Faults({COMMIT: LoseAnswer(), COMMIT + 1: PauseBefore()}))
        kinds = await process.call(process.user)

        async def add() -> str:
            try:
                return str(await kinds["Count"].at("c", request_id=request_id).add())
            except StoreUnavailable as error:
                return type(error).__name__

        call = asyncio.create_task(process.call(add))
        await process.stopped.wait()
        heir = await world.boot()
        theirs = await heir.call(heir.user)
        second = await heir.call(theirs["Count"].at("c").add)
        process.resume()
        return await call, second

    assert run_in_world(play, count) == (expected, 2)


def deadly(poison: str) -> Callable[[hf.App, World], type[hf.Actor]]:
    def make(app: hf.App, world: World) -> type[hf.Actor]:
        class Deadly(hf.Actor, app=app, retry=ONCE, poison=poison):
            survived: int = 0

            async def kill(self) -> None:
                world.ledger.attempts["kill"] += 1
                world.processes[-1].crash()
                await asyncio.sleep(0)

            async def live(self) -> int:
                self.survived += 1
                return self.survived

        return Deadly

    return make


@pytest.mark.parametrize(("poison", "status", "survived"), [("park", "SUSPENDED", 1), ("halt", "HALTED", 0)])
def test_a_message_that_kills_its_process_is_found(poison, status, survived):
    async def play(world):
        client = await world.client()
        kinds = await client.call(client.user)
        await client.call(lambda: hf.send(kinds["Deadly"].at("d").kill))
        await client.call(lambda: hf.send(kinds["Deadly"].at("d").live))
        for _ in range(DEATHS_PER_ATTEMPT + 3):
            process = await world.boot()
            await asyncio.wait({asyncio.ensure_future(process.died)}, timeout=60)
        handle = process.app.actor("Deadly", "d")
        found = await process.call(handle.status)
        parked, waiting = await process.call(handle.parked), await process.call(handle.messages)
        return world.ledger.attempts["kill"], found, [each.method for each in (*parked, *waiting)]

    kills, found, left = run_in_world(play, deadly(poison))
    assert kills == DEATHS_PER_ATTEMPT + 1  # the first was in no takeover, so nobody had counted it
    assert found.status == status
    assert (found.state or {}).get("survived", 0) == survived
    assert left == (["kill"] if poison == "park" else ["kill", "live"])


def test_who_waits_for_a_call_that_kills_its_process_hears_so():
    async def play(world):
        client = await world.client()
        kinds = await client.call(client.user)
        heard = asyncio.create_task(client.call(kinds["Deadly"].at("d").kill))
        while not heard.done():
            process = await world.boot()
            await asyncio.wait({asyncio.ensure_future(process.died), heard}, return_when=asyncio.FIRST_COMPLETED)
        return Counter(world.ledger.attempts), repr(heard.exception())

    attempts, error = run_in_world(play, deadly("halt"))
    assert attempts["kill"] == DEATHS_PER_ATTEMPT + 1
    assert "its process died" in error


@pytest.mark.parametrize("poison", ["park", "halt"])
@pytest.mark.parametrize("again", [True, False])
def test_a_timer_that_kills_its_process_is_found(poison, again):
    def bomb(app: hf.App, world: World) -> type[hf.Actor]:
        class Bomb(hf.Actor, app=app, retry=ONCE, poison=poison):
            ticks: int = 0

            async def light(self) -> None:
                if again:
                    self.fuse.every("1h")
                else:
                    self.fuse.after("1h")
                self.clock.every("1h")

            @hf.timer
            async def fuse(self) -> None:
                attempts["fuse"] += 1
                world.processes[-1].crash()
                await asyncio.sleep(1)

            @hf.timer
            async def clock(self) -> None:
                self.ticks += 1

        return Bomb

    async def play(world: World) -> tuple[str, int, int, int]:
        first = await world.boot()
        kinds = await first.call(first.user)
        await first.call(kinds["Bomb"].at("b").light)
        await first.died
        for _ in range(DEATHS_PER_ATTEMPT + 3):
            process = await world.boot()
            await asyncio.sleep(60)
            if not process.dead:
                break
        status = (await process.call(process.app.actor("Bomb", "b").status)).status
        parked = (await process.call(process.app.parked)).items
        state = (await process.call(process.app.actor("Bomb", "b").status)).state
        told = process.app.telemetry.counts["parked"] + process.app.telemetry.counts["halted"]
        await process.stop()
        return status, len(parked), state["ticks"], told

    attempts: Counter[str] = Counter()
    status, parked, ticks, told = run_in_world(play, bomb)
    assert attempts["fuse"] == DEATHS_PER_ATTEMPT + 1, "the first was in no takeover"
    assert told == 1
    if poison == "park":
        assert (status, parked, ticks) == ("SUSPENDED", 1, 1)
    else:
        assert (status, parked) == ("HALTED", 0)
