"""What records of the log say of where they come from, and what happens when logging fails."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from types import MappingProxyType

import pytest

import holdfast as hf


class Broken(logging.Handler):
    """Raises for each record, and counts them."""

    raised = 0

    def emit(self, record):
        self.raised += 1
        raise OSError("the disk of the log is full")


@pytest.fixture
def app():
    return hf.App("shop", home="memory://")


@pytest.fixture
def records(caplog):
    caplog.set_level(logging.INFO)
    return lambda name: [each for each in caplog.records if each.name == name]


async def test_a_record_says_where_it_comes_from(app, records):
    log = logging.getLogger("shop")

    @app.step(retry=hf.Retry(max_attempts=2, initial="1ms"))
    async def flaky() -> None:
        log.info("in a step")
        if hf.current().attempt == 1:
            raise OSError("no route")

    @app.step
    def blocking() -> None:
        log.info("in a thread")

    class Cart(hf.Actor, app=app):
        async def add(self) -> None:
            log.info("in a method")

    @app.workflow
    async def order() -> None:
        log.info("in a body")
        await flaky()
        await blocking()
        await Cart.at("u1").add()

    async with app.worker():
        await (await order.start(id="o-1")).result()
        log.info("elsewhere")
    where = {"workflow": "order", "id": "o-1"}
    found = [(each.getMessage(), each.holdfast) for each in records("shop")]
    assert [each for each in found if each[0] != "in a body"] == [
        ("in a step", {**where, "operation": "flaky#0", "attempt": 1}),
        ("in a step", {**where, "operation": "flaky#0", "attempt": 2}),
        ("in a thread", {**where, "operation": "blocking#0", "attempt": 1}),
        ("in a method", {"actor": "Cart", "key": "u1"}),
        ("elsewhere", None),
    ]
    assert ("in a body", {**where, "run": 0}) in found


async def test_failures_are_logged_once_each_with_their_traceback_at_the_end(app, records):
    @app.step(retry=hf.Retry(max_attempts=3, initial="1ms"))
    async def charge() -> None:
        raise OSError("no route to " + "x" * 1_000)

    @app.workflow
    async def order() -> None:
        await charge()

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed):
            await (await order.start(id="o-1")).result()
    first, second, third, last = [each for each in records("holdfast") if each.levelno == logging.WARNING]
    for number, each in enumerate((first, second, third), start=1):
        said = each.getMessage()
        assert said.startswith(f"workflow order o-1: step charge#0 failed, attempt {number} of 3, ")
        assert "OSError: no route to xxx" in said and said.endswith("… (cut)")
        assert each.holdfast["operation"] == "charge#0"
    assert re.search(r"the next in \d+ ms", first.getMessage()) and "no other is made" in third.getMessage()
    assert last.getMessage().startswith("workflow order o-1 ended as FAILED\n")
    assert 'raise OSError("no route to "' in last.getMessage() and "await charge()" in last.getMessage()
    assert "x" * 400 in last.getMessage() and "x" * 500 not in last.getMessage()
    assert last.holdfast == {"workflow": "order", "id": "o-1", "run": 0, "status": "FAILED"}


async def test_the_token_of_a_callback_is_in_no_line(app, records):
    @app.step(retry=hf.Retry(max_attempts=2, initial="1ms"))
    async def mail(token: str) -> None:
        raise OSError(f"cannot send https://shop/{token}")

    @app.workflow
    async def order() -> None:
        await mail(hf.callback(str).token)

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed):
            await (await order.start(id="o-1")).result()
    lines = [each.getMessage() for each in records("holdfast") if "cannot send" in each.getMessage()]
    assert len(lines) == 3 and all("https://shop/hf1.(token)" in each for each in lines)


async def test_a_refusal_that_the_body_expects_is_no_warning(app, records):
    class SoldOut(Exception):
        """A refusal."""

    @app.step(raises=(SoldOut,), retry=hf.Retry(never=(SoldOut,)))
    async def reserve() -> None:
        raise SoldOut("no lamp is left")

    @app.workflow
    async def order() -> str:
        try:
            await reserve()
        except SoldOut:
            return "refused"
        raise AssertionError

    async with app.worker():
        assert await (await order.start(id="o-1")).result() == "refused"
    (told,) = records("holdfast")
    assert told.levelno == logging.INFO and "no other is made: SoldOut: no lamp is left" in told.getMessage()


async def test_a_parked_message_is_logged_with_its_traceback(app, records):
    class Cart(hf.Actor, app=app, retry=hf.Retry(max_attempts=2, initial="1ms")):
        async def add(self) -> None:
            raise KeyError("sku-9")

    async with app.worker():
        await hf.send(Cart.at("u1").add)
        while not (await app.parked()).items:
            await asyncio.sleep(0.002)
    first, last = [each for each in records("holdfast") if "failed, attempt" in each.getMessage()]
    assert "Cart 'u1': add (" in first.getMessage() and re.search(r"the next in \d+ ms", first.getMessage())
    assert "and is parked\n" in last.getMessage() and 'raise KeyError("sku-9")' in last.getMessage()
    assert last.holdfast == {"actor": "Cart", "key": "u1", "operation": "add"}


async def test_a_handler_that_raises_stops_no_execution(app, capsys):
    broken = Broken()
    logging.getLogger("holdfast").addHandler(broken)
    try:

        @app.step(retry=hf.Retry(max_attempts=2, initial="1ms"))
        async def charge() -> None:
            raise OSError("no route")

        @app.workflow
        async def order() -> None:
            await charge()

        async with app.worker():
            with pytest.raises(hf.ExecutionFailed):
                await (await order.start(id="o-1")).result()
    finally:
        logging.getLogger("holdfast").removeHandler(broken)
    assert broken.raised == 3
    assert "the disk of the log is full" in capsys.readouterr().err


def test_no_record_breaks_the_lines_of_json():
    class Odd:
        def __str__(self):
            raise RuntimeError("no text")

    cycle: list[object] = []
    cycle.append(cycle)
    formatter = hf.JsonLines()
    for message, args, extra in (
        ("%d apples", ("many",), {}),
        ("%s", (Odd(),), {}),
        ("fine", (), {"odd": Odd(), "cycle": cycle, "number": float("nan"), "keys": {1: 2, (3,): 4}}),
        ("lone \ud800", (), {"secret": hf.Secret("hunter2")}),
        ("redis://ann:hunter2@cache:1", (), {"view": MappingProxyType({})}),
    ):
        record = logging.LogRecord("shop", logging.INFO, "shop.py", 1, message, args, None)
        vars(record).update(extra)
        line = formatter.format(record)
        assert json.loads(line)["logger"] == "shop"
        assert "hunter2" not in line and "\n" not in line


def test_an_exception_is_in_its_line():
    try:
        raise KeyError("sku-9")
    except KeyError as error:
        record = logging.LogRecord(
            "shop", logging.ERROR, "shop.py", 1, "failed", (), (KeyError, error, error.__traceback__)
        )
    assert "KeyError: 'sku-9'" in json.loads(hf.JsonLines().format(record))["exception"]
