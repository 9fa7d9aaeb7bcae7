"""Every command is on every surface. What is not is in one table, with the reason."""

from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import pytest
from tests.cli.every import every_command
from tests.http.conftest import Api

import holdfast as hf
from holdfast.actors.admin.handle import Message
from holdfast.actors.admin.listing import ParkedMessage
from holdfast.commands import COMMANDS, NAMED
from holdfast.commands.actor import (
    Call,
    DeleteActor,
    Discard,
    ListActors,
    Park,
    RequestStatus,
    ResumeActor,
    Send,
    ShowActor,
    Unpark,
)
from holdfast.commands.callback import AnswerCallback, Complete, Fail, Heartbeat
from holdfast.commands.context import Command
from holdfast.commands.execution import (
    Cancel,
    Delete,
    Fork,
    ListExecutions,
    Move,
    Pause,
    Query,
    ReadHistory,
    Result,
    Resume,
    Retry,
    RetryNow,
    Show,
    Signal,
    Start,
    Status,
    Terminate,
)
from holdfast.commands.limit import ChangeLimit, ListLimits, ResetLimit, ShowLimit
from holdfast.commands.message import DropParked, ListParked, Publish, Redrive, ShowParked
from holdfast.commands.overview import Overview
from holdfast.commands.queue import ChangeQueue, ListQueues, PauseQueue, PurgeQueue, ResetQueue, ResumeQueue, ShowQueue
from holdfast.commands.system import ListAudit, ListLeases, ListOutbox, ListSchedules, ListWorkers
from holdfast.errors import InvalidState
from holdfast.http.routes import ROUTES
from holdfast.runtime.lambda_table import TAKEN, order_of

EXECUTION, ACTOR, METHOD = {"workflow": "w", "id": "i"}, {"actor": "A", "key": "k"}, {"method": "m"}

ON_LAMBDA: dict[type[Command[Any]], dict[str, Any]] = {
    # what a function is sent besides the tag
    Start: {"workflow": "w"},
    Status: EXECUTION,
    ListExecutions: {},
    ReadHistory: EXECUTION,
    Show: EXECUTION,
    Query: {**EXECUTION, "name": "n"},
    Signal: {**EXECUTION, "name": "n"},
    **dict.fromkeys((Cancel, Terminate, Pause, Resume, Delete, Move, Retry, RetryNow, Fork), EXECUTION),
    Complete: {"token": "t"},
    Fail: {"token": "t", "message": "m"},
    Heartbeat: {"token": "t"},
    AnswerCallback: {**EXECUTION, "operation": "o"},
    Call: ACTOR | METHOD,
    Send: ACTOR | METHOD,
    RequestStatus: {**ACTOR, "request_id": "r"},
    ListActors: {},
    **dict.fromkeys((ShowActor, DeleteActor, ResumeActor, Park), ACTOR),
    Unpark: {**ACTOR, "place": "p"},
    Discard: {**ACTOR, "place": "p"},
    Publish: {"event": "e"},
    ListParked: {},
    **{each: {} for each in (Overview, ListOutbox, ListSchedules, ListLeases, ListWorkers, ListAudit)},
    **{each: {"id": "i"} for each in (ShowParked, Redrive, DropParked)},
    ListQueues: {},
    **{each: {"queue": "q"} for each in (ShowQueue, PauseQueue, ResumeQueue, ChangeQueue, ResetQueue, PurgeQueue)},
    ListLimits: {},
    **{each: {"limit": "l"} for each in (ShowLimit, ChangeLimit, ResetLimit)},
}

ON_COMMAND_LINE: dict[type[Command[Any]], str] = {
    # a line that performs it
    Start: "start approval 7",
    Result: "result approval a",
    ListExecutions: "ls",
    Show: "show approval a",
    Query: "query approval a asked",
    Signal: "signal approval a decision",
    Cancel: "cancel approval a",
    Terminate: "terminate approval a",
    Pause: "pause approval a",
    Resume: "resume approval a",
    Delete: "delete approval a",
    Move: "move approval a",
    Retry: "retry approval a",
    RetryNow: "retry approval a --now",
    Fork: "fork approval a b",
    Complete: "callback complete t",
    Fail: "callback fail t lost",
    Heartbeat: "callback heartbeat t",
    AnswerCallback: "callback answer approval a o",
    Call: "actor call Cart u total",
    Send: "actor send Cart u total",
    RequestStatus: "actor request Cart u r",
    ListActors: "actor ls",
    ShowActor: "actor show Cart u",
    DeleteActor: "actor delete Cart u",
    Unpark: "actor unpark Cart u p",
    Discard: "actor discard Cart u p",
    ResumeActor: "actor resume Cart u",
    Park: "actor park Cart u",
    Publish: 'publish Placed \'{"order": "o"}\'',
    ListParked: "dlq ls",
    ShowParked: "dlq show i",
    Redrive: "dlq redrive i",
    DropParked: "dlq discard i",
    Overview: "overview",
    ListOutbox: "outbox ls",
    ListSchedules: "schedules",
    ListLeases: "leases",
    ListWorkers: "workers",
    ListAudit: "audit",
    ListQueues: "queue ls",
    ShowQueue: "queue show mail",
    PauseQueue: "queue pause mail",
    ResumeQueue: "queue resume mail",
    ChangeQueue: "queue set mail limit=2",
    ResetQueue: "queue reset mail",
    PurgeQueue: "queue purge mail --yes",
    ListLimits: "limit ls",
    ShowLimit: "limit show bank",
    ChangeLimit: "limit set bank permits=2",
    ResetLimit: "limit reset bank",
}

NOT_ON: dict[tuple[type[Command[Any]], str], str] = {
    # the surface that has no such command, why
    (Result, "Lambda"): "a function is paid for the time it waits; status answers the result",
    (Result, "HTTP"): "GET of the execution, with ?wait=",
    (Status, "command line"): "show, which also tells of the owner and of hand-overs",
    (ReadHistory, "command line"): "show, which also tells of hand-overs and, if asked, payloads",
}

OTHER_LINES = {
    # no command of these, why
    "trace": "sends to a collector, from where the operator is",
    "timers ls": "reads every actor of the home",
    "outbox resend": "about the events of an app on their way, for its operators",
    "outbox discard": "the same",
    "stream prune": "reads the names of all partitions of the home; streams.idle(...) in Python",
    "asl lint": "about a definition, before there is a home",
    "asl test": "the same",
    "asl to-python": "the same",
    "asl graph": "the same",
    "asl run": "the same: a trial on a home in memory",
    "asl cost": "the same",
    "asl show": "reads the history, which is a command",
    "prune": "a command for each of many executions; app.select(...) in Python",
    "bulk retry": "a command for each of many executions; app.select(...) in Python",
    "bulk cancel": "the same",
    "bulk terminate": "the same",
    "bulk delete": "the same",
    "bulk move": "the same",
    "bulk pause": "the same",
    "bulk resume": "the same",
    "bulk signal": "the same",
    "bulk answer": "the same",
    "bulk fork": "the same",
    "backup": "about the whole home",
    "restore": "the same",
    "doctor": "the same",
    "export": "the same",
    "import": "the same",
    "seal": "the same",
    "run": "a process",
    "serve": "the same",
    "dashboard": "the same",
    "debug": "runs a copy of an execution, under the debugger",
    "demo": "the same",
    "chaos run": "the same",
    "chaos ls": "about what there is to run",
    "ask": "a request to a server",
    "init": "a folder",
    "infra template": "about AWS",
    "aws create-table": "the same",
    "aws clean-up": "the same",
    "aws settings": "the same",
    "aws verify": "the same",
    "cost actor": "an estimate",
    "cost tables": "the same",
    "cost workflow": "the same",
}


class Performed(InvalidState):
    """In place of what a command does."""

    code = "performed"


@pytest.fixture
def performed(monkeypatch):
    """The commands that were performed: each is noted, and does nothing."""
    found: list[type[Command[Any]]] = []

    async def note(self: Any, _context: Any) -> None:
        found.append(type(self))
        raise Performed(type(self).__name__)

    for each in COMMANDS:
        monkeypatch.setattr(each.command, "perform", note)
    return found


def missing(surface: str) -> set[type[Command[Any]]]:
    return {command for command, where in NOT_ON if where == surface}


def test_every_command_is_named_once():
    assert len({each.name for each in COMMANDS}) == len({each.tag for each in COMMANDS}) == len(NAMED) == len(COMMANDS)


def test_every_command_is_in_the_table():
    def below(kind: type) -> set[type]:
        return {each for child in kind.__subclasses__() for each in {child, *below(child)}}

    assert {each for each in below(Command) if each.__struct_config__.tag not in (None, each.__name__)} == set(NAMED)


# ── Lambda ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_lambda_takes_every_command():
    assert set(TAKEN) == set(ON_LAMBDA) == set(NAMED) - missing("Lambda")


@pytest.mark.parametrize("command", ON_LAMBDA, ids=lambda each: NAMED[each].tag)
def test_a_function_reads_a_command_by_its_tag(command):
    told = {"holdfast": NAMED[command].tag, **ON_LAMBDA[command]}
    assert type(order_of(json.dumps(told))) is command


# ── HTTP ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_http_has_a_route_for_every_command():
    assert {route.command for route in ROUTES if route.command} == set(NAMED) - missing("HTTP")


PLACES = {"workflow": "approval", "id": "a", "name": "asked", "actor": "Cart", "key": "k", "method": "total",
          "event": "Placed", "place": "p", "message": "m", "token": "t", "operation": "o",
          "queue": "mail", "limit": "bank"}  # fmt: skip
BODIES = {Fork: {"id": "b"}, Fail: {"message": "lost"}, Publish: {"order": "o"}, ChangeQueue: {"limit": 2},
          ChangeLimit: {"permits": 2}}  # fmt: skip
FIRST = {Redrive: ShowParked, DropParked: ShowParked}
"""What is performed before: whose message it is has to be known."""


@pytest.mark.parametrize("route", [route for route in ROUTES if route.command and route.right], ids=str)
async def test_a_route_performs_its_command(http_shop, performed, route):
    async with http_shop.app:
        api = Api(http_shop.app)
        body = json.dumps(BODIES[route.command]).encode() if route.command in BODIES else b""
        response = await api.send(route.method, route.path.format_map(PLACES), body)
    if route.command is Call:  # its errors are told apart, so that it is performed in two steps
        assert response.status == 200
    else:
        assert json.loads(response.body)["code"] == "performed"
        assert performed == [FIRST.get(route.command, route.command)]


@pytest.mark.parametrize("route", [route for route in ROUTES if route.command and not route.right], ids=str)
async def test_a_callback_is_verified_and_then_answered(http_shop, performed, route, monkeypatch):
    async def verified(_self: Any) -> None:
        assert performed == []

    monkeypatch.setattr(hf.CallbackHandle, "verify", verified)
    async with http_shop.app:
        body = json.dumps(BODIES[route.command]).encode() if route.command in BODIES else b""
        await Api(http_shop.app).send(route.method, route.path.format_map(PLACES), body)
    assert performed == [route.command]


# ── The command line ────────────────────────────────────────────────────────────────────────────────────────────────


LINES = {line for line, _ in every_command()}


def test_the_command_line_has_every_command_and_what_else_it_has_is_listed():
    assert set(ON_COMMAND_LINE) == set(NAMED) - missing("command line")
    named = {name for name in LINES for line in ON_COMMAND_LINE.values() if f"{line} ".startswith(f"{name} ")}
    assert LINES - named == set(OTHER_LINES)


@pytest.mark.parametrize("command", ON_COMMAND_LINE, ids=lambda each: NAMED[each].name)
def test_a_line_performs_its_command(shop, command, request, monkeypatch):
    shop.json("start", "approval", "7", "--id", "a")
    noted = request.getfixturevalue("performed")
    monkeypatch.setattr(import_module("holdfast.cli.dlq"), "_find", found)
    result = shop.invoke(*shlex.split(ON_COMMAND_LINE[command]), "--json")
    assert json.loads(result.stderr)["code"] == "performed", result.output
    assert noted == [command]


async def found(_app: hf.App, id: str) -> ParkedMessage:
    """Named messages are found before one is changed."""
    return ParkedMessage(id, "Cart", "u", Message("p", "r", "add", {}, datetime.now(UTC), None))
