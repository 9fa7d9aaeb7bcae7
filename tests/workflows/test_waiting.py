"""An execution tells in its head what it waits for, in writes that are made anyway."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.workflows.waiting_shop import Shop

import holdfast as hf
from holdfast.testing import run_virtual
from holdfast.workflows import waiting
from holdfast.workflows.record import decode_record
from holdfast.workflows.waits import (
    ACTOR,
    CALLBACK,
    CHILD,
    EXECUTION,
    KINDS,
    MOST_UNTAKEN,
    MOST_WAITS,
    SIGNAL,
    STEP,
    TIMER,
    Wait,
)

HOUR_MS = 3_600_000
LATER = hf.Retry(max_attempts=4, delay=lambda _error, _attempt: "1h")


def line_of(text: str) -> str:
    """The place in this file of the one line that contains the text."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if text in line and "line_of(" not in line]
    return f"test_waiting.py:{number} in "


def test_a_signal_and_until_when_it_is_waited_for():
    shop = Shop()

    @shop.app.workflow
    async def checkout() -> None:
        await hf.signal("approval", bool, timeout="1h")  # the signal

    async def main():
        async with shop.app.worker():
            started = await shop.rest(checkout)
            (wait,) = (await shop.waits(checkout)).waits
        assert (wait.kind, wait.op) == (SIGNAL, "approval")
        assert started <= wait.until - HOUR_MS <= started + 1_000
        assert wait.place.endswith(line_of("# the signal") + "checkout")

    run_virtual(main)


def test_a_timer():
    shop = Shop()

    @shop.app.workflow
    async def sleeper() -> None:
        await hf.sleep("2h")  # the nap

    async def main():
        async with shop.app.worker():
            started = await shop.rest(sleeper)
            (wait,) = (await shop.waits(sleeper)).waits
        assert (wait.kind, wait.op) == (TIMER, "sleep#0")
        assert started <= wait.until - 2 * HOUR_MS <= started + 1_000
        assert wait.place.endswith(line_of("# the nap") + "sleeper")

    run_virtual(main)


@pytest.mark.parametrize("timeout", [None, "3h"])
def test_a_callback(timeout):
    shop = Shop()

    @shop.app.workflow
    async def payment() -> str:
        paid = hf.callback(str, name="paid", timeout=timeout)
        return await paid  # the answer

    async def main():
        async with shop.app.worker():
            started = await shop.rest(payment)
            (wait,) = (await shop.waits(payment)).waits
        assert (wait.kind, wait.op) == (CALLBACK, "paid#0")
        assert wait.until == 0 if timeout is None else started <= wait.until - 3 * HOUR_MS <= started + 1_000
        assert wait.place.endswith(line_of("# the answer") + "payment")

    run_virtual(main)


def test_others_are_named():
    shop = Shop()

    @shop.app.workflow
    async def shipping() -> None:
        await hf.signal("shipped")

    @shop.app.workflow
    async def other() -> None:
        await hf.signal("go")

    @shop.app.workflow
    async def checkout() -> None:
        await asyncio.gather(shipping(), other.handle("other-1").result(timeout="1h"))

    async def main():
        async with shop.app.worker():
            await other.start(id="other-1")
            await shop.rest(checkout)
            child, awaited = (await shop.waits(checkout)).waits
            children = await shop.app.executions(parent=checkout.handle("1"))
        assert (child.kind, child.op) == (CHILD, "shipping#0/shipping#0")
        assert [child.id] == [each.id for each in children.executions]
        assert (awaited.kind, awaited.id) == (EXECUTION, "other-1")
        assert awaited.until

    run_virtual(main)


def test_the_reply_of_an_actor():
    shop = Shop()

    class Account(hf.Actor, app=shop.app):
        balance: int = 0

        async def deposit(self) -> None:
            await asyncio.sleep(14)

    @shop.app.workflow
    async def checkout() -> None:
        await Account.at("ann").deposit()

    async def main():
        async with shop.app.worker():
            await checkout.start(id="1")
            await shop.told(checkout)
            (wait,) = (await shop.waits(checkout)).waits
            await shop.app.handle("checkout", "1")
        assert (wait.kind, wait.op, wait.id) == (ACTOR, "Account.deposit#0", "ann")

    run_virtual(main)


def test_a_step_that_is_tried_again():
    shop = Shop()

    @shop.app.step(retry=LATER)
    async def charge(card: str, cents: int) -> None:
        raise OSError("no such host")

    @shop.app.workflow
    async def checkout() -> None:
        await charge("tok", 1999)  # the step

    async def main():
        async with shop.app.worker():
            started = await shop.rest(checkout)
            (wait,) = (await shop.waits(checkout)).waits
        assert wait == Wait(
            kind=STEP,
            op="charge#0",
            until=wait.until,
            place=wait.place,
            attempt=2,
            most=4,
            error="OSError: no such host",
            arguments='["tok",1999]',
        )
        assert wait.until >= started + HOUR_MS / 2
        assert wait.place.endswith(line_of("# the step") + "checkout")

    run_virtual(main)


def test_signals_that_were_not_taken():
    shop = Shop()

    @shop.app.workflow
    async def checkout() -> None:
        await hf.signal("approval")

    async def main():
        async with shop.app.worker():
            handle = await checkout.start(id="1")
            for name in ("aproval", "aproval", "other", "x" * 250, *(f"n{n}" for n in range(12))):
                await handle.signal(name)
            await shop.rest(checkout)
            waits = await shop.waits(checkout)
        assert [each.op for each in waits.waits] == ["approval"]
        assert waits.untaken[:3] == ("aproval", "other", "x" * 200)
        assert len(waits.untaken) == MOST_UNTAKEN

    run_virtual(main)


def test_what_is_told_is_bounded():
    shop = Shop()

    @shop.app.step(retry=LATER)
    async def work(text: str) -> None:
        raise OSError("é" * 10_000)

    @shop.app.workflow
    async def wide() -> None:
        await asyncio.gather(*(work("y" * 5_000) for _ in range(12)), *(hf.signal(str(n)) for n in range(30)))

    async def main():
        async with shop.app.worker():
            await shop.rest(wide)
            head = await shop.head(wide)
            waits = decode_record(head.body).waits
        assert (len(waits.waits), waits.more) == (MOST_WAITS, 32)
        assert sum(len(each.arguments) for each in waits.waits) <= waiting.ROOM_FOR_ARGUMENTS_CHARACTERS + MOST_WAITS
        assert max(len(each.error) for each in waits.waits) == waiting.LONGEST_ERROR_CHARACTERS

    run_virtual(main)


def test_secrets_and_tokens_are_taken_out_before_anything_is_cut_off():
    shop = Shop()
    tokens: list[str] = []
    long = "z" * (waiting.LONGEST_ARGUMENTS_CHARACTERS - 60)

    @shop.app.step(retry=LATER)
    async def send(fill: str, token: str, password: hf.Secret) -> None:
        raise OSError("f " * 75 + token)

    @shop.app.workflow
    async def checkout() -> None:
        paid = hf.callback(str, name="paid")
        tokens.append(paid.token)
        await send(long, paid.token, hf.Secret("hunter2"))

    async def main():
        async with shop.app.worker():
            await shop.rest(checkout)
            (wait,) = (await shop.waits(checkout)).waits
        signature = tokens[0].rpartition(".")[2]
        for told in (wait.arguments, wait.error):
            assert "hf1.(token)" in told
            assert signature[:6] not in told
        assert "hunter2" not in wait.arguments

    run_virtual(main)


def test_arguments_too_large_to_be_searched_are_told_by_their_size(monkeypatch):
    monkeypatch.setattr(waiting, "LARGEST_SEARCHED_BYTES", 100)
    shop = Shop()

    @shop.app.step(retry=LATER)
    async def send(fill: str) -> None:
        raise OSError

    @shop.app.workflow
    async def checkout() -> None:
        await send("z" * 100)

    async def main():
        async with shop.app.worker():
            await shop.rest(checkout)
            (wait,) = (await shop.waits(checkout)).waits
        assert wait.arguments == "(104 bytes)"

    run_virtual(main)


def test_whatever_goes_wrong_in_telling_the_execution_goes_on(monkeypatch):
    def broken(*_args: object) -> None:
        raise RuntimeError("not a view")

    monkeypatch.setattr(waiting, "_Look", broken)
    shop = Shop()

    @shop.app.workflow
    async def checkout() -> bool:
        return await hf.signal("approval", bool)

    async def main():
        async with shop.app.worker():
            await shop.rest(checkout)
            assert await shop.waits(checkout) is None
            await checkout.handle("1").signal("approval", True)
            assert await checkout.handle("1") is True

    run_virtual(main)


def test_what_never_rests_is_never_looked_at(monkeypatch):
    looks: list[object] = []
    monkeypatch.setattr("holdfast.workflows.execution.waits_of", lambda *seen: looks.append(seen))
    shop = Shop()

    @shop.app.step
    async def work() -> None:
        await asyncio.sleep(shop.lease_seconds / 3 * 1.5)

    @shop.app.workflow
    async def checkout() -> None:
        await work()

    async def main():
        async with shop.app.worker():
            await checkout.start(id="1")
            await checkout.handle("1")
        assert not looks, "one renewal is not worth a look either"

    run_virtual(main)


def test_an_end_tells_nothing():
    shop = Shop()

    @shop.app.workflow
    async def checkout() -> None:
        await hf.signal("approval")

    async def main():
        async with shop.app.worker():
            await shop.rest(checkout)
            await shop.rest(checkout, id="2")
            await checkout.handle("2").fork("3")
            await checkout.handle("1").signal("approval")
            await checkout.handle("1")
            await checkout.handle("2").terminate()
            for id in ("1", "2"):
                assert await shop.waits(checkout, id) is None

    run_virtual(main)


def test_every_kind_has_a_name():
    assert len(set(KINDS)) == len(KINDS)
