"""What a machine becomes as a module: its form, what each part of the language turns into, and what is left over."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from examples.checkout_machine.shop import CardDeclined, Shop, SoldOut
from hypothesis import given, settings
from tests.asl import machines as run_as
from tests.asl.machines import passing, states, task
from tests.asl.test_long_runs import machines
from tests.asl.topython.converted import converted, outcome
from tests.asl.topython.test_equivalence import as_machine, tangled

import holdfast as hf
from holdfast.asl.definition import parse
from holdfast.asl.sources import definition_of
from holdfast.asl.topython import to_python

ROOT = Path(__file__).parents[3]
CHECKOUT = ROOT / "examples/checkout_machine/checkout.asl.json"
RUFF = Path(sys.executable).with_name("ruff")


def body(definition: dict[str, Any]) -> str:
    """The workflow of the module, without what stands before it."""
    return converted(definition).text.partition("async def machine(data: Any) -> Any:\n")[2]


def refused(*texts: str) -> str:
    """What ``ruff format`` with its defaults, and its rules for what cannot run, say of modules."""
    said = ""
    for text in texts:
        for command in (["format", "--diff"], ["check", "--select", "F,E9", "--ignore", "F841"]):
            line = [RUFF, *command, "--isolated", "--stdin-filename", "module.py", "-"]
            ran = subprocess.run(line, input=text, capture_output=True, text=True, check=False)
            said += ran.stdout if ran.returncode else ""
    return said


# ── Form ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_checkout_is_what_the_page_shows():
    page = (ROOT / "docs/state-machines.md").read_text(encoding="utf-8")
    text = to_python(parse(definition_of(CHECKOUT)), "checkout").text
    assert "```text\n@app.workflow\n" + text.partition("@app.workflow\n")[2] + "```" in page


def test_the_checkout_is_as_ruff_formats_it():
    assert refused(to_python(parse(definition_of(CHECKOUT)), "checkout").text) == ""


@settings(max_examples=6, deadline=None)
@given(machines(), tangled())
def test_random_machines_are_as_ruff_formats_them(ordered, anyhow):
    assert refused(converted(ordered).text, converted(anyhow).text) == ""


LONG = "a long name, of which a line has one"


def test_what_is_too_long_for_a_line_is_broken_as_ruff_breaks_it():
    big = {f"{LONG} {n}": {"deep": [{"path.$": f"$['{LONG}']['{n}']"}, n, None, "'", '"', "'\""]} for n in range(3)}
    rules = [{"Variable": f"$['{LONG}']", "StringEquals": LONG}, {"Variable": "$.b", "IsPresent": False}]
    choices = [{"And": [*rules, {"Or": rules}], "Next": "Two"}, {"Not": {"Or": rules}, "Next": "Two"}]
    definition = states(
        "One",
        One=passing(Parameters=big, ResultPath="$.one", Next="Choose"),
        Choose={"Type": "Choice", "Choices": choices, "Default": "Two"},
        Two=passing(Parameters={"t.$": f"States.Format('{LONG} {{}} {{}}', $.a, $.b)"}, Next="Three"),
        Three={"Type": "Fail", "Error": LONG.title().replace(" ", "."), "Cause": f"{LONG} {LONG}"},
    )
    assert refused(converted(definition).text) == ""


def test_names_of_a_machine_cannot_be_code():
    name = '"""\nraise SystemExit(1)  # \u202e\\'
    made = {
        "StartAt": name,
        "States": {name: task(name, Catch=[{"ErrorEquals": [name], "Next": "class"}]), "class": passing()},
    }
    text = to_python(parse(made), name).text
    assert "raise SystemExit(1)  #" not in [line.strip() for line in text.splitlines()]
    assert text.isascii()
    assert refused(text) == ""


def test_five_hundred_states_in_a_row_are_as_many_statements():
    row = {f"S{n}": task("work", Next=f"S{n + 1}") for n in range(500)}
    assert body({"StartAt": "S0", "States": row | {"S500": passing()}}).count("await work(data)") == 500


# ── Order ───────────────────────────────────────────────────────────────────────────────────────────────────────────

COUNT = passing(Parameters={"n.$": "States.MathAdd($.n, 1)"}, Next="Enough?")


def enough(*more: dict[str, Any], default: str = "Count") -> dict[str, Any]:
    rules = [{"Variable": "$.n", "NumericGreaterThan": 9, "Next": "Done"}, *more]
    return {"Type": "Choice", "Choices": rules, "Default": default}


def test_a_loop_is_a_while():
    made = body(states("Count", Count=COUNT, **{"Enough?": enough()}, Done=passing()))
    assert made.splitlines()[2:] == [
        "    while True:",
        "        # Count",
        '        data = {"n": data["n"] + 1}',
        "",
        "        # Enough?",
        '        if is_number(data["n"]) and data["n"] > 9:',
        "            break",
        "",
        "    # Done",
        "    return data",
    ]


def test_a_jump_into_a_loop_is_a_match_over_the_states():
    rule = {"Variable": "$.n", "NumericEquals": 3, "Next": "Other"}
    first = {"Type": "Choice", "Choices": [rule], "Default": "Count"}
    other = passing(Next="Enough?")
    definition = states("First", First=first, Count=COUNT, Other=other, **{"Enough?": enough()}, Done=passing())
    definition["States"]["Count"] = COUNT | {"Next": "Other"}
    definition["States"]["Other"] = passing(Parameters={"n.$": "States.MathAdd($.n, 2)"}, Next="Enough?")
    assert "        match state:\n" in body(definition)
    assert outcome(definition, {"n": 0}) == as_machine(definition, {"n": 0})
    assert outcome(definition, {"n": 3}) == as_machine(definition, {"n": 3})


# ── Work ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def shop_tasks(shop: Shop) -> dict[str, Any]:
    def named(name: str, error: Exception) -> hf.asl.Error:
        return hf.asl.Error(name, str(error))

    def reserve(given: Any) -> Any:
        try:
            return shop.reserve(given["order"], given["sku"], given["count"])
        except SoldOut as error:
            raise named("SoldOut", error) from None

    def charge(given: Any) -> Any:
        try:
            return shop.charge(given["order"], given["cents"])
        except CardDeclined as error:
            raise named("CardDeclined", error) from None

    return {
        "reserve": reserve,
        "charge": charge,
        "ship": lambda given: shop.ship(given["order"]),
        "give_back": lambda given: shop.give_back(given["order"]),
    }


@pytest.mark.parametrize(
    ("cents", "count", "outages", "answer"),
    [
        (500, 1, 0, {"parcel": "parcel-o-1"}),
        (500, 1, 3, {"parcel": "parcel-o-1"}),
        (500, 1, 4, ("failed with", "ConnectionError")),
        (500, 3, 0, ("failed with", "SoldOut")),
        (200_000, 1, 0, ("failed with", "CardDeclined")),
    ],
)
def test_the_checkout_sells_and_gives_back_as_the_machine_does(cents, count, outages, answer):
    definition = json.loads(definition_of(CHECKOUT))
    order = {"id": "o-1", "cents": cents, "items": [{"sku": "lamp", "count": count}]}
    for way in (outcome, as_machine):
        shop = Shop({"lamp": 2})
        shop.outages = outages
        assert way(definition, order, **shop_tasks(shop)) == answer
        assert (shop.stock["lamp"] == 2) == (answer[0:1] == ("failed with",) if isinstance(answer, tuple) else False)


def failing(*names: str):
    """A task that fails with one error after the other, and then answers how often it was called."""
    left, calls = list(names), []

    def work(_given: Any) -> int:
        calls.append(1)
        if left:
            raise hf.asl.Error(left.pop(0), "no")
        return len(calls)

    return work


RETRIERS = [
    {"ErrorEquals": ["A"], "MaxAttempts": 2, "IntervalSeconds": 1},
    {"ErrorEquals": ["Lambda.Busy", "C"], "MaxAttempts": 1, "IntervalSeconds": 5, "MaxDelaySeconds": 4},
    {"ErrorEquals": ["States.TaskFailed"], "MaxAttempts": 1, "JitterStrategy": "FULL"},
]


@pytest.mark.parametrize(
    "retriers", [RETRIERS[:1], RETRIERS[1:2], RETRIERS[2:], RETRIERS, [{**RETRIERS[0], "MaxAttempts": 0}, RETRIERS[2]]]
)
@pytest.mark.parametrize(
    "errors",
    ["A", "AA", "AAA", "AC", "ACA", "ACAC", "D", "DAACAD", "DD", ["Lambda.Busy"] * 2],
)
def test_retriers_count_as_they_do_in_the_machine(retriers, errors):
    definition = states("Work", Work=task("work", Retry=retriers))
    assert outcome(definition, {}, work=failing(*errors)) == as_machine(definition, {}, work=failing(*errors))


@pytest.mark.parametrize("retriers", [RETRIERS[2:], RETRIERS])
@pytest.mark.parametrize("error", ["KeyError", "TypeError", "NotImplementedError"])
def test_an_error_of_pythons_own_is_retried_if_it_comes_from_a_step(retriers, error):
    definition = states("Work", Work=task("work", Retry=retriers))
    assert outcome(definition, {}, work=failing(error)) == as_machine(definition, {}, work=failing(error)) == 2


@pytest.mark.parametrize("error", ["A", "Lambda.Busy", "C", "ConnectionError"])
@pytest.mark.parametrize(
    "names",
    [["A"], ["Lambda.Busy", "C"], ["States.TaskFailed"], ["States.ALL"], ["ConnectionError"], ["States.Timeout"]],
)
def test_catchers_catch_what_they_do_in_the_machine(names, error):
    catch = [{"ErrorEquals": names, "Next": "First"}]
    catch += [] if names == ["States.ALL"] else [{"ErrorEquals": ["States.ALL"], "Next": "Rest", "ResultPath": "$.e"}]
    branch = {"Type": "Parallel", "Branches": [states("Work", Work=task("work"))], "Catch": catch, "End": True}
    ends = {each["Next"]: passing() for each in catch}
    for one in (states("All", All=task("work", Catch=catch), **ends), states("All", All=branch, **ends)):
        assert outcome(one, {}, work=failing(error)) == as_machine(one, {}, work=failing(error))


def test_what_the_interpreter_cannot_evaluate_is_not_caught_in_a_branch():
    lost = passing(Parameters={"x.$": "$.nowhere"})
    catch = [{"ErrorEquals": ["States.ALL"], "Next": "Caught"}]
    both = {
        "Type": "Parallel",
        "Branches": [states("Lost", Lost=lost)],
        "Catch": catch,
        "Retry": RETRIERS[2:],
        "End": True,
    }
    definition = states("Both", Both=both, Caught=passing())
    assert outcome(definition, {}) == as_machine(definition, {}) == ("failed with", "States.Runtime")


def test_a_failure_cancels_the_other_branches():
    slow = states("Wait", Wait={"Type": "Wait", "Seconds": 50, "Next": "Late"}, Late=task("late"))
    catch = [{"ErrorEquals": ["A"], "Next": "After"}]
    both = {"Type": "Parallel", "Branches": [slow, states("Work", Work=task("work"))], "Catch": catch, "End": True}
    definition = states("Both", Both=both, After={"Type": "Wait", "Seconds": 100, "End": True})
    called: list[Any] = []
    for way in (outcome, as_machine):
        way(definition, {}, work=failing("A"), late=called.append)
    assert called == []


def test_a_resource_is_one_function_whose_policies_differ_by_state():
    one = task("work", Next="Two", ResultPath="$.one")
    made = converted(states("One", One=one, Two=task("work", TimeoutSeconds=5)))
    assert "async def work(given: Any) -> Any:\n    # arn:aws:lambda" in made.text
    assert "async def two(given: Any) -> Any:\n    return await work.function(given)\n" in made.text
    assert "@app.step(retry=ONCE, raises=ERRORS, timeout=5)\nasync def two" in made.text


# ── Data ────────────────────────────────────────────────────────────────────────────────────────────────────────────

JSONATA_MACHINE = {
    "QueryLanguage": "JSONata",
    "StartAt": "Keep",
    "States": {
        "Keep": {
            "Type": "Pass",
            "Assign": {"a": "{% $states.input.n %}", "b": "{% $states.input.name %}"},
            "Output": {"n": "{% $states.input.n + 1 %}", "who": "{% 'I am ' & $states.input.name & '.' %}"},
            "Next": "Swap",
        },
        "Swap": {"Type": "Pass", "Assign": {"a": "{% $b %}", "b": "{% $a %}"}, "Next": "Choose"},
        "Choose": {
            "Type": "Choice",
            "Choices": [
                {"Condition": "{% $b > 2 and $not($exists($states.input.x)) %}", "Next": "Work"},
                {"Condition": "{% $states.input.none = 'x' or $a = 'ann' %}", "Next": "Other"},
            ],
            "Default": "Fail",
        },
        "Work": {
            "Type": "Task",
            "Resource": "work",
            "Arguments": {"all": "{% {'n': $states.input.n, 'who': $a} %}"},
            "Output": {"made": "{% $states.result %}", "b": "{% $b %}"},
            "Catch": [{"ErrorEquals": ["A"], "Output": "{% $states.errorOutput.Error %}", "Next": "Other"}],
            "Next": "Other",
        },
        "Other": {"Type": "Succeed"},
        "Fail": {"Type": "Fail", "Error": "{% $a %}", "Cause": "none"},
    },
}


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("name", ["ann", "bob"])
@pytest.mark.parametrize("errors", ["", "A", "B"])
def test_simple_jsonata_is_python(n, name, errors):
    def work() -> Any:
        fail = failing(*errors)
        return lambda given: [fail(given), given]

    assert converted(JSONATA_MACHINE).remarks == ()
    given = {"n": n, "name": name}
    assert outcome(JSONATA_MACHINE, given, work=work()) == as_machine(JSONATA_MACHINE, given, work=work())


VALUES = [0, 1, 2, 1.5, True, False, None, "", "1", "b", "ab", "ba", "abc", "*", [], [1], {}, {"a": 1}]
RULES = [
    {"NumericEquals": 1},
    {"NumericEquals": 2},
    {"NumericLessThanEquals": 1},
    {"NumericGreaterThanPath": "$.other"},
    {"StringEquals": "b"},
    {"StringLessThan": "b"},
    {"StringEqualsPath": "$.other"},
    {"StringMatches": "b"},
    {"StringMatches": "b*"},
    {"StringMatches": "*b"},
    {"StringMatches": "*b*"},
    {"StringMatches": "*"},
    {"StringMatches": "**b**"},
    {"BooleanEquals": True},
    {"BooleanEqualsPath": "$.other"},
    {"IsNull": False},
    {"IsNumeric": True},
    {"IsString": False},
    {"IsBoolean": True},
    {"IsPresent": True},
]


@pytest.mark.parametrize("rule", RULES, ids=json.dumps)
def test_a_rule_holds_for_what_it_holds_for_in_the_machine(rule):
    each = {"Type": "Choice", "Choices": [{"Variable": "$.v", **rule, "Next": "Yes"}], "Default": "No"}
    inner = states("Each", Each=each, Yes=passing(Result=True), No=passing(Result=False))
    definition = states("All", All={"Type": "Map", "ItemProcessor": inner, "End": True})
    items = [{"v": value, "other": other} for value in VALUES for other in (1, "b", True)]
    items += [{}] if "IsPresent" in rule else []
    assert converted(definition).remarks == ()
    assert outcome(definition, items) == as_machine(definition, items)


CALLS = {
    "States.Array($.n, 'x', 1.5, null)": [7, "x", 1.5, None],
    "States.ArrayContains($.list, 'b')": True,
    "States.ArrayGetItem($.list, 1)": "b",
    "States.ArrayLength($.list)": 2,
    "States.ArrayRange(1, 9, 4)": [1, 5, 9],
    "States.Base64Decode(States.Base64Encode($.name))": "ann, b",
    "States.Format('{} of {}: {}', $.n, 'x', $.name)": "7 of x: ann, b",
    "States.Hash($.name, 'SHA-1')": "f1d9c67b9cd3dcd1ae6ee1fa4ab5a7b9f9d8d5f1",
    "States.JsonMerge($.one, $.two, false)": {"a": 1, "b": 3},
    "States.JsonToString($.two)": '{"b":3}',
    "States.MathAdd($.n, -1)": 6,
    "States.StringSplit($.name, ',')": ["ann", " b"],
    "States.StringToJson($.json)": [1],
    "$.list.length()": 2,
    "$$.Execution.Input.n": 7,
    "$$.State.Name": "Call",
    "$$.Execution.Name": "m-1",
}


@pytest.mark.parametrize("text", CALLS)
def test_a_call_of_an_intrinsic_function_answers_the_same(text):
    given = {"n": 7, "list": ["a", "b"], "name": "ann, b", "one": {"a": 1, "b": 2}, "two": {"b": 3}, "json": "[1]"}
    definition = states("Call", Call=passing(Parameters={"x.$": text}))
    answer = as_machine(definition, given)
    assert outcome(definition, given) == answer
    assert converted(definition).remarks == ()
    if "Hash" not in text:
        assert answer == {"x": CALLS[text]}


def test_a_choice_that_leads_to_one_state_alone_still_reads_its_variable():
    choose = {"Type": "Choice", "Choices": [{"Variable": "$.a", "StringEquals": "b", "Next": "Z"}], "Default": "Z"}
    definition = states("Choose", Choose=choose, Z=passing())
    for data in ({"a": 1}, {"a": "b"}, {}):
        assert outcome(definition, data) == as_machine(definition, data)
    assert outcome(definition, {}) == ("failed with", "States.Runtime")


def test_results_and_errors_go_where_their_paths_say():
    catch = [{"ErrorEquals": ["A"], "ResultPath": "$.deep.why", "Next": "Show"}]
    definition = states(
        "Work",
        Work=task("work", InputPath="$.a", ResultPath="$.list[1].x", Catch=catch, Next="Again"),
        Again=task(
            "work", ResultSelector={"r.$": "$"}, ResultPath="$.deep.r", Catch=catch, OutputPath="$.deep", Next="Show"
        ),
        Show=passing(Assign={"v.$": "$"}, Next="End"),
        End=passing(Parameters={"v.$": "$v", "w": {"x.$": "$v"}}),
    )
    for errors in ("", "A"):
        given = {"a": 1, "list": [1, {}], "deep": {"z": 1}}
        assert outcome(definition, given, work=failing(*errors)) == as_machine(definition, given, work=failing(*errors))


# ── What is left over ───────────────────────────────────────────────────────────────────────────────────────────────

WAITING = "arn:aws:states:::sqs:sendMessage.waitForTaskToken"
DISTRIBUTED = states("One", One=passing()) | {"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}}
LEFT_OVER: dict[str, tuple[dict[str, Any], str]] = {
    "a token": (task("x", Resource=WAITING), "/States/S/Resource"),
    "credentials": (task("x", Credentials={"RoleArn": "r"}), "/States/S/Credentials"),
    "a limit by path": (task("x", TimeoutSecondsPath="$.t"), "/States/S/TimeoutSecondsPath"),
    "a path to several": (passing(InputPath="$.a[*].b"), "/States/S/InputPath"),
    "a pattern": (
        {"Type": "Choice", "Choices": [{"Variable": "$.a", "StringMatches": "a*b", "Next": "Z"}], "Default": "Z"},
        "/States/S/Choices/0",
    ),
    "a function": (passing(Parameters={"a": {"x.$": "States.ArrayUnique($.a)"}}), "/States/S/Parameters/a/x.$"),
    "a heartbeat": (
        task("x", Retry=[{"ErrorEquals": ["States.HeartbeatTimeout"]}]),
        "/States/S/Retry/0/ErrorEquals",
    ),
    "a distributed map": (
        {"Type": "Map", "ItemProcessor": DISTRIBUTED, "End": True},
        "/States/S/ItemProcessor~1ProcessorConfig",
    ),
}


@pytest.mark.parametrize("name", LEFT_OVER)
def test_what_is_not_converted_is_told_with_its_place_and_stands_in_the_code(name):
    state, pointer = LEFT_OVER[name]
    made = converted(states("S", S=state, Z=passing()))
    assert pointer in [each.pointer for each in made.remarks]
    assert refused(made.text) == ""
    if name != "a heartbeat":
        assert pointer in made.text


def test_what_is_not_converted_is_not_caught():
    catch = [{"ErrorEquals": ["States.ALL"], "Next": "Caught"}]
    retry = [{"ErrorEquals": ["States.ALL"], "MaxAttempts": 3}]
    token = task("x", Resource=WAITING, Parameters={"token.$": "$$.Task.Token"}, Catch=catch, Retry=retry)
    lost = states("Lost", Lost=passing(Parameters={"x.$": "States.ArrayUnique($.a)"}))
    branch = {"Type": "Parallel", "Branches": [lost], "Catch": catch, "Retry": retry, "End": True}
    for state in (token, branch):
        assert outcome(states("S", S=state, Caught=passing()), {"a": []}) == ("failed with", "NotImplementedError")


def test_what_is_not_converted_raises_when_it_is_come_to():
    made = states("S", S=passing(Parameters={"x.$": "States.ArrayUnique($.a)"}))
    assert outcome(made, {"a": []}) == ("failed with", "NotImplementedError")
    assert run_as.outcome(made, {"a": []}) == {"x": []}


def test_an_expression_that_nests_very_deep_is_left_over():
    deep = "{% " + "(" * 500 + "1" + ")" * 500 + " %}"
    made = converted({"QueryLanguage": "JSONata"} | states("P", P=passing(Output=deep)))
    (remark,) = made.remarks
    assert "nests more than 50 levels deep" in str(remark)
