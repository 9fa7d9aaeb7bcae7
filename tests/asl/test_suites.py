"""The commands that run the suites of JSONata and JSONPath: they tell what passes, what fails and what is left out."""

from __future__ import annotations

import json

from tests.asl import jsonata_suite, jsonpath_suite


def test_the_suite_of_jsonata_is_run(tmp_path, capsys):
    cases = [
        {"expr": "a.b + 1", "dataset": "one", "bindings": {}, "result": 3},
        {"expr": "$x", "dataset": None, "bindings": {"x": 7}, "result": 7},
        {"expr": "a.none", "data": {"a": 1}, "undefinedResult": True},
        {"expr": "1 +", "dataset": None, "code": "S0207"},
        {"expr": "1 + 'a'", "dataset": None, "code": "T2002"},
        {"expr": "$$", "data": 1, "result": 1},
        {"expr": "a", "data": [{"a": 1}], "result": 1},
        {"expr": "a", "data": {"a": 1}, "result": 2},
        {"expr": "1/0", "dataset": None, "result": 1},
        {"expr": "1", "dataset": None, "code": "D1"},
    ]
    (tmp_path / "groups" / "some").mkdir(parents=True)
    (tmp_path / "groups" / "some" / "case000.json").write_text(json.dumps(cases), encoding="utf-8")
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "one.json").write_text('{"a": {"b": 2}}', encoding="utf-8")
    assert jsonata_suite.main(tmp_path) == 1
    said = capsys.readouterr().out
    assert said.endswith("1 left out: $$\n1 left out: the context is an array\npassed 5 of 8\n")
    assert [line[:22] for line in said.splitlines() if line.startswith("some/")] == [
        "some/case000#7: 'a': e",
        "some/case000#8: '1/0':",
        "some/case000#9: '1': e",
    ]


def test_the_suite_of_jsonpath_is_run(tmp_path, capsys):
    cases = [
        {"name": "a, definite", "selector": "$.a", "document": {"a": 1}, "result": [1]},
        {"name": "a, nothing", "selector": "$.b", "document": {"a": 1}, "result": []},
        {"name": "a, several", "selector": "$[*]", "document": {"a": 1, "b": 2}, "results": [[2, 1], [1, 2]]},
        {"name": "a, filter", "selector": "$[?@.a==1]", "document": [{"a": 1}, {"a": 2}], "result": [{"a": 1}]},
        {"name": "b, function", "selector": "$[?length(@)==1]", "document": ["a"], "result": ["a"]},
        {"name": "b, invalid", "selector": "$[", "invalid_selector": True},
        {"name": "b, step", "selector": "$[0:9:2]", "document": [1], "result": [1]},
        {"name": "b, wrong", "selector": "$.a", "document": {"a": 1}, "result": [2]},
    ]
    file = tmp_path / "cts.json"
    file.write_text(json.dumps({"tests": cases}), encoding="utf-8")
    assert jsonpath_suite.main(file) == 1
    said = capsys.readouterr().out
    assert said.startswith("b, wrong: '$.a' of {'a': 1}: expected [2], got [1]\n")
    assert said.endswith("passed 4 of 5\n")
    assert said.count("left out") == 3
