"""``holdfast init``: what it writes runs at once, keeps the project's own style, and is never written over anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest
from tests.infra.tools import bare_environment, environment_or_skip

from holdfast.cli.init import NAME, PROJECT, REQUIREMENT, requirement_of

ROOT = Path(__file__).parents[2]

FILES = [
    ".gitignore",
    "Makefile",
    "README.md",
    "app.py",
    "cdk.json",
    "handler.py",
    "requirements.txt",
    "stack.py",
    "tests/__init__.py",
    "tests/test_app.py",
]


@pytest.fixture
def project(shop) -> Path:
    result = shop.invoke("init", "my-shop", app=None)
    assert result.exit_code == 0, result.output
    return shop.path("my-shop")


def run(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run something there, with Holdfast installed and nothing else known."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = bare_environment(PATH=path, **environment)
    variables.pop("PYTHONPATH")
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


def test_the_files_are_these(project, shop):
    assert sorted(path.relative_to(project).as_posix() for path in project.rglob("*") if path.is_file()) == FILES
    texts = [path.read_text() for path in project.rglob("*") if path.is_file()]
    assert not [text for text in texts if NAME in text or REQUIREMENT in text]
    assert len(list(PROJECT.rglob("*.txt"))) == len(FILES)


def test_it_says_what_to_do_next(shop):
    assert "cd my-shop\n  make test\n  make run\n" in shop.invoke("init", "my-shop", app=None).output
    assert sorted(shop.json("init", "other")["files"]) == FILES


@pytest.mark.slow
@pytest.mark.process
def test_its_tests_pass_at_once(project):
    done = run(project, "make", "test")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Ran 4 tests" in done.stderr


@pytest.mark.slow
@pytest.mark.process
def test_its_tests_can_fail(project):
    app = project / "app.py"
    app.write_text(app.read_text().replace("self.left += 1", "pass"))
    done = run(project, "make", "test")
    assert done.returncode != 0
    assert "FAILED (failures=2)" in done.stderr


@pytest.mark.slow
@pytest.mark.process
def test_its_handler_is_what_lambda_calls(project):
    done = run(project, sys.executable, "-c", "import handler; assert callable(handler.handler)")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.process
def test_it_runs_and_a_second_run_is_the_same_order(project):
    first, second = run(project, "make", "run"), run(project, "make", "run")
    assert first.returncode == 0, first.stderr
    assert "visa paid 3950" in first.stdout
    assert "lamps left: 2" in first.stdout
    assert second.stdout == first.stdout
    listed = run(project, "holdfast", "ls", "--app", "app:app", "--json")
    assert listed.returncode == 0, listed.stderr
    assert "order-1" in listed.stdout


@pytest.mark.slow
def test_its_code_is_formatted_linted_and_typed(project):
    for command in (
        ("ruff", "format", "--isolated", "--line-length", "120", "--check", "."),
        ("ruff", "check", "--isolated", "--target-version", "py311", "--select", "B,E4,E7,E9,F,I,UP", "."),
        ("mypy", "--strict", "app.py", "tests/test_app.py"),
    ):
        done = run(project, *command)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.aws
@pytest.mark.slow
def test_its_template_is_what_aws_takes(project):
    programs = environment_or_skip("cfn-lint")
    (project / "build").mkdir()
    (project / "build" / "handler.py").write_text("handler = None\n")
    done = run(project, "make", "--assume-old=build", "template.json", PYTHON=sys.executable)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((project / "template.json").read_text())
    function = found["Resources"]["Function"]["Properties"]
    assert (function["FunctionName"], function["Handler"]) == ("my-shop-holdfast", "handler.handler")
    assert f"LAMBDA_PYTHON := {function['Runtime'].removeprefix('python')}\n" in (project / "Makefile").read_text()
    lint = (str(programs / "cfn-lint"), "--ignore-checks", "W3002", "--", "template.json")
    assert run(project, *lint).stdout == ""


def test_it_builds_with_the_holdfast_that_is_here_and_not_with_one_of_that_name(project):
    origin = json.loads(distribution("holdfast").read_text("direct_url.json") or "{}")
    assert (project / "requirements.txt").read_text() == f"holdfast @ {origin['url']}\n"


def test_what_came_from_an_index_is_asked_for_in_its_version():
    assert requirement_of(None) == f"holdfast=={distribution('holdfast').version}"


def test_nothing_is_overwritten(shop, project):
    before = {path: path.read_text() for path in project.rglob("*") if path.is_file()}
    assert "nothing is overwritten" in shop.refusal("init", "my-shop")["message"]
    assert {path: path.read_text() for path in project.rglob("*") if path.is_file()} == before
    shop.path("mine").mkdir()
    shop.path("mine/notes").write_text("mine")
    assert "not empty" in shop.refusal("init", "mine")["message"]
    assert [path.name for path in shop.path("mine").iterdir()] == ["notes"]


def test_an_empty_folder_is_filled(shop):
    shop.path("empty").mkdir()
    assert shop.json("init", "empty")["folder"] == "empty"
    assert shop.path("empty/app.py").exists()


def test_the_name_is_that_of_the_folder_unless_it_is_given(shop):
    shop.json("init", "services/My_Shop.2")
    assert 'hf.App("my-shop-2")' in shop.path("services/My_Shop.2/app.py").read_text()
    shop.json("init", "other", "--name", "orders")
    assert 'hf.App("orders")' in shop.path("other/app.py").read_text()
    assert "PREFIX ?= orders" in shop.path("other/Makefile").read_text()


@pytest.mark.parametrize("folder", ["1234", "a-name-that-is-longer-than-twenty"])
def test_a_name_that_aws_would_refuse_writes_nothing(shop, folder):
    assert "--name" in shop.refusal("init", folder)["message"]
    assert not shop.path(folder).exists()


def test_a_name_with_anything_else_in_it_is_refused(shop):
    for name in ("../up", "Shop", "shop\n", "a b", "", "__NAME__"):
        assert "cannot name" in shop.refusal("init", "new", "--name", name)["message"]
    assert not shop.path("new").exists()


def test_the_files_are_part_of_the_package():
    assert PROJECT.is_relative_to(ROOT / "src" / "holdfast")
