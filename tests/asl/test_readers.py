"""ItemReader: what it makes of texts that are odd, and what it says of those that it cannot read."""

from __future__ import annotations

import csv
from typing import Any

import pytest
from tests.asl.machines import app_in_virtual_time, ended, outcome, passing, states

from holdfast.asl.errors import StatesError
from holdfast.asl.maps.readers import ReaderConfig, parse_items
from holdfast.asl.reading import events_of
from holdfast.testing import run_virtual

GET = "arn:aws:states:::s3:getObject"
LIST = "arn:aws:states:::s3:listObjectsV2"
CSV = {"InputType": "CSV", "CSVHeaderLocation": "FIRST_ROW"}
FLATTENED = {"InputType": "JSON", "Transformation": "LOAD_AND_FLATTEN"}
MANIFEST = {"InputType": "MANIFEST"}


def machine(resource: str, config: dict[str, Any], catches: str = "") -> dict[str, Any]:
    each: dict[str, Any] = {
        "Type": "Map",
        "ItemReader": {"Resource": resource, "Parameters": {"Bucket": "b", "Key": "k"}, "ReaderConfig": config},
        "ItemProcessor": states("Keep", Keep=passing()) | {"ProcessorConfig": {"Mode": "DISTRIBUTED"}},
        "End": True,
    }
    each["ItemProcessor"]["ProcessorConfig"]["ExecutionType"] = "STANDARD"
    if not catches:
        return states("Each", Each=each)
    return states("Each", Each=each | {"Catch": [{"ErrorEquals": [catches], "Next": "Caught"}]}, Caught=passing())


UNREADABLE = [
    (GET, CSV, "a,b\r1,2", "Unable to parse CSV: line 1: a carriage return outside of quotes does not end the line."),
    (GET, CSV, "a\n1\n2\r3", "Unable to parse CSV: line 3: a carriage return outside of quotes does not end the line."),
    (GET, MANIFEST, '{"files": [{}]}', "The manifest's file 1 has no key."),
    (GET, MANIFEST, '{"files": [5]}', "The manifest's file 1 has no key."),
    (LIST, FLATTENED, [{}], "Object 1 of the list has no Key."),
    (LIST, FLATTENED, [{"Key": "k"}, 5], "Object 2 of the list has no Key."),
    (LIST, FLATTENED, [{"Key": "k"}, None], "Object 2 of the list has no Key."),
]


@pytest.mark.parametrize(("resource", "config", "found", "cause"), UNREADABLE)
def test_what_a_reader_cannot_read_is_caught_by_its_name(resource, config, found, cause):
    tasks = {GET: lambda _given: "[1]"} | {resource: lambda _given: found}
    for name in ("States.ItemReaderFailed", "States.ALL"):
        caught = outcome(machine(resource, config, name), {}, **tasks)
        assert caught == {"Error": "States.ItemReaderFailed", "Cause": cause}


def test_the_history_of_a_map_whose_reader_fails_has_an_end():
    app = app_in_virtual_time()
    each = app.state_machine("m", machine(GET, CSV), tasks={GET: lambda _given: "a,b\r1,2"})

    async def main() -> list[str]:
        async with app.worker():
            assert (await ended(await each.start({}, id="e")))[0] == "States.ItemReaderFailed"
            _, events = await events_of(app.runtime(), "wf#m#e")
        return [event.type for event in events]

    assert run_virtual(main)[-3:] == ["MapRunFailed", "MapStateFailed", "ExecutionFailed"]


@pytest.mark.parametrize("arguments", ["{% 'b' %}", "{% [1] %}"])
@pytest.mark.parametrize(
    ("resource", "config", "found"), [(LIST, FLATTENED, [{"Key": "k"}]), (GET, MANIFEST, '{"files": [{"key": "k"}]}')]
)
def test_arguments_that_are_no_object_fail_the_reader(resource, config, found, arguments):
    definition = machine(resource, config)
    reader = definition["States"]["Each"]["ItemReader"]
    del reader["Parameters"]
    reader["Arguments"] = arguments
    answers = [found]

    def answer(_given):
        return answers.pop() if answers else "[1]"

    error, cause = outcome(definition | {"QueryLanguage": "JSONata"}, {}, **{GET: answer, LIST: answer})
    assert (error, cause) == ("States.ItemReaderFailed", "The reader's arguments are no object.")


@pytest.mark.parametrize("limit", [131_072, 10])
def test_a_cell_is_as_long_as_the_text_allows(limit):
    cell = "x" * 131_073
    before = csv.field_size_limit(limit)
    try:
        assert parse_items(f"a,b\n{cell},1", ReaderConfig("CSV")) == [{"a": cell, "b": "1"}]
        assert parse_items(cell, ReaderConfig("CSV", headers=("a",))) == [{"a": cell}]
        with pytest.raises(StatesError):
            parse_items("a,b\r1,2", ReaderConfig("CSV"))
        assert csv.field_size_limit() == limit, "the limit is the whole process's, and it is as it was"
    finally:
        csv.field_size_limit(before)


def test_a_carriage_return_in_quotes_or_at_the_end_of_a_line_is_read():
    assert parse_items('a,b\r\n"1\r2",3\r\n', ReaderConfig("CSV")) == [{"a": "1\r2", "b": "3"}]


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85"])
def test_items_in_lines_of_json_end_at_line_feeds_alone(mark):
    assert parse_items(f'"a{mark}b"\r\n\r\n"c"\n', ReaderConfig("JSONL")) == [f"a{mark}b", "c"]


def test_a_byte_order_mark_is_no_part_of_a_header_or_a_cell():
    assert parse_items('\ufeff"a",b\n1,2', ReaderConfig("CSV")) == [{"a": "1", "b": "2"}]
    assert parse_items("\ufeff1,2", ReaderConfig("CSV", headers=("a", "b"))) == [{"a": "1", "b": "2"}]
