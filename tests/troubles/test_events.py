"""Events, messages and schedules in trouble."""

from __future__ import annotations

import asyncio
import re

from tests.troubles.stage import HOUR_MS, trouble


@trouble("a poison message", "doctor", "dlq ls", pages=("Dead letters",))
def test_a_poison_message(shop):
    shop.until("dlq ls", lambda told: told["messages"])
    told = shop.look("doctor", "dlq ls")
    assert "ValueError: order order-7 has no address" in told
    assert "holdfast dlq redrive" in shop.holdfast("doctor")
    assert "ValueError: order order-7 has no address" in shop.click("Dead letters")


@trouble("a bus that is down", "doctor", pages=("Outbox and bus",))
def test_a_bus_that_is_down(shop):
    shop.until("doctor", lambda told: "bus" in {each["check"] for each in told["findings"] if each["level"] == "warn"})
    told = shop.look("doctor")
    assert "the bus fails, and 1 events wait for it: repair it, and they are sent by themselves" in told
    assert "the bus does not answer: <urlopen error [Errno 111] Connection refused>" in told
    assert re.search(r"app shop, \d+ attempts, the next in ", told)
    assert "the bus does not answer: <urlopen error [Errno 111] Connection refused>" in shop.click("Outbox and bus")


@trouble("an outbox that grows", "doctor", "outbox ls", pages=("Outbox and bus",))
def test_an_outbox_that_grows(stage):
    planted = stage.code(PLANTED_BEHIND_MS=str(HOUR_MS))

    async def publish() -> None:
        async with planted.app:
            for order in range(20):
                await planted.app.publish(planted.Placed(f"order-{order}"))

    asyncio.run(publish())
    told = stage.look("doctor", "outbox ls")
    assert told.count("Placed") == 20
    told = stage.look("doctor")
    assert "20 events wait to be delivered, the first for 1 h 00 m: no worker of app shop takes them" in told
    assert "Start one with holdfast run MODULE:APP" in told
    assert stage.click("Outbox and bus").count("Placed") >= 20


@trouble("a schedule that missed", "doctor", "schedules", pages=("Schedules",))
def test_a_schedule_that_missed(stage):
    planted = stage.code(PLANTED_BEHIND_MS=str(HOUR_MS))

    async def arm() -> None:
        async with planted.app.worker():
            while "close_the_minute" not in await asyncio.to_thread(stage.holdfast, "schedules"):
                await asyncio.sleep(0.02)

    asyncio.run(arm())
    told = stage.look("doctor", "schedules")
    assert re.search(r"close_the_minute .*\b(59|60)\b", told)
    told = stage.look("doctor")
    assert re.search(r"schedule close_the_minute of app shop: (59|60) ticks missed", told)
    assert "no worker of the app was there, or the tick fails. Start one with holdfast run MODULE:APP" in told
    assert re.search(r"close_the_minute.* h ago(59|60)no worker was there", stage.click("Schedules"))
