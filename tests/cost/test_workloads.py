"""The table of reference workloads in ``docs/cost.md`` is what was measured, and its misses are those it names."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from pathlib import Path

import pytest
from msgspec import Raw
from msgspec.structs import replace
from tests.cost.workloads import RUNS, Workload, a_call, measured, noise, order, steps, workloads

import holdfast as hf
from holdfast.actors.record import Call, encode
from holdfast.actors.turn.applied import MOST_RECENT
from holdfast.backends.aws.doorbell import Bells, LocalDoorbell
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.cli.output import dollars
from holdfast.cost.durable_functions import Work
from holdfast.cost.elsewhere import elsewhere, work_of
from holdfast.cost.metering import MeteringStore, metered
from holdfast.cost.queue import Requests
from holdfast.cost.trial import Path as Where
from holdfast.failure import ErrorRecord
from holdfast.items import Item, Put, Update
from holdfast.ports import Home
from holdfast.replay.entries import Cancelled, Done, Failed, Received, Tried
from holdfast.testing import PATIENT, VirtualClock, run_virtual

PAGE = Path(__file__).parents[2] / "docs" / "cost.md"

HALF, FIFTH = 0.5, 0.2
"""The aims: at most so much of what it costs by oneself, and of what Durable Functions cost."""


@pytest.fixture(scope="module")
def found() -> list[Workload]:
    return workloads()


def row(each: Workload) -> str:
    own = f"{dollars(each.own)} | {each.ours / each.own:.2f}"
    durable = "– | –" if each.durable is None else f"{dollars(each.durable)} | {each.ours / each.durable:.2f}"
    ours = " | ".join(map(dollars, (each.ours, each.in_batches, each.workers)))
    return f"| {each.name} | {ours} | {own} | {durable} |"


def test_the_page_says_what_was_measured(found: list[Workload]) -> None:
    measured = PAGE.read_text(encoding="utf-8").partition("## Reference workloads")[2].partition("\n## ")[0]
    rows = [line for line in measured.splitlines() if re.match(r"\| .* \| [\d.]+ \| ", line)]
    assert rows == [row(each) for each in found]


def test_the_page_names_every_miss_and_no_other(found: list[Workload]) -> None:
    misses = {
        each.name
        for each in found
        if each.ours / each.own > HALF or (each.durable is not None and each.ours / each.durable > FIFTH)
    }
    explained = PAGE.read_text(encoding="utf-8").partition("## Misses")[2].partition("\n## ")[0]
    named = {name for each in re.findall(r"^- \*\*(.*?)\*\*", explained, re.MULTILINE) for name in each.split("; ")}
    assert named == misses


def test_a_checkpoint_of_ours_takes_no_lease_and_no_queue() -> None:
    """One more step of a result that fits is one request and one unit more."""
    two, three = (measured(steps(count, noise(800))) for count in (2, 3))
    assert three.usage.requests - two.usage.requests == RUNS
    assert three.usage.write_units - two.usage.write_units == RUNS
    assert three.queue == two.queue


def test_what_compresses_costs_less() -> None:
    inline = measured(steps(2, noise(20_000)), inline_kb=64).usage.write_units
    assert measured(steps(2, order(20_000))).usage.write_units <= inline / 3


def test_what_is_put_aside_is_an_object_and_a_reference() -> None:
    aside = measured(steps(2, noise(20_000)), inline_kb=8)
    assert aside.blob_writes == 2 * RUNS


def test_a_call_is_an_invocation_or_done_in_the_worker_and_needs_no_queue() -> None:
    called, own = measured(a_call), measured(a_call, path=Where.WORKERS)
    assert (called.invocations, own.invocations) == (RUNS, 0)
    assert called.queue.total == own.queue.total == 0


def test_a_start_by_a_client_is_a_message_of_its_own_and_one_at_the_end_of_a_wait_is_a_sweeps() -> None:
    used = measured(steps(1, "x", timer=True))
    assert used.invocations == 2 * RUNS
    assert (used.queue, used.swept) == (Requests(RUNS, RUNS), Requests(RUNS, RUNS))
    assert measured(steps(1, "x", timer=True), path=Where.WORKERS).queue.total == 0


def test_what_is_remembered_of_messages_is_bounded_and_no_message_is_applied_twice() -> None:
    """Of the first ones the head says that they were applied, of the others one page."""

    async def flood() -> tuple[int, list[str], str, str]:
        data = MemoryData()
        app = hf.App("shop", home=partial(_open, data, "a"), clock=VirtualClock())

        class Log(hf.Actor, app=app):
            lines: int = 0

            async def append(self) -> None:
                self.lines += 1

        async with app.worker(limits=PATIENT):
            sent = [await hf.send(Log.at("one").append) for _ in range(MOST_RECENT + 5)]
            await asyncio.sleep(60)
            head = data.find("actor#Log#one", "@")
            assert head is not None and sent[0] is not None
            pages = [sort[:2] for sort in data.partitions["actor#Log#one"] if sort.startswith(("r#", "e#"))]
            ends = (sent[0], sent[-1])
            for each in ends:  # it comes again: its sender had no answer
                assert each is not None
                call = Call(id=each.id, method="append", args=Raw(b"{}"), known=True)
                again = Put(Item(each.partition, each.sort, body=encode(call)))
                ring = Update(partition=each.partition, due_at=0, add_revision=1)
                await app.runtime().home.store.write(again, ring)
                assert app.runtime().host is not None
                app.runtime().host.check(each.partition)
                await asyncio.sleep(60)
            log = app.actor("Log", "one")
            first, last = [await log.request_status(each.id) for each in ends if each is not None]
            return (await log.status()).state["lines"], pages, first, last

    applied, pages, first, last = run_virtual(flood)
    assert (applied, first, last) == (MOST_RECENT + 5, "completed", "completed")
    assert set(pages) == {"e#"}
    assert len(pages) <= 2  # on a slow machine a commit comes between them


def test_who_waits_elsewhere_for_an_hour_looks_about_fourteen_times() -> None:
    async def looks() -> tuple[str, int]:
        data = MemoryData()
        workers, waiting = (hf.App("shop", home=partial(_open, data, name)) for name in "ab")
        declared = []
        for app in (workers, waiting):

            @app.workflow
            async def nap() -> str:
                await hf.sleep("1h")
                return "rested"

            declared.append(nap)
            app.clock = VirtualClock()
        meters: list[MeteringStore] = []

        async def open_metered() -> Home:
            home, store = metered(await _open(data, "b"))
            meters.append(store)
            return home

        waiting.home_url = open_metered
        async with workers.worker(limits=PATIENT), waiting:
            await declared[0].start(id="one")
            said = await declared[1].handle("one")
        return said, meters[0].meter.usage["GetItem"].requests

    said, count = run_virtual(looks)
    assert said == "rested"
    assert 11 <= count <= 16


async def _open(data: MemoryData, owner: str) -> Home:
    # Nobody rings for those who only wait, as on AWS.
    home = open_memory_home(data=data, owner=owner)
    return replace(home, doorbell=LocalDoorbell(Bells(), owner), writes_are_paid=True, reads_are_paid=True)


# ── Elsewhere ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_journal_is_work_elsewhere() -> None:
    error = ErrorRecord("ValueError", "no")
    entries = [
        Done("charge", 1, "step", Raw(b'"' + b"x" * 1_500 + b'"'), attempts=3),
        Tried("charge", 1, 1, error, 2),
        Failed("ship", 1, "step", error, attempts=2),
        Done("timer", 1, "timer"),
        Done("answer", 1, "callback"),
        Received("1", "decision", 1),
        Cancelled(1),
    ]
    assert work_of(entries) == Work(steps=2, retries=3, waits=1, callbacks=2, written_kb=[2, 1, 1, 1])


def test_elsewhere_every_wait_is_a_replay_and_a_state() -> None:
    durable, own, machine = elsewhere(Work(steps=2, waits=1, written_kb=(1, 1)))
    assert float(durable.usd_per_million) == 3 * 8 + 2 * 0.25
    assert [each.what for each in own.lines].count("SQS: receive") == 1
    assert machine.usd_per_million == (3 + 2) * 25
