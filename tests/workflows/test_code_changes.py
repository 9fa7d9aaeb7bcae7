"""The matrix of code changes: what becomes of an execution that began on old code, at every point of its way (G13).

Each row runs its old body up to each of its writes, and stops its process there: in good order, by a death before the
write, by a death after it. Then the new body goes on. It ends right, or it is blocked and the old body ends as if
nothing had been. Nothing is done under two keys, nothing that was finished is lost, no call gets the value of another.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.workflows.changes.helped import Helped, around, plain, with_one_less, with_one_more
from tests.workflows.changes.parts import (
    answered,
    caught,
    cleaned,
    do,
    gather,
    go,
    group,
    mapped,
    patched,
    poll,
    raced,
    removed,
    saga,
    seq,
    sleep,
    timeout,
)
from tests.workflows.changes.play import End, Row, on_sqlite, played

A, B, C, X = do("a"), do("b"), do("c"), do("x", "other")
FIRST = ((30.0, "go", "first"),)
BOTH = ((30.0, "go", "first"), (60.0, "go", "second"))
STOP = ((30.0, "", "stop"),)
BASE = seq(A, B, go(), C)

ALWAYS = frozenset({End.CONTINUED})
NEVER = frozenset({End.BLOCKED})
SOMETIMES = frozenset({End.CONTINUED, End.BLOCKED})

INTERRUPTED = (
    "FAILED  holdfast.errors.StepInterrupted: step 'once' is at most once, and a process died after starting it: it "
    "may or may not have taken effect. Find out, and go on from there"
)
"""How the old code ends if its process dies in the middle of its step."""

ROWS = (
    # Steps
    Row(name="the same", old=BASE, new=seq(A, B, go(), C), messages=FIRST, ends=ALWAYS),
    Row(name="a step inserted first", old=BASE, new=seq(X, A, B, go(), C), messages=FIRST, ends=ALWAYS),
    Row(name="a step inserted between", old=BASE, new=seq(A, X, B, go(), C), messages=FIRST, ends=ALWAYS),
    Row(name="a step inserted behind", old=BASE, new=seq(A, B, go(), C, X), messages=FIRST, ends=ALWAYS),
    Row(name="a call inserted first", old=BASE, new=seq(do("x"), A, B, go(), C), messages=FIRST, ends=SOMETIMES),
    Row(name="a call inserted between", old=BASE, new=seq(A, do("x"), B, go(), C), messages=FIRST, ends=SOMETIMES),
    Row(name="a call inserted behind", old=BASE, new=seq(A, B, go(), C, do("x")), messages=FIRST, ends=ALWAYS),
    Row(name="a step removed", old=BASE, new=seq(A, go(), C), messages=FIRST, ends=SOMETIMES),
    Row(name="the first step removed", old=seq(X, A, go(), B), new=seq(A, go(), B), messages=FIRST, ends=SOMETIMES),
    Row(name="all steps removed", old=seq(A, X), new=seq(), ends=SOMETIMES),
    Row(
        name="a step declared removed",
        old=seq(X, A, go(), B),
        new=seq(removed("other"), A, go(), B),
        messages=FIRST,
        removed=("x",),
        ends=ALWAYS,
    ),
    Row(
        name="a step under way declared removed",
        old=seq(A, do("x", "flaky"), go(), B),
        new=seq(removed("flaky"), A, go(), B),
        messages=FIRST,
        removed=("x",),
        ends=ALWAYS,
    ),
    Row(
        name="declared removed but called",
        old=BASE,
        new=seq(removed("do"), A, B, go(), C),
        messages=FIRST,
        ends=NEVER,
    ),
    Row(
        name="a step renamed",
        old=seq(A, X, go(), B),
        new=seq(A, do("x", "third"), go(), B),
        messages=FIRST,
        anew=("x",),
        ends=SOMETIMES,
    ),
    Row(
        name="a step renamed and its old name gone",
        old=seq(A, X, go(), B),
        new=seq(A, do("x", "third"), go(), B),
        messages=FIRST,
        lacks=("other",),
        ends=SOMETIMES,
    ),
    Row(
        name="a step before a tried one renamed and its old name gone",
        old=seq(X, do("y", "flaky"), go(), B),
        new=seq(do("x", "third"), do("y", "flaky"), go(), B),
        messages=FIRST,
        lacks=("other",),
        ends=SOMETIMES,
    ),
    Row(
        name="a step removed with its function",
        old=seq(X, A, go(), B),
        new=seq(A, go(), B),
        messages=FIRST,
        lacks=("other",),
        ends=SOMETIMES,
    ),
    Row(
        name="a step replaced and declared removed",
        old=seq(A, X, go(), B),
        new=seq(removed("other"), A, do("y", "third"), go(), B),
        messages=FIRST,
        lacks=("other",),
        removed=("x",),
        ends=ALWAYS,
    ),
    Row(name="calls swapped", old=BASE, new=seq(B, A, go(), C), messages=FIRST, ends=SOMETIMES),
    Row(name="steps swapped", old=seq(A, X, go(), B), new=seq(X, A, go(), B), messages=FIRST, ends=ALWAYS),
    Row(
        name="a step moved behind a wait",
        old=seq(A, X, go(), B),
        new=seq(A, go(), X, B),
        messages=FIRST,
        ends=SOMETIMES,
    ),
    Row(
        name="a step moved before a wait",
        old=seq(A, go(), X, B),
        new=seq(A, X, go(), B),
        messages=FIRST,
        ends=ALWAYS,
    ),
    Row(name="arguments changed", old=BASE, new=seq(A, do("b2"), go(), C), messages=FIRST, ends=SOMETIMES),
    Row(name="later arguments changed", old=BASE, new=seq(A, B, go(), do("c2")), messages=FIRST, ends=SOMETIMES),
    Row(
        name="a call doubled", old=seq(A, B, go()), new=seq(A, B, B, go()), messages=FIRST, anew=("b",), ends=SOMETIMES
    ),
    # Functions of the same module that the body calls: they are part of its version
    Row(
        name="a step inserted in a helper",
        old=Helped(plain()),
        new=Helped(with_one_more()),
        messages=FIRST,
        ends=ALWAYS,
    ),
    Row(
        name="a step removed in a helper",
        old=Helped(plain()),
        new=Helped(with_one_less()),
        messages=FIRST,
        ends=SOMETIMES,
    ),
    Row(
        name="a step inserted in a helper of a helper",
        old=Helped(around(plain())),
        new=Helped(around(with_one_more())),
        messages=FIRST,
        ends=ALWAYS,
    ),
    # Tasks
    Row(
        name="steps made concurrent",
        old=seq(A, X, go(), B),
        new=seq(gather(A, X), go(), B),
        messages=FIRST,
        ends=SOMETIMES,
    ),
    Row(
        name="concurrent steps made sequential",
        old=seq(gather(A, X), go()),
        new=seq(A, X, go()),
        messages=FIRST,
        ends=SOMETIMES,
    ),
    Row(name="gather made a task group", old=seq(gather(A, X), B), new=seq(group(A, X), B), ends=SOMETIMES),
    Row(
        name="a branch added behind",
        old=seq(gather(A, X), go()),
        new=seq(gather(A, X, B), go()),
        messages=FIRST,
        ends=ALWAYS,
    ),
    Row(
        name="a branch added first",
        old=seq(gather(A, X), go()),
        new=seq(gather(B, A, X), go()),
        messages=FIRST,
        ends=SOMETIMES,
    ),
    Row(
        name="a branch removed",
        old=seq(gather(A, X, B), go()),
        new=seq(gather(A, X), go()),
        messages=FIRST,
        ends=SOMETIMES,
    ),
    Row(name="wrapped in a timeout", old=seq(A, X, B), new=seq(A, timeout(9000, X), B), ends=ALWAYS),
    Row(name="unwrapped from a timeout", old=seq(A, timeout(9000, X), B), new=seq(A, X, B), ends=ALWAYS),
    Row(name="steps made a map", old=seq(A, B, C), new=seq(mapped("a", "b", "c", concurrency=2)), ends=SOMETIMES),
    Row(
        name="map concurrency changed",
        old=seq(mapped("a", "b", "c", "d", concurrency=2), go()),
        new=seq(mapped("a", "b", "c", "d", concurrency=3), go()),
        messages=FIRST,
        ends=ALWAYS,
    ),
    Row(
        name="map concurrency lowered",
        old=seq(mapped("a", "b", "c", "d", concurrency=4), go()),
        new=seq(mapped("a", "b", "c", "d", concurrency=1), go()),
        messages=FIRST,
        ends=ALWAYS,
    ),
    Row(
        name="a map item inserted",
        old=seq(mapped("a", "b", "c", concurrency=2), go()),
        new=seq(mapped("x", "a", "b", "c", concurrency=2), go()),
        messages=FIRST,
        ends=SOMETIMES,
    ),
    Row(name="a race made a sequence", old=seq(raced(A, sleep(50)), X), new=seq(A, X), ends=SOMETIMES),
    # Time
    Row(name="a sleep inserted", old=seq(A, X), new=seq(A, sleep(60), X), ends=ALWAYS),
    Row(name="a sleep removed", old=seq(A, sleep(60), X), new=seq(A, X), ends=ALWAYS),
    Row(name="a sleep made longer", old=seq(A, sleep(60), X), new=seq(A, sleep(600), X), ends=SOMETIMES),
    Row(name="a sleep made shorter", old=seq(A, sleep(600), X), new=seq(A, sleep(60), X), ends=SOMETIMES),
    Row(
        name="the first of two sleeps removed",
        old=seq(sleep(60), A, sleep(600), X),
        new=seq(A, sleep(600), X),
        ends=SOMETIMES,
    ),
    Row(name="a sleep moved", old=seq(A, sleep(60), X), new=seq(A, X, sleep(60)), ends=ALWAYS),
    Row(name="a sleep before another", old=seq(A, sleep(60), X), new=seq(sleep(5), A, sleep(60), X), ends=SOMETIMES),
    Row(
        name="a sleep made a timeout elsewhere",
        old=seq(sleep(60), A, X),
        new=seq(A, timeout(60, go("never")), X),
        ends=ALWAYS,
    ),
    Row(
        name="a step before a timed wait",
        old=seq(A, go(timeout=10), B, go()),
        new=seq(A, X, go(timeout=10), B, go()),
        messages=((300.0, "go", "late"),),
        ends=ALWAYS,
    ),
    Row(name="a sleep made a timeout", old=seq(A, sleep(60), X), new=seq(A, timeout(60, go()), X), ends=ALWAYS),
    Row(
        name="a timeout changed",
        old=seq(timeout(60, go("never")), X),
        new=seq(timeout(90, go("never")), X),
        ends=SOMETIMES,
    ),
    Row(
        name="a signal's timeout changed",
        old=seq(A, go("never", timeout=60), X),
        new=seq(A, go("never", timeout=90), X),
        ends=SOMETIMES,
    ),
    Row(
        name="a signal's timeout dropped",
        old=seq(A, go(timeout=9000), X),
        new=seq(A, go(), X),
        messages=FIRST,
        ends=ALWAYS,
    ),
    # Patches
    Row(
        name="a patch at the front",
        old=BASE,
        new=seq(patched("p", seq(X, A), A), B, go(), C),
        messages=FIRST,
        results=('COMPLETED ["a!","b!","first","c!"]',),
        ends=ALWAYS,
    ),
    Row(
        name="a patch in the middle",
        old=BASE,
        new=seq(A, patched("p", do("b2"), B), go(), C),
        messages=FIRST,
        results=('COMPLETED ["a!","b!","first","c!"]',),
        ends=ALWAYS,
    ),
    Row(
        name="a patch behind the wait",
        old=BASE,
        new=seq(A, B, go(), patched("p", do("c2"), C)),
        messages=FIRST,
        results=('COMPLETED ["a!","b!","first","c!"]',),
        ends=ALWAYS,
    ),
    Row(
        name="a patch around a retried step",
        old=seq(do("a", "flaky"), B),
        new=seq(patched("p", do("x", "other"), do("a", "flaky")), B),
        results=('COMPLETED ["a!","b!"]',),
        ends=ALWAYS,
    ),
    Row(
        name="a patch around a wait",
        old=seq(A, go(), B),
        new=seq(A, patched("p", go("come"), go()), B),
        messages=(*FIRST, (31.0, "come", "come")),
        results=('COMPLETED ["a!","first","b!"]',),
        ends=ALWAYS,
    ),
    # Signals
    Row(name="a signal inserted", old=seq(A, go(), B), new=seq(A, go(), go(), B), messages=BOTH, ends=SOMETIMES),
    Row(name="a signal inserted first", old=seq(go(), A), new=seq(go(), go(), A), messages=BOTH, ends=SOMETIMES),
    Row(
        name="another signal inserted",
        old=seq(A, go(), B),
        new=seq(A, go("come"), go(), B),
        messages=(*FIRST, (40.0, "come", "come")),
        ends=ALWAYS,
    ),
    Row(name="a signal removed", old=seq(A, go(), X, go(), B), new=seq(A, X, go(), B), messages=BOTH, ends=ALWAYS),
    Row(
        name="a wait made a timed one",
        old=seq(A, go(), B),
        new=seq(A, go(timeout=9000), B),
        messages=FIRST,
        ends=ALWAYS,
    ),
    # At most once, and tried before
    Row(
        name="an intended step removed",
        old=seq(A, do("x", "once"), B),
        new=seq(A, B),
        results=(INTERRUPTED,),
        ends=SOMETIMES,
    ),
    Row(
        name="an intended step's arguments",
        old=seq(A, do("x", "once"), B),
        new=seq(A, do("y", "once"), B),
        results=(INTERRUPTED,),
        ends=SOMETIMES,
    ),
    Row(name="a tried step removed", old=seq(do("x", "flaky"), B), new=seq(B), ends=SOMETIMES),
    Row(name="a tried step's arguments", old=seq(do("x", "flaky"), B), new=seq(do("y", "flaky"), B), ends=SOMETIMES),
    Row(name="a tried step moved", old=seq(do("x", "flaky"), A), new=seq(A, do("x", "flaky")), ends=ALWAYS),
    Row(
        name="a tried step gathered", old=seq(do("x", "flaky"), A), new=seq(gather(do("x", "flaky"), A)), ends=SOMETIMES
    ),
    # Steps inside the store's own transaction
    Row(
        name="a step after a transaction",
        old=seq(do("t", "pay"), B),
        new=seq(do("t", "pay"), X, B),
        database=on_sqlite,
        ends=ALWAYS,
    ),
    Row(name="a transaction removed", old=seq(do("t", "pay"), B), new=seq(B), database=on_sqlite, ends=SOMETIMES),
    Row(
        name="a transaction gathered",
        old=seq(do("t", "pay"), B),
        new=seq(gather(do("t", "pay"), B)),
        database=on_sqlite,
        ends=SOMETIMES,
    ),
    Row(
        name="a transaction's arguments",
        old=seq(A, do("t", "pay"), B),
        new=seq(A, do("u", "pay"), B),
        database=on_sqlite,
        ends=SOMETIMES,
    ),
    # Children and callbacks
    Row(name="a child inserted", old=seq(A, go(), B), new=seq(A, do("x", "kid"), go(), B), messages=FIRST, ends=ALWAYS),
    Row(name="a child removed", old=seq(A, do("x", "kid"), B), new=seq(A, B), ends=SOMETIMES),
    Row(name="a child's arguments", old=seq(A, do("x", "kid"), B), new=seq(A, do("y", "kid"), B), ends=SOMETIMES),
    Row(
        name="a child gathered",
        old=seq(do("x", "kid"), go()),
        new=seq(gather(do("x", "kid"), go())),
        messages=FIRST,
        ends=SOMETIMES,
    ),
    Row(name="a step before a callback", old=seq(answered("q"), B), new=seq(X, answered("q"), B), ends=ALWAYS),
    Row(name="a callback removed", old=seq(answered("q"), B), new=seq(B), ends=SOMETIMES),
    # Sagas and clean-up
    Row(
        name="a step added inside a saga",
        old=caught(saga(do("h", "reserve"), do("bad")), C),
        new=caught(saga(do("h", "reserve"), X, do("bad")), C),
        ends=ALWAYS,
    ),
    Row(
        name="a saga's step removed",
        old=caught(saga(do("h", "reserve"), X, do("bad")), C),
        new=caught(saga(do("h", "reserve"), do("bad")), C),
        ends=SOMETIMES,
    ),
    Row(
        name="a step added behind a saga",
        old=caught(saga(do("h", "reserve"), go()), C),
        new=seq(caught(saga(do("h", "reserve"), go()), C), X),
        messages=STOP,
        ends=ALWAYS,
    ),
    Row(
        name="a step added to a clean-up",
        old=cleaned(seq(A, go()), C),
        new=cleaned(seq(A, go()), seq(C, X)),
        messages=STOP,
        ends=ALWAYS,
    ),
    Row(
        name="a step added before a cancellation",
        old=cleaned(seq(A, go()), C),
        new=cleaned(seq(A, X, go()), C),
        messages=STOP,
        ends=ALWAYS,
    ),
    Row(
        name="a poll's pause",
        old=seq(poll("a", "5s"), go()),
        new=seq(poll("a", "9s"), go()),
        messages=FIRST,
        ends=SOMETIMES,
    ),
)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """That code is blocked is logged, and is to be expected here."""
    caplog.set_level(logging.CRITICAL)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name.replace(" ", "-"))
def test_a_change_continues_right_or_blocks_at_every_point(
    row: Row, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    tally = played(row, tmp_path)
    record_property("ends", str(tally))
    assert not tally.wrong
    assert {end for end, count in tally.ends.items() if count} - {End.OVER} == row.ends
