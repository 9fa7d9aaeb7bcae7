"""The user code that is tortured: every kind of wait, with effects in the ledger.

What a step returns is what the ledger accepted under its key, so a workflow's result shows which effects it saw.
``after`` names the result that an effect builds on: before it happens, that result must be in the journal (G7).
"""

from __future__ import annotations

import asyncio
import os
from functools import cache
from pathlib import Path
from typing import Final

import apsw
from tests.torture.ledger import Ledger
from tests.torture.points import open_tortured_home

import holdfast as hf
from holdfast.replay.entries import Intended, decode_entries
from holdfast.workflows.record import decode_record

FOLDER: Final = "HOLDFAST_TORTURE_FOLDER"
"""The environment variable that names the run's folder."""

NAP_SECONDS: Final = 0.15
LIMITS: Final = hf.Limits(
    lease_ms=800,  # a zombie must not hold up the run for long
    linger_seconds=0.05,
    near_seconds=0.05,  # most waits become a suspension
    sweep_seconds=0.3,
    courtesy_ms=20,
    stalled_seconds=60.0,  # the machine is noisy, not the bodies
    resident=12,  # most resumptions become a replay
    retry_turn_seconds=0.2,
    most_deaths=1_000,  # the torture ends processes, not the code
)

app: Final = hf.App("torture", home=lambda: open_tortured_home(home_file()), limits=LIMITS)


def folder() -> Path:
    return Path(os.environ[FOLDER])


def home_file() -> Path:
    return folder() / "home.db"


@cache
def ledger() -> Ledger:
    return Ledger(folder() / "ledger.db")


# ── Effects ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@cache
def _home_reader() -> apsw.Connection:
    reader = apsw.Connection(str(home_file()), flags=apsw.SQLITE_OPEN_READONLY)
    reader.set_busy_timeout(30_000)
    return reader


def _step() -> hf.StepInfo:
    info = hf.current()
    assert isinstance(info, hf.StepInfo)
    return info


_BODY: Final = "SELECT body FROM holdfast_heads WHERE partition = ?"


def root_of(info: hf.StepInfo) -> str:
    """The id of the execution that a client started, of the step's own or of the one above all its parents."""
    partition = f"wf#{info.workflow}#{info.id}"
    while True:
        ((body,),) = _home_reader().execute(_BODY, (partition,)).fetchall()
        record = decode_record(body)
        if record.parent is None:
            return record.id
        partition = record.parent.partition


def effect(label: str, after: str = "") -> str:
    """Act on the world, under the step's key, once that is allowed."""
    info = _step()
    if after and not _recorded(info, after):
        ledger().violation("gate", f"{info.idempotency_key} began before {after} was durable (G7)")
    return ledger().perform(info.idempotency_key, root_of(info), label, info.attempt)


_RECORDED: Final = """
SELECT EXISTS (SELECT 1 FROM holdfast_heads WHERE partition = ?1 AND instr(body, CAST(?2 AS BLOB)))
    OR EXISTS (SELECT 1 FROM holdfast_entries WHERE instr(body, CAST(?2 AS BLOB))
               AND head = (SELECT number FROM holdfast_heads WHERE partition = ?1))
"""
_JOURNAL: Final = """
SELECT body FROM holdfast_entries
WHERE head = (SELECT number FROM holdfast_heads WHERE partition = ?1) AND sort >= 'j#' AND sort < 'j$'
"""


def _recorded(info: hf.StepInfo, result: str) -> bool:
    rows = _home_reader().execute(_RECORDED, (f"wf#{info.workflow}#{info.id}", result)).fetchall()
    return bool(rows[0][0])


def _intent_recorded(info: hf.StepInfo) -> bool:
    bodies = _home_reader().execute(_JOURNAL, (f"wf#{info.workflow}#{info.id}",)).fetchall()
    entries = [each for (body,) in bodies if isinstance(body, bytes) for each in decode_entries(body)]
    intended = {each.op for each in entries if isinstance(each, Intended)}
    return info.operation in intended


# ── Steps ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@app.step
async def reserve(item: str) -> str:
    await asyncio.sleep(0.03)
    return effect(f"reserve {item}")


@reserve.undo
async def release(hold: str) -> str:
    return effect(f"undo {hold.partition('=')[0]}", after=hold)


@app.step(retry=hf.Retry(max_attempts=6, initial="20ms", backoff=1.5))
def charge(hold: str, failures: int) -> str:  # a plain def: it runs in a thread
    info = _step()
    if info.attempt <= failures:
        ledger().attempted(info.idempotency_key, root_of(info), "charge", info.attempt)
        raise ConnectionError("the bank is away")
    return effect("charge")


@charge.undo
async def refund(payment: str) -> str:
    return effect("undo charge", after=payment)


@app.step
async def deliver(label: str, after: str = "", work_ms: int = 40) -> str:
    await asyncio.sleep(work_ms / 1000)
    return effect(label, after)


@app.step
async def refuse(payment: str) -> str:
    effect("refuse", after=payment)
    raise hf.Terminal("no seat is left")


@app.step
async def ask(token: str) -> str:
    ledger().hand_out(root_of(_step()), token)
    return effect("ask")


@app.step(at_most_once=True)
async def launch(after: str) -> str:
    info = _step()
    if not _intent_recorded(info):
        ledger().violation("gate", f"{info.idempotency_key} began before its intent was durable (G7)")
    await asyncio.sleep(0.02)
    return effect("launch", after)


@app.transaction
def move(cursor: hf.SqlCursor, execution: str) -> str:
    cursor.execute("INSERT INTO moves (execution) VALUES (?)", (execution,))
    ((number,),) = cursor.execute("SELECT last_insert_rowid()")
    return f"move={number}"


# ── Workflows ───────────────────────────────────────────────────────────────────────────────────────────────────────


@app.workflow
async def order(number: int) -> list[str]:
    """Parallel steps, a timer, a step that is retried and one that takes its time."""
    holds = await asyncio.gather(reserve("a"), reserve("b"))
    began = hf.now()
    await hf.sleep(NAP_SECONDS)
    if (hf.now() - began).total_seconds() < NAP_SECONDS:
        await deliver("timer was early (G8)")
    payment = await charge(holds[1], number % 3)
    parcel = await deliver("ship", payment, 300 if number % 4 == 0 else 40)
    return [*holds, payment, parcel]


@app.workflow
async def approval(number: int) -> list[str]:
    """A callback that is answered more than once, and signals that come twice."""
    answer = hf.callback(str, name="answer")
    asked = await ask(answer.token)
    notes = [await hf.signal("note", int) for _ in range(3)]
    said = await answer
    closed = await deliver("close", asked)
    return [asked, *map(str, notes), said, closed]


@app.workflow
async def pack(side: str) -> list[str]:
    wrapped = await deliver(f"wrap {side}")
    await hf.sleep(NAP_SECONDS)
    return [wrapped, await deliver(f"box {side}", wrapped)]


@app.workflow
async def family(number: int) -> list[str]:
    """Children side by side."""
    left, right = await asyncio.gather(pack("left"), pack("right"))
    return [*left, *right, await deliver("send", right[-1])]


@app.workflow
async def trip(number: int) -> list[str]:
    """A saga; every other one fails and is undone."""
    async with hf.saga():
        seat = await reserve("seat")
        payment = await charge(seat, 0)
        if number // 10 % 2:
            await refuse(payment)
    return [seat, payment]


@app.workflow
async def rolling(number: int, turn: int, done: list[str]) -> list[str]:
    """Three runs of one execution; signals that come early are carried over."""
    tick = await hf.signal("tick", int)
    made = await deliver(f"turn {turn}", done[-1] if done else "")
    done = [*done, str(tick), made]
    if turn < 2:
        hf.continue_as_new(number, turn + 1, done)
    return done


@app.workflow
async def collect(number: int) -> list[str]:
    return [str(await hf.signal("item", int)) for _ in range(3)]


@app.workflow
async def messenger(number: int) -> list[str]:
    """A detached execution, signals from body to body, and waiting by handle."""
    handle = await collect.start(number, id=f"messenger-{number}/collect")
    for place in range(3):
        await handle.signal("item", place)
    return [*await handle, await deliver("told")]


@app.workflow
async def transfer(number: int) -> list[str]:
    """The user's own SQL, in the transaction that records the step."""
    moved = await move(f"transfer-{number}")
    return [moved, await deliver("receipt", moved)]


@app.workflow
async def once(number: int) -> list[str]:
    """At most once, with the intent written first."""
    ready = await deliver("fuel")
    try:
        launched = await launch(ready)
    except hf.StepInterrupted:
        launched = "interrupted"
    return [ready, launched, await deliver("report")]


@app.workflow
async def waiter(number: int) -> None:
    await hf.signal("never")


@app.workflow
async def impatient(number: int) -> list[str]:
    """A child that nobody waits for any more is cancelled."""
    try:
        async with asyncio.timeout(NAP_SECONDS):
            await waiter(number)
    except TimeoutError:
        return [await deliver("gave up")]
    return ["never"]


@app.workflow
async def doomed(number: int) -> None:
    """Ended by force, in the middle of its timers."""
    while True:
        await hf.sleep(NAP_SECONDS)


@app.workflow
async def recalled(number: int) -> None:
    """Cancelled; it cleans up first."""
    try:
        await hf.signal("never")
    finally:
        await deliver("clean up")
