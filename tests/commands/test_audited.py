"""Every command that changes something leaves a row: who, what, about what, and how it went. On every surface."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.commands.test_surfaces import BODIES, ON_LAMBDA, PLACES, performed
from tests.http.conftest import Api

import holdfast as hf
from holdfast.actors.admin.handle import Message
from holdfast.actors.admin.listing import ParkedMessage
from holdfast.clock import moment
from holdfast.commands import COMMANDS, NAMED, Context, perform_for
from holdfast.commands.actor import DeleteActor
from holdfast.commands.context import Command
from holdfast.commands.limit import ChangeLimit
from holdfast.commands.message import DropParked, Redrive, ShowParked
from holdfast.commands.numbers import GivenRate
from holdfast.commands.queue import ChangeQueue
from holdfast.coordination.audit import rows_since
from holdfast.errors import InvalidState, StoreUnavailable
from holdfast.http.routes import ROUTES
from holdfast.runtime.lambda_table import begin, order_of

__all__ = ["performed"]

AUDITED = [each for each in COMMANDS if each.audited]
TOLD = {ChangeQueue: " limit=2", ChangeLimit: " permits=2"}
"""What a row tells besides what the command is about."""

NAMED_IN_PATH = ("workflow", "id", "actor", "key", "place", "message", "operation", "queue", "limit")


async def rows(app: hf.App) -> list[Any]:
    runtime = app.runtime()
    return await rows_since(runtime.home.store, runtime.clock, 0, 10)


def test_what_needs_control_and_does_more_than_look_is_audited():
    looks = {"actor list", "actor show", "dlq list", "dlq show", "audit list"}
    control = {each.name for each in COMMANDS if each.right is hf.Right.CONTROL}
    assert {each.name for each in AUDITED} == control - looks


@pytest.mark.parametrize("named", AUDITED, ids=lambda each: each.tag)
def test_a_row_says_what_the_command_is_about(named):
    command = order_of(json.dumps({"holdfast": named.tag, **ON_LAMBDA[named.command]}))
    told = [value for name, value in ON_LAMBDA[named.command].items() if name in NAMED_IN_PATH]
    assert str(command) == " ".join(told)


def test_a_row_names_the_numbers_of_a_queue_that_are_changed():
    command = ChangeQueue("shop/mail", limit=5, limit_per_key=None, rate=GivenRate(5, "1s", 10))
    assert str(command) == "shop/mail limit=5 limit_per_key=none rate=5/1s/10"


@pytest.mark.parametrize("route", [each for each in ROUTES if each.action], ids=str)
async def test_over_http_with_the_caller_and_an_event(http_shop, performed, route, monkeypatch):
    if route.command in (Redrive, DropParked):  # whose message it is has to be known first
        monkeypatch.setattr(ShowParked, "perform", parked)
    told = []
    async with http_shop.app as app:
        app.telemetry.subscribe(lambda event, fields: told.append((event, fields)))
        body = json.dumps(BODIES[route.command]).encode() if route.command in BODIES else b""
        await Api(app).send(route.method, route.path.format_map(PLACES), body)
        (row,) = await rows(app)
    what = " ".join(PLACES[name] for name in NAMED_IN_PATH if f"{{{name}}}" in route.path)
    told_too = what + TOLD.get(route.command, "")
    assert (row.who, row.action, row.what, row.outcome) == ("tester", NAMED[route.command].name, told_too, "performed")
    fields = {"route": str(route), "status": 409, "caller": "tester", "target": what}
    assert ("http_answered", fields) in told


async def parked(_self: Any, _context: Context) -> ParkedMessage:
    message = Message("p", "r", "add", {}, moment(0), None)
    return ParkedMessage("m", "Cart", "k", message)


@pytest.mark.parametrize("named", AUDITED, ids=lambda each: each.tag)
async def test_on_lambda(http_shop, performed, named):
    command = order_of(json.dumps({"holdfast": named.tag, **ON_LAMBDA[named.command]}))
    async with http_shop.app as app:
        with pytest.raises(InvalidState):
            await begin(command, "request-1", app)
        (row,) = await rows(app)
    assert (row.who, row.action, row.what, row.outcome) == ("lambda", named.name, str(command), "performed")


@pytest.mark.parametrize("named", [each for each in COMMANDS if not each.audited], ids=lambda each: each.tag)
async def test_what_looks_or_works_leaves_none(http_shop, performed, named):
    told = ON_LAMBDA.get(named.command, {"workflow": "w", "id": "i"})
    command: Command[Any] = named.command(**told)
    async with http_shop.app as app:
        with pytest.raises(InvalidState):
            await perform_for("ann", command, Context(app))
        assert await rows(app) == []


async def test_a_request_that_is_not_understood_leaves_none(http_shop):
    async with http_shop.app as app:
        assert (await Api(app).post("/v1/workflows/approval/a/cancel", {"why": "x"}))[0] == 400
        assert await rows(app) == []


async def test_nothing_is_performed_if_the_row_cannot_be_kept(http_shop, performed, monkeypatch):
    async with http_shop.app as app:

        async def refuses(*_args: Any, **_options: Any) -> None:
            raise StoreUnavailable("gone")

        monkeypatch.setattr("holdfast.coordination.audit.write_for_caller", refuses)
        with pytest.raises(StoreUnavailable):
            await perform_for("ann", DeleteActor("Cart", "k"), Context(app))
    assert performed == []
