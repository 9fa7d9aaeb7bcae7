"""JSONata as Step Functions has it: what an expression gives, how it fails, and what it may not say."""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.asl import jsonata, jsonata_quicker
from holdfast.asl.errors import EvaluationError
from holdfast.asl.jsonata import INVALID, UNSUPPORTED, InvalidExpression, compile_expression
from holdfast.asl.jsonata_reading import expression_in, tokens

NOON_MS = 1_700_000_000_000
INPUT = {
    "order": {"id": 9007199254740993, "lines": [{"price": 2.5, "count": 4}, {"price": 1, "count": 1}]},
    "none": None,
}


def value_of(
    source: str, *, seed: int = 7, now_ms: int = NOON_MS, field: str = "Output", **variables: object
) -> object:
    states = {"input": INPUT, "context": {"Execution": {"Name": "e-1"}}}
    return compile_expression(source).evaluate(states, variables, field=field, now_ms=now_ms, seed=seed)


def cause_of(source: str, **options: object) -> str:
    with pytest.raises(EvaluationError) as caught:
        value_of(source, **options)
    assert caught.value.error == "States.QueryEvaluationError"
    assert caught.value.cause is not None
    return caught.value.cause


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("$states.input.order.lines[0].price", 2.5),
        ("$sum($states.input.order.lines.(price * count))", 11),
        ("$states.input.order.lines[price > 2].count", 4),
        ("$states.input.none", None),
        ("$states.context.Execution.Name & '!'", "e-1!"),
        ("$limit + 1", 3),
        ("$x := 1", 1),
        ("$map([1, 2], function($v) { $v * 2 })", [2, 4]),
        ("$states.input.order.lines.(price)", [2.5, 1]),
        ("[1..3][$ > 1]", [2, 3]),
        ("$contains('a$b', /^a\\$/)", True),
    ],
)
def test_an_expression_reads_states_and_variables(source: str, value: object) -> None:
    assert value_of(source, limit=2) == value


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("$partition([1, 2, 3], 2)", [[1, 2], [3]]),
        ("$partition([1, 2, 3], 2.9)", [[1, 2], [3]]),
        ("$partition([1], 5)", [[1]]),
        ("$range(0, 10, 3)", [0, 3, 6, 9]),
        ("$range(3, 1, -1)", [3, 2, 1]),
        ("$range(-1.7, 1, 1)", [-1, 0, 1]),
        ("$range(1, 9, 9)", 1),
        ("$hash('a', 'MD5')", "0cc175b9c0f1b6a831c399e269772661"),
        ("$hash('a', 'SHA-1')", "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"),
        ("$hash('a', 'SHA-256')", "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"),
        ("""$parse('{"a": [1, null]}')""", {"a": [1, None]}),
        ("$parse('{\"a\": 1}').a", 1),
    ],
)
def test_the_functions_of_aws(source: str, value: object) -> None:
    assert value_of(source) == value


@pytest.mark.parametrize(
    "source",
    [
        "$states.input.absent",
        "$states.input.order.absent.deeper",
        "$absent",
        "$partition([], 2)",
        "$partition([1], 0)",
        "$range(1, 3)",
        "$range(1, 3, 0)",
        "$range(1, 3, -1)",
        "$hash('a')",
    ],
)
def test_nothing_is_an_error(source: str) -> None:
    assert cause_of(source, field="Output/v") == (
        f"The JSONata expression '{source}' specified for the field 'Output/v' returned nothing (undefined)."
    )


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("'a' + 1", 'T2001: The left side of the "+" operator must evaluate to a number'),
        ("$range('0', 4, 1)", 'T0410: Argument 1 of function "range" does not match function signature'),
        ("$range(0, 4, 1, 2)", 'T0410: Argument 4 of function "range" does not match function signature'),
        ("$random('a')", 'T0410: Argument 1 of function "random" does not match function signature'),
        ("$eval('1 + 1')", "T1006: Attempted to invoke a non-function"),
        ("$hash('a', 'md5')", "$hash knows no algorithm 'md5'; it knows MD5, SHA-1, SHA-256, SHA-384, SHA-512"),
        ("$parse('{')", "$parse was given what is not JSON: "),
        ("$range(0, 9000000, 1)", "$range would make 9000001 numbers; the most are 1000000"),
    ],
)
def test_a_failing_expression_says_why_as_aws_does(source: str, why: str) -> None:
    cause = (
        f"The JSONata expression '{source}' specified for the field 'Output' threw an error during evaluation. {why}"
    )
    assert cause_of(source).startswith(cause)


@pytest.mark.parametrize(
    "source",
    [
        "($f := function($n) { $f($n + 1) }; $f(1))",
        "($f := function($n) { 1 + $f($n + 1) }; $f(1))",
        "[1..1000001]",
        "($f := function($s, $n) { $n = 0 ? $s : $f($s & $s, $n - 1) }; $f('ab', 40))",
    ],
    ids=["steps", "depth", "items", "bytes"],
)
def test_an_expression_has_limits(source: str) -> None:
    assert "threw an error during evaluation. " in cause_of(source)


def test_a_result_of_another_type_is_told() -> None:
    error = compile_expression("$count([1, 2])").unexpected_type("Items", "array", 2)
    assert error.error == "States.QueryEvaluationError"
    assert error.cause == (
        "The JSONata expression '$count([1, 2])' specified for the field 'Items' returned an unexpected result type. "
        "Expected 'array', but was 'number' for value: 2"
    )


def test_a_number_with_many_digits_keeps_them_on_a_plain_path() -> None:
    assert value_of("$states.input.order.id") == 9007199254740993


@pytest.mark.parametrize("number", [9007199254740993, 1234567890123456789, -9007199254740993, 2**63 - 1])
def test_a_number_with_many_digits_keeps_them_through_an_expression(number: int) -> None:
    assert value_of("{'id': $n, 'ids': [$n, 1]}", n=number) == {"id": number, "ids": [number, 1]}
    assert value_of("$merge([$n, {'a': 1}])", n={"id": number}) == {"id": number, "a": 1}


def test_a_number_is_put_back_only_where_it_is_the_whole_number() -> None:
    assert value_of("[$n, 90071992547409920, 0.9007199254740992]", n=9007199254740993) == [
        9007199254740993,
        90071992547409920,
        0.9007199254740992,
    ]


ID = 9007199254740993
"""The engine takes it for 9007199254740992."""
TEXT = "9007199254740993"


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("[-$n, $abs(-$n), $max([$n, 1]), $ids[$ = $n]]", [-ID, ID, ID, ID]),
        ("[9007199254740993, -9007199254740993]", [ID, -ID]),
        ("$parse('{\"id\": 9007199254740993}').id", ID),
        ("[$n, 9007199254740990 + 2, $n + 0]", [ID, ID, ID]),
        ("[$n, $text, $string($n), 'is ' & $n]", [ID, TEXT, "9007199254740992", "is 9007199254740992"]),
        ("[$n = $number($text), $n = $m, $string($n) = $text, $n > $m]", [True, True, False, False]),
        ("[$nanoseconds % 7, $n % 10, $small - 1 = 4503599627370496, $small % 10]", [1, 2, True, 7]),
        ("[$n - $m, $nanoseconds + 1]", [0, 1767225600123456789]),
        ("$count($distinct([$n, $m, $n]))", 1),
        ("[$states.input.order.id, $count($others)]", [ID, 2]),
        ("$others[name = 'a'].({'id': id})", {"id": ID}),
        ("[$n, 1e22, $huge]", [ID, 1e22, 1.2345678901234568e29]),
    ],
)
def test_numbers_are_doubles_and_one_that_is_an_integer_of_the_input_has_its_digits(source, value):
    variables = {
        "m": 9007199254740992,
        "text": TEXT,
        "ids": [9007199254740996, ID],
        "small": 4503599627370497,
        "nanoseconds": 1767225600123456789,
        "others": [{"name": "a", "id": ID, "not_read": ID - 1}, {"name": "b", "id": 1}],
        "huge": 123456789012345678901234567890,
    }
    assert value_of(source, n=ID, **variables) == value


@pytest.mark.parametrize(
    "source",
    [
        "[$a, $b]",
        "$a + 0 * $b",
        "[$a, 9007199254740992]",
        "[$a, 9007199254740992.0]",
        "[$a, $parse('9007199254740992')]",
    ],
)
def test_two_numbers_that_look_alike_to_the_engine_fail_rather_than_be_mixed_up(source):
    alike = "the integers 9007199254740992 and 9007199254740993 are one and the same to JSONata"
    assert alike in cause_of(source, a=ID, b=ID - 1)


def test_a_replay_draws_the_same_values_at_the_same_time() -> None:
    source = "[$random(), $random(), $uuid(), $now(), $millis(), $shuffle([1..9])]"
    drawn = value_of(source)
    assert value_of(source) == drawn
    assert value_of(source, seed=8) != drawn
    assert drawn[0] != drawn[1]
    assert drawn[3:5] == ["2023-11-14T22:13:20.000Z", NOON_MS]
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", drawn[2])


def test_a_seeded_random_number_depends_on_its_seed_alone() -> None:
    assert value_of("$random(3)", seed=1) == value_of("$random(3)", seed=2) != value_of("$random(4)", seed=1)
    assert value_of("$random(42)") == 0.7275636800328681  # as Step Functions answers


@pytest.mark.parametrize(
    ("source", "code", "message"),
    [
        ("1 +", INVALID, "S0207: Unexpected end of expression"),
        ("$a ?: 1", INVALID, 'S0211: The symbol ":" cannot be used as a unary operator'),
        ("$a ?? 1", INVALID, 'S0211: The symbol "?" cannot be used as a unary operator'),
        ("phone", UNSUPPORTED, "Reference to 'phone' at the top level is not supported."),
        (
            "$map($states.input.a, function($v) { b })",
            UNSUPPORTED,
            "Reference to 'b' at the top level is not supported.",
        ),
        ("$", UNSUPPORTED, "Reference to '$' at the top level is not supported."),
        ("[$, $sum($.a)]", UNSUPPORTED, "Reference to '$' at the top level is not supported."),
        ("$map([1], function($v) { $ })", UNSUPPORTED, "Reference to '$' at the top level is not supported."),
        ("$$.a", UNSUPPORTED, "Reference to '$$' is not supported."),
        ("$states.input.a[b = $$.c]", UNSUPPORTED, "Reference to '$$' is not supported."),
    ],
)
def test_what_step_functions_refuses_when_a_machine_is_created(source: str, code: str, message: str) -> None:
    with pytest.raises(InvalidExpression) as refused:
        compile_expression(source)
    assert (refused.value.code, str(refused.value)) == (code, message)


@pytest.mark.parametrize(
    "source",
    [
        "$states.input.items[value > 3]",
        "$states.input.items.($.a & b)",
        "$match('a', /(?:a)/)",
        "'?: ??'",
        "$x /* ?? */ ? 1 : 2",
        "(function($n)<n?:n>{ $n })(1)",
        "$a / 2 ? '/' : 3",
        "$f(?, 1)",
        "$states.input.orders{$string($): lines.%.id}",
        "$states.input.(orders#$place.id & $place; $)",
    ],
)
def test_what_looks_like_it_is_let_through(source: str) -> None:
    compile_expression(source)


def test_what_an_expression_reads() -> None:
    expression = compile_expression("$states.errorOutput.Error & $states.input & $f($limit)")
    assert expression.names == {"states", "limit", "f"}
    assert expression.reads_of_states() == {"errorOutput", "input"}


@pytest.mark.parametrize(
    ("text", "expression"),
    [("{% $a %}", "$a"), ("{%%}", ""), ("{%}", None), (" {% $a %}", None), ("{% $a %} ", None), ("a", None)],
)
def test_an_expression_has_the_whole_string(text: str, expression: str | None) -> None:
    assert expression_in(text) == expression


@given(st.text("$ab.?:/'\"`{}()[]<>*\\ \n1λ", max_size=30))
def test_any_text_is_compiled_or_refused(source: str) -> None:
    with suppress(InvalidExpression):
        assert compile_expression(source).source == source


@given(st.text("$ab.?:/'\"`{}()<>\\ λ", max_size=30))
def test_tokens_leave_out_blanks_alone(source: str) -> None:
    read = list(tokens(source))
    assert "".join(token.text for token in read).replace(" ", "") == source.replace(" ", "")


def test_half_of_a_surrogate_pair_is_no_expression():
    with pytest.raises(InvalidExpression) as refused:
        compile_expression("'\ud800'")
    assert refused.value.code == INVALID


@pytest.mark.parametrize("call", ["$match(text, P)", "$contains(text, P)", "$split(text, P)", '$replace(text, P, "")'])
def test_a_regular_expression_that_backtracks_without_end_fails_the_evaluation(call, monkeypatch) -> None:
    monkeypatch.setattr(jsonata, "SECONDS", 0.05)
    compile_expression.cache_clear()
    source = call.replace("P", "/(a+)+$/").replace("text", "$given")
    assert "timeout" in cause_of(source, given="a" * 60 + "!")
    compile_expression.cache_clear()


OBJECTS = [{"a": number, f"k{number}": 1} for number in range(3)] + [{"a": 1, "k1": 1}]


@pytest.mark.parametrize(
    "source",
    [
        "$distinct($q)",
        "$distinct([1, 1])",
        "$distinct($q.a)",
        "$q.a ~> $distinct",
        "$map([1, [1, 1], [[1], [1]]], $distinct)",
        "$distinct(['1', 1, [1], {'a': 1, 'b': 2}, {'b': 2, 'a': 1}])",
        "$keys($q)",
        "$q.$keys()",
        "$map($q, $keys)",
        "$map([{}, {'a': 1}], $keys)",
        "($f := $keys; $f({'a': 1}))",
        "$keys({'a': 1})",
        "[$keys([])]",
        "$keys($distinct($q))[-1]",
        "($keys := function($x) { 5 }; $keys(1))",
    ],
)
def test_keys_and_distinct_of_many_values_are_those_of_the_engine(source, monkeypatch):
    by_engine = value_of(source, q=OBJECTS)
    monkeypatch.setattr(jsonata_quicker, "MANY", 1)
    monkeypatch.setattr(jsonata_quicker, "FEW", 1)
    assert value_of(source, q=OBJECTS) == by_engine


def test_a_variable_or_a_parameter_may_be_named_as_a_function():
    assert value_of("$count + 1", count=2) == 3
    assert value_of("$count($list)", count=2, list=[7, 8, 9]) == 3
    assert value_of("$keys[1] & $count($keys)", keys=["a", "b"]) == "b2"
    assert value_of("[$n, $keys]", keys=ID, n=7) == [7, ID]
    assert value_of("(function($keys) { $keys[0] })(['a'])") == "a"
    assert value_of("$map([[1, 1], [2]], function($distinct) { $count($distinct) })") == [2, 1]


def test_keys_and_distinct_of_many_values_are_not_asked_of_the_engine():
    values = [{"a": number, f"k{number}": 1} for number in range(500)]
    assert len(jsonata_quicker.distinct_of_many(values) or []) == 500
    assert len(jsonata_quicker.keys_of_many(values) or []) == 501


SLOW = "$reduce([1..20000], function($all, $v) { $append($all, $v) })"


@pytest.mark.parametrize(("busy_share", "tries"), [(1.0, 1), (0.1, 2)])
def test_what_takes_long_in_few_steps_is_ended_by_the_clock(busy_share, tries, monkeypatch):
    drawn, readings = [], count()
    monkeypatch.setattr(jsonata, "SECONDS", 0.05)
    monkeypatch.setattr(jsonata, "busy_seconds", lambda: next(readings) * 0.05 * busy_share)
    monkeypatch.setattr(jsonata, "drawing", lambda seed: drawn.append(seed) or {})
    compile_expression.cache_clear()
    assert "timeout" in cause_of(SLOW)
    assert drawn == [7] * tries
    compile_expression.cache_clear()


def test_an_evaluation_that_was_held_up_from_outside_is_repeated_with_twice_the_time(monkeypatch):
    slow, quick = jsonata.parsed(SLOW), jsonata.parsed("2 + 3")
    engines, limits = iter([slow, quick]), []
    monkeypatch.setattr(jsonata, "busy_seconds", lambda: 0.0)

    def evaluate(seconds):
        limits.append(seconds)
        return next(engines).evaluate_json(None, {}, timeout=seconds)

    assert jsonata.unhindered(evaluate, 0.01) == "5"
    assert limits == [0.01, 0.02]


def test_a_sort_of_long_texts_is_ended_by_the_clock(monkeypatch):
    monkeypatch.setattr(jsonata, "SECONDS", 0.05)
    compile_expression.cache_clear()
    assert "timeout" in cause_of("$count($sort($map([1..20000], function($n) { $text })))", text="x" * 1_000_000)
    compile_expression.cache_clear()


@pytest.mark.parametrize("source", ["$sort($q)", "$q ~> $sort", "$q^($)", "$sort($q[0])", "[$sort([])]"])
def test_long_texts_are_sorted_as_the_engine_sorts(source, monkeypatch):
    texts = ["é", "zz", "Z", "a", "a", "\U0001d4b3", "\uffff"]
    by_engine = value_of(source, q=texts)
    monkeypatch.setattr(jsonata_quicker, "SORT", jsonata_quicker.SORT.replace("> 200", "> 1").replace("> 1000", "> 0"))
    compile_expression.cache_clear()
    assert value_of(source, q=texts) == by_engine
    compile_expression.cache_clear()
