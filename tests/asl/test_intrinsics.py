"""The 18 intrinsic functions, and how calls of them are written."""

from __future__ import annotations

import pytest

from holdfast.asl import intrinsics
from holdfast.asl.environment import Environment
from holdfast.asl.errors import EvaluationError
from holdfast.asl.randomness import seeded


def called(text, input=None):
    return intrinsics.call(text, Environment(input), seeded("a seed"))


@pytest.mark.parametrize(
    ("text", "input", "value"),
    [
        ("States.Array(1, 'a', null, $.x)", {"x": [2]}, [1, "a", None, [2]]),
        ("States.Array()", None, []),
        ("States.ArrayPartition($, 2)", [1, 2, 3], [[1, 2], [3]]),
        ("States.ArrayContains($, 1)", [True, 1.0], True),
        ("States.ArrayContains($, 1)", [True, "1"], False),
        ("States.ArrayRange(1, 9, 2)", None, [1, 3, 5, 7, 9]),
        ("States.ArrayRange(3, 1, -1)", None, [3, 2, 1]),
        ("States.ArrayGetItem($, 1)", ["a", "b"], "b"),
        ("States.ArrayLength($)", [1, 2], 2),
        ("States.ArrayUnique($)", [1, "1", 1, {"a": 1}, {"a": 1}], [1, "1", {"a": 1}]),
        ("States.Base64Encode('hé')", None, "aMOp"),
        ("States.Base64Decode('aMOp')", None, "hé"),
        ("States.Hash('a', 'MD5')", None, "0cc175b9c0f1b6a831c399e269772661"),
        ("States.JsonMerge($.a, $.b, false)", {"a": {"x": 1, "y": 1}, "b": {"y": 2}}, {"x": 1, "y": 2}),
        ("States.StringToJson($)", '{"a": [1]}', {"a": [1]}),
        ("States.JsonToString($)", {"b": 1, "a": "é"}, '{"b":1,"a":"é"}'),
        ("States.MathAdd(1.5, 1.49)", None, 3),
        ("States.MathAdd(-1.5, 0)", None, -1),
        ("States.StringSplit('a.b,c', '.,')", None, ["a", "b", "c"]),
        ("States.Format('{} and {}', 'a', $.n)", {"n": {"x": [1, None]}}, "a and {x=[1, null]}"),
        (r"States.Format('\{\} {} \'', 'a')", None, "{} a '"),
        ("States.Format($.t, 'x')", {"t": "<{}>"}, "<x>"),
        ("States.Format('{}', States.MathAdd(1, States.ArrayLength($)))", [1, 2], "3"),
    ],
)
def test_a_call_has_its_value(text, input, value):
    assert called(text, input) == value


@pytest.mark.parametrize(
    "text",
    [
        "States.ArrayGetItem($, 5)",
        "States.ArrayRange(1, 2000, 1)",
        "States.ArrayRange(1, 2, 0)",
        "States.ArrayPartition($, 0)",
        "States.ArrayLength('a')",
        "States.MathAdd('a', 1)",
        "States.Base64Decode('?')",
        "States.Hash('a', 'SHA-3')",
        "States.JsonMerge($, $, true)",
        "States.StringToJson('{')",
        "States.Format('{}')",
        "States.Format('{}', 1, 2)",
        "States.UUID(1)",
        "States.MathRandom(5, 5)",
    ],
)
def test_arguments_that_do_not_fit_fail_the_state(text):
    with pytest.raises(EvaluationError) as failed:
        called(text, [1])
    assert failed.value.error == "States.IntrinsicFailure"
    assert failed.value.cause.startswith(f"The function '{text}' had the following error: ")


def nested(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("text", "input"),
    [
        ("States.ArrayRange(0, $, 1)", 1e30),
        ("States.MathAdd($, 1)", float("inf")),
        ("States.Hash($, 'MD5')", "\ud800"),
        ("States.Format('{}', $)", 10**5_000),
        ("States.JsonToString($)", nested(100_000)),
        ("States.Format('{}', $)", nested(100_000)),
        ("States.ArrayContains($, $)", nested(100_000)),
    ],
    ids=["a range too long for Python", "infinity", "no text", "digits", "deep json", "deep text", "deep comparison"],
)
def test_what_python_cannot_do_with_the_arguments_fails_the_state(text, input):
    with pytest.raises(EvaluationError) as failed:
        called(text, input)
    assert failed.value.error == "States.IntrinsicFailure"
    assert failed.value.cause.startswith(f"The function '{text}' had the following error: ")


@pytest.mark.parametrize("number", ["1e999", "9" * 5_000, "007", "٣"], ids=["huge", "long", "octal", "Arabic"])
def test_a_number_that_json_has_not_is_no_argument(number):
    with pytest.raises(intrinsics.InvalidIntrinsic):
        intrinsics.compiled_call(f"States.MathAdd({number}, 1)")


@pytest.mark.parametrize(
    "text", ["States.Nothing(1)", "States.Array(1", "States.Array(1 2)", "States.Array(a)", "States.Array(1) x"]
)
def test_what_is_no_call_is_an_error_of_the_machine(text):
    with pytest.raises(EvaluationError) as failed:
        called(text)
    assert failed.value.error == "States.Runtime"


def test_chance_comes_from_the_execution():
    assert called("States.UUID()") == called("States.UUID()")
    assert called("States.UUID()")[14] == "4"
    assert 1 <= called("States.MathRandom(1, 7)") < 7
    assert called("States.MathRandom(1, 1000000, 5)") == called("States.MathRandom(1, 1000000, 5)")
