"""Events that are delivered twice, fail, or kill their worker."""

from __future__ import annotations

import asyncio
from signal import SIGKILL
from typing import Final

import holdfast as hf
from holdfast.actors.admin.listing import ParkedMessage
from holdfast.actors.turn.failure import DEATHS_PER_ATTEMPT
from holdfast.chaos.cast import Worker
from holdfast.chaos.looking import in_outbox, parked, until
from holdfast.chaos.points import CONSUMER_PREFIX, Fault, Point
from holdfast.chaos.shop import BROKEN, RETRY, Customer, Shop, app
from holdfast.chaos.stage import Stage, StoryFailed, many, times
from holdfast.crew.ledger import ACCEPTED, REPEAT

ORDERS: Final = 3
MOST_DEATHS: Final = 2 * DEATHS_PER_ATTEMPT
"""A message that has killed this many workers was not found."""


async def crash_between_publish_and_mark(stage: Stage) -> None:
    """Once before the consumer has seen the delivery, and once when it has handled all of it."""
    await _die_between(stage)
    await _die_when_handled(stage)


async def _die_between(stage: Stage) -> None:
    # After the first of the two: if it were the mark, the events would be gone.
    fault = Fault(at=(Point.DELIVERY, Point.MARK), moment="after", action="kill")
    first = await stage.worker(fault)
    await stage.publish(ORDERS)
    await stage.killed(first, "when its relay has delivered and not noted it")
    stage.say(f"still in the outbox: {many(await in_outbox(), 'event')}")
    second = await stage.worker()
    await stage.quiet()
    stage.say(f"{second} takes the outbox over; all {ORDERS} orders are billed")
    await second.stop()


async def _die_when_handled(stage: Stage) -> None:
    first = await stage.worker(Fault(at=(Point.MARK,), moment="before", action="kill", handled=True))
    orders = [stage.new_order() for _ in range(ORDERS)]
    await hf.send(Shop.at("main").place, orders)
    stage.say(f"an actor publishes {ORDERS} orders, with its commit")
    await stage.killed(first, "when all it has delivered is handled, and not noted")
    stage.problem("the events had left the outbox before the crash", unless=await in_outbox() == ORDERS)
    second = await stage.worker()
    await stage.quiet()
    again = _delivered(second)
    stage.say(f"{second} delivers all of them again: the consumer knows them, and asks the bank nothing")
    stage.problem(f"{ORDERS} events were to be delivered again, and {again} were", unless=again == ORDERS)
    for order in orders:
        pids = [attempt.pid for attempt in stage.attempts(order.order)]
        stage.problem(
            f"{order.order} was to be charged once, by {first}, and was by {pids}", unless=pids == [first.pid]
        )


async def duplicate_delivery(stage: Stage) -> None:
    """Twice in one go, once more when it was handled, and once more to a worker that remembers nothing."""
    order = stage.new_order()

    async def publish() -> None:
        await app.publish(order, id=order.order)

    await publish()
    await publish()
    first = await stage.worker()
    await stage.quiet()
    await publish()
    await stage.quiet()
    await first.stop()
    second = await stage.worker()
    await publish()
    await stage.quiet()
    await second.stop()
    delivered = _delivered(first) + _delivered(second)
    attempts = len(stage.attempts(order.order))
    if delivered > 1:
        stage.fault(f"{order.order} was published 4 times under one id, and delivered {delivered} times")
    stage.say(f"the bank hears of it {times(attempts)}")
    stage.problem(f"{order.order} was handled {attempts} times", unless=attempts == 1)


async def redrive_after_a_manual_fix(stage: Stage) -> None:
    """The first of an actor's events fails; those behind it do not wait for its repair."""
    customer = "Gwen"
    broken, *others = [stage.new_order(customer), *(stage.new_order() for _ in range(ORDERS - 1))]
    first = await stage.worker()
    await Customer.at(customer).move_to("")
    await hf.send(Shop.at("main").place, [broken, *others])
    aside = await _set_aside(stage)
    error = aside.message.error
    attempts = [attempt.what for attempt in stage.attempts(broken.order)]
    stage.fault(f"{broken.order} fails {times(len(attempts))}, each time after the charge, and is parked")
    stage.say(f"its error: {'none' if error is None else error.message}")
    stage.problem(
        f"the bank heard of it as {attempts}", unless=attempts == [ACCEPTED, *[REPEAT] * (RETRY.max_attempts - 1)]
    )
    await stage.billed(others)
    stage.say("the orders behind it are billed")

    await Customer.at(customer).move_to("2 Kelp Street")
    actor = app.actor(aside.actor, aside.key)
    await first.stop()
    stage.say("a person looks the address up and enters it; no worker is up just now")
    presses = [actor.unpark(aside.message.place) for _ in range(2)]
    refused = [each for each in await asyncio.gather(*presses, return_exceptions=True) if each is not None]
    waiting = len(await actor.messages())
    stage.say(f"redrive, pressed twice: {len(refused)} refused, {many(waiting, 'message')} in the inbox")
    stage.problem(
        f"pressing twice: {refused}, {waiting} messages in the inbox", unless=(len(refused), waiting) == (1, 1)
    )
    await stage.worker()
    await stage.quiet()
    heard = [attempt.what for attempt in stage.attempts(broken.order)]
    stage.say(f"it is handled. The bank has heard of it {times(len(heard))}, and accepted {heard.count(ACCEPTED)}")
    stage.problem(f"the bank was to hear of it once more, and heard {heard}", unless=heard == [*attempts, REPEAT])


async def poison_message(stage: Stage) -> None:
    """The first of an actor's events is the poison; some orders stand alone, others come behind it."""
    poison = stage.new_order(BROKEN, billed=False)
    await hf.send(Shop.at("main").place, [poison, *(stage.new_order() for _ in range(ORDERS))])
    await stage.publish(ORDERS)
    deaths = 0
    while deaths < MOST_DEATHS:
        worker = await stage.worker(attempts=1)
        if await _parks(worker):
            break
        status = await worker.ended()
        deaths += 1
        stage.fault(f"{worker} dies (status {status}), handling {poison.order}")
        stage.problem(f"{worker} was to be killed, and ended with status {status}", unless=status == -SIGKILL)
    else:
        raise StoryFailed(f"{poison.order} has killed {deaths} workers and was not found")
    await stage.quiet()
    aside = await _set_aside(stage)
    error = aside.message.error
    stage.say(f"{poison.order} is parked: {'no error' if error is None else error.message}")
    stage.say("all the other orders are billed")


async def _parks(worker: Worker) -> bool:
    """Whether a worker parks a message before it ends."""
    try:
        await worker.heard(lambda said: said.get("event") == "parked")
    except hf.ConfigurationError:
        return False
    return True


async def _set_aside(stage: Stage) -> ParkedMessage:
    """The one event that is parked, when it is."""
    found = await until(parked)
    stage.problem(f"{len(found)} events are parked, not one", unless=len(found) == 1)
    return found[0]


def _delivered(worker: Worker) -> int:
    """How many events a worker's relay has put into the consumer's inboxes."""
    passed = [said for said in worker.said if said.get("passed") == Point.DELIVERY]
    return sum(said["count"] for said in passed if said["partition"].startswith(CONSUMER_PREFIX))
