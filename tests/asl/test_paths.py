"""JSONPath in Jayway's dialect: what each path selects, and what is said where nothing is."""

from __future__ import annotations

from functools import reduce

import pytest

from holdfast.asl import jsonata, path_budget, patterns
from holdfast.asl.environment import Environment
from holdfast.asl.errors import EvaluationError
from holdfast.asl.paths import InvalidPath, PathNotFound, compiled, read_definite, reference_keys
from holdfast.asl.processing import combined

STORE = {
    "books": [
        {"title": "A", "price": 8, "tags": ["x"], "isbn": "1"},
        {"title": "B", "price": 12, "tags": ["x", "y"]},
        {"title": "C", "price": 22, "tags": [], "isbn": "3"},
    ],
    "open": True,
    "odd name": {"a'b": 1},
    "null": None,
}


@pytest.mark.parametrize(
    ("path", "selected"),
    [
        ("$.open", True),
        ("$['odd name']['a\\'b']", 1),
        ("$.books[0].title", "A"),
        ("$.books[-1].title", "C"),
        ("$.books[*].title", ["A", "B", "C"]),
        ("$.books[0,2].title", ["A", "C"]),
        ("$.books[1:].title", ["B", "C"]),
        ("$.books[:-1].title", ["A", "B"]),
        ("$.books[9:].title", []),
        ("$..title", ["A", "B", "C"]),
        ("$..tags[0]", ["x", "x"]),
        ("$.books[0]['title','price']", ["A", 8]),
        ("$.books[?(@.price < 10)].title", ["A"]),
        ("$.books[?(@.price >= 12 && @.isbn)].title", ["C"]),
        ("$.books[?(@.price < 10 || @.price > 20)].title", ["A", "C"]),
        ("$.books[?(!@.isbn)].title", ["B"]),
        ("$.books[?(@.title == 'B')].price", [12]),
        ("$.books[?(@.title =~ /[ab]/i)].title", ["A", "B"]),
        ("$.books[?(@.title in ['A', 'C'])].price", [8, 22]),
        ("$.books[?(@.tags contains 'y')].title", ["B"]),
        ("$.books[?(@.tags empty true)].title", ["C"]),
        ("$.books[?(@.tags size 1)].title", ["A"]),
        ("$.books[?(@.price == $.books[1].price)].title", ["B"]),
        ("$.books.length()", 3),
        ("$.nothing[*].title", []),
        ("$.open[*]", []),
        ("$.null", None),
    ],
)
def test_a_path_selects(path, selected):
    assert compiled(path).find(STORE) == selected


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("$.none", "No results for path: $['none']"),
        ("$.none.more", "Missing property in path $['none']"),
        ("$.books[7]", "No results for path: $['books'][7]"),
        ("$.books[7].title", "No results for path: $['books'][7]['title']"),
        ("$.null[0]", "The path $['null'] is null"),
        ("$.open[0]", "Filter: [0] can only be applied to arrays. Current context is: true"),
    ],
)
def test_a_definite_path_without_a_value_says_what_jayway_says(path, told):
    with pytest.raises(PathNotFound) as missing:
        compiled(path).find(STORE)
    assert str(missing.value) == told


@pytest.mark.parametrize("text", ["", "a", "$.", "$[", "$.a[", "$.a]", "$['a", "$[?(@.a =)]", "$.a b"])
def test_what_is_no_path_is_refused(text):
    with pytest.raises((InvalidPath, ValueError)):
        compiled(text)


def test_a_path_begins_at_the_input_the_context_or_a_variable():
    environment = Environment({"n": 1}, {"State": {"Name": "S"}}, {"kept": [7]})
    assert read_definite("$.n", environment) == 1
    assert read_definite("$$.State.Name", environment) == "S"
    assert read_definite("$kept[0]", environment) == 7
    with pytest.raises(EvaluationError, match="Invalid path '\\$.m' : No results for path: \\$\\['m'\\]"):
        read_definite("$.m", environment)


def test_a_reference_path_leads_to_one_place():
    assert reference_keys("$.a['b c'][0]") == ("a", "b c", 0)
    with pytest.raises(InvalidPath):
        reference_keys("$.a[*]")


@pytest.mark.parametrize(
    ("path", "whole", "result"),
    [
        ("$", {"a": 1}, 7),
        (None, {"a": 1}, {"a": 1}),
        ("$.b", {"a": 1}, {"a": 1, "b": 7}),
        ("$.a", {"a": 1}, {"a": 7}),
        ("$.b.c", {"a": 1}, {"a": 1, "b": {"c": 7}}),
        ("$.a[1]", {"a": [1, 2]}, {"a": [1, 7]}),
    ],
)
def test_a_result_is_put_into_the_input(path, whole, result):
    before = repr(whole)
    assert combined(path, whole, 7) == result
    assert repr(whole) == before


@pytest.mark.parametrize(("path", "whole"), [("$.a", 5), ("$.a.b", {"a": 1}), ("$.a[2]", {"a": [1]})])
def test_a_result_that_has_no_place_fails_the_state(path, whole):
    with pytest.raises(EvaluationError) as failed:
        combined(path, whole, 7)
    assert failed.value.error == "States.ResultPathMatchFailure"


PEOPLE = [{"name": "ann", "age": 7}, {"name": "bob", "age": 70}, {"name": "a=b", "age": None}]


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        ("@.age==7", ["ann"]),
        ("@.name=='bob'", ["bob"]),
        ("@.name!='bob'", ["ann", "a=b"]),
        ("@.age<70", ["ann"]),
        ("@.age>=7&&@.name=~/.o./", ["bob"]),
        ("@.age==7||@.age==70", ["ann", "bob"]),
        ("@['name']=='a=b'", ["a=b"]),
        ("!@.nothing", ["ann", "bob", "a=b"]),
    ],
)
def test_operators_of_filters_need_no_blanks(condition, names):
    spaced = condition
    for operator in ("==", "!=", "=~", ">=", "&&", "||"):
        spaced = spaced.replace(operator, f" {operator} ")
    for written in (condition, spaced):
        assert [each["name"] for each in compiled(f"$[?({written})]").find(PEOPLE)] == names


@pytest.mark.parametrize(
    ("quoted", "name"),
    [(r"\n\t", "\n\t"), (r"\u263A", "☺"), (r"\uD834\uDD1E!", "𝄞!"), (r"\\n", r"\n"), (r"\'", "'"), (r"a\b", "a\b")],
)
def test_escapes_in_quoted_names_are_those_of_jayway(quoted, name):
    assert compiled(f"$['{quoted}']").find({name: 1}) == 1


@pytest.mark.parametrize("path", [r"$['\ud800']", r"$['\udd1e\ud834']"])
def test_half_of_a_surrogate_pair_is_no_name(path):
    with pytest.raises(InvalidPath):
        compiled(path)


@pytest.mark.parametrize("path", ["$[?]", "$[?@.a]", "$[?(@.a =)]", "$[?(@.a", "$[?(@.a == x)]"])
def test_a_filter_that_cannot_be_read_is_no_path(path):
    with pytest.raises(InvalidPath):
        compiled(path)


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("[(]", "(", True),
        (r"[^\]([{})]+", "(}", False),
        (r"[^\\][([{})]+", "a(}", True),
        (r"a\\", "a\\", True),
        (r"(a|b)\/c", "a/c", True),
        ("[{1}]{2}{a}]", "}1{a}]", True),
        ("[]a]+[^])]", "]a(", True),
        ("a|b", "ab", False),
        ("a", "a\n", False),
        ("A", "a", False),
        (r"[\d-]+\.é", "1-2.é", True),
    ],
)
def test_a_regular_expression_of_a_filter_fits_the_whole_text(pattern, text, fits):
    assert compiled(f"$[?(@ =~ /{pattern}/)]").find([text]) == [text] * fits


@pytest.mark.parametrize(
    "pattern", ["(", "[", "a)", "a)|(b", "*", "(?P<n>a)", "(?<n>a)(?<n>b)", r"\Aa", r"\p{L}", "(?i)a", "a{2,1}"]
)
def test_a_regular_expression_that_cannot_be_read_is_no_path(pattern):
    with pytest.raises(InvalidPath):
        compiled(f"$[?(@ =~ /{pattern}/)]")


@pytest.mark.parametrize("path", ["$[?(@.s =~ /^(a+)+$/)]", "$[?($[?(@.s =~ /(a+)+b/)])]"])
def test_a_regular_expression_that_backtracks_without_end_fails_the_path(path, monkeypatch):
    monkeypatch.setattr(jsonata, "SECONDS", 0.05)
    values = [{"s": "a" * 60 + "!"}]
    with pytest.raises(EvaluationError) as failed:
        read_definite(path, Environment(values, {}, {}))
    assert (failed.value.error, failed.value.cause) == (
        "States.Runtime",
        f"Invalid path '{path}' : its regular expression takes more than 0.05 seconds",
    )


def test_the_values_of_a_path_share_the_time_for_regular_expressions(monkeypatch):
    given: list[float] = []
    clock = iter([0.0, 0.5, 1.5, 2.5])
    monkeypatch.setattr(patterns, "busy_seconds", lambda: next(clock))
    monkeypatch.setattr(jsonata, "holds", lambda _source, _text, seconds: given.append(seconds))
    with pytest.raises(EvaluationError):
        compiled("$[?(@ =~ /shared/)]").find(["a", "b", "c"])
    assert given[-2:] == [1.5, 0.5]


CHAIN = reduce(lambda below, _: {"a": below}, range(60), 1)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("$..a..a..a", CHAIN),
        ("$..*..*..*.length()", CHAIN),
        ("$..[?($..k == 1)]", {"a": [{"k": 1}] * 50}),
        ("$[?(@.v in $[*].k)]", [{"k": place, "v": -1} for place in range(100)]),
        ("$.a[?($.b == $.c)]", {"a": [1] * 100, "b": [1] * 100, "c": [1] * 100}),
        ("$" + "[0,0]" * 8, reduce(lambda below, _: [below], range(8), [1] * 50)),
        ("$[*]['a','b','c']", [{}] * 2_000),
    ],
)
def test_a_path_that_looks_at_too_much_fails(path, value, monkeypatch):
    monkeypatch.setattr(path_budget, "MAX_NODES", 5_000)
    with pytest.raises(EvaluationError) as failed:
        read_definite(path, Environment(value, {}, {}))
    assert failed.value.error == "States.Runtime"
    assert f"Invalid path '{path}' : it looks at more than 5,000 values" in str(failed.value.cause)
    assert compiled("$..x").find({"x": 1}) == [1]  # each path has a budget of its own
