"""A class of actors may inherit from another, registered or not: fields, defaults, timers and methods."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import holdfast as hf
from holdfast.testing import VirtualClock, run_virtual

first = hf.App("first", home="memory://")
second = hf.App("second", home="memory://")


class Base(hf.Actor):
    step: ClassVar[int] = 1

    count: int = 10
    seen: list[int] = hf.field(default_factory=list[int])

    async def add(self) -> int:
        self.count += self.step
        self.seen.append(self.count)
        return self.count

    async def later(self) -> None:
        self.ring.after("1s")

    @hf.timer
    async def ring(self) -> None:
        self.seen.append(0)


class Registered(Base, app=first):
    pass


class Further(Registered, app=first):
    step = 5

    extra: str = "x"

    async def add(self) -> int:
        return 100 * await super().add()


class Elsewhere(Registered, app=second, name="Registered"):
    count: int = 20


async def state_of(app: hf.App, name: str) -> object:
    return (await app.actor(name, "a").status()).state


def test_a_subclass_has_the_fields_and_defaults_of_a_registered_class():
    async def main() -> None:
        first.clock = VirtualClock()
        async with first.worker():
            assert await Registered.at("a").add() == 11
            assert await Further.at("a").add() == 1500
            assert await state_of(first, "Registered") == {"count": 11, "seen": [11]}
            assert await state_of(first, "Further") == {"count": 15, "seen": [15], "extra": "x"}

    run_virtual(main)


def test_one_class_can_be_registered_with_two_apps_by_inheritance():
    async def main() -> None:
        second.clock = VirtualClock()
        async with second.worker():
            assert await Elsewhere.at("a").add() == 21
            await Elsewhere.at("a").later()
            await asyncio.sleep(2)
            assert await state_of(second, "Registered") == {"count": 21, "seen": [21, 0]}

    run_virtual(main)


def test_two_actors_do_not_share_a_default():
    async def main() -> None:
        first.clock = VirtualClock()
        async with first.worker():
            await Further.at("a").add()
            await Further.at("b").add()
            assert (await first.actor("Further", "b").status()).state["seen"] == [15]

    run_virtual(main)
