"""Parallel and Map: what runs side by side, what each branch sees, and what a failure does to the others."""

from __future__ import annotations

import asyncio

import pytest
from tests.asl.machines import app_in_virtual_time, ended, history, outcome, passing, states, task

import holdfast as hf
from holdfast.testing import run_virtual


def branching(*branches, **more):
    return {"Type": "Parallel", "Branches": list(branches)} | ({} if "Next" in more else {"End": True}) | more


def mapping(processor, *, distributed=False, **more):
    config = {"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}} if distributed else {}
    whole = {"Type": "Map", "ItemProcessor": processor | config} | more
    return whole if "Next" in more else whole | {"End": True}


class Busy:
    """Counts how many of its tasks run at a time."""

    def __init__(self):
        self.now = self.most = 0

    async def work(self, given):
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(10)
        self.now -= 1
        return given


def test_the_result_has_the_outputs_of_the_branches_in_their_order():
    machine = states("Both", Both=branching(states("A", A=task("slow")), states("B", B=passing(Result="b"))))

    async def slow(_given):
        await asyncio.sleep(5)
        return "a"

    assert outcome(machine, {}, slow=slow) == ["a", "b"]


def test_the_first_error_of_a_branch_fails_the_whole_and_cancels_the_others():
    ended = []

    async def slow(_given):
        try:
            await asyncio.sleep(1_000)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    fail = {"Type": "Fail", "Error": "Boom", "Cause": "why"}
    both = branching(states("A", A=task("slow")), states("B", B={"Type": "Wait", "Seconds": 5, "Next": "F"}, F=fail))
    caught = both | {"Catch": [{"ErrorEquals": ["Boom"], "Next": "Caught"}]}
    after = {"Type": "Wait", "Seconds": 5, "End": True}
    assert outcome(states("Both", Both=caught, Caught=after), {}, slow=slow) == {"Error": "Boom", "Cause": "why"}
    assert ended == ["cancelled"]


@pytest.mark.parametrize(("limit", "most"), [(1, 1), (3, 3), (0, 8)])
def test_a_map_runs_no_more_iterations_at_a_time_than_it_may(limit, most):
    busy = Busy()
    machine = states("All", All=mapping(states("Work", Work=task("work")), MaxConcurrency=limit))
    assert outcome(machine, list(range(8)), work=busy.work) == list(range(8))
    assert busy.most == most


def test_an_inline_map_runs_at_most_forty_at_a_time():
    busy = Busy()
    machine = states("All", All=mapping(states("Work", Work=task("work"))))
    assert len(outcome(machine, list(range(100)), work=busy.work)) == 100
    assert busy.most == 40


def test_each_iteration_gets_what_the_selector_makes_of_its_item():
    selector = {"sku.$": "$$.Map.Item.Value", "place.$": "$$.Map.Item.Index", "order.$": "$.id"}
    machine = states("All", All=mapping(states("Keep", Keep=passing()), ItemsPath="$.skus", ItemSelector=selector))
    assert outcome(machine, {"id": 7, "skus": ["a", "b"]}) == [
        {"sku": "a", "place": 0, "order": 7},
        {"sku": "b", "place": 1, "order": 7},
    ]


def test_a_map_over_nothing_has_an_empty_result():
    assert outcome(states("All", All=mapping(states("Keep", Keep=passing()))), []) == []


def test_operations_are_named_by_iteration_and_visit():
    twice = states("A", A=task("double", Next="B"), B=task("double"))
    again = {"Type": "Choice", "Choices": [{"Variable": "$[0]", "NumericLessThan": 10, "Next": "All"}], "Default": "Z"}
    machine = states("All", All=mapping(twice, Next="Again"), Again=again, Z=passing())
    answer, names = history(machine, [1], double=lambda n: 2 * n)
    assert answer == [16]
    assert names == [f"All#{visit}[0]/{state}#0/double#0" for visit in range(2) for state in "AB"]


def test_a_branch_reads_outer_variables_and_keeps_its_own():
    inner = states(
        "Set",
        Set=passing(Assign={"mine.$": "$outer", "outer_copy": 1}, Next="Tell"),
        Tell=passing(Parameters={"seen.$": "$mine"}),
    )
    machine = states(
        "Begin",
        Begin=passing(Assign={"outer": "o"}, Next="Both"),
        Both=branching(inner, Next="After"),
        After=passing(Parameters={"leaked.$": "$mine"}),
    )
    error, cause = outcome(machine, {})
    assert error == "States.Runtime"
    assert "$mine" in cause
    machine["States"]["After"] = passing()
    assert outcome(machine, {}) == [{"seen": "o"}]


def test_a_child_of_a_distributed_map_does_not_see_variables():
    inner = states("Tell", Tell=passing(Parameters={"seen.$": "$outer"}))
    machine = states(
        "Begin", Begin=passing(Assign={"outer": "o"}, Result=[1], Next="All"), All=mapping(inner, distributed=True)
    )
    assert outcome(machine, {})[0] == "States.ExceedToleratedFailureThreshold"


@pytest.mark.parametrize(
    ("tolerance", "fails"),
    [({}, True), ({"ToleratedFailureCount": 2}, False), ({"ToleratedFailureCount": 1}, True),
     ({"ToleratedFailurePercentage": 50}, False), ({"ToleratedFailurePercentage": 49}, True)],
)  # fmt: skip
def test_a_distributed_map_tolerates_so_many_failures(tolerance, fails):
    def odd(n):
        if n % 2:
            raise ValueError("odd")
        return n

    machine = states("All", All=mapping(states("Even", Even=task("odd")), distributed=True, **tolerance))
    answer = outcome(machine, [1, 2, 3, 4], odd=odd)
    exceeded = ("States.ExceedToleratedFailureThreshold", "The specified tolerated failure threshold was exceeded")
    assert answer == (exceeded if fails else [2, 4])


@pytest.mark.parametrize(
    ("field", "value", "cause"),
    [
        (
            "MaxConcurrencyPath",
            "two",
            'The MaxConcurrencyPath field refers to value "two" which is not a valid integer',
        ),
        ("MaxConcurrencyPath", -1, "Expected non-negative integer for MaxConcurrency, got '-1' instead."),
        ("ToleratedFailureCountPath", -1, "ToleratedFailureCount cannot be negative."),
        ("ToleratedFailureCountPath", "-1", "ToleratedFailureCount cannot be negative."),
        (
            "ToleratedFailureCountPath",
            "²",
            'The ToleratedFailureCountPath field refers to value "²" which is not a valid integer',
        ),
        (
            "ToleratedFailureCountPath",
            "9" * 5_000,
            'The ToleratedFailureCountPath field refers to value "999',
        ),
        ("ToleratedFailurePercentagePath", 101, "ToleratedFailurePercentage must be between 0 and 100."),
        ("ToleratedFailurePercentagePath", "101", "ToleratedFailurePercentage must be between 0 and 100."),
        (
            "ToleratedFailurePercentagePath",
            "²",
            'The ToleratedFailurePercentagePath field refers to value "²" which is not a valid float',
        ),
    ],
)
def test_a_setting_by_path_has_to_fit(field, value, cause):
    keep = mapping(states("Keep", Keep=passing()), distributed=True, ItemsPath="$.items", **{field: "$.value"})
    error, told = outcome(states("All", All=keep), {"items": [], "value": value})
    assert error == "States.Runtime"
    assert told.startswith(cause)


def test_batches_hold_so_many_items_with_their_common_input():
    batcher = {"MaxItemsPerBatch": 2, "BatchInput": {"day.$": "$.day"}}
    keep = mapping(states("Keep", Keep=passing()), distributed=True, ItemsPath="$.items", ItemBatcher=batcher)
    assert outcome(states("All", All=keep), {"day": "MON", "items": [1, 2, 3]}) == [
        {"Items": [1, 2], "BatchInput": {"day": "MON"}},
        {"Items": [3], "BatchInput": {"day": "MON"}},
    ]


GET = "arn:aws:states:::s3:getObject"
PUT = "arn:aws:states:::s3:putObject"
CSV = {"InputType": "CSV"}


def reading(**config):
    return {"Resource": GET, "Parameters": {"Bucket": "b", "Key.$": "$.key"}, "ReaderConfig": config}


@pytest.mark.parametrize(
    ("config", "body", "items"),
    [
        ({"InputType": "JSON"}, '[{"n": 1}, 2]', [{"n": 1}, 2]),
        ({"InputType": "JSON", "ItemsPointer": "/a/0"}, '{"a": [[1, 2]]}', [1, 2]),
        ({"InputType": "JSON", "MaxItems": 1}, "[1, 2]", [1]),
        ({"InputType": "JSONL"}, '{"n": 1}\n\n{"n": 2}\n', [{"n": 1}, {"n": 2}]),
        (CSV | {"CSVHeaderLocation": "FIRST_ROW"}, "a,b\n1,2\n3\n", [{"a": "1", "b": "2"}, {"a": "3", "b": ""}]),
        (CSV | {"CSVHeaderLocation": "GIVEN", "CSVHeaders": ["a"], "CSVDelimiter": "PIPE"}, "1|2", [{"a": "1"}]),
    ],
)  # fmt: skip
def test_a_reader_finds_the_items_in_an_object(config, body, items):
    keep = mapping(states("Keep", Keep=passing()), distributed=True, ItemReader=reading(**config))
    answer, names = history(
        states("All", All=keep),
        {"key": "k"},
        **{GET: lambda given: body if given == {"Bucket": "b", "Key": "k"} else None},
    )
    assert answer == items
    assert names[0] == "All#0/getObject#0", "what was read is recorded"


@pytest.mark.parametrize(
    ("config", "body", "cause"),
    [
        ({"InputType": "CSV", "CSVHeaderLocation": "FIRST_ROW"}, "a,a\n1,2", "CSV headers cannot contain duplicates."),
        ({"InputType": "JSON", "MaxItemsPath": "$.most"}, "[]", "field MaxItems must be positive"),
        ({"InputType": "JSON"}, "7", "Attempting to map over non-iterable node."),
        ({"InputType": "JSON"}, None, "no such object"),
    ],
)
def test_a_reader_fails_the_state_by_its_own_error(config, body, cause):
    def get(_given):
        if body is None:
            raise KeyError("no such object")
        return body

    keep = mapping(states("Keep", Keep=passing()), distributed=True, ItemReader=reading(**config))
    error, told = outcome(states("All", All=keep), {"key": "k", "most": -1}, **{GET: get})
    assert (error, told.strip("'")) == ("States.ItemReaderFailed", cause)


def test_a_writer_puts_the_results_where_it_is_told():
    stored = {}

    def put(given):
        stored[given["Key"]] = given["Body"]

    writer = {
        "Resource": PUT,
        "Parameters": {"Bucket": "b", "Prefix": "out"},
        "WriterConfig": {"Transformation": "COMPACT", "OutputType": "JSON"},
    }
    keep = mapping(states("Keep", Keep=passing()), distributed=True, ResultWriter=writer)
    answer = outcome(states("All", All=keep), [1, 2], **{PUT: put})
    assert answer["ResultWriterDetails"]["Bucket"] == "b"
    manifest = answer["ResultWriterDetails"]["Key"]
    assert manifest in stored
    assert stored[manifest.replace("manifest.json", "SUCCEEDED_0.json")] == "[1,2]"


@pytest.mark.parametrize(
    ("language", "field", "given"),
    [("JSONPath", "Parameters", 5), ("JSONPath", "Parameters", "b"), ("JSONata", "Arguments", "{% [1] %}")],
)
def test_arguments_that_are_no_object_fail_the_writer_before_any_item_runs(language, field, given):
    worked = []
    writer = {"Resource": "arn:aws:states:::s3:putObject", field: given}
    keep = mapping(states("Keep", Keep=task("keep")), distributed=True, ResultWriter=writer)
    found = outcome(states("Keep all", **{"Keep all": keep}) | {"QueryLanguage": language}, [1], keep=worked.append)
    assert found == ("States.ResultWriterFailed", "The writer's arguments are no object.")
    assert worked == []


def test_an_error_of_a_task_in_a_branch_keeps_its_name():
    def pay(_given):
        raise hf.asl.Error("Card.Declined", "no money")

    machine = states("Both", Both=branching(states("A", A=task("pay")), states("B", B=passing())))
    assert outcome(machine, {}, pay=pay) == ("Card.Declined", "no money")


@pytest.mark.parametrize("compat", [None, "aws"])
def test_jsonata_may_yield_an_object_unless_quotas_of_aws_are_kept(compat):
    each = mapping(states("Keep", Keep=passing()), Items="{% $states.input %}")
    app = app_in_virtual_time()
    machine = app.state_machine("m", {"QueryLanguage": "JSONata"} | states("All", All=each), compat=compat)

    async def main():
        async with app.worker():
            return await ended(await machine.start({"a": 1}))

    answer = run_virtual(main)
    if compat is None:
        assert answer == [{"Key": "a", "Value": 1}]
    else:
        assert answer[0] == "States.QueryEvaluationError"
        assert answer[1].endswith("Expected 'array', but was 'object' for value: {\"a\":1}")


def test_a_state_within_another_has_the_query_language_of_the_machine():
    inner = states("Tell", Tell=passing(Parameters={"n.$": "$.n"}))
    both = branching(inner, QueryLanguage="JSONata", Arguments={"n": "{% $states.input + 1 %}"})
    assert outcome(states("Both", Both=both), 6) == [{"n": 7}]
