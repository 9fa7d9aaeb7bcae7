"""``holdfast asl``: definitions are checked, single states are tested, and machines are drawn, without a home."""

from __future__ import annotations

import asyncio
import functools
import importlib
import json
import sys

import pytest
from tests.asl.templates import TRADER, TRADER_DEFINITION, synthesised

PAY = {
    "Type": "Task",
    "Resource": "pay",
    "Next": "Done",
    "Retry": [{"ErrorEquals": ["Busy"], "MaxAttempts": 1}],
    "Catch": [{"ErrorEquals": ["Declined"], "Next": "Done", "ResultPath": "$.why"}],
}
CHECKOUT = {"StartAt": "Pay", "States": {"Pay": PAY, "Done": {"Type": "Succeed"}}}


@pytest.fixture
def checkout(shop):
    shop.path("checkout.json").write_text(json.dumps(CHECKOUT, indent=1), encoding="utf-8")
    return "checkout.json"


def test_lint_names_the_line_of_each_finding(shop, checkout):
    result = shop.invoke("asl", "lint", checkout, "--aws")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "checkout.json:6:4: ERROR SCHEMA_VALIDATION_FAILED Value is not a valid resource ARN (/States/Pay/Resource)",
        "1 checked: 1 error, 0 others",
    ]


def test_lint_of_a_machine_that_runs_here_takes_any_resource(shop, checkout):
    result = shop.invoke("asl", "lint", checkout)
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "1 checked: 0 errors, 1 others")


def test_lint_checks_several_files_and_answers_in_json(shop, checkout):
    shop.path("broken.json").write_text('{"StartAt"\n: "a",}', encoding="utf-8")
    result = shop.invoke("asl", "lint", checkout, "broken.json", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert [(each["file"], each["severity"], each["line"]) for each in found] == [
        ("checkout.json", "STYLE", 6),
        ("broken.json", "ERROR", 2),
    ]
    assert found[1].keys() == {"file", "line", "column", "severity", "code", "message", "pointer"}


def test_lint_of_a_template_lets_values_to_come_through(shop):
    machine = {"StartAt": "S", "States": {"S": {"Type": "Task", "Resource": "${Function}", "End": True}}}
    shop.path("template.json").write_text(json.dumps(machine), encoding="utf-8")
    assert shop.invoke("asl", "lint", "template.json", "--aws").exit_code == 1
    assert shop.invoke("asl", "lint", "template.json", "--aws", "--template").exit_code == 0


def test_a_file_that_is_not_there_is_wrong_usage(shop):
    result = shop.invoke("asl", "lint", "nowhere.json")
    assert result.exit_code == 2
    assert "nowhere.json cannot be read" in result.stderr


def test_a_state_is_tested_with_a_mock(shop, checkout):
    answer = shop.json("asl", "test", checkout, "--state", "Pay", "--input", '{"cents": 1}', "--mock", '{"paid": true}')
    assert (answer["status"], answer["output"], answer["next_state"]) == ("SUCCEEDED", {"paid": True}, "Done")
    assert answer["inspection"]["input"] == {"cents": 1}


def test_a_state_is_tested_with_an_error(shop, checkout):
    result = shop.invoke("asl", "test", checkout, "--state", "Pay", "--error", "Declined", "--cause", "no money")
    assert result.exit_code == 0
    lines = dict(line.split(maxsplit=1) for line in result.stdout.splitlines()[1:])
    assert result.stdout.startswith("CAUGHT_ERROR\n")
    assert lines["output"] == '{"why": {"Error": "Declined", "Cause": "no money"}}'
    assert (lines["error"], lines["next"]) == ("Declined", "Done")


@pytest.mark.parametrize(("retries", "status", "exit_code"), [("0", "RETRIABLE", 0), ("1", "FAILED", 1)])
def test_a_state_is_retried_as_often_as_it_says(retries, status, exit_code, shop, checkout):
    result = shop.invoke("asl", "test", checkout, "--state", "Pay", "--error", "Busy", "--retries", retries)
    assert (result.stdout.splitlines()[0], result.exit_code) == (status, exit_code)


def test_a_mock_is_either_a_result_or_an_error(shop, checkout):
    result = shop.invoke("asl", "test", checkout, "--state", "Pay", "--mock", "1", "--error", "E")
    assert result.exit_code == 2


def test_a_state_that_is_not_there_is_an_error(shop, checkout):
    assert shop.refusal("asl", "test", checkout, "--state", "Refund")["message"] == "State not found in definition"


def test_a_graph_is_an_outline(shop, checkout):
    result = shop.invoke("asl", "graph", checkout)
    assert result.stdout.splitlines() == ["▶ Pay (Task) → Done, Done [Declined]", "Done (Succeed) → ■"]


def test_a_graph_is_a_picture(shop, checkout):
    result = shop.invoke("asl", "graph", checkout, "--svg")
    assert result.stdout.startswith("<svg ")
    assert ">Pay</text>" in result.stdout


def test_a_graph_in_json_has_layers_and_edges(shop, checkout):
    answer = shop.json("asl", "graph", checkout)
    assert [[node["name"] for node in layer] for layer in answer["layers"]] == [["Pay"], ["Done"]]
    assert answer["edges"][1] == {"source": "Pay", "target": "Done", "label": "Declined"}


def test_an_invalid_machine_is_not_drawn(shop):
    shop.path("bad.json").write_text('{"StartAt": "S", "States": {}}', encoding="utf-8")
    assert (
        "the definition of state machine 'bad.json' is not valid" in shop.refusal("asl", "graph", "bad.json")["message"]
    )


HOSTILE = {
    "empty": b"",
    "blank": b" \n",
    "null": b"null",
    "bytes": bytes(range(256)),
    "deep": b"[" * 100_000,
    "deep objects": b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    "half a pair": rb'{"StartAt":"\ud800","States":{"\ud800":{"Type":"Succeed"}}}',
    "no number": b'{"StartAt":"S","States":{"S":{"Type":"Pass","Result":NaN,"End":true}}}',
    "beyond": b'{"StartAt":"S","States":{"S":{"Type":"Pass","Result":1e999,"End":true}}}',
    "twice": b'{"StartAt":"S","States":{"S":{"Type":"Succeed"},"S":{"Type":"Succeed"}}}',
    "huge": b'{"Comment": "' + b"x" * 1_100_000 + b'","StartAt":"S","States":{"S":{"Type":"Succeed"}}}',
}


@pytest.mark.parametrize("command", [("lint",), ("test", "--state", "S"), ("run",), ("graph",), ("cost",)], ids=str)
@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_a_file_that_is_no_definition_is_told_in_a_few_words(command, content, shop):
    shop.path("{m}.json").write_bytes(content)
    result = shop.invoke("asl", *command, "{m}.json")
    assert result.exit_code in (1, 2)
    assert len(result.stdout + result.stderr) < 2_000
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("input", ["NaN", "1e999", r'"\ud800"', "[" * 70 + "]" * 70, "{"])
@pytest.mark.parametrize("command", [("test", "--state", "Done"), ("run", "--mock", '{"Pay": {"Return": 1}}')], ids=str)
def test_an_input_that_is_no_json_is_wrong_usage(command, input, shop, checkout):
    result = shop.invoke("asl", *command, checkout, "--input", input)
    assert (result.exit_code, "is not JSON" in result.stderr) == (2, True)


# ── Whole machines ──────────────────────────────────────────────────────────────────────────────────────────────────

BUSY_AT_FIRST = '[{"Throw": {"Error": "Busy", "Cause": "later"}}, {"Return": {"paid": true}}]'
WAITING = {
    "StartAt": "Wait",
    "States": {"Wait": {"Type": "Wait", "Seconds": 86400, "Next": "Pay"}, **CHECKOUT["States"]},
}


@pytest.fixture
def waiting(shop):
    shop.path("waiting.json").write_text(json.dumps(WAITING), encoding="utf-8")
    return "waiting.json"


def test_a_machine_runs_in_virtual_time_with_mocks(shop, waiting):
    answer = shop.json("asl", "run", waiting, "--input", '{"n": 1}', "--mock", f'{{"Pay": {BUSY_AT_FIRST}}}')
    assert (answer["status"], answer["output"], answer["error"]) == ("SUCCEEDED", {"paid": True}, None)
    types = [event["type"] for event in answer["events"]]
    assert [types.count(each) for each in ("TaskStateEntered", "TaskScheduled", "TaskFailed")] == [1, 2, 1]
    assert answer["events"][-1]["at"] - answer["events"][0]["at"] == 86_401


def test_a_machine_that_fails_says_why(shop, waiting):
    result = shop.invoke("asl", "run", waiting, "--mock", '{"Pay": {"Throw": {"Error": "Lost", "Cause": "no way"}}}')
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[-3:] == ["FAILED", 'error: "Lost"', 'cause: "no way"']
    assert lines[-4].split() == ["86400.000s", "ExecutionFailed", "Lost:", "no", "way"]


def test_a_machine_that_tries_again_without_end_is_told(shop):
    again = [{"ErrorEquals": ["States.ALL"], "MaxAttempts": 99_999_999}]
    endless = {"StartAt": "Pay", "States": {"Pay": {"Type": "Task", "Resource": "pay", "Retry": again, "End": True}}}
    shop.path("endless.json").write_text(json.dumps(endless), encoding="utf-8")
    result = shop.invoke("asl", "run", "endless.json", "--mock", '{"Pay": {"Throw": {"Error": "Lost"}}}')
    assert result.exit_code == 1
    assert "the machine does not end" in result.stderr


def test_an_error_of_a_mock_is_caught(shop, waiting):
    answer = shop.json(
        "asl", "run", waiting, "--mock", '{"Pay": {"Throw": {"Error": "Declined", "Cause": "no money"}}}'
    )
    assert answer["output"] == {"why": {"Error": "Declined", "Cause": "no money"}}


def test_a_machine_runs_on_the_real_clock(shop, checkout):
    assert shop.json("asl", "run", checkout, "--real-time", "--mock", '{"Pay": {"Return": 1}}')["output"] == 1


@pytest.mark.parametrize(
    ("mocks", "message"),
    [
        ("{}", "state 'Pay' calls 'pay', which is not done here: mock it by {\"Pay\": {\"Return\": …}}"),
        ('{"Pay": 1}', "these are no mocks: "),
        ('{"Pay": {"Throw": {"Cause": "why"}}}', "these are no mocks: "),
        ('{"Pay": {"Return": 1, "Throw": {"Error": "E"}}}', "state 'Pay' calls 'pay', which is not done here"),
        ('{"Pay": []}', "state 'Pay' calls 'pay', which is not done here"),
        (
            '{"Pay": {"Return": 1}, "Wait": {"Return": 1}}',
            "there is a mock for 'Wait', which is no Task of the machine",
        ),
        ("[]", "these are no mocks: "),
    ],
)
def test_every_task_needs_a_mock(mocks, message, shop, waiting):
    assert shop.refusal("asl", "run", waiting, "--mock", mocks)["message"].startswith(message)


def test_all_tasks_without_a_mock_are_told_at_once(shop):
    task = {"Type": "Task", "Resource": "pay"}
    tasks = {"A": task | {"Next": "B"}, "B": task | {"Next": "C"}, "C": task | {"End": True}}
    shop.path("three.json").write_text(json.dumps({"StartAt": "A", "States": tasks}), encoding="utf-8")
    told = shop.refusal("asl", "run", "three.json", "--mock", '{"B": {"Return": 1}}')["message"]
    assert told.startswith("state 'A' calls 'pay', which is not done here: mock it by")
    assert told.endswith("These need a mock too: 'C'")


def test_mocks_that_are_no_json_are_told_what_they_look_like(shop, waiting):
    refused = shop.invoke("asl", "run", waiting, "--mock", "Pay=1")
    assert refused.exit_code == 2
    assert 'Mocks are written {"STATE": {"Return": …}}' in refused.output


def test_what_an_execution_costs_is_compared_with_step_functions(shop, waiting):
    answer = shop.json("asl", "cost", waiting, "--mock", f'{{"Pay": {BUSY_AT_FIRST}}}')
    assert (answer["status"], answer["states_entered"], answer["retries"]) == ("SUCCEEDED", 3, 1)
    (transitions,) = answer["step_functions"]["lines"]
    assert (transitions["count"], answer["step_functions"]["usd_per_million"]) == (6, 150)
    written = next(each for each in answer["holdfast"]["lines"] if each["what"] == "DynamoDB: written")
    assert written["count"] > 0
    assert answer["holdfast"]["usd_per_million"] < answer["step_functions"]["usd_per_million"]


def test_the_comparison_is_told_to_people(shop, waiting):
    result = shop.invoke("asl", "cost", waiting, "--mock", '{"Pay": {"Return": 1}}')
    assert "AWS Step Functions, standard: $125.00 per million" in result.stdout
    assert "Holdfast: waiting.json: $" in result.stdout


def distributed(kind):
    """A machine with three items, each of which has two states and takes a retry."""
    retry = [{"ErrorEquals": ["Busy"], "IntervalSeconds": 1, "MaxAttempts": 5}]
    item = {
        "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": kind},
        "StartAt": "Pay",
        "States": {
            "Pay": {"Type": "Task", "Resource": "pay", "Retry": retry, "Next": "Done"},
            "Done": {"Type": "Pass", "End": True},
        },
    }
    each = {"Type": "Map", "MaxConcurrency": 1, "ItemProcessor": item, "End": True}
    return {"StartAt": "Each", "States": {"Each": each}}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        # the parent has the Map, a start and an end; each child two states, a start and an end, and the first a retry
        ("STANDARD", {"Step Functions: transitions": 3 + 3 * 4 + 1}),
        # the first child waits for a second, the others for no time, of which 100 ms are billed
        (
            "EXPRESS",
            {
                "Step Functions: transitions": 3,
                "Step Functions: requests": 3,
                "Step Functions: memory over time": (10 + 1 + 1) * 64 / (10 * 1024),
            },
        ),
    ],
)
def test_the_children_of_a_distributed_map_are_priced_too(kind, expected, shop):
    shop.path("m.json").write_text(json.dumps(distributed(kind)), encoding="utf-8")
    mocks = f'{{"Pay": {BUSY_AT_FIRST}}}'
    answer = shop.json("asl", "cost", "m.json", "--input", "[1, 2, 3]", "--mock", mocks)
    assert (answer["children"], answer["states_entered"], answer["status"]) == (3, 1, "SUCCEEDED")
    assert {each["what"]: each["count"] for each in answer["step_functions"]["lines"]} == pytest.approx(expected)


def test_what_a_process_reads_once_is_not_counted(shop):
    def read(comment):
        machine = {"Comment": comment, **CHECKOUT}
        shop.path("m.json").write_text(json.dumps(machine), encoding="utf-8")
        answer = shop.json("asl", "cost", "m.json", "--mock", '{"Pay": {"Return": 1}}')
        return {each["what"]: each["count"] for each in answer["holdfast"]["lines"]}["DynamoDB: read"]

    assert read("small") == read("large " * 1_000)


# ── Executions ──────────────────────────────────────────────────────────────────────────────────────────────────────

MACHINES = """
import holdfast as hf

app = hf.App("machines", home="sqlite:///machines.db")
machine = app.state_machine(
    "pausing",
    {
        "StartAt": "Before",
        "States": {
            "Before": {"Type": "Pass", "Next": "Pause"},
            "Pause": {"Type": "Wait", "Seconds": 86400, "Next": "After"},
            "After": {"Type": "Succeed"},
        },
    },
)
"""


@pytest.fixture
def pausing(shop):
    """An execution that waits for a day, on a home of its own."""
    shop.path("machines.py").write_text(MACHINES, encoding="utf-8")
    sys.path.insert(0, str(shop.folder))
    module = importlib.import_module("machines")

    async def begin():
        async with module.app.worker():
            handle = await module.machine.start({}, id="p-1")
            while (await handle.status()).status != "SUSPENDED":
                await asyncio.sleep(0.01)

    asyncio.run(begin())
    sys.modules.pop("machines")
    yield functools.partial(shop.invoke, "asl", "show", "pausing", "p-1", app="machines:app")
    sys.modules.pop("machines", None)


def test_an_execution_shows_where_it_stands(pausing):
    lines = pausing().stdout.splitlines()
    assert [line.split()[1:] for line in lines[1:5]] == [
        ["ExecutionStarted"],
        ["PassStateEntered", "Before"],
        ["PassStateExited", "Before"],
        ["WaitStateEntered", "Pause"],
    ]
    assert lines[5:] == ["is in: Pause"]


def test_an_execution_is_drawn_with_the_state_that_it_is_in(pausing):
    picture = pausing("--svg").stdout
    marked = [line for line in picture.splitlines() if 'stroke-width="3"' in line]
    assert len(marked) == 1
    assert picture.splitlines()[picture.splitlines().index(marked[0]) + 1].endswith(">Pause</text>")


def test_an_execution_in_json_has_states_and_events(pausing):
    answer = json.loads(pausing("--json").stdout)
    assert (answer["states"], answer["events"][-1]["type"]) == (["Pause"], "WaitStateEntered")


def test_what_is_no_state_machine_is_told(shop):
    message = shop.refusal("asl", "show", "checkout", "a")["message"]
    assert message == "no state machine is called 'checkout' here; there are: none"


def test_a_machine_becomes_a_module(shop, checkout):
    result = shop.invoke("asl", "to-python", checkout, "--name", "checkout")
    assert (result.exit_code, result.stderr) == (0, "")
    compile(result.stdout, "checkout.py", "exec")
    assert "async def checkout(data: Any) -> Any:\n" in result.stdout


def test_what_is_left_over_is_told_beside_the_module(shop):
    machine = {"StartAt": "S", "States": {"S": {"Type": "Pass", "InputPath": "$.a[*].b", "End": True}}}
    shop.path("several.json").write_text(json.dumps(machine), encoding="utf-8")
    result = shop.invoke("asl", "to-python", "several.json")
    assert result.exit_code == 1
    assert result.stderr == "several.json: /States/S/InputPath: a path that selects more than one value: $.a[*].b\n"
    told = json.loads(shop.invoke("asl", "to-python", "several.json", "--json").stdout)
    assert told["python"] == result.stdout
    assert [each["pointer"] for each in told["remarks"]] == ["/States/S/InputPath"]


MOCKS = {
    "Ask the price": {"Return": 60},
    "Buy": {"Return": None},
    "Sell": {"Return": "sold"},
    "Keep": {"Return": {"kept": "row"}},
}


@pytest.fixture
def template(shop):
    shop.path("machine").mkdir()
    shop.path("machine/trader.asl.json").write_text(TRADER_DEFINITION, encoding="utf-8")
    shop.path("template.yaml").write_text(TRADER, encoding="utf-8")
    return "template.yaml"


def test_a_machine_runs_from_a_template(shop, template):
    ran = shop.json("asl", "run", template, "--mock", json.dumps(MOCKS), "--substitute", "Stage=prod")
    assert ran["output"] == {"price": 60, "trade": "sold", "kept": "row"}
    parameters = [each["parameters"] for each in ran["events"] if each["type"] == "TaskScheduled"]
    assert parameters == [{"TableName": "Trades", "Item": {"Id": {"S": "prod-Trades"}}}]


def test_a_state_of_a_template_is_tested(shop, template):
    answer = shop.json("asl", "test", template, "--state", "Buy or sell?", "--input", '{"price": 60}')
    assert answer["next_state"] == "Sell"


def test_a_machine_of_a_template_is_drawn_and_priced(shop, template):
    assert "▶ Ask the price (Task)" in shop.invoke("asl", "graph", template).stdout
    assert shop.json("asl", "cost", template, "--mock", json.dumps(MOCKS))["states_entered"] == 5
    assert "async def trader(" in shop.invoke("asl", "to-python", template).stdout.lower()


def test_names_are_substituted_in_a_definition(shop):
    waits = {"StartAt": "W", "States": {"W": {"Type": "Wait", "Timestamp": "${At}", "End": True}}}
    shop.path("m.json").write_text(json.dumps(waits), encoding="utf-8")
    assert shop.invoke("asl", "lint", "m.json").exit_code == 1
    assert shop.invoke("asl", "lint", "m.json", "--substitute", "At=2026-11-28T00:00:00Z").exit_code == 0
    assert shop.invoke("asl", "lint", "m.json", "--substitute", "At").exit_code == 2


def test_each_machine_of_a_template_is_checked(shop, template):
    broken = synthesised()
    broken["Resources"]["Quick5E6F7A8B"]["Properties"]["DefinitionString"] = '{"StartAt":"A","States":{}}'
    shop.path("synth.json").write_text(json.dumps(broken), encoding="utf-8")
    result = shop.invoke("asl", "lint", template, "synth.json", "--aws")
    lines = result.stdout.splitlines()
    assert result.exit_code == 1
    assert {line.partition(": ")[0] for line in lines[:-1]} == {"synth.json#Quick5E6F7A8B"}
    assert lines[-1].startswith("3 checked: ")
    assert shop.invoke("asl", "lint", "synth.json", "--aws", "--resource", "Poller9A1B2C3D").exit_code == 0


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"StartAt":"A","States":{"A":{"Type":"Pass","End":true},"A":{"Type":"Succeed"}}}', "DUPLICATE_STATE_NAME"),
        ('{"StartAt":"A","States":{"A":{"Type":"Pass",}}}', "INVALID_JSON_DESCRIPTION"),
    ],
)
def test_a_file_next_to_a_template_is_checked_as_it_is_written(shop, text, code):
    shop.path("m1.json").write_text(text, encoding="utf-8")
    shop.path("t.yaml").write_text(
        "Resources: {M: {Type: 'AWS::Serverless::StateMachine', Properties: {DefinitionUri: m1.json}}}",
        encoding="utf-8",
    )
    result = shop.invoke("asl", "lint", "t.yaml")
    assert result.exit_code == 1
    assert result.stdout.startswith("t.yaml#M: ") and code in result.stdout


@pytest.mark.parametrize("text", ["[1]", "5", '"/etc/hostname"', "/etc/hostname", ""])
def test_what_is_no_object_is_tried_as_no_path(shop, text):
    shop.path("m.json").write_text(text, encoding="utf-8")
    result = shop.invoke("asl", "test", "m.json")
    assert result.exit_code == 1
    assert "m.json holds no definition" in result.stderr


def test_a_template_with_several_machines_wants_a_name(shop):
    shop.path("synth.json").write_text(json.dumps(synthesised()), encoding="utf-8")
    result = shop.invoke("asl", "graph", "synth.json")
    assert result.exit_code != 0
    assert "has 2 state machines: name one of" in result.stderr
