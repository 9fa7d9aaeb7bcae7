"""Machines of the kinds that the guides of Step Functions, SAM and CDK begin with, by boto3 from create to redrive."""

from __future__ import annotations

import json

import pytest
from tests.asl.templates import CHECKER, TRADER, TRADER_DEFINITION, synthesised, trades
from tests.http.states.test_executions import FUNCTION, ended, execution, start
from tests.http.states.test_machines import ROLE

import holdfast as hf


def call(name, then=None, **more):
    following = {"End": True} if then is None else {"Next": then}
    return {"Type": "Task", "Resource": f"{FUNCTION}:{name}", **following, **more}


def machine(start_at, /, **states):
    return json.dumps(
        {"StartAt": start_at, "States": {name.replace("_", " "): state for name, state in states.items()}}
    )


JOB_POLLER = machine(
    "Submit",
    Submit=call("submit", "Pause", ResultPath="$.job"),
    Pause={"Type": "Wait", "SecondsPath": "$.pause", "Next": "Look"},
    Look=call("look", "Is it done?", InputPath="$.job", ResultPath="$.status"),
    **{
        "Is it done?": {
            "Type": "Choice",
            "Choices": [
                {"Variable": "$.status", "StringEquals": "DONE", "Next": "Report"},
                {"Variable": "$.status", "StringEquals": "BROKEN", "Next": "Failed"},
            ],
            "Default": "Pause",
        }
    },
    Failed={"Type": "Fail", "Error": "JobFailed", "Cause": "the job is broken"},
    Report=call("report", InputPath="$.job"),
)

TRADE = machine(
    "Price",
    Price=call("price", "Buy or sell?", ResultPath="$.price"),
    **{
        "Buy or sell?": {
            "Type": "Choice",
            "Choices": [{"Variable": "$.price", "NumericLessThanEquals": 50, "Next": "Buy"}],
            "Default": "Sell",
        }
    },
    Buy=call("trade", Parameters={"side": "buy", "at.$": "$.price"}),
    Sell=call("trade", Parameters={"side": "sell", "at.$": "$.price"}),
)

BOOKING = machine(
    "Book",
    Book={
        "Type": "Parallel",
        "Branches": [
            {"StartAt": "Flight", "States": {"Flight": call("flight")}},
            {"StartAt": "Hotel", "States": {"Hotel": call("hotel")}},
        ],
        "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.why", "Next": "Undo"}],
        "Next": "Booked",
    },
    Booked={"Type": "Succeed"},
    Undo=call("undo", "Not booked"),
    **{"Not booked": {"Type": "Fail", "ErrorPath": "$.Error", "Cause": "nothing was booked"}},
)

THUMBNAILS = json.dumps(
    {
        "QueryLanguage": "JSONata",
        "StartAt": "Each",
        "States": {
            "Each": {
                "Type": "Map",
                "Items": "{% $states.input.pictures %}",
                "MaxConcurrency": 2,
                "ItemProcessor": {
                    "StartAt": "Scale",
                    "States": {
                        "Scale": {
                            "Type": "Task",
                            "Resource": f"{FUNCTION}:scale",
                            "Arguments": {"name": "{% $states.input %}"},
                            "End": True,
                        }
                    },
                },
                "Output": {"count": "{% $count($states.result) %}", "all": "{% $states.result %}"},
                "End": True,
            }
        },
    }
)


@pytest.fixture
def guide(app):
    """The functions of these machines, and what they were asked for."""
    asked, state = [], {"price": 40, "looks": 0, "hotel": False}

    @app.step
    async def submit(given: dict) -> str:
        asked.append("submit")
        return "job-7"

    @app.step
    async def look(job: str) -> str:
        state["looks"] += 1
        return "DONE" if state["looks"] > 2 else "RUNNING"

    @app.step
    async def report(job: str) -> str:
        return f"{job} is done"

    @app.step
    async def price(given: dict) -> int:
        return state["price"]

    @app.step
    async def trade(given: dict) -> dict:
        asked.append(given["side"])
        return given

    @app.step
    async def flight(given: dict) -> str:
        asked.append("flight")
        return "seat 1A"

    @app.step
    async def hotel(given: dict) -> str:
        if not state["hotel"]:
            raise hf.asl.Error("NoRoom", "all taken")
        return "room 7"

    @app.step
    async def undo(given: dict) -> dict:
        asked.append("undo")
        return given["why"]

    @app.step
    async def scale(given: dict) -> str:
        return f"small {given['name']}"

    app.state_machines()
    app.asked, app.state = asked, state
    return app


async def run(boto, definition, input, name="e"):
    await boto.create_state_machine(name="m", definition=definition, roleArn=ROLE)
    await start(boto, "m", name, input)
    return await ended(boto, "m", name)


async def types_of(boto, name="e"):
    history = await boto.get_execution_history(executionArn=execution("m", name), maxResults=1000)
    return [each["type"] for each in history["events"]]


async def test_a_job_is_asked_for_until_it_is_done(guide, serving):
    async with serving() as boto:
        told = await run(boto, JOB_POLLER, {"pause": 0})
        types = await types_of(boto)
    assert (told["status"], told["output"]) == ("SUCCEEDED", '"job-7 is done"')
    assert guide.asked == ["submit"] and guide.state["looks"] == 3
    assert types.count("WaitStateEntered") == types.count("WaitStateExited") == types.count("ChoiceStateExited") == 3


@pytest.mark.parametrize(("price", "side"), [(40, "buy"), (60, "sell")])
async def test_a_choice_decides_by_what_a_function_answers(guide, serving, price, side):
    guide.state["price"] = price
    async with serving() as boto:
        told = await run(boto, TRADE, {})
    assert json.loads(told["output"]) == {"side": side, "at": price}
    assert guide.asked == [side]


async def test_what_one_branch_fails_at_is_undone(guide, serving):
    async with serving() as boto:
        told = await run(boto, BOOKING, {})
        types = await types_of(boto)
    assert (told["status"], told["error"], told["cause"]) == ("FAILED", "NoRoom", "nothing was booked")
    assert guide.asked[-1] == "undo"
    assert types[1:3] == ["ParallelStateEntered", "ParallelStateStarted"]
    assert "ParallelStateFailed" in types and types[-1] == "ExecutionFailed"


async def test_both_branches_are_one_list(guide, serving):
    guide.state["hotel"] = True
    async with serving() as boto:
        told = await run(boto, BOOKING, {})
    assert json.loads(told["output"]) == ["seat 1A", "room 7"]


async def test_each_item_is_worked_on_and_jsonata_gathers_them(guide, serving):
    async with serving() as boto:
        told = await run(boto, THUMBNAILS, {"pictures": ["a", "b", "c"]})
        types = await types_of(boto)
    assert json.loads(told["output"]) == {"count": 3, "all": ["small a", "small b", "small c"]}
    assert types.count("MapIterationStarted") == types.count("MapIterationSucceeded") == 3
    assert types[1:3] == ["MapStateEntered", "MapStateStarted"]


async def test_a_machine_of_sams_template_runs_unmodified(app, serving, tmp_path):
    (tmp_path / "machine").mkdir()
    (tmp_path / "machine" / "trader.asl.json").write_text(TRADER_DEFINITION, encoding="utf-8")
    (tmp_path / "template.yaml").write_text(TRADER, encoding="utf-8")
    asked = []
    app.state_machines(tasks=trades(asked))
    async with serving() as boto:
        told = await run(boto, hf.asl.definition_of(tmp_path / "template.yaml"), {})
        types = await types_of(boto)
    assert json.loads(told["output"])["trade"] == {"side": "buy", "price": 40}
    assert asked == ["buy"]
    assert types.count("LambdaFunctionSucceeded") == 2 and types.count("TaskSucceeded") == 1


async def test_a_machine_that_cdk_has_synthesised_runs_unmodified(app, serving):
    app.state_machines(tasks={"lambda:invoke": CHECKER})
    definition = json.loads(hf.asl.definition_of(synthesised(), resource="Poller9A1B2C3D"))
    definition["States"]["Wait"]["Seconds"] = 1  # it is on the real clock here
    async with serving() as boto:
        told = await run(boto, json.dumps(definition), {"job": 7})
    assert json.loads(told["output"]) == {"job": 7, "status": {"state": "DONE"}}
