"""``holdfast init``: what it writes runs at once, keeps the project's own style, and is never written over anything."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from tests.infra.tools import bare_environment, environment_or_skip

from holdfast.cli.init import PROJECT, needed
from holdfast.cli.own_wheel import own_wheel
from holdfast.cli.project_examples import EXAMPLES, SHOP

ROOT = Path(__file__).parents[2]

FILES = [
    ".gitignore",
    "Makefile",
    "README.md",
    "app.py",
    "cdk.json",
    "handler.py",
    "requirements.in",
    "requirements.txt",
    "stack.py",
    "tests/__init__.py",
    "tests/test_app.py",
    "wheels/holdfast-VERSION-py3-none-any.whl",
    "wheels/requirements.txt",
]
FILES = [name.replace("VERSION", distribution("holdfast").version) for name in FILES]


@pytest.fixture
def project(shop) -> Path:
    result = shop.invoke("init", "my-shop", app=None)
    assert result.exit_code == 0, result.output
    return shop.path("my-shop")


def run(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run something there, with Holdfast installed and nothing else known."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = bare_environment(**{"PATH": path} | environment)
    if "PYTHONPATH" not in environment:
        variables.pop("PYTHONPATH")
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


def written(project: Path) -> list[str]:
    return sorted(path.relative_to(project).as_posix() for path in project.rglob("*") if path.is_file())


def test_the_files_are_these(project):
    assert written(project) == FILES
    texts = [path.read_text() for path in project.rglob("*") if path.is_file() and path.suffix != ".whl"]
    assert not [text for text in texts if re.search("__[A-Z]+__", text)]


def test_no_file_names_this_machine(project):
    texts = [path.read_bytes() for path in project.rglob("*") if path.is_file()]
    assert not [text for text in texts if str(ROOT).encode() in text or b"file:" in text]


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


# ── Packages ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_package_is_locked_by_the_digests_of_its_files(project):
    locked = (project / "requirements.txt").read_text()
    assert locked == (ROOT / "locks" / "core.txt").read_text()
    names = [line.partition("=")[0] for line in locked.splitlines() if "==" in line]
    assert {Requirement(each).name for each in needed()} <= set(names)
    entries = re.findall(r"^[a-z].*?(?=^[a-z]|\Z)", locked, re.MULTILINE | re.DOTALL)
    assert len(entries) == len(names)
    assert all("--hash=sha256:" in entry for entry in entries)
    assert set(needed()) < set((project / "requirements.in").read_text().splitlines())


def test_the_wheel_is_the_holdfast_that_is_here_and_always_the_same_bytes(project):
    wheel = own_wheel()
    assert (project / "wheels" / wheel.name).read_bytes() == wheel.content
    digest = hashlib.sha256(wheel.content).hexdigest()
    assert (project / "wheels" / "requirements.txt").read_text() == (
        f"holdfast=={distribution('holdfast').version} --hash=sha256:{digest}\n"
    )


@pytest.mark.slow
@pytest.mark.process
def test_pip_installs_the_wheel_and_no_other_of_that_name(project):
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps")
    from_wheels = (
        "--only-binary",
        ":all:",
        "--find-links",
        "wheels",
        "--require-hashes",
        "--requirement",
        "wheels/requirements.txt",
    )
    done = run(project, *pip, "--target", "there", *from_wheels)
    assert done.returncode == 0, done.stderr
    asked = (
        "import holdfast, pathlib; here = pathlib.Path(holdfast.__file__); "
        "print(here, len(list(here.parent.glob('cli/project/**/*.txt'))))"
    )
    found = run(project, sys.executable, "-c", asked, PYTHONPATH="there")
    assert found.stdout.split() == [
        str(project / "there/holdfast/__init__.py"),
        str(len(list(PROJECT.rglob("*.txt")))),
    ], found.stderr
    name = f"holdfast-{distribution('holdfast').version}-py3-none-any.whl"
    with (project / "wheels" / name).open("ab") as file:
        file.write(b"another")
    refused = run(project, *pip, "--target", "elsewhere", *from_wheels)
    assert refused.returncode != 0
    assert "DO NOT MATCH THE HASHES" in refused.stderr


# ── Examples ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_example_can_be_chosen(shop):
    assert EXAMPLES.keys() == {path.stem for path in (ROOT / "examples").glob("*.py")}
    for name in EXAMPLES:
        assert shop.json("init", name.replace("_", "-"), "--name", "mine", "--example", name)["files"] == FILES
        app = shop.path(f"{name.replace('_', '-')}/app.py").read_text()
        source = (ROOT / "examples" / f"{name}.py").read_text()
        assert 'hf.App("mine"' in app
        assert "python app.py" in app
        changed = [(one, two) for one, two in zip(app.splitlines(), source.splitlines(), strict=True) if one != two]
        assert len(changed) == 2


def param(name: str) -> Any:
    """The scripts of all examples run in every suite; of their projects two stand for the others."""
    return pytest.param(name, marks=() if name in {"rate_limiter", "order_processing"} else pytest.mark.torture)


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("name", [*map(param, EXAMPLES)])
def test_the_tests_of_an_example_pass(shop, name):
    shop.json("init", "example", "--example", name)
    done = run(shop.path("example"), "make", "test", "PYTHON=python")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Ran 1 test" in done.stderr


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("name", [None, *map(param, EXAMPLES)])
def test_the_first_call_that_is_printed_is_one_that_the_handler_takes_and_it_can_be_looked_at(shop, name):
    start = SHOP if name is None else EXAMPLES[name]
    shop.json("init", "project", *(("--example", name) if name else ()))
    folder = shop.path("project")
    call = f"import json, handler; print(json.dumps(handler.handler({start.event!r})))"
    done = run(folder, sys.executable, "-c", call)
    assert done.returncode == 0, done.stderr
    look = run(folder, "holdfast", *start.look.split(), "--app", "app:app", "--json")
    assert look.returncode == 0, look.stderr


# ── Deploying ───────────────────────────────────────────────────────────────────────────────────────────────────────

AWS = """#!/bin/sh
echo "$*" >> called
case "$*" in
    "s3api get-bucket-location --bucket gone "*) echo "NoSuchBucket" >&2; exit 254 ;;
    "s3api get-bucket-location --bucket old "*) echo None ;;
    "s3api get-bucket-location --bucket "*) echo eu-west-1 ;;
    *HomeUrl*) echo "aws://my-shop?region=eu-west-1&bucket=large" ;;
    *FunctionUrl*) echo https://abc.lambda-url.eu-west-1.on.aws/ ;;
    *Dashboard*) echo https://console.aws.amazon.com/ ;;
esac
"""


def deploy(
    project: Path, bucket: str, region: str = "eu-west-1", *, target: str = "deploy", aws: str = ""
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """``make deploy`` with a stand-in for the AWS CLI, and a template and code that are there already."""
    programs = project / "programs"
    programs.mkdir()
    (programs / "aws").write_text(aws or AWS)
    (programs / "aws").chmod(0o755)
    path = f"{programs}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = ("make", target, "PYTHON=false", "--assume-old=template.json", f"CODE_BUCKET={bucket}")
    (project / "template.json").write_text("{}")
    done = run(project, *command, PATH=path, AWS_REGION=region)
    called = project / "called"
    return done, called.read_text().splitlines() if called.exists() else []


@pytest.mark.process
def test_what_to_call_is_printed_after_the_deployment(project):
    done, called = deploy(project, "mine")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split()[1] for line in called][:3] == ["get-bucket-location", "package", "deploy"]
    assert "export HOLDFAST_URL='aws://my-shop?region=eu-west-1&bucket=large'" in done.stdout
    assert "https://abc.lambda-url.eu-west-1.on.aws/" in done.stdout
    assert "look   holdfast show checkout order-1\n" in done.stdout
    first = done.stdout[done.stdout.index("aws lambda invoke") :].partition("\nlook")[0]
    words = shlex.split(first)
    assert words[words.index("--function-name") + 1] == "my-shop-holdfast:live"
    assert json.loads(words[words.index("--payload") + 1]) == SHOP.event


@pytest.mark.process
@pytest.mark.parametrize(
    ("bucket", "region", "complaint"),
    [
        ("", "eu-west-1", "say where the code goes"),
        ("gone", "eu-west-1", "the bucket gone cannot be used: make it with aws s3 mb s3://gone"),
        ("mine", "eu-north-1", "the bucket mine is in eu-west-1, and this would be deployed to eu-north-1"),
        ("old", "eu-west-1", "the bucket old is in us-east-1"),
    ],
)
def test_a_bucket_that_cannot_be_used_is_told_before_the_build(project, bucket, region, complaint):
    done, called = deploy(project, bucket, region)
    assert done.returncode != 0
    assert complaint in done.stdout
    assert not [line for line in called if line.startswith("cloudformation")]


@pytest.mark.process
@pytest.mark.parametrize("target", ["calls", "deploy"])
def test_outputs_that_cannot_be_read_fail_with_a_message(project, target):
    fails = AWS.replace("*HomeUrl*) echo", "*HomeUrl*) exit 255; echo")
    assert fails != AWS
    done, _called = deploy(project, "mine", target=target, aws=fails)
    assert done.returncode != 0
    assert "the outputs of the stack my-shop cannot be read" in done.stderr
    assert "HOLDFAST_URL" not in done.stdout


def test_the_bucket_is_looked_at_before_the_build(project):
    assert "\ndeploy: bucket template.json\n" in (project / "Makefile").read_text()


def test_nothing_is_overwritten(shop, project):
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    assert "nothing is overwritten" in shop.refusal("init", "my-shop")["message"]
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before
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
