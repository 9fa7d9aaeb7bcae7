"""JSON of state machines is read strictly: what one reader takes, all others take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.asl.machines import passing, states

import holdfast as hf
from holdfast.asl.jsontext import NotJson, TooDeep, read, written
from holdfast.asl.validation import validate

NO_VALUES = {
    "not a number": "NaN",
    "endless": "-Infinity",
    "beyond a float": "1e999",
    "beyond any integer": "9" * 5_000,
    "half of a surrogate pair": r'"\ud800"',
    "the other half": r'"\udc00 or more"',
    "raw half of a pair": '"\ud800"',
    "nothing": "",
    "two values": "1 2",
    "a byte order mark": "\ufeff1",
    "an endless list": "[" * 100_000,
    "a deep list": "[" * 65 + "]" * 65,
}


def defining(value: str) -> str:
    """A definition that has the text of a value in it."""
    return '{"StartAt":"S","States":{"S":{"Type":"Pass","End":true,"Result":' + value + "}}}"


@pytest.mark.parametrize("text", NO_VALUES.values(), ids=NO_VALUES)
def test_what_cannot_be_carried_on_is_not_read(text: str) -> None:
    with pytest.raises(NotJson) as refused:
        read(text)
    assert len(str(refused.value)) < 200, "it quotes nothing"


@pytest.mark.parametrize(
    "text", ["1.0", "1", "0.1", "-0", '{"a":[1,{"b":null}]}', str(2**80), r'"\ud83d\ude00"', "1e-400"]
)
def test_whatever_else_is_read_as_python_reads_it(text: str) -> None:
    assert repr(read(text)) == repr(json.loads(text))


def test_a_text_may_nest_as_deep_as_its_reader_says() -> None:
    assert read("[" * 65 + "]" * 65, 65)
    with pytest.raises(TooDeep):
        read("[" * 66 + "]" * 66, 65)


def circle() -> Any:
    whole: list[Any] = []
    whole.append(whole)
    return whole


@pytest.mark.parametrize("value", [float("nan"), {"a": float("inf")}, "\ud800", {1, 2}, b"x", circle()], ids=repr)
def test_what_has_no_json_form_is_not_written(value: Any) -> None:
    with pytest.raises(NotJson):
        written(value)


@pytest.mark.parametrize("name", NO_VALUES)
def test_a_definition_that_holds_it_has_a_finding_and_is_refused(name: str, tmp_path: Path) -> None:
    text = defining(NO_VALUES[name])
    if name == "a deep list":
        text = defining("[" * 120 + "]" * 120)
    assert [each.severity for each in validate(text)] == ["ERROR"]
    with pytest.raises(hf.InvalidInput):
        hf.App("asl", home="memory://").state_machine("m", text)


@pytest.mark.parametrize("value", [float("nan"), "\ud800", {1}, circle()], ids=repr)
def test_a_dict_that_is_no_json_has_a_finding_and_is_refused(value: Any) -> None:
    definition = states("S", S=passing(Result=value))
    assert [each.severity for each in validate(definition)] == ["ERROR"]
    with pytest.raises(hf.InvalidInput):
        hf.App("asl", home="memory://").state_machine("m", definition)


def test_a_state_that_is_written_twice_is_refused_in_code_too() -> None:
    twice = '{"StartAt":"S","States":{"S":{"Type":"Succeed"},"S":{"Type":"Succeed"}}}'
    with pytest.raises(hf.InvalidInput, match="Duplicate State name: S"):
        hf.App("asl", home="memory://").state_machine("m", twice)


@pytest.mark.parametrize("value", [float("nan"), "\ud800", {1}, circle()], ids=repr)
async def test_an_input_that_is_no_json_is_refused_before_it_is_written(value: Any) -> None:
    app = hf.App("asl", home="memory://")
    machine = app.state_machine("m", states("S", S=passing()))
    async with app:
        with pytest.raises(hf.InvalidInput):
            await machine.start(value, id="e")
        with pytest.raises(hf.NotFound):
            await machine.handle("e").status()


async def test_a_mock_that_is_no_json_is_refused() -> None:
    with pytest.raises(hf.InvalidInput):
        await hf.asl.test_state(states("S", S=passing()), state="S", input=float("nan"))
