"""Every id that is accepted fits into the keys of the strictest home, whatever is put around it."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

import msgspec
import pytest
from msgspec import Raw

import holdfast as hf
from holdfast.backends.aws.layout import key
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.keys import LONGEST_ID_BYTES, check_id
from holdfast.messaging.arrivals import IncomingEvent, take
from holdfast.messaging.bus_queue import Announced
from holdfast.testing.virtual_time import VirtualClock, run_virtual

WIDE = "\N{GRINNING FACE}"
LONGEST_NAME = WIDE * 100
LONGEST = [WIDE * 125, "x" * LONGEST_ID_BYTES, '"' * LONGEST_ID_BYTES, "é" * 250]


@dataclass
class Placed:
    order: str


@pytest.mark.parametrize("id", LONGEST)
def test_every_key_that_comes_of_an_accepted_id_fits(id):
    async def main():
        data = MemoryData()

        async def open_home():
            return open_memory_home(data=data)

        app = hf.App(LONGEST_NAME, home=open_home, clock=VirtualClock())
        tokens = []

        class Box(hf.Actor, app=app, name=LONGEST_NAME, retry=hf.Retry(max_attempts=1)):
            async def drop(self, letter: str) -> None:
                if letter == "broken":
                    raise ValueError(letter)
                await app.publish(Placed(letter))

            async def set(self, name: str) -> None:
                self.ring[name].after("1s")

            @hf.timer
            async def ring(self) -> None:
                raise ValueError("broken")

        @app.consumer(Placed, name=LONGEST_NAME, retry=hf.Retry(max_attempts=1))
        async def note(event: Placed) -> None:
            await Box.at(id).set("x")
            if event.order == "broken":
                raise ValueError("broken")

        @app.workflow(name=LONGEST_NAME)
        async def approval() -> str:
            callback = hf.callback(str)
            tokens.append(callback.token)
            return await hf.signal("go", str) + await callback

        async with app.worker():
            await Box.at(id, request_id=id).drop("one")
            await hf.send(Box.at(id).drop, "broken", request_id=id)
            await Box.at(id).set("n" * 395)
            await app.publish(Placed("broken"), id=id)
            await app.publish(Placed("broken"), id=id)
            handle = await approval.start(id=id)
            await handle.signal("go", "yes", id=id)
            await asyncio.sleep(10)
            await app.callback(tokens[0]).complete(" here")
            assert await handle == "yes here"
            await app.documents(dict[str, int], name="stock").at(*id.replace("#", "")[:400].split("/")).create({})
            async with app.lease("l" * 200):
                await asyncio.sleep(0)
            assert (await app.parked()).items
        found = [(item.partition, item.sort) for entity in data.partitions.values() for item in entity.values()]
        assert any(partition.startswith("actor#!") for partition, _ in found)
        assert any(sort.startswith("p#timer:") for _, sort in found)
        for partition, sort in found:
            key(partition, sort)

    run_virtual(main)


@pytest.mark.parametrize("bad", [WIDE * 126, "é" * 251, "x" * 501, "", "a\nb", "\ud800"])
def test_what_is_too_long_in_bytes_or_no_printable_text_is_refused(bad):
    with pytest.raises(hf.InvalidInput, match="an id of mine must have 1 to 500 printable characters"):
        check_id("an id of mine", bad)


@pytest.mark.parametrize(("bad", "told"), [(5, "5 (int)"), (None, "None (NoneType)"), (b"id", "b'id' (bytes)")])
def test_what_is_no_text_is_no_id(bad, told):
    with pytest.raises(hf.InvalidInput, match=re.escape(f"an id of mine must be text (str), got {told}")):
        check_id("an id of mine", bad)


def test_an_event_from_elsewhere_has_an_id_that_fits():
    accepted = []

    class Taken:
        async def origin(self):
            return "here"

        async def accept(self, event, data, id, trace=""):
            accepted.append(id)

    async def main():
        for source in ("shop", WIDE * 100):
            for id in ("1", WIDE * 125):
                said = Announced(origin="o" * 64, app="shop", event="Placed", id=id, data=Raw(b"{}"), published_at=0)
                letter = IncomingEvent("letter", f"holdfast.{source}", Raw(msgspec.json.encode(said)), "Placed")
                await take(letter, Taken(), {"Placed": Placed}, {})

    asyncio.run(main())
    assert len(set(accepted)) == 4
    for id in accepted:
        check_id("an event's id", id)


def test_a_timer_s_name_is_bounded():
    async def main():
        app = hf.App("shop", home="memory://", clock=VirtualClock())

        class Box(hf.Actor, app=app):
            async def set(self, name: str) -> None:
                self.ring[name].after("1s")

            @hf.timer
            async def ring(self) -> None: ...

        async with app.worker():
            for bad in ("n" * 396, WIDE * 99 + "n", "a\nb"):
                with pytest.raises(hf.InvalidInput, match="the name of a timer"):
                    await Box.at("b").set(bad)

    run_virtual(main)
