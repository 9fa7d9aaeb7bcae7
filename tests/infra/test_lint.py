"""The template, as AWS's own schemas see it."""

from __future__ import annotations

import json
import subprocess

import pytest
from tests.infra.fabrics import ALL
from tests.infra.tools import bare_environment, environment_or_skip

from holdfast.infra import template

LOCAL_CODE = "W3002"
"""Code on this machine is for `aws cloudformation package`, as it says."""


@pytest.mark.aws
@pytest.mark.slow
def test_cfn_lint_finds_nothing(tmp_path):
    programs = environment_or_skip("cfn-lint")
    for name, fabric in ALL.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(template(fabric)))
    assert lint(programs, [str(path) for path in tmp_path.iterdir()]) == []


@pytest.mark.aws
@pytest.mark.slow
def test_cfn_lint_would_find_something(tmp_path):
    programs = environment_or_skip("cfn-lint")
    wrong = template(ALL["plain"])
    wrong["Resources"]["Doorbell"]["Properties"]["VisibilityTimeout"] = "long"
    wrong["Resources"]["Function"]["Properties"]["Role"] = {"Ref": "Nobody"}
    (tmp_path / "wrong.json").write_text(json.dumps(wrong))
    found = lint(programs, [str(tmp_path / "wrong.json")])
    assert any("'long' is not of type 'integer'" in each for each in found), found
    assert any("'Nobody'" in each for each in found), found


def lint(programs, paths):
    command = [programs / "cfn-lint", "--format", "json", "--ignore-checks", LOCAL_CODE, "--", *paths]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=bare_environment())
    assert not run.stderr, run.stderr
    return [f"{each['Rule']['Id']} {each['Message']}" for each in json.loads(run.stdout or "[]")]
