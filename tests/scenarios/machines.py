"""State machines: each kind of state that reaches the store, and what follows a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from msgspec import Raw

from holdfast.app import App
from holdfast.asl.errors import Error
from holdfast.asl.frames import Bounds
from holdfast.client import CallbackHandle
from holdfast.errors import ExecutionFailed, InvalidState, InvalidToken, StoreUnavailable
from holdfast.testing.ledger import Ledger
from holdfast.testing.simulation import Histories, Scenario
from holdfast.testing.world import User

USUAL: Final = Bounds()
LOOK_SECONDS: Final = 0.5
LAMBDA: Final = "arn:aws:lambda:eu-west-1:123456789012:function:"
Definition = dict[str, Any]


def _work(**more: Any) -> Definition:
    return {"Type": "Task", "Resource": f"{LAMBDA}work"} | ({} if "Next" in more else {"End": True}) | more


def _machine(start: str, **states: Definition) -> Definition:
    return {"StartAt": start, "States": states}


IN_A_ROW: Final = _machine(
    "First",
    First=_work(ResultPath="$.first", Next="Rest"),
    Rest={"Type": "Wait", "Seconds": 40, "Next": "Choose"},
    Choose={"Type": "Choice", "Choices": [{"Variable": "$.n", "NumericEquals": 3, "Next": "Last"}], "Default": "Last"},
    Last=_work(Parameters={"n.$": "$.first"}),
)

RETRIED: Final = _machine(
    "Try",
    Try={"Type": "Task", "Resource": f"{LAMBDA}refuse", "End": True}
    | {"Retry": [{"ErrorEquals": ["Refused"], "MaxAttempts": 2, "IntervalSeconds": 10, "JitterStrategy": "FULL"}]}
    | {"Catch": [{"ErrorEquals": ["States.ALL"], "Next": "Undo", "ResultPath": "$.error"}]},
    Undo=_work(Assign={"undone": True}),
)

SIDE_BY_SIDE: Final = _machine(
    "Both",
    Both={
        "Type": "Parallel",
        "Branches": [
            _machine("A", A=_work()),
            _machine("B", B=_work(Next="C"), C={"Type": "Wait", "Seconds": 15, "End": True}),
        ],
        "Next": "Sum",
    },
    Sum=_work(Parameters={"n": 9}),
)

FOR_EACH: Final = _machine(
    "All",
    All={
        "Type": "Map",
        "ItemsPath": "$.items",
        "MaxConcurrency": 2,
        "ItemProcessor": _machine("Each", Each=_work()),
        "End": True,
    },
)

DISTRIBUTED: Final = _machine(
    "All",
    All={
        "Type": "Map",
        "ItemsPath": "$.items",
        "MaxConcurrency": 2,
        "ItemProcessor": _machine("Each", Each=_work()) | {"ProcessorConfig": {"Mode": "DISTRIBUTED"}},
        "End": True,
    },
)

A_BRANCH_FAILS: Final = _machine(
    "Both",
    Both={
        "Type": "Parallel",
        "Branches": [
            _machine("Long", Long={"Type": "Wait", "Seconds": 900, "Next": "Never"}, Never=_work()),
            _machine("Bad", Bad=_work(Next="Fail"), Fail={"Type": "Fail", "Error": "Boom", "Cause": "why"}),
        ],
        "Catch": [{"ErrorEquals": ["Boom"], "Next": "Undo"}],
        "End": True,
    },
    Undo=_work(Parameters={"n": 1}),
)

IN_A_LOOP: Final = _machine(
    "Add",
    Add=_work(ResultPath="$.n", Next="Again"),
    Again={"Type": "Choice", "Choices": [{"Variable": "$.n", "NumericLessThan": 7, "Next": "Add"}], "Default": "Done"},
    Done={"Type": "Succeed"},
)


def _large(definition: Definition) -> Definition:
    """The same with a definition that is stored apart, once for all executions."""
    return {"Comment": "large " * 500} | definition


def _large_items(definition: Definition) -> Definition:
    """The same with a large definition of the executions of items."""
    states: dict[str, Definition] = definition["States"]
    return definition | {
        "States": {
            name: state | {"ItemProcessor": _large(state["ItemProcessor"])} if "ItemProcessor" in state else state
            for name, state in states.items()
        }
    }


def _scenario(
    name: str, definition: Definition, histories: Histories, bounds: Bounds = USUAL, items: int = 1_000
) -> Scenario:
    def build(app: App, ledger: Ledger) -> User:
        async def work(given: Any) -> int:
            await asyncio.sleep(1)
            number: int = given if isinstance(given, int) else given["n"]
            ledger.effect(number)
            return number + 1

        async def refuse(_given: Any) -> int:
            raise Error("Refused", "always")

        machine = app.state_machine(name.replace(" ", "_"), definition, tasks={"work": work, "refuse": refuse})
        machine.bounds = bounds
        machine.maps.items_of_a_run = items

        async def user() -> Any:
            return await (await machine.start({"n": 3, "items": [4, 5, 6]}, id="one"))

        return user

    if "DISTRIBUTED" not in str(definition):
        return Scenario(name, build, histories=histories)
    check = _each_item_once(name.replace(" ", "_"))
    return Scenario(name, build, histories=histories, ends_vary=True, check=check)


def _each_item_once(machine: str, items: tuple[int, ...] = (4, 5, 6)) -> Callable[[Ledger], list[str]]:
    """A check that each item was worked on once. Their keys cannot be compared: the name of a Map run follows from the
    nonce of the execution, so each start under faults has others.
    """

    def check(ledger: Ledger) -> list[str]:
        done = sorted(value for key, value in ledger.accepted.items() if key.startswith(f"wf#{machine}.items#"))
        return [] if done == list(items) else [f"{machine}: the items done are {done}, not {list(items)}"]

    return check


CHECKOUT: Final = _machine(
    "Reserve",
    Reserve={
        "Type": "Map",
        "ItemsPath": "$.items",
        "ItemProcessor": _machine("Each", Each=_work()),
        "ResultPath": "$.holds",
        "Next": "Ask",
    },
    Ask={
        "Type": "Task",
        "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
        "Parameters": {"token.$": "$$.Task.Token"},
        "ResultPath": "$.answer",
        "Next": "Ship",
    },
    Ship=_work(Parameters={"n.$": "$.answer"}),
)


def _confirmed(app: App, ledger: Ledger) -> User:
    """A checkout that waits until a token is answered, by whom the message with it has reached."""
    tokens: dict[str, None] = ledger.notes.setdefault("tokens", {})

    async def work(given: Any) -> int:
        await asyncio.sleep(1)
        number: int = given if isinstance(given, int) else given["n"]
        ledger.effect(number)
        return number + 1

    async def send(given: Any) -> None:
        tokens[given["token"]] = None

    machine = app.state_machine("confirmed_checkout", CHECKOUT, tasks={"work": work, "sqs:sendMessage": send})

    async def answer() -> None:
        while True:
            for token in list(tokens):
                with suppress(StoreUnavailable, InvalidToken):  # again next time; or it was answered before
                    await CallbackHandle(token, app.runtime).answer(value=Raw(b"7"))
            await asyncio.sleep(LOOK_SECONDS)

    async def user() -> Any:
        answering = asyncio.create_task(answer())
        try:
            return await (await machine.start({"items": [4, 5, 6]}, id="one"))
        finally:
            answering.cancel()

    return user


def _redriven(app: App, ledger: Ledger) -> User:
    """A distributed Map that fails because a service is down, and is redriven once it is up."""

    async def work(number: int) -> int:
        await asyncio.sleep(1)
        if number == 5 and not ledger.notes.get("up"):
            raise Error("Down", "not yet")
        ledger.effect(number)
        return number + 1

    machine = app.state_machine("redriven_map", DISTRIBUTED, tasks={"work": work})

    async def user() -> Any:
        handle = await machine.start({"items": [4, 5]}, id="one")
        while True:
            try:
                return await handle
            except ExecutionFailed:
                ledger.notes["up"] = True
                with suppress(InvalidState):  # another process has redriven it meanwhile
                    await handle.retry()

    return user


def _nested(app: App, ledger: Ledger) -> User:
    """A machine whose task is done by another one."""

    async def work(given: int) -> int:
        await asyncio.sleep(1)
        ledger.effect(given)
        return given + 1

    inner = app.state_machine("inner", _machine("Do", Do=_work()), tasks={"work": work})
    outer = app.state_machine("outer", _machine("Ask", Ask=_work()), tasks={"work": inner})

    async def user() -> Any:
        return await (await outer.start(3, id="one"))

    return user


MACHINE_SCENARIOS: Final = (
    _scenario("machine in a row", IN_A_ROW, Histories.SAME),
    _scenario("machine that retries", RETRIED, Histories.SAME),
    _scenario("machine with branches", SIDE_BY_SIDE, Histories.REORDERED),
    _scenario("machine with a map", FOR_EACH, Histories.REORDERED),
    _scenario("machine with a distributed map", DISTRIBUTED, Histories.REORDERED),
    _scenario("machine with a map run that continues as new", DISTRIBUTED, Histories.REORDERED, items=2),
    _scenario("machine with a failing branch", A_BRANCH_FAILS, Histories.REORDERED),
    _scenario("machine in a loop", IN_A_LOOP, Histories.SAME, Bounds(operations=2, states=100)),
    _scenario("large machine in a loop", _large(IN_A_LOOP), Histories.SAME, Bounds(operations=2, states=100)),
    _scenario("machine with large items", _large_items(DISTRIBUTED), Histories.REORDERED),
    Scenario("machine whose task is a machine", _nested, histories=Histories.SAME),
    Scenario("machine that waits for a token", _confirmed, histories=Histories.REORDERED),
    Scenario(
        "machine with a map that is redriven",
        _redriven,
        histories=Histories.FREE,
        ends_vary=True,
        check=_each_item_once("redriven_map", items=(4, 5)),
    ),
)
